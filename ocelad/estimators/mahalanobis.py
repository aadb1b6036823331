"""MahalanobisTracker: what the trackers of pairs and of relative comparisons share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import check_array, check_integer, is_sparse
from ocelad.adaptive.track import resume
from ocelad.engines.track import EngineName, choose_engine, track_metric
from ocelad.ensemble.bank import Finest
from ocelad.ensemble.ocelad import Ocelad
from ocelad.ensemble.state_reader import prefixed
from ocelad.estimators.feature_weights import FeatureWeight, heaviest_features
from ocelad.estimators.saveable import Saveable, part, plain
from ocelad.estimators.tuples import WORDS, Points, points_of
from ocelad.io import dataframes
from ocelad.learners.comid import DivergenceName, LossName, RegularizerName
from ocelad.metric import Metric
from ocelad.pairs import EventsName, subtract


class MahalanobisTracker(Saveable, BaseEstimator):  # type: ignore[misc]
    """Holds a tracker with its settings, and tells distances, an embedding and what features count.

    The parameters are those of ``MetricTracker``; what it holds is RICE-OCELAD, unless a subclass knows better.
    """

    #: How many points a tuple has, and which events of the core tuples become.
    _size: ClassVar[int] = 2
    _learns_from: ClassVar[EventsName] = "pairs"

    def __init__(
        self,
        *,
        loss: LossName = "logistic",
        step_size: float = 1e-2,
        shrinkage: float = 0.0,
        regularizer: RegularizerName | None = "nuclear",
        divergence: DivergenceName = "frobenius",
        shortest_interval: int = 1,
        n_scales: int | None = None,
        finest: Finest = "carry",
        initial_scale: float | None = None,
        initial_threshold: float = 1.0,
        max_norm: float | None = None,
        engine: EngineName = "auto",
        max_rank: int | None = None,
        diagonal: bool = False,
        l1_tolerance: float = 1e-12,
        preprocessor: Any = None,
    ) -> None:
        self.loss = loss
        self.step_size = step_size
        self.shrinkage = shrinkage
        self.regularizer = regularizer
        self.divergence = divergence
        self.shortest_interval = shortest_interval
        self.n_scales = n_scales
        self.finest = finest
        self.initial_scale = initial_scale
        self.initial_threshold = initial_threshold
        self.max_norm = max_norm
        self.engine = engine
        self.max_rank = max_rank
        self.diagonal = diagonal
        self.l1_tolerance = l1_tolerance
        self.preprocessor = preprocessor

    def start(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """Forget everything and begin without a pair: the metric is the initial one.

        For who must tell distances before the first answer, or knows the features' names only by themselves.
        """
        n = check_integer(n_features, "n_features", at_least=1)
        names = None if feature_names is None else tuple(feature_names)
        if names is not None and (len(names) != n or not all(isinstance(name, str) for name in names)):
            raise ValueError(f"feature_names must be {n} words, one for each feature; got {len(names)}")
        tracked = self._begun(n, False, names)
        self.__dict__.pop("_threshold", None)
        return self._keep(tracked)

    def fresh(self, n_features: int, *, sparse: bool = False) -> Ocelad[Any, Metric]:
        """A tracker of the core with these settings that has seen nothing; for pairs that are sparse, or not."""
        engine = self.engine
        if sparse and engine == "auto" and not self.diagonal:
            engine = choose_engine(
                n_features,
                self.divergence,
                self.regularizer,
                self.shrinkage,
                self.max_rank,
                sparse=True,
                events=self._learns_from,
            )
            engine = engine if engine == "sparse" else "auto"
        return track_metric(n_features, **{**self._rice_settings(), "engine": engine}, events=self._learns_from)

    def state(self) -> tuple[Arrays, Metadata]:
        """All of it as arrays and values that JSON can hold."""
        tracked = self._tracked
        arrays, metadata = tracked.ocelad.state()
        return prefixed("core", arrays), {
            "estimator": type(self).__name__,
            "settings": {name: plain(value) for name, value in tracked.settings.items()},
            "feature_names": None if tracked.names is None else list(tracked.names),
            "core": metadata,
        }

    @classmethod
    def of_state(cls, arrays: Arrays, metadata: Metadata) -> Self:
        """The tracker that ``state`` was called on; checked."""
        ocelad, names = resume(part(arrays, "core"), metadata["core"]), metadata["feature_names"]
        n = int(ocelad.settings["n_features"])
        if names is not None and (len(names) != n or not all(isinstance(name, str) for name in names)):
            raise ValueError(f"it does not have a name for each of its {n} features")
        tracker = cls(**metadata["settings"])
        return tracker._keep(Tracked(ocelad, n, tracker._settings(), None if names is None else tuple(names)))

    def transform(self, X: Any) -> Floats:
        """The points where Euclidean distance is the tracked distance, of shape (n_rows, rank).

        X is an array-like, a SciPy sparse matrix or a table of shape (n_rows, n_features). The rank of the metric, and
        so the number of columns, can change from one pair to the next.
        """
        metric, (values, names) = self.metric_, dataframes.rows(X, "X")
        dataframes.same_names(names, self._tracked.names, "X")
        n = metric.n_features
        return metric.embed(values if is_sparse(values) else check_array(values, "X", 2, n_features=n))

    def pair_distance(self, pairs: Any) -> Floats:
        """The tracked distance between the two points of each pair. Takes pairs as ``MetricTracker.fit`` does."""
        metric = self.metric_
        lengths: Floats = metric.length(subtract(*self._points(pairs, 2).parts))
        return lengths

    def pair_score(self, pairs: Any) -> Floats:
        """How alike the two points of each pair are: the negative of their distance."""
        return -self.pair_distance(pairs)

    def get_metric(self) -> Metric:
        """The metric now, as a function ``d(u, v, squared=False)`` of two points that later pairs do not change.

        It can be the ``metric=`` of scikit-learn's neighbours and clusterings, and it pickles.
        """
        return self.metric_

    def get_mahalanobis_matrix(self) -> Floats:
        """M, of shape (n_features, n_features)."""
        return self.metric_.matrix.copy()

    def feature_weights(self, n_features: int | None = None) -> list[FeatureWeight]:
        """Which input features the metric weighs most now, the heaviest first.

        Weights are per unit of each feature: they compare where the features have like scales. A list of rows, which
        ``pandas.DataFrame`` and ``polars.DataFrame`` take as a table.

        Parameters
        ----------
        n_features : int or None
            Only so many; None: all.
        """
        return heaviest_features(self.metric_, self._tracked.names, n_features)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the columns that ``transform`` returns now."""
        name = type(self).__name__.lower()
        return np.array([f"{name}{i}" for i in range(self.metric_.rank)], dtype=object)

    @property
    def metric_(self) -> Metric:
        return self._tracked.metric()

    @property
    def components_(self) -> Floats:
        return self.metric_.components

    @components_.setter
    def components_(self, components: Any) -> None:
        # Played until the next pair is learned from: the learners know nothing of it.
        tracked = self._tracked
        rows = check_array(components, "components_", 2, n_features=tracked.n_features)
        self._state = tracked.playing(Metric.from_factors(rows, self.metric_.threshold, tracked.ocelad.n_rounds))

    @property
    def weights_(self) -> Floats:
        return self._tracked.ocelad.round_state.probabilities

    @property
    def experts_(self) -> tuple[str, ...]:
        ocelad = self._tracked.ocelad
        lengths = (str(ocelad.schedule.scale(j).length) for j in range(ocelad.round_state.active))
        return tuple(getattr(ocelad.bank, "experts", lengths))

    @property
    def n_rounds_(self) -> int:
        return self._tracked.ocelad.n_rounds

    @property
    def engine_(self) -> str:
        return str(self._tracked.ocelad.bank.engine)  # type: ignore[attr-defined]

    @property
    def n_cuts_(self) -> int:
        return int(getattr(self._tracked.ocelad.bank, "n_cuts", 0))

    def _points(self, tuples: Any, size: int) -> Points:
        """The points of tuples that are read, not learned from."""
        tracked = self._tracked
        points = points_of(tuples, size, self.preprocessor, tracked.n_features)
        dataframes.same_names(points.names, tracked.names, "the table")
        return points

    def _settings(self) -> dict[str, Any]:
        """All that what is learned depends on; checked as far as ``fresh`` does not."""
        return self._rice_settings()

    def _rice_settings(self) -> dict[str, Any]:
        """What ``track_metric`` is called with; not what a subclass adds."""
        names = set(MahalanobisTracker._get_param_names()) - {"preprocessor"}
        return {name: getattr(self, name) for name in sorted(names)}

    def _after(self, tracked: Tracked | None, tuples: Any, events_of: Callable[..., Any]) -> tuple[Tracked, Any]:
        """What is tracked after some more tuples, and the margins with which they were judged before."""
        points = points_of(tuples, self._size, self.preprocessor, None if tracked is None else tracked.n_features)
        events = events_of(*points.parts)
        if tracked is None:
            tracked = self._begun(points.n_features, is_sparse(points.parts[0]), points.names)
        else:
            dataframes.same_names(points.names, tracked.names, "the table")
            # On a copy, so that a pair that cannot be learned from leaves everything as it was. A shallow one will
            # do: a replay puts other values into the place of those it finds.
            tracked = tracked.copy()
        return tracked, tracked.ocelad.replay(events)

    def _begun(self, n_features: int, sparse: bool, names: tuple[str, ...] | None) -> Tracked:
        settings = self._settings()
        return Tracked(self.fresh(n_features, sparse=sparse), n_features, settings, names)

    def _going_on(self) -> Tracked | None:
        """What there is to go on from, if anything; settings that were changed meanwhile cannot be followed."""
        tracked = self._tracked_or_none()
        if tracked is not None:
            for name, value in self._settings().items():
                if value != tracked.settings[name]:
                    raise ValueError(
                        f"{name} was changed from {tracked.settings[name]!r} to {value!r} after the first pairs; "
                        "call fit to start anew with it, or set it back"
                    )
        return tracked

    @property
    def _tracked(self) -> Tracked:
        tracked = self._tracked_or_none()
        if tracked is None:
            word = WORDS[self._size]
            raise NotFittedError(f"this {type(self).__name__} has seen no {word} yet; call fit or partial_fit first")
        return tracked

    def _tracked_or_none(self) -> Tracked | None:
        return self.__dict__.get("_state")

    def _keep(self, tracked: Tracked) -> Self:
        self._state = tracked
        self.n_features_in_ = tracked.n_features
        self.__dict__.pop("feature_names_in_", None)
        if tracked.names is not None:
            self.feature_names_in_ = np.array(tracked.names, dtype=object)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return self._tracked_or_none() is not None


class Tracked:
    """A tracker with the settings it was made with, the features' names, and its metric once somebody has asked."""

    def __init__(
        self,
        ocelad: Ocelad[Any, Metric],
        n_features: int,
        settings: dict[str, Any],
        names: tuple[str, ...] | None,
    ) -> None:
        self.ocelad = ocelad
        self.n_features = n_features
        self.settings = settings
        self.names = names
        self._metric: Metric | None = None
        self._from_outside: Metric | None = None

    def copy(self) -> Tracked:
        return Tracked(copy(self.ocelad), self.n_features, self.settings, self.names)

    def playing(self, metric: Metric) -> Tracked:
        """The same that says it plays another metric, until a round has passed."""
        other = self.copy()
        other._metric = other._from_outside = metric
        return other

    @property
    def plays_its_own(self) -> bool:
        """Whether the metric is the one that was learned, not one set from outside."""
        return self._from_outside is None or self._from_outside.round != self.ocelad.n_rounds

    def metric(self) -> Metric:
        # Mixing all scales for every pair would be waste: only when asked, and once.
        if self._metric is None or self._metric.round != self.ocelad.n_rounds:
            self._metric = self.ocelad.play()
        return self._metric
