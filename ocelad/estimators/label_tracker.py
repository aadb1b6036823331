"""LabelMetricTracker: learns a metric from labelled points, with the interface of scikit-learn."""

from __future__ import annotations

from copy import copy
from typing import Any, Literal, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import column_or_1d, validate_data

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import check_integer, check_sparse, is_sparse
from ocelad.curved_metric import AnyMetric, CurvedMetric
from ocelad.engines.rice_settings import Rice
from ocelad.ensemble.state_reader import add_prefix
from ocelad.estimators.feature_weights import FeatureWeights, rank_features, read_items
from ocelad.estimators.leading_axes import check_n_components, embed_along, find_axes
from ocelad.estimators.learning_method import (
    check_method,
    is_curved,
    method_from_settings,
    method_settings,
    python_value,
)
from ocelad.estimators.metric_tracker import MetricTracker
from ocelad.estimators.printed_estimator import PrintedEstimator
from ocelad.estimators.reservoir import MAX_COORDINATE, Reservoir, stack_points
from ocelad.estimators.saveable import Saveable, strip_prefix
from ocelad.estimators.scaling import DistanceScaler, ScaleSetting
from ocelad.estimators.tuples import result_type, to_type
from ocelad.pairs import SparseVector, sparse_row, subtract

# The number of points whose pairs are in memory at a time.
BATCH_SIZE = 2048
# The method without a tracker. Files store it, because it was "rice" before.
_DEFAULT_METHOD: Literal["adaptive"] = "adaptive"


