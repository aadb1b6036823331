"""TripletTracker and QuadrupletTracker: learn a metric from relative comparisons, with metric-learn's interface."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import is_sparse
from ocelad.estimators.learning_method import Method
from ocelad.estimators.mahalanobis import MahalanobisTracker
from ocelad.estimators.tuples import TUPLE_NAMES, Points, read_points, to_type
from ocelad.pairs import EventsName, Relatives, subtract


class RelativeTracker(MahalanobisTracker):
    """The common part of the trackers of relative comparisons: of two distances in each tuple one must be smaller.

    Parameters
    ----------
    method : "adaptive", "rice" or Rice
        As in ``MetricTracker``. Of the settings of RICE-OCELAD, ``initial_threshold`` has no effect: the order of two
        distances does not determine a threshold. Its engines "blocked" and "sparse" learn from pairs only.
    preprocessor : array-like, sparse matrix or table of shape (n_points, n_features), or callable, or None
        The points, when tuples are given as indices. A callable receives an array of indices and returns one point per
        row. Points must not be sparse.
    n_components : int or None
        As in ``MetricTracker``.
    """

    _events: ClassVar[EventsName] = "relatives"

    def __init__(
        self, *, method: Method = "adaptive", preprocessor: Any = None, n_components: int | None = None
    ) -> None:
        self.method = method
        self.preprocessor = preprocessor
        self.n_components = n_components

    def fit(self, tuples: Any, y: Any = None) -> Self:
        """Discard all that was learned, then learn from the tuples in the order given; y is ignored."""
        points = read_points(tuples, self._tuple_size, self._items())
        events = self._relatives(points)
        state, _ = self._start_state(points.n_features, points.names, sparse=False).learn(events, points.names)
        self._set_state(state)
        return self

    def partial_fit(self, tuples: Any, y: Any = None) -> Self:
        """Learn from more tuples in the order given; y is ignored."""
        self.test_then_train(tuples)
        return self

    def test_then_train(self, tuples: Any) -> Floats:
        """Learn from more tuples, and return the margin of each tuple before it was learned from.

        The margin is the squared distance that should be larger minus the one that should be smaller; it is negative
        for a wrong prediction. With the method "adaptive" it is the log odds of the right order.
        """
        state = self._state_to_continue()
        n_features = None if state is None else state.n_features
        points = read_points(tuples, self._tuple_size, self._items(), n_features)
        events = self._relatives(points)
        if state is None:
            state = self._start_state(points.n_features, points.names, sparse=False)
        state, margins = state.learn(events, points.names)
        self._set_state(state)
        return np.asarray(margins)

    def decision_function(self, tuples: Any) -> Floats:
        """Return by how much the distance that should be larger exceeds the other one.

        It is float32 if the tuples are float32, otherwise float64.
        """
        points = self._read_points(tuples, self._tuple_size)
        return to_type(self._decision(points), points.dtype)

    def _decision(self, points: Points) -> Floats:
        near, far = self._differences(*points.parts)
        metric = self.metric_
        return np.asarray(np.sqrt(metric.squared_length(far)) - np.sqrt(metric.squared_length(near)))

    def predict(self, tuples: Any) -> np.ndarray:
        """Return +1 for each tuple whose distances are in the right order, otherwise -1."""
        return np.where(self._decision(self._read_points(tuples, self._tuple_size)) > 0, 1, -1)

    def score(self, tuples: Any, y: Any = None) -> float:
        """Return the fraction of tuples whose distances are in the right order."""
        return float(np.mean(self.predict(tuples) == 1))

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything learned, as arrays and as values that JSON can store."""
        arrays, metadata = super().state()
        if metadata["settings"]["method"] == "rice":
            del metadata["settings"]["method"]  # files from before the choice do not store it
        return arrays, metadata

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.two_d_array = self.preprocessor is not None
        return tags

    def _relatives(self, points: Points) -> Relatives:
        if is_sparse(points.parts[0]):
            name = TUPLE_NAMES[self._tuple_size]
            raise TypeError(f"{name} are sparse; accepted: arrays or tables (only pairs may be sparse)")
        return Relatives(*self._differences(*points.parts))

    @staticmethod
    def _differences(*points: Any) -> tuple[Any, Any]:
        """Return the difference that should be shorter and the one that should be longer."""
        raise NotImplementedError


class TripletTracker(RelativeTracker):
    """Learns a metric from triplets "x is nearer to a than to b", and keeps tracking it when it changes.

    Triplets are given as (x, a, b): an array of shape (n_triplets, 3, n_features), three tables, or indices of shape
    (n_triplets, 3) with a ``preprocessor``. It has the methods and attributes of metric-learn's triplet learners.

    Parameters
    ----------
    method : "adaptive", "rice" or Rice
        As in ``MetricTracker``. Of the settings of RICE-OCELAD, ``initial_threshold`` has no effect, and the engines
        "blocked" and "sparse" learn from pairs only.
    preprocessor : array-like or table of shape (n_points, n_features), or callable, or None
        As in ``MetricTracker``; points must not be sparse.
    n_components : int or None
        As in ``MetricTracker``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> triplets = rng.normal(size=(500, 3, 3))
    >>> x, a, b = triplets[:, 0, 0], triplets[:, 1, 0], triplets[:, 2, 0]  # only the first feature matters
    >>> wrong = abs(x - a) > abs(x - b)
    >>> triplets[wrong] = triplets[wrong][:, [0, 2, 1]]
    >>> tracker = TripletTracker().fit(triplets)
    >>> bool(tracker.score(triplets) > 0.85)
    True
    >>> tracker.feature_weights(1)[0].feature
    'x0'
    """

    _tuple_size: ClassVar[int] = 3

    @staticmethod
    def _differences(*points: Any) -> tuple[Any, Any]:
        x, a, b = points
        return subtract(x, a), subtract(x, b)


class QuadrupletTracker(RelativeTracker):
    """Learns a metric from quadruplets "a and b are nearer to each other than c and d".

    Quadruplets are given as (a, b, c, d): an array of shape (n_quadruplets, 4, n_features), four tables, or indices of
    shape (n_quadruplets, 4) with a ``preprocessor``. Parameters, methods and attributes are those of
    ``TripletTracker``.

    Examples
    --------
    >>> quadruplets = [[[0.0, 0.0], [0.0, 9.0], [0.0, 0.0], [1.0, 0.0]]] * 50  # only the first feature matters
    >>> tracker = QuadrupletTracker().fit(quadruplets)
    >>> tracker.predict(quadruplets[:1])
    array([1])
    """

    _tuple_size: ClassVar[int] = 4

    @staticmethod
    def _differences(*points: Any) -> tuple[Any, Any]:
        a, b, c, d = points
        return subtract(a, b), subtract(c, d)
