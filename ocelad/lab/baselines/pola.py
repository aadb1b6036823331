"""POLA: the pseudo-metric online learning algorithm.

Shalev-Shwartz, Singer and Ng, "Online and batch learning of pseudo-metrics", ICML 2004, section 3.
"""

from __future__ import annotations

from math import hypot, sqrt

import numpy as np

from ocelad._validation import check_number
from ocelad.lab.baselines.metric_learner import MetricLearner, check_finite, clip_negative_eigenvalue
from ocelad.learners.losses import hinge
from ocelad.metric import Metric
from ocelad.pairs import Event, Pair


class Pola(MetricLearner):
    """Two projections per pair: onto the constraint of the pair, then onto the metrics with a threshold of at least 1.

    The constraint of a pair is ``y (b - u'Au) >= 1``, for the matrix A and the threshold b. With its hinge loss l::

        alpha = l / (|u|^4 + 1)
        A <- A - y alpha uu',  b <- b + y alpha                 the nearest (A, b) that satisfies the constraint
        A <- its positive semidefinite part,  b <- max(1, b)    the nearest metric

    Parameters
    ----------
    start : Metric
        The initial metric, with a threshold of 1 or more; the paper starts from ``Metric(np.zeros((n, n)))``.
    aggressiveness : float or None
        An upper bound of alpha; above 0. None: no bound, as in the paper.

    Examples
    --------
    >>> from ocelad.pairs import Event
    >>> learner = Pola(Metric(np.zeros((2, 2))))
    >>> learner.update(Event(u=np.array([1.0, 0.0]), y=-1.0))
    >>> learner.play().matrix  # the threshold stays at 1: b would be 0
    array([[1., 0.],
           [0., 0.]])

    Notes
    -----
    After a dissimilar pair A is positive semidefinite. After a similar pair at most one eigenvalue is negative, so that
    only one eigenvector is computed.

    The bound on alpha is that of passive-aggressive learning with slack (Crammer, Dekel, Keshet, Shalev-Shwartz and
    Singer, JMLR 2006, PA-I). An ensemble needs it to have slow and fast learners.
    """

    def __init__(self, start: Metric, *, aggressiveness: float | None = None) -> None:
        super().__init__(start)
        if start.threshold < 1.0:
            raise ValueError(f"the threshold of start must be at least 1 (b >= 1); got {start.threshold:g}")
        bound = None if aggressiveness is None else check_number(aggressiveness, "aggressiveness", above=0)
        self._aggressiveness = np.inf if bound is None else bound

    def loss(self, event: Event | Pair) -> float:
        """Return ``max(0, 1 - y (b - u'Au))``."""
        return hinge(self._margin(*self._check_event(event)))

    def update(self, event: Event | Pair) -> None:
        """Apply the two projections."""
        u, y = self._check_event(event)
        loss = hinge(self._margin(u, y))
        if loss == 0.0:
            self._skip_round()
            return
        # By the root of alpha, because |u|^4 can overflow when the step itself does not.
        root = min(sqrt(loss) / hypot(float(u @ u), 1.0), sqrt(self._aggressiveness))
        with np.errstate(over="ignore", invalid="ignore"):
            step = root * u
            A = check_finite(self._metric.matrix - y * np.outer(step, step))
        self._set_metric(
            clip_negative_eigenvalue(A) if y > 0 else A, max(1.0, self._metric.threshold + y * root * root)
        )