class LabelMetricTracker(Saveable, ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrintedEstimator):  # type: ignore[misc]
    """Learns a metric under which points of one class are near each other, and keeps tracking it when it changes.

    Every point is compared with past points, alternately with one of its class (a similar pair) and with one of another
    class (a dissimilar pair). Points are learned from in the order given. Splitting them into several calls does not
    change the result (as with ``MetricTracker``). A call that raises an error has no effect.

    If the features have different units, put a ``StandardScaler`` first. The method "rice" needs it, because ``scale``
    is one number for all features.

    Parameters
    ----------
    tracker : MetricTracker or None
        An unfitted tracker with the settings to use; None: ``MetricTracker(curved="auto")``, whose distance has a
        curved part. ``MetricTracker()`` is linear, and then there are ``components_``. With
        ``MetricTracker(method=Rice())`` a search can set ``tracker__method__step_size``.
    reservoir_size : int
        The number of past points that are kept as partners; see ``Reservoir``.
    pairs_per_point : int
        The number of partners of a point, alternately of its class and of another; 2 means one of each.
    scale : "auto" or float
        The length by which points are divided. "auto": with the method "rice" estimated from the first 100 pairs, so
        that the default step size suits (see ``DistanceScaler``); with "adaptive", which does not depend on the unit,
        1.0: no scaling. A curved distance is never scaled.
    random_state : int, RandomState or None
        Controls the draws of partners.
    n_components : int or None
        The number of columns that ``transform`` returns: principal axes, in the learned space, of the points that the
        reservoir holds. None: the rank of the metric. It changes no distance, and may be changed at any time.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The classes seen so far, or given by ``classes``; sorted.
    metric_ : CurvedMetric or Metric
        The current metric of the unscaled points.
    components_ : array of shape (rank, n_features)
        Rows C with M = C'C, in descending order of weight; of a linear metric only.
    threshold_ : float
        The threshold on the distance: points at most this far apart are predicted to have one class.
    scale_ : float
        The length by which points are currently divided.
    tracker_ : MetricTracker
        The tracker of the scaled points; not fitted before the first pair.
    n_rounds_ : int
        The number of pairs learned from.
    n_features_in_ : int
        The number of features of a point.
    feature_names_in_ : array of shape (n_features,)
        The names of the features, if known.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True)
    >>> X = np.hstack([X, np.random.default_rng(0).normal(size=(len(X), 40))])  # most features are noise
    >>> tracked = make_pipeline(StandardScaler(), LabelMetricTracker(random_state=0), KNeighborsClassifier())
    >>> euclidean = make_pipeline(StandardScaler(), KNeighborsClassifier())
    >>> bool(cross_val_score(tracked, X, y).mean() > cross_val_score(euclidean, X, y).mean() + 0.02)
    True
    """

    classes_: Any
    _state: _LabelState
    _classes_given: bool  # whether partial_fit received classes

    def __init__(
        self,
        tracker: MetricTracker | None = None,
        *,
        reservoir_size: int = 500,
        pairs_per_point: int = 2,
        scale: ScaleSetting = "auto",
        random_state: Any = None,
        n_components: int | None = None,
    ) -> None:
        self.tracker = tracker
        self.reservoir_size = reservoir_size
        self.pairs_per_point = pairs_per_point
        self.scale = scale
        self.random_state = random_state
        self.n_components = n_components

    def fit(self, X: Any, y: Any) -> LabelMetricTracker:
        """Discard all that was learned, then learn from the points in the order given.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_points, n_features)
        y : array-like of shape (n_points,)
            The class of each point.
        """
        return self._learn(X, y, None, restart=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> LabelMetricTracker:
        """Learn from more points in the order given.

        Parameters
        ----------
        X, y
            As in ``fit``.
        classes : array-like of shape (n_classes,) or None
            All possible classes; others are then refused. None: new classes may appear at any time.
        """
        return self._learn(X, y, classes, restart=not self.__sklearn_is_fitted__())

    def transform(self, X: Any) -> Floats:
        """Map points to a space where Euclidean distance equals the tracked distance.

        The result has shape (n_points, rank). The rank of the metric, and so the number of columns, can change when
        more points are learned from. With ``n_components`` there are exactly that many columns, and the Euclidean
        distance is approximate; if the rank is smaller, the last columns are 0. The result is float32 if X is float32,
        otherwise float64.
        """
        state = self._fitted
        dtype = result_type(X)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return to_type(self._embed(state, X), dtype)

    def _embed(self, state: _LabelState, X: Any) -> Floats:
        metric, n_components = state.metric(), check_n_components(self.n_components)
        if n_components is None:
            return metric.embed(X)
        found: tuple[AnyMetric, int, Floats | None] | None = self.__dict__.get("_axes_of")
        if found is None or found[0] is not metric or found[1] != n_components:
            points = stack_points(state.reservoir.points) if len(state.reservoir) else None
            found = self._axes_of = metric, n_components, find_axes(metric, n_components, points)
        return embed_along(metric, X, n_components, found[2])

    def feature_weights(self, n_features: int | None = None, items: Any = None) -> FeatureWeights:
        """Return the features by their share of the distances between items; see ``MetricTracker.feature_weights``.

        Parameters
        ----------
        n_features : int or None
            The number of features to return; None: all.
        items : array-like, data frame or sparse matrix of shape (n_items, n_features), or None
            The items, at least two. None: the points that the reservoir holds.
        """
        state, names = self._fitted, self.__dict__.get("feature_names_in_")
        names = None if names is None else tuple(names.tolist())
        if items is not None:
            rows = read_items(items, "items", state.n_features, names)
        else:
            rows = stack_points(state.reservoir.points) if len(state.reservoir) > 1 else None
        return rank_features(state.metric(), names, n_features, items=rows)

    @property
    def metric_(self) -> AnyMetric:
        return self._fitted.metric()

    @property
    def components_(self) -> Floats:
        return self.metric_.components

    @property
    def threshold_(self) -> float:
        return self.metric_.distance_threshold

    @property
    def scale_(self) -> float:
        return self._fitted.scaler.length

    @property
    def tracker_(self) -> MetricTracker:
        return self._fitted.tracker

    @property
    def n_rounds_(self) -> int:
        return self._fitted.n_rounds

    @property
    def _n_features_out(self) -> int:
        return self.n_components or self.metric_.rank

    def _learn(self, X: Any, y: Any, classes: Any, *, restart: bool) -> LabelMetricTracker:
        after = copy(self)  # validate_data sets attributes, and an error must not leave them changed
        X, y = validate_data(after, X, y, accept_sparse="csr", dtype=np.float64, reset=restart)
        _check_class_labels(y)
        _check_magnitude(X)
        if restart:
            after._state = _LabelState(self, X.shape[1])
            after._classes_given = False
        after._state.check_settings(self)
        after._update_classes(y, classes, restart)
        per_point = check_integer(self.pairs_per_point, "pairs_per_point", at_least=1)
        check_n_components(self.n_components, None if after._state.curved else X.shape[1])
        after._state = after._state.learn(X, y, per_point)
        self.__dict__ = after.__dict__
        return self

    def _update_classes(self, y: Any, classes: Any, restart: bool) -> None:
        if classes is not None:
            classes = np.unique(column_or_1d(classes))
            if not restart and not np.array_equal(classes, self.classes_):
                raise ValueError(
                    f"classes is {classes.tolist()}; it can be given with the first points, or again unchanged as "
                    f"{self.classes_.tolist()}"
                )
            self._classes_given = True
        known = self.classes_ if not restart else np.unique(y) if classes is None else classes
        if (known.dtype.kind in "OUT") != (y.dtype.kind in "OUT"):
            raise ValueError(
                f"y holds {y.tolist()[0]!r}, but the known classes include {known.tolist()[0]!r}; "
                "accepted: all strings, or all numbers"
            )
        self.classes_ = np.union1d(known, y)
        if self._classes_given and len(self.classes_) > len(known):
            other = np.setdiff1d(y, known).tolist()[0]
            raise ValueError(f"y holds {other!r}; accepted: the given classes {known.tolist()}")

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything learned, as arrays and as values that JSON can store."""
        state, names = self._fitted, self.__dict__.get("feature_names_in_")
        tracker_arrays, tracker = state.tracker.state() if state.n_rounds else ({}, None)
        arrays = add_prefix("tracker", tracker_arrays) | add_prefix("reservoir", state.reservoir.arrays())
        return arrays, {
            "estimator": type(self).__name__,
            "settings": {name: python_value(state.settings[name]) for name in ("reservoir_size", "scale")},
            "pairs_per_point": python_value(self.pairs_per_point),
            # Files without it predate the parameter.
            **({} if self.n_components is None else {"n_components": python_value(self.n_components)}),
            "tracker_settings": None if self.tracker is None else state.tracker_settings,
            "default_method": _DEFAULT_METHOD,
            "curved": state.curved,
            "n_features": state.n_features,
            "feature_names": None if names is None else list(names),
            "classes": self.classes_.tolist(),
            "classes_type": self.classes_.dtype.str,
            "classes_named": self._classes_given,
            "tracker": tracker,
            "reservoir": state.reservoir.metadata(),
            "yardstick": state.scaler.state(),
        }

    @classmethod
    def from_state(cls, arrays: Arrays, metadata: Metadata) -> Self:
        """Return the estimator whose ``state`` is given, after checking it.

        Its ``random_state`` is None, but the reservoir continues with the saved state of its random numbers.
        """
        settings = metadata["tracker_settings"]
        if settings is None and metadata.get("default_method", "rice") != _DEFAULT_METHOD:
            settings = {"method": "rice"}  # the default of files that do not name one
        curved = bool(metadata.get("curved", False))
        if settings is None and not curved:
            settings = {"method": _DEFAULT_METHOD}  # the default was linear before
        tracker = None if settings is None else MetricTracker(method=method_from_settings(settings), curved=curved)
        estimator = cls(tracker, pairs_per_point=metadata["pairs_per_point"], **metadata["settings"])
        estimator.n_components = check_n_components(metadata.get("n_components"))
        n_features = check_integer(metadata["n_features"], "its number of features", at_least=1)
        state = _LabelState(estimator, n_features)
        if metadata["tracker"] is not None:
            state.tracker = MetricTracker.from_state(strip_prefix("tracker", arrays), metadata["tracker"])
            state.n_rounds = state.tracker.n_rounds_
        state.reservoir = Reservoir.from_state(strip_prefix("reservoir", arrays), metadata["reservoir"])
        state.scaler = DistanceScaler.from_state(metadata["yardstick"])
        estimator._state, estimator._classes_given = state, metadata["classes_named"]
        estimator.classes_ = np.array(metadata["classes"], dtype=metadata["classes_type"])
        estimator.n_features_in_ = n_features
        if metadata["feature_names"] is not None:
            estimator.feature_names_in_ = np.array(metadata["feature_names"], dtype=object)
        return estimator

    @property
    def _fitted(self) -> _LabelState:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this LabelMetricTracker has seen no points yet; call fit or partial_fit first")
        return self._state

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class _LabelState:
    """The fitted part of a LabelMetricTracker; ``learn`` returns a new one and does not change this one."""

    def __init__(self, estimator: LabelMetricTracker, n_features: int) -> None:
        tracker = _tracker_or_default(estimator)
        if not isinstance(tracker, MetricTracker):
            raise TypeError(f"tracker must be a MetricTracker or None; got {tracker!r}")
        if tracker.preprocessor is not None:
            raise ValueError("tracker has a preprocessor; accepted: one without, because X holds points, not indices")
        self.tracker = _unfitted(tracker)
        self.n_features = n_features
        seed = int(check_random_state(estimator.random_state).randint(2**31 - 1))
        self.reservoir = Reservoir(estimator.reservoir_size, seed)
        self.curved = is_curved(tracker.curved, tracker.method)
        self.scaler = DistanceScaler(estimator.scale)
        # The adaptive method does not depend on the unit.
        if self.curved or (estimator.scale == "auto" and check_method(tracker.method) == "adaptive"):
            self.scaler = DistanceScaler(1.0)
        self.settings = _settings(estimator)
        self.tracker_settings = _tracker_settings(tracker)
        self.n_rounds = 0
        self._metric: AnyMetric | None = None
        self._initial_metric()  # refuses invalid settings before the first pair

    def learn(self, X: Any, y: Any, per_point: int) -> _LabelState:
        """Return the state after these points."""
        state = copy(self)
        state.reservoir, state.scaler = self.reservoir.copy(), self.scaler.copy()
        state.tracker, state._metric = copy(self.tracker), None  # partial_fit replaces attributes of the copy only
        rows = self._like_first_points(X)
        labels = y.tolist()
        for first in range(0, len(labels), BATCH_SIZE):
            state._learn_batch(rows[first : first + BATCH_SIZE], labels[first : first + BATCH_SIZE], per_point)
        return state

    def _like_first_points(self, X: Any) -> Any:
        """Return the points sparse or dense, as the first points were, because all are compared with each other."""
        held = self.reservoir.points
        sparse = isinstance(held[0], SparseVector) if held else is_sparse(X)
        if sparse:
            return check_sparse(X if is_sparse(X) else csr_array(X), "X")
        return X.toarray() if is_sparse(X) else X

    def _learn_batch(self, X: Any, labels: list[Any], per_point: int) -> None:
        sparse = is_sparse(X)
        at, partners, similar = [], [], []
        for i, label in enumerate(labels):
            for partner in self.reservoir.draw_partners(label, per_point):
                at.append(i)
                partners.append(partner.point)
                similar.append(partner.similar)
            self.reservoir.add(sparse_row(X, i) if sparse else X[i].copy(), label)
        if not at:
            return
        left, right = X[at], stack_points(partners)
        if not self.curved:
            left = self.scaler.rescale(subtract(left, right))
            right = 0.0 * left
        self.tracker.partial_fit((left, right) if sparse else np.stack([left, right], axis=1), similar)
        self.n_rounds += len(at)

    def metric(self) -> AnyMetric:
        """Return the metric of the unscaled points; it is computed once."""
        if self._metric is None:
            metric = self.tracker.metric_ if self.n_rounds else self._initial_metric()
            self._metric = metric if isinstance(metric, CurvedMetric) else metric.scaled(self.scaler.length**-2)
        return self._metric

    def _initial_metric(self) -> AnyMetric:
        """Return the metric before the first pair."""
        return _unfitted(self.tracker).start(self.n_features).metric_

    def check_settings(self, estimator: LabelMetricTracker) -> None:
        """Refuse settings that were changed after the first points."""
        for name, value in _settings(estimator).items():
            if value != self.settings.get(name):
                raise ValueError(
                    f"{name} was changed from {self.settings.get(name)!r} to {value!r} after the first points; "
                    "call fit to start again with it, or set it back"
                )


def _check_magnitude(X: Any) -> None:
    """Refuse a point that is too large to be compared, before it becomes a partner of later points."""
    sizes = np.abs(X).max(axis=1)
    sizes = sizes.toarray().ravel() if is_sparse(sizes) else sizes
    if sizes.max() > MAX_COORDINATE:
        at = int(sizes.argmax())
        raise ValueError(f"X holds {sizes[at]:g} in row {at}; accepted: numbers up to {MAX_COORDINATE:g}")


def _check_class_labels(y: Any) -> None:
    """Refuse numbers that are not classes. (scikit-learn's own check warns if a short call has many classes.)"""
    if y.dtype.kind == "O":
        try:
            np.unique(y)
        except TypeError:
            raise TypeError("y holds values that cannot be compared; accepted: all strings, or all numbers") from None
    if y.dtype.kind == "f" and (y != np.floor(y)).any():
        at = int(np.flatnonzero(y != np.floor(y))[0])
        raise ValueError(f"y holds {y[at]:g} at position {at}; accepted: classes, as strings, integers or booleans")


def _tracker_or_default(estimator: LabelMetricTracker) -> MetricTracker:
    default = MetricTracker(method=_DEFAULT_METHOD, curved="auto")
    return default if estimator.tracker is None else estimator.tracker


def _unfitted(tracker: MetricTracker) -> MetricTracker:
    """Return a tracker with the same parameters. (scikit-learn's clone would also clear a feature map's fit.)"""
    return MetricTracker(**tracker.get_params(deep=False))


def _settings(estimator: LabelMetricTracker) -> dict[str, Any]:
    """Return the parameters that must not change between points: all but ``pairs_per_point`` and ``random_state``."""
    tracker = _tracker_or_default(estimator)
    method = method_settings(tracker.method)
    of_tracker = {"tracker__method": method.pop("method"), "tracker__curved": tracker.curved} | {
        f"tracker__method__{name}": value for name, value in method.items()
    }
    return {"reservoir_size": estimator.reservoir_size, "scale": estimator.scale} | of_tracker


def _tracker_settings(tracker: MetricTracker) -> dict[str, Any]:
    """Return the tracker's settings as files list them: with the settings of ``Rice`` even for "adaptive"."""
    return dict(sorted({**Rice().get_params(), **method_settings(tracker.method)}.items()))
