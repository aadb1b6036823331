"""AdaGrad on the margin loss of pairs: smaller steps where gradients have been large.

Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning and stochastic optimization", JMLR 2011,
section 1.1 (the diagonal case). The rate for the whole gradient is that of Streeter and McMahan, 2010.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_choice, check_number
from ocelad.lab.baselines.metric_learner import MetricLearner, check_finite, project_psd
from ocelad.learners.comid import Comid, LossName
from ocelad.learners.losses import LOSSES
from ocelad.metric import Metric
from ocelad.pairs import Event, Pair

RateOf: TypeAlias = Literal["entry", "matrix"]


class AdaGrad(MetricLearner):
    """Gradient steps with the rate ``eta / (delta + root of the sum of all squared gradients)``.

    On a pair, with ``g = -l'(m)`` at the margin ``m = y (mu - u'Mu)``, the gradient is ``G = g y uu'`` in M and ``-g
    y`` in mu. Per "entry", each entry of M and the threshold have their own sum::

        S <- S + G * G,   M <- positive semidefinite part of  M - eta (G + rho I) / (delta + sqrt(S))
        s <- s + g^2,     mu <- max(1, mu + eta g y / (delta + sqrt(s)))

    Per "matrix", all share the sum of ``||G||_F^2 + g^2``, and the step is that of ``Comid`` with this rate.

    Parameters
    ----------
    start : Metric
        The initial metric, with a threshold of 1 or more.
    step_size : float
        eta, above 0: roughly the length of the first step, in each entry or in the whole metric. A suitable value per
        matrix is about n_features times that per entry.
    per : {"entry", "matrix"}
        Whether each entry or the whole matrix has its own rate.
    loss : {"hinge", "squared_hinge", "logistic"}
        l.
    shrinkage : float
        rho, the weight of the nuclear norm; 0 or above.
    delta : float
        Above 0; the rate is at most ``eta / delta``. With a shrinkage it should have the magnitude of an entry of a
        gradient: an entry without a gradient so far shrinks by ``eta rho / delta``.

    Examples
    --------
    >>> from ocelad.pairs import Event
    >>> learner = AdaGrad(Metric(np.eye(2)), step_size=0.1, delta=1e-9)
    >>> learner.update(Event(u=np.array([5.0, 0.0]), y=1.0))  # a step of 0.1, whatever the difference
    >>> learner.play().matrix.round(6)
    array([[0.9, 0. ],
           [0. , 1. ]])

    Notes
    -----
    Per matrix the projection is exact. Per entry, the method requires the nearest positive semidefinite matrix in the
    norm ``sum of (delta + sqrt(S)) * entry^2``, which has no closed form. Instead the nearest matrix in the Frobenius
    norm is used: negative eigenvalues become 0. Both are the same if no eigenvalue is negative; otherwise the paper's
    regret bound is not claimed.

    Per entry the method is not rotation invariant: rotating the data does not simply rotate the metric.
    """

    def __init__(
        self,
        start: Metric,
        *,
        step_size: float = 0.03,
        per: RateOf = "entry",
        loss: LossName = "hinge",
        shrinkage: float = 0.0,
        delta: float = 1e-8,
    ) -> None:
        super().__init__(start)
        self._step_size = check_number(step_size, "step_size", above=0)
        self._per = check_choice(per, "per", get_args(RateOf))
        self._delta = check_number(delta, "delta", above=0)
        # Takes the steps of per="matrix", and validates loss and shrinkage.
        self._comid = Comid(start, step_size=self._step_size, loss=loss, shrinkage=shrinkage)
        self._loss, self._shrinkage = LOSSES[loss], float(shrinkage)
        n = start.n_features
        self._squares: Floats = np.zeros((n, n) if per == "entry" else ())
        self._threshold_squares = 0.0

    def loss(self, event: Event | Pair) -> float:
        """Return ``l(m)``."""
        return check_finite(self._loss.value(self._margin(*self._check_event(event))))

    def update(self, event: Event | Pair) -> None:
        """Take one step, with the rate of all gradients including this one."""
        u, y = self._check_event(event)
        g = self._loss.slope(self._margin(u, y))
        if g == 0.0 and self._shrinkage == 0.0:
            self._skip_round()
            return
        with np.errstate(over="ignore", invalid="ignore"):
            if self._per == "entry":
                self._step_by_entry(g * y * np.outer(u, u), g * y)
            else:
                self._step_by_matrix(Event(u, y), g * float(u @ u), g)

    def _step_by_matrix(self, event: Event, norm: float, g: float) -> None:
        squares = check_finite(np.asarray(self._squares + (norm * norm + g * g)))
        rate = self._step_size / (self._delta + float(np.sqrt(squares)))
        comid = self._comid.with_start(self._metric, rate)
        comid.update(event)
        self._metric, self._squares = comid.play(), squares

    def _step_by_entry(self, G: Floats, pull: float) -> None:
        squares = check_finite(self._squares + G * G)
        threshold_squares = self._threshold_squares + pull * pull
        step = G.copy()
        step[np.diag_indices(len(G))] += self._shrinkage
        M = check_finite(self._metric.matrix - self._step_size * step / (self._delta + np.sqrt(squares)))
        rate = self._step_size / (self._delta + float(np.sqrt(threshold_squares)))
        self._set_metric(project_psd(M), max(1.0, self._metric.threshold + rate * pull))
        self._squares, self._threshold_squares = squares, threshold_squares
