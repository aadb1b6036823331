"""KISSME with exponential forgetting: a metric from the second moments of similar and dissimilar differences.

Köstinger, Hirzer, Wohlhart, Roth and Bischof, "Large scale metric learning from equivalence constraints", CVPR 2012.
"""

from __future__ import annotations

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer, check_number
from ocelad.lab.baselines.metric_learner import MetricLearner, project_psd
from ocelad.learners.losses import logistic
from ocelad.metric import Metric
from ocelad.pairs import Event, Events, Pair


class ForgettingKissme(MetricLearner):
    """The log-likelihood ratio of two Gaussian models of the differences, as a metric.

    With S and D the mean of ``uu'`` over the similar and the dissimilar pairs::

        M = the positive semidefinite part of  inv(S + r s I) - inv(D + r s I),    s = (tr S + tr D) / 2n

    A pair that is t pairs old has the weight ``(1 - 1 / window)^t`` in these means.

    Parameters
    ----------
    start : Metric
        The metric until a similar and a dissimilar pair were seen.
    window : int
        The effective number of pairs that are remembered; at least 2.
    regularization : float
        r; above 0, so that a few pairs in many dimensions suffice.

    Examples
    --------
    >>> learner = ForgettingKissme(Metric(np.eye(2)))
    >>> learner.update(Event(np.array([0.0, 1.0]), 1.0))   # similar pairs differ in the second feature,
    >>> learner.update(Event(np.array([1.0, 0.0]), -1.0))  # dissimilar ones in the first
    >>> (learner.play().matrix > 0).tolist()
    [[True, False], [False, False]]

    Notes
    -----
    Two departures from the paper: the forgetting, because it learns from all pairs at once, and the regularization,
    which it replaces by a projection onto principal components. It has no threshold either. Here M is scaled such that
    the threshold of ``start`` is half-way between the mean squared distances of similar and of dissimilar pairs.
    """

    def __init__(self, start: Metric, *, window: int = 256, regularization: float = 0.1) -> None:
        super().__init__(start)
        self._start = start
        self._decay = 1.0 - 1.0 / check_integer(window, "window", at_least=2)
        self._regularization = check_number(regularization, "regularization", above=0)
        n = start.n_features
        # Of similar pairs, then of dissimilar ones: the sums of the weights and of the weighted uu'.
        self._weights, self._moments = np.zeros(2), np.zeros((2, n, n))
        self._n_pending = 0  # the number of pairs since self._metric was computed

    def play(self) -> Metric:
        """Return the current metric; the first call after an update computes it."""
        if self._n_pending:
            round_ = self._metric.round + self._n_pending
            self._metric, self._n_pending = self._compute_metric().with_round(round_), 0
        return self._metric

    def loss(self, event: Event | Pair) -> float:
        """Return the logistic loss of the margin ``y (mu - u'Mu)``."""
        u, y = self._check_event(event)
        self.play()
        return logistic(self._margin(u, y))

    def update(self, event: Event | Pair) -> None:
        """Add one pair to the moments."""
        u, y = self._check_event(event)
        self.replay(Events(u[None], np.array([y])))

    def replay(self, events: Events) -> None:
        """Add many pairs to the moments, the latest last."""
        U, y = events.U, events.y
        weights = self._decay ** np.arange(len(y) - 1, -1, -1.0)
        forgotten = self._decay ** len(y)
        masks = (y > 0, y < 0)
        added = [(U[mask].T * weights[mask]) @ U[mask] for mask in masks]
        # New arrays, because copies of the learner share the old ones.
        self._weights = forgotten * self._weights + np.array([weights[mask].sum() for mask in masks])
        self._moments = forgotten * self._moments + np.array(added)
        self._n_pending += len(y)

    def _compute_metric(self) -> Metric:
        if not self._weights.all():
            return self._start
        means = self._moments / self._weights[:, None, None]
        n = self._start.n_features
        scale = float(np.trace(means, axis1=1, axis2=2).mean()) / n
        if scale < np.finfo(np.float64).tiny:  # the differences are 0, or their squares underflow
            return self._start
        S, D = means / scale
        ridge = self._regularization * np.eye(n)
        M = np.linalg.inv(S + ridge) - np.linalg.inv(D + ridge)
        M = project_psd((M + M.T) / 2.0)
        middle = float(np.sum(M * (S + D))) / 2.0  # the mean of the mean squared distances, in units of the scale
        if middle <= 0.0:  # no direction in which dissimilar pairs differ more than similar ones
            return self._start
        with np.errstate(over="ignore"):
            scaled: Floats = M * (self._start.threshold / middle) / scale
        if not np.isfinite(scaled).all():
            return self._start
        return Metric.from_trusted_matrix((scaled + scaled.T) / 2.0, self._start.threshold)
