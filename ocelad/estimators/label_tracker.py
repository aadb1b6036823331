"""LabelMetricTracker: tracks a distance from class labels, the scikit-learn way."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import column_or_1d, validate_data

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import check_integer, check_sparse, is_sparse
from ocelad.ensemble.state_reader import prefixed
from ocelad.estimators.feature_weights import FeatureWeight, heaviest_features
from ocelad.estimators.metric_tracker import MetricTracker
from ocelad.estimators.reservoir import FARTHEST, Reservoir, stacked
from ocelad.estimators.saveable import Saveable, part, plain
from ocelad.estimators.scaling import DistanceScaler, ScaleSetting
from ocelad.metric import Metric
from ocelad.pairs import SparseVector, sparse_row, subtract

# So many points are given partners at a time, so that their pairs take little memory.
PART = 2048


class LabelMetricTracker(Saveable, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learns a distance under which points of a class are near each other, and follows it when it changes.

    Every point is compared with past ones: by turns with one of its class, a similar pair, and with one of another
    class, a dissimilar pair. Points are learned from in the order in which they come. How they are cut into calls makes
    no difference (as with ``MetricTracker``), and a call that is refused changes nothing.

    One number scales all features (``scale``). Where they have different units, put a ``StandardScaler`` before it.

    Parameters
    ----------
    tracker : MetricTracker or None
        Its settings are those of the tracker; it is not fitted itself. None: ``MetricTracker(method="rice")``. Where
        one is given, a search can set ``tracker__step_size``.
    reservoir_size : int
        How many past points are kept as partners; see ``Reservoir``.
    pairs_per_point : int
        How many partners a point gets; by turns of its class and of another, so that 2 is one of each.
    scale : "auto" or float
        The length that points are divided by before the tracker sees them. "auto": found from the first 100 pairs, so
        that the tracker's default step size suits (see ``DistanceScaler``); 1.0: as they are.
    random_state : int, RandomState or None
        Of the drawing of partners.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The classes seen so far, or named by ``classes``; sorted.
    metric_ : Metric
        The metric now, of points as they are given.
    components_ : array of shape (rank, n_features)
        Rows C with M = C'C, the heaviest first.
    threshold_ : float
        On the distance: points at most this far apart are taken to be of one class.
    scale_ : float
        The length that points are divided by now.
    tracker_ : MetricTracker
        What learned it, from points divided by ``scale_``; not fitted while there was no pair.
    n_rounds_ : int
        How many pairs it has learned from.
    n_features_in_ : int
        How many features the points have.
    feature_names_in_ : array of shape (n_features,)
        Their names, where they have any.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True)
    >>> X = np.hstack([X, np.random.default_rng(0).normal(size=(len(X), 40))])  # most features tell nothing
    >>> tracked = make_pipeline(StandardScaler(), LabelMetricTracker(random_state=0), KNeighborsClassifier())
    >>> euclidean = make_pipeline(StandardScaler(), KNeighborsClassifier())
    >>> bool(cross_val_score(tracked, X, y).mean() > cross_val_score(euclidean, X, y).mean() + 0.02)
    True
    """

    classes_: Any
    _state: _Learned
    _named: bool  # whether the classes were given

    def __init__(
        self,
        tracker: MetricTracker | None = None,
        *,
        reservoir_size: int = 500,
        pairs_per_point: int = 2,
        scale: ScaleSetting = "auto",
        random_state: Any = None,
    ) -> None:
        self.tracker = tracker
        self.reservoir_size = reservoir_size
        self.pairs_per_point = pairs_per_point
        self.scale = scale
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> LabelMetricTracker:
        """Forget everything, then learn from the points, in their order.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_points, n_features)
        y : array-like of shape (n_points,)
            The class of each point.
        """
        return self._learn(X, y, None, anew=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> LabelMetricTracker:
        """Learn from more points, in their order.

        Parameters
        ----------
        X, y
            As of ``fit``.
        classes : array-like of shape (n_classes,) or None
            All classes that may come; then others are refused. Not needed: classes may appear at any time.
        """
        return self._learn(X, y, classes, anew=not self.__sklearn_is_fitted__())

    def transform(self, X: Any) -> Floats:
        """The points where Euclidean distance is the tracked distance, of shape (n_points, rank).

        The rank of the metric, and so the number of columns, can change with more points.
        """
        learned = self._learned
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return learned.metric().embed(X)

    def feature_weights(self, n_features: int | None = None) -> list[FeatureWeight]:
        """Which input features the metric weighs most now, as ``MetricTracker.feature_weights`` tells it."""
        names = self.__dict__.get("feature_names_in_")
        return heaviest_features(self.metric_, None if names is None else names.tolist(), n_features)

    @property
    def metric_(self) -> Metric:
        return self._learned.metric()

    @property
    def components_(self) -> Floats:
        return self.metric_.components

    @property
    def threshold_(self) -> float:
        return self.metric_.distance_threshold

    @property
    def scale_(self) -> float:
        return self._learned.yardstick.length

    @property
    def tracker_(self) -> MetricTracker:
        return self._learned.tracker

    @property
    def n_rounds_(self) -> int:
        return self._learned.n_rounds

    @property
    def _n_features_out(self) -> int:
        return self.metric_.rank

    def _learn(self, X: Any, y: Any, classes: Any, *, anew: bool) -> LabelMetricTracker:
        after = copy(self)  # checking sets attributes; what is refused shall have changed nothing
        X, y = validate_data(after, X, y, accept_sparse="csr", dtype=np.float64, reset=anew)
        _refuse_measurements(y)
        _refuse_far_out(X)
        if anew:
            after._state = _Learned(self, X.shape[1])
            after._named = False
        after._state.refuse_changes(self)
        after._count_classes(y, classes, anew)
        per_point = check_integer(self.pairs_per_point, "pairs_per_point", at_least=1)
        after._state = after._state.after(X, y, per_point)
        self.__dict__ = after.__dict__
        return self

    def _count_classes(self, y: Any, classes: Any, anew: bool) -> None:
        if classes is not None:
            classes = np.unique(column_or_1d(classes))
            if not anew and not np.array_equal(classes, self.classes_):
                raise ValueError(
                    f"classes is {classes.tolist()}; it can be given with the first points only, or again as it is, "
                    f"{self.classes_.tolist()}"
                )
            self._named = True
        known = self.classes_ if not anew else np.unique(y) if classes is None else classes
        if (known.dtype.kind in "OUT") != (y.dtype.kind in "OUT"):
            raise ValueError(
                f"y holds {y.tolist()[0]!r}, where the classes are such as {known.tolist()[0]!r}; "
                "accepted: all text, or all numbers"
            )
        self.classes_ = np.union1d(known, y)
        if self._named and len(self.classes_) > len(known):
            other = np.setdiff1d(y, known).tolist()[0]
            raise ValueError(f"y holds {other!r}; accepted: the classes that were given, {known.tolist()}")

    def state(self) -> tuple[Arrays, Metadata]:
        """All of it as arrays and values that JSON can hold."""
        learned, names = self._learned, self.__dict__.get("feature_names_in_")
        tracker_arrays, tracker = learned.tracker.state() if learned.n_rounds else ({}, None)
        arrays = prefixed("tracker", tracker_arrays) | prefixed("reservoir", learned.reservoir.arrays())
        settings = {name: plain(value) for name, value in learned.settings.items()}
        return arrays, {
            "estimator": type(self).__name__,
            "settings": {name: settings[name] for name in ("reservoir_size", "scale")},
            "pairs_per_point": plain(self.pairs_per_point),
            "tracker_settings": None if self.tracker is None else part(settings, "tracker_", "_"),
            "n_features": learned.n_features,
            "feature_names": None if names is None else list(names),
            "classes": self.classes_.tolist(),
            "classes_type": self.classes_.dtype.str,
            "classes_named": self._named,
            "tracker": tracker,
            "reservoir": learned.reservoir.metadata(),
            "yardstick": learned.yardstick.state(),
        }

    @classmethod
    def of_state(cls, arrays: Arrays, metadata: Metadata) -> Self:
        """What ``state`` was called on; checked. Its ``random_state`` is None: the reservoir goes on with its own."""
        chosen = metadata["tracker_settings"]
        # What names no method is of before there was a choice.
        tracker = None if chosen is None else MetricTracker(**{"method": "rice", **chosen})
        estimator = cls(tracker, pairs_per_point=metadata["pairs_per_point"], **metadata["settings"])
        n_features = check_integer(metadata["n_features"], "its number of features", at_least=1)
        learned = _Learned(estimator, n_features)
        if metadata["tracker"] is not None:
            learned.tracker = MetricTracker.of_state(part(arrays, "tracker"), metadata["tracker"])
            learned.n_rounds = learned.tracker.n_rounds_
        learned.reservoir = Reservoir.restored(part(arrays, "reservoir"), metadata["reservoir"])
        learned.yardstick = DistanceScaler.restored(metadata["yardstick"])
        estimator._state, estimator._named = learned, metadata["classes_named"]
        estimator.classes_ = np.array(metadata["classes"], dtype=metadata["classes_type"])
        estimator.n_features_in_ = n_features
        if metadata["feature_names"] is not None:
            estimator.feature_names_in_ = np.array(metadata["feature_names"], dtype=object)
        return estimator

    @property
    def _learned(self) -> _Learned:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this LabelMetricTracker has seen no points yet; call fit or partial_fit first")
        return self._state

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags


class _Learned:
    """What a LabelMetricTracker has learned: values that are replaced by others, never changed."""

    def __init__(self, estimator: LabelMetricTracker, n_features: int) -> None:
        wanted = _wanted(estimator)
        if not isinstance(wanted, MetricTracker):
            raise TypeError(f"tracker must be a MetricTracker or None; got {wanted!r}")
        if wanted.preprocessor is not None:
            raise ValueError("tracker has a preprocessor; accepted: one without, since X holds points, not indices")
        self.tracker: MetricTracker = clone(wanted)
        self.n_features = n_features
        seed = int(check_random_state(estimator.random_state).randint(2**31 - 1))
        self.reservoir = Reservoir(estimator.reservoir_size, seed)
        self.yardstick = DistanceScaler(estimator.scale)
        self.settings = _settings(estimator)
        self.n_rounds = 0
        self._metric: Metric | None = None
        self._initial()  # refuses settings that have no meaning before there is a pair

    def after(self, X: Any, y: Any, per_point: int) -> _Learned:
        """What it knows after these points."""
        learned = copy(self)
        learned.reservoir, learned.yardstick = self.reservoir.copy(), self.yardstick.copy()
        learned.tracker, learned._metric = copy(self.tracker), None  # learning puts other values into its places
        rows = self._as_before(X)
        labels = y.tolist()
        for first in range(0, len(labels), PART):
            learned._learn(rows[first : first + PART], labels[first : first + PART], per_point)
        return learned

    def _as_before(self, X: Any) -> Any:
        """The points sparse where the first ones were, and dense where they were: all are compared with each other."""
        held = self.reservoir.points
        sparse = isinstance(held[0], SparseVector) if held else is_sparse(X)
        if sparse:
            return check_sparse(X if is_sparse(X) else csr_array(X), "X")
        return X.toarray() if is_sparse(X) else X

    def _learn(self, X: Any, labels: list[Any], per_point: int) -> None:
        sparse = is_sparse(X)
        at, partners, similar = [], [], []
        for i, label in enumerate(labels):
            for partner in self.reservoir.partners(label, per_point):
                at.append(i)
                partners.append(partner.point)
                similar.append(partner.similar)
            self.reservoir.put(sparse_row(X, i) if sparse else X[i].copy(), label)
        if not at:
            return
        U = self.yardstick.measured(subtract(X[at], stacked(partners)))
        pairs = (U, 0.0 * U) if sparse else np.stack([U, np.zeros_like(U)], axis=1)
        self.tracker.partial_fit(pairs, similar)
        self.n_rounds += len(at)

    def metric(self) -> Metric:
        """The metric of points as they are given; made once."""
        if self._metric is None:
            metric = self.tracker.metric_ if self.n_rounds else self._initial()
            self._metric = metric.scaled(self.yardstick.length**-2)
        return self._metric

    def _initial(self) -> Metric:
        """What is played before there is a pair."""
        return self.tracker.fresh(self.n_features).play()

    def refuse_changes(self, estimator: LabelMetricTracker) -> None:
        """Settings that were changed after the first points cannot be followed."""
        for name, value in _settings(estimator).items():
            if value != self.settings.get(name):
                raise ValueError(
                    f"{name} was changed from {self.settings.get(name)!r} to {value!r} after the first points; "
                    "call fit to start anew with it, or set it back"
                )


def _refuse_far_out(X: Any) -> None:
    """A point that cannot be compared must not be kept as a partner of those to come."""
    sizes = np.abs(X).max(axis=1)
    sizes = sizes.toarray().ravel() if is_sparse(sizes) else sizes
    if sizes.max() > FARTHEST:
        at = int(sizes.argmax())
        raise ValueError(f"X holds {sizes[at]:g} in row {at}; accepted: numbers up to {FARTHEST:g}")


def _refuse_measurements(y: Any) -> None:
    """Refuse numbers that are no classes. (scikit-learn's own check warns where a short call has many classes.)"""
    if y.dtype.kind == "O":
        try:
            np.unique(y)
        except TypeError:
            raise TypeError("y holds values that cannot be compared; accepted: all text, or all numbers") from None
    if y.dtype.kind == "f" and (y != np.floor(y)).any():
        at = int(np.flatnonzero(y != np.floor(y))[0])
        raise ValueError(f"y holds {y[at]:g} at position {at}; accepted: classes, as text, whole numbers or booleans")


def _wanted(estimator: LabelMetricTracker) -> MetricTracker:
    """The tracker whose settings are wanted."""
    return MetricTracker(method="rice") if estimator.tracker is None else estimator.tracker


def _settings(estimator: LabelMetricTracker) -> dict[str, Any]:
    """What cannot be changed between points: all but how many pairs a point gives, and the seed, used only once."""
    settings = {"reservoir_size": estimator.reservoir_size, "scale": estimator.scale}
    given = {name: value for name, value in _wanted(estimator).get_params().items() if name != "preprocessor"}
    return settings | {f"tracker__{name}": value for name, value in given.items()}
