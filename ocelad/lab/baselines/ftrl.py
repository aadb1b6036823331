"""FTRL: follow the regularized leader with linearized losses, also known as regularized dual averaging.

Xiao, "Dual averaging methods for regularized stochastic learning and online optimization", JMLR 2010, Algorithm 1;
McMahan, "A survey of algorithms and analysis for adaptive online learning", JMLR 2017, section 3.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from ocelad._typing import Floats
from ocelad.lab.baselines.metric_learner import MetricLearner, check_finite, project_psd
from ocelad.learners.comid import Comid, LossName
from ocelad.learners.losses import LOSSES
from ocelad.metric import Metric
from ocelad.pairs import Event, Pair


class Ftrl(MetricLearner):
    """The metric that minimizes the linearized losses of all rounds, regularized towards the start.

    With the gradients ``G_s = g_s y_s u_s u_s'`` in M and ``-g_s y_s`` in mu of the rounds s = 1 .. t, each at the
    metric that was played, and ``eta_t = eta / sqrt(t)``::

        M  = argmin over M PSD of  <sum of G_s, M> + t rho tr(M) + ||M - M_0||_F^2 / (2 eta_t)
           = positive semidefinite part of  M_0 - eta_t (sum of G_s + t rho I)
        mu = max(1, mu_0 + eta_t sum of g_s y_s)

    Parameters
    ----------
    start : Metric
        ``M_0`` and ``mu_0``, with a threshold of 1 or more.
    step_size : float
        eta, above 0.
    loss : {"hinge", "squared_hinge", "logistic"}
        l.
    shrinkage : float
        rho, the weight of the nuclear norm; 0 or above.

    Examples
    --------
    >>> from ocelad.pairs import Event
    >>> learner = Ftrl(Metric(np.eye(2)), step_size=0.1)
    >>> learner.update(Event(u=np.array([1.0, 0.0]), y=1.0))
    >>> learner.play().matrix
    array([[0.9, 0. ],
           [0. , 1. ]])

    Notes
    -----
    COMID steps from its current metric. FTRL uses the sum of all gradients, so that the past counts as much as the
    present, which suits static streams. A round without loss changes the metric too, because eta_t decreases.
    """

    def __init__(
        self, start: Metric, *, step_size: float = 0.01, loss: LossName = "hinge", shrinkage: float = 0.0
    ) -> None:
        super().__init__(start)
        Comid(start, step_size=step_size, loss=loss, shrinkage=shrinkage)  # validates the settings
        self._step_size, self._loss, self._shrinkage = float(step_size), LOSSES[loss], float(shrinkage)
        self._M0, self._mu0 = start.matrix, start.threshold
        self._t = 0
        self._gradients: Floats = np.zeros((start.n_features, start.n_features))
        self._pulls = 0.0

    def loss(self, event: Event | Pair) -> float:
        """Return ``l(m)``."""
        return check_finite(self._loss.value(self._margin(*self._check_event(event))))

    def update(self, event: Event | Pair) -> None:
        """Add the gradient, and compute the new leader."""
        u, y = self._check_event(event)
        pull = self._loss.slope(self._margin(u, y)) * y
        t = self._t + 1
        eta = self._step_size / sqrt(t)
        with np.errstate(over="ignore", invalid="ignore"):
            gradients = self._gradients + pull * np.outer(u, u) if pull else self._gradients
            dual = self._M0 - eta * gradients
            dual[np.diag_indices(len(dual))] -= eta * t * self._shrinkage
        pulls = self._pulls + pull
        self._set_metric(project_psd(check_finite(dual)), max(1.0, self._mu0 + eta * pulls))
        self._gradients, self._pulls, self._t = gradients, pulls, t
