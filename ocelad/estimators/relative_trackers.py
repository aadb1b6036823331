"""TripletTracker and QuadrupletTracker: from relative comparisons, with metric-learn's contract."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import is_sparse
from ocelad.estimators.mahalanobis import MahalanobisTracker, Tracked
from ocelad.estimators.tuples import WORDS
from ocelad.pairs import EventsName, Relatives, subtract


class RelativeTracker(MahalanobisTracker):
    """What learners of relative comparisons share. Of each tuple two distances are compared: one must be the smaller.

    The parameters are those of ``MetricTracker``, whose ``initial_threshold`` has no effect here: which of two
    distances is the smaller says nothing of a threshold.
    """

    _learns_from: ClassVar[EventsName] = "relatives"

    def fit(self, tuples: Any, y: Any = None) -> Self:
        """Forget everything, then learn from the tuples, in their order. y is there for scikit-learn's tools only."""
        tracked, _ = self._learned(None, tuples)
        return self._keep(tracked)

    def partial_fit(self, tuples: Any, y: Any = None) -> Self:
        """Learn from some more tuples, in their order."""
        tracked, _ = self._learned(self._going_on(), tuples)
        return self._keep(tracked)

    def test_then_train(self, tuples: Any) -> Floats:
        """Learn from some more tuples, and tell with which margin each was judged before it was learned from.

        The margin is the larger squared distance less the smaller one; below 0 where they were the other way round.
        """
        tracked, margins = self._learned(self._going_on(), tuples)
        self._keep(tracked)
        return np.asarray(margins)

    def _learned(self, tracked: Tracked | None, tuples: Any) -> tuple[Tracked, Any]:
        def events_of(*points: Any) -> Relatives:
            if is_sparse(points[0]):
                word = WORDS[self._size]
                raise TypeError(f"{word} are sparse; accepted: arrays or tables (only pairs may be sparse)")
            return Relatives(*self._near_and_far(*points))

        return self._after(tracked, tuples, events_of)

    def decision_function(self, tuples: Any) -> Floats:
        """By how much the distance that should be the larger one is larger."""
        near, far = self._near_and_far(*self._points(tuples, self._size).parts)
        metric = self.metric_
        return np.asarray(np.sqrt(metric.squared_length(far)) - np.sqrt(metric.squared_length(near)))

    def predict(self, tuples: Any) -> np.ndarray:
        """+1 for each tuple whose distances are in the right order, otherwise -1."""
        return np.where(self.decision_function(tuples) > 0, 1, -1)

    def score(self, tuples: Any, y: Any = None) -> float:
        """The share of tuples whose distances are in the right order."""
        return float(np.mean(self.predict(tuples) == 1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.two_d_array = self.preprocessor is not None
        return tags

    @staticmethod
    def _near_and_far(*points: Any) -> tuple[Any, Any]:
        raise NotImplementedError


class TripletTracker(RelativeTracker):
    """Learns a distance from triplets "x is nearer to a than to b", and follows it when it changes.

    Triplets are given as (x, a, b): an array of shape (n_triplets, 3, n_features), three tables, or indices of shape
    (n_triplets, 3) with a ``preprocessor``. Its methods and attributes are those of metric-learn's triplet learners.

    Parameters
    ----------
    loss, step_size, shrinkage, ..., preprocessor
        As of ``MetricTracker``; the engines "blocked" and "sparse" learn from pairs only, and so do sparse points.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> triplets = rng.normal(size=(500, 3, 3))
    >>> x, a, b = triplets[:, 0, 0], triplets[:, 1, 0], triplets[:, 2, 0]  # only the first feature tells
    >>> wrong = abs(x - a) > abs(x - b)
    >>> triplets[wrong] = triplets[wrong][:, [0, 2, 1]]
    >>> tracker = TripletTracker(step_size=0.05).fit(triplets)
    >>> bool(tracker.score(triplets) > 0.9)
    True
    >>> tracker.feature_weights(1)[0].feature
    'x0'
    """

    _size: ClassVar[int] = 3

    @staticmethod
    def _near_and_far(*points: Any) -> tuple[Any, Any]:
        x, a, b = points
        return subtract(x, a), subtract(x, b)


class QuadrupletTracker(RelativeTracker):
    """Learns a distance from quadruplets "a and b are nearer to each other than c and d".

    Quadruplets are given as (a, b, c, d): an array of shape (n_quadruplets, 4, n_features), four tables, or indices of
    shape (n_quadruplets, 4) with a ``preprocessor``. All else is as of ``TripletTracker``.

    Examples
    --------
    >>> quadruplets = [[[0.0, 0.0], [0.0, 9.0], [0.0, 0.0], [1.0, 0.0]]] * 50  # only the first feature tells
    >>> tracker = QuadrupletTracker(step_size=0.01).fit(quadruplets)
    >>> tracker.predict(quadruplets[:1])
    array([1])
    """

    _size: ClassVar[int] = 4

    @staticmethod
    def _near_and_far(*points: Any) -> tuple[Any, Any]:
        a, b, c, d = points
        return subtract(a, b), subtract(c, d)
