"""MahalanobisTracker: the common part of the trackers of pairs, triplets and quadruplets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.exceptions import NotFittedError

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import check_array, check_integer, is_sparse
from ocelad.curved_metric import AnyMetric, CurvedMetric
from ocelad.ensemble.state_reader import add_prefix
from ocelad.estimators.feature_weights import (
    FeatureWeights,
    rank_features,
    read_items,
    read_known_items,
    stream_mean_squares,
)
from ocelad.estimators.item_lookup import ItemLookup, find_items, named_items
from ocelad.estimators.known_items import usable_items
from ocelad.estimators.leading_axes import check_n_components, embed_along, find_axes
from ocelad.estimators.learning_method import (
    Method,
    method_from_settings,
    method_settings,
    python_value,
    resume_tracker,
)
from ocelad.estimators.printed_estimator import PrintedEstimator
from ocelad.estimators.saveable import Saveable, strip_prefix
from ocelad.estimators.tracker_state import TrackerState
from ocelad.estimators.tuples import TUPLE_NAMES, Points, read_points, result_type, to_type
from ocelad.io import dataframes
from ocelad.metric import Metric
from ocelad.pairs import EventsName, subtract

# What ``transform`` accepts.
_POINTS = "numbers of shape (n_rows, n_features), or ids or indices of shape (n_rows,)"


class FitOnTuples:
    """An estimator that is fitted on tuples of points and transforms points, and therefore has no ``fit_transform``."""

    # Not in the estimator's class itself, where TransformerMixin would wrap it.
    @property
    def fit_transform(self) -> Any:
        raise AttributeError(
            f"{type(self).__name__} has no fit_transform: fit takes tuples, and transform takes points"
        )


class MahalanobisTracker(Saveable, FitOnTuples, TransformerMixin, PrintedEstimator):  # type: ignore[misc]
    """An estimator that tracks a metric and provides distances, an embedding and the weights of features.

    Parameters
    ----------
    method : "adaptive", "rice" or Rice
    preprocessor : array-like, sparse matrix or table of shape (n_points, n_features), mapping, callable or None
    n_components : int or None
        The number of columns that ``transform`` returns; None: the rank of the metric.
    """

    #: The number of points of a tuple, and the kind of event that a tuple becomes.
    _tuple_size: ClassVar[int] = 2
    _events: ClassVar[EventsName] = "pairs"

    method: Method
    preprocessor: Any
    # Subclasses of a user's own need not have this parameter.
    n_components: int | None = None

    def start(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """Discard all that was learned and start from the initial metric, without any data.

        Distances are then available before the first pair, and the names of the features are known without a table.
        """
        n, names = check_feature_count(n_features, feature_names)
        return self._set_started(self._start_state(n, names, sparse=False))

    def _set_started(self, state: TrackerState) -> Self:
        """Take a state without tuples, and let the threshold be tracked."""
        self.__dict__.pop("_threshold", None)
        self._set_state(state)
        return self

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything learned, as arrays and as values that JSON can store."""
        state = self._fitted
        arrays, metadata = state.tracker.state()
        n_components = python_value(self.n_components)
        return add_prefix("core", arrays), {
            "estimator": type(self).__name__,
            "settings": dict(state.settings),
            "feature_names": None if state.names is None else list(state.names),
            "core": metadata,
            # Files without it predate the parameter.
            **({} if n_components is None else {"n_components": n_components}),
        }

    @classmethod
    def from_state(cls, arrays: Arrays, metadata: Metadata) -> Self:
        """Return the estimator whose ``state`` is given, after checking it."""
        tracker, names = resume_tracker(strip_prefix("core", arrays), metadata["core"]), metadata["feature_names"]
        n = tracker.n_features
        if names is not None and (len(names) != n or not all(isinstance(name, str) for name in names)):
            raise ValueError(f"it does not have a name for each of its {n} features")
        estimator = cls(method=method_from_settings(metadata["settings"]))
        estimator.n_components = check_n_components(metadata.get("n_components"))
        settings = method_settings(estimator.method)
        estimator._set_state(TrackerState(tracker, settings, None if names is None else tuple(names)))
        return estimator

    def transform(self, X: Any) -> Floats:
        """Map points to a space where Euclidean distance equals the tracked distance.

        With ``n_components`` there are exactly that many columns, and the Euclidean distance is approximate. They are
        the principal axes in the learned space of the items, if they are known: those of a table or mapping as
        ``preprocessor``. Otherwise they are ordered by eigenvalue, or by the variance of the landmarks of a curved
        distance. If the rank is smaller, the last columns are 0.

        Parameters
        ----------
        X : array-like, SciPy sparse matrix or table of shape (n_rows, n_features), or indices or ids of shape (n_rows,)
            Indices and ids require a preprocessor.

        Returns
        -------
        array of shape (n_rows, n_components or rank), or the table that ``set_output`` asks for
            The rank of the metric, and so the number of columns without ``n_components``, can change from one pair to
            the next. float32 if X is float32, otherwise float64.
        """
        items, metric = self._items(), self.metric_
        keys: list[Any] = []
        if items is not None and not is_sparse(X) and not dataframes.is_dataframe(X) and np.ndim(X) == 1:
            keys = [np.asarray(X)]
            X = _look_up(items, keys[0])
        with named_items([X][: len(keys)], keys):
            dtype, (values, names) = result_type(X), dataframes.to_rows(X, "X")
            dataframes.check_feature_names(names, self._fitted.names, "X")
            accepted = _POINTS if items is not None else f"{_POINTS} with a preprocessor: set_params(preprocessor=...)"
            rows = values
            if not is_sparse(values):
                rows = check_array(values, "X", 2, n_features=metric.n_features, shapes={2: accepted})
            n_components = check_n_components(self.n_components)
            if n_components is None:
                return to_type(metric.embed(rows), dtype)
            return to_type(embed_along(metric, rows, n_components, self._axes(metric, n_components)), dtype)

    def _axes(self, metric: AnyMetric, n_components: int) -> Floats | None:
        """Return the principal axes of the known items in the learned space; they are computed once per metric."""
        items = self._items()
        key = metric, n_components, items, None if items is None else items.n_items
        found: tuple[Any, Floats | None] | None = self.__dict__.get("_axes_of")
        if found is None or not all(one is other or one == other for one, other in zip(found[0], key, strict=True)):
            found = self._axes_of = key, find_axes(metric, n_components, usable_items(items))
        return found[1]

    def pair_distance(self, pairs: Any) -> Floats:
        """Return the tracked distance between the two points of each pair; accepts pairs as ``MetricTracker.fit``.

        The result is float32 if the pairs are float32, otherwise float64.
        """
        points = self._read_points(pairs, 2)
        return to_type(self._pair_distance(points), points.dtype)

    def _pair_distance(self, points: Points) -> Floats:
        """Return the distances in float64, by which pairs are decided."""
        return np.sqrt(squared_distances(self.metric_, points))

    def pair_score(self, pairs: Any) -> Floats:
        """Return the similarity of the two points of each pair: the negative of their distance."""
        return -self.pair_distance(pairs)

    def get_metric(self) -> AnyMetric:
        """Return the current metric, a function ``d(u, v, squared=False)`` of two points.

        Later pairs do not change it. It can be the ``metric=`` of scikit-learn's neighbours and clusterings, and it can
        be pickled.
        """
        return self.metric_

    def get_mahalanobis_matrix(self) -> Floats:
        """Return a copy of M, of shape (n_features, n_features)."""
        return np.array(self.metric_.matrix)

    def feature_weights(self, n_features: int | None = None, items: Any = None) -> FeatureWeights:
        """Return the features by their share of the distances between items, the largest share first.

        The share of feature j is the mean of ``u_j (M u)_j`` over all pairs of items, which differ by u, divided by the
        mean squared distance. Shares sum to 1 and do not depend on units. Those of features that are correlated with
        others can be negative. A curved distance is attributed by integrated gradients; see ``distance_shares``. The
        result is a list of rows, which ``pandas.DataFrame`` and ``polars.DataFrame`` accept as a table.

        Parameters
        ----------
        n_features : int or None
            The number of features to return; None: all.
        items : array-like, SciPy sparse matrix or table of shape (n_items, n_features), or None
            The items, at least two; ``pairs.reshape(-1, pairs.shape[2])`` are those of an array of pairs. None: the
            ``preprocessor``, if it is a table. Otherwise what was seen along the stream; with the method "rice", which
            does not store that, shares are those of the weights per unit. The attribute ``source`` of the result says
            which: "items", "stream" or "units".
        """
        state = self._fitted
        if items is not None:
            rows = read_items(items, "items", state.n_features, state.names)
        else:
            rows = read_known_items(self._items(), state.n_features, state.names)
        mean_squares = stream_mean_squares(state.tracker)
        return rank_features(self.metric_, state.names, n_features, items=rows, mean_squares=mean_squares)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns that ``transform`` currently returns."""
        name, rank = type(self).__name__.lower(), self.metric_.rank
        return np.array([f"{name}{i}" for i in range(self.n_components or rank)], dtype=object)

    @property
    def metric_(self) -> AnyMetric:
        return self._fitted.metric()

    @property
    def components_(self) -> Floats:
        components: Floats = self.metric_.components
        return components

    @components_.setter
    def components_(self, components: Any) -> None:
        # The learners do not change, so the next pair replaces these components by the learned ones.
        state = self._fitted
        if state.curved:
            raise AttributeError("components_ of a curved distance cannot be set; use curved=False")
        rows = check_array(components, "components_", 2, n_features=state.n_features)
        self._state = state.with_metric(Metric.from_factors(rows, self.metric_.threshold, state.tracker.n_rounds))

    @property
    def weights_(self) -> Floats:
        return self._fitted.tracker.expert_weights

    @property
    def experts_(self) -> tuple[str, ...]:
        return self._fitted.tracker.expert_names

    @property
    def n_rounds_(self) -> int:
        return self._fitted.tracker.n_rounds

    @property
    def engine_(self) -> str:
        return self._fitted.tracker.engine

    @property
    def n_cuts_(self) -> int:
        return self._fitted.tracker.n_cuts

    def _items(self) -> ItemLookup | None:
        """Return the items of the preprocessor, which are read once."""
        if self.preprocessor is None:
            return None
        if self.__dict__.get("_read_items", (None,))[0] is not self.preprocessor:
            self._read_items = self.preprocessor, find_items(self.preprocessor)
        return self._read_items[1]

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in super().__getstate__().items()
            if name not in ("_read_items", "_read_points_of", "_axes_of")
        }

    def _read_points(self, tuples: Any, size: int) -> Points:
        """Return the points of tuples that are predicted, not learned from."""
        state = self._fitted
        points = read_points(tuples, size, self._items(), state.n_features)
        dataframes.check_feature_names(points.names, state.names, "the table")
        return points

    def _start_state(self, n_features: int, names: tuple[str, ...] | None, *, sparse: bool) -> TrackerState:
        """Return the state before the first tuple."""
        check_n_components(self.n_components, n_features)
        return TrackerState.start(self.method, n_features, sparse=sparse, events=self._events, names=names)

    def _state_to_continue(self) -> TrackerState | None:
        """Return the state that more data continue, or None before the first; refuse settings changed since then."""
        state: TrackerState | None = self.__dict__.get("_state")
        if state is not None:
            state.check_settings(self.method)
        return state

    def _set_state(self, state: TrackerState) -> None:
        self._state = state
        self.n_features_in_ = state.n_features
        self.__dict__.pop("feature_names_in_", None)
        if state.names is not None:
            self.feature_names_in_ = np.array(state.names, dtype=object)

    @property
    def _fitted(self) -> TrackerState:
        state: TrackerState | None = self.__dict__.get("_state")
        if state is None:
            tuples = TUPLE_NAMES[self._tuple_size]
            raise NotFittedError(f"this {type(self).__name__} has seen no {tuples} yet; call fit or partial_fit first")
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in self.__dict__


def check_feature_count(n_features: Any, feature_names: Sequence[str] | None) -> tuple[int, tuple[str, ...] | None]:
    """Return the number of features and their names, if any, after checking both."""
    n = check_integer(n_features, "n_features", at_least=1)
    names = None if feature_names is None else tuple(feature_names)
    if names is not None and (len(names) != n or not all(isinstance(name, str) for name in names)):
        raise ValueError(f"feature_names must be {n} strings, one for each feature; got {len(names)}")
    return n, names


def _look_up(items: ItemLookup, keys: np.ndarray) -> Any:
    """Return the points of items; an error about numbers says how points are passed."""
    try:
        return items.rows(keys, "X")
    except (TypeError, ValueError) as error:
        if keys.dtype.kind not in "iuf":
            raise
        raise type(error)(
            f"{error}; points need two dimensions, (n_rows, n_features): one point is [x] instead of x"
        ) from None


def squared_distances(metric: AnyMetric, points: Points) -> Floats:
    """Return the squared distance of the first two points of each tuple, which have been checked."""
    x, z = points.parts[:2]
    if isinstance(metric, CurvedMetric):
        return np.asarray(metric.squared_distance(x, z))
    return np.asarray(metric.squared_length(subtract(x, z)))
