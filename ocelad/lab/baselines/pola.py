"""POLA: the pseudo-metric online learning algorithm.

Shalev-Shwartz, Singer and Ng, "Online and batch learning of pseudo-metrics", ICML 2004, section 3.
"""

from __future__ import annotations

from math import hypot, sqrt

import numpy as np

from ocelad._validation import check_number
from ocelad.lab.baselines.held import HeldMetric, finite, without_negative
from ocelad.learners.losses import hinge
from ocelad.metric import Metric
from ocelad.pairs import Event, Pair


class Pola(HeldMetric):
    """Two projections a pair: onto what the pair asks for, then onto the metrics with a threshold of 1 or more.

    A pair asks for ``y (b - u'Au) >= 1``, of the matrix A and the threshold b together. With the hinge loss l of that::

        alpha = l / (|u|^4 + 1)
        A <- A - y alpha uu',  b <- b + y alpha                 the nearest (A, b) that the pair is content with
        A <- its positive semidefinite part,  b <- max(1, b)    the nearest one that is allowed

    Parameters
    ----------
    start : Metric
        Where it starts, with a threshold of 1 or more; the paper starts from ``Metric(np.zeros((n, n)))``.
    aggressiveness : float or None
        alpha is at most so large; above 0. None: no bound, as in the paper.

    Examples
    --------
    >>> from ocelad.pairs import Event
    >>> learner = Pola(Metric(np.zeros((2, 2))))
    >>> learner.update(Event(u=np.array([1.0, 0.0]), y=-1.0))
    >>> learner.play().matrix  # and the threshold, which would be 0, is 1
    array([[1., 0.],
           [0., 0.]])

    Notes
    -----
    After a dissimilar pair A stays positive semidefinite. After a similar one at most one eigenvalue is negative, so
    that one eigenvector is computed and no more.

    The bound on alpha is that of passive-aggressive learning with slack (Crammer, Dekel, Keshet, Shalev-Shwartz and
    Singer, JMLR 2006, PA-I). An ensemble needs it, to tell slow learners from fast ones.
    """

    def __init__(self, start: Metric, *, aggressiveness: float | None = None) -> None:
        super().__init__(start)
        if start.threshold < 1.0:
            raise ValueError(f"the threshold must be 1 or more (b >= 1); it starts at {start.threshold:g}")
        bound = None if aggressiveness is None else check_number(aggressiveness, "aggressiveness", above=0)
        self._aggressiveness = np.inf if bound is None else bound

    def loss(self, event: Event | Pair) -> float:
        """``max(0, 1 - y (b - u'Au))``."""
        return hinge(self._margin(*self._seen(event)))

    def update(self, event: Event | Pair) -> None:
        """The two projections."""
        u, y = self._seen(event)
        loss = hinge(self._margin(u, y))
        if loss == 0.0:
            self._wait()
            return
        # By the root of alpha, because |u|^4 overflows where the step itself does not.
        root = min(sqrt(loss) / hypot(float(u @ u), 1.0), sqrt(self._aggressiveness))
        with np.errstate(over="ignore", invalid="ignore"):
            step = root * u
            A = finite(self._metric.matrix - y * np.outer(step, step))
        self._hold(without_negative(A) if y > 0 else A, max(1.0, self._metric.threshold + y * root * root))
