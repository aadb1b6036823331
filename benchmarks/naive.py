"""A direct implementation of RICE-OCELAD in NumPy, with an eigendecomposition per learner and pair."""

from __future__ import annotations

import numpy as np

from ocelad import Ocelad
from ocelad._typing import Floats
from ocelad.ensemble.schedule import Schedule
from ocelad.learners.losses import LOSSES
from ocelad.pairs import Events


def step(M: Floats, mu: float, u: Floats, y: float, g: float, eta: float, shrinkage: float) -> tuple[Floats, float]:
    """Return the metric and the threshold after one COMID step with the slope g of the loss."""
    eigenvalues, V = np.linalg.eigh(M - eta * g * y * np.outer(u, u))
    return (V * np.maximum(eigenvalues - eta * shrinkage, 0.0)) @ V.T, max(1.0, mu + eta * g * y)


class Naive:
    """RICE-OCELAD with dense matrices; it starts from the state of a tracker, so that all scales can be active."""

    def __init__(self, tracker: Ocelad, n_scales: int, step_size: float, shrinkage: float, loss: str) -> None:
        self._schedule = Schedule(1, n_scales)
        self._value, self._slope = LOSSES[loss].value, LOSSES[loss].slope
        self._rates = np.array([self._schedule.scale(j).weight_rate for j in range(n_scales)])
        self._steps = [step_size * self._schedule.scale(j).rate for j in range(n_scales)]
        self._shrinkage = shrinkage
        self._t = tracker.round_state.round
        self._weights = self._rates.copy()
        self._weights[: tracker.round_state.n_active] = tracker.round_state.weights
        learners = [tracker.bank.learner(j) for j in range(tracker.round_state.n_active)]
        self._M = [metric.matrix.copy() for metric in learners] + [None] * (n_scales - len(learners))
        self._mu = [metric.threshold for metric in learners] + [1.0] * (n_scales - len(learners))

    def replay(self, events: Events) -> None:
        M, mu, schedule = self._M, self._mu, self._schedule
        for u, y in events:
            active = schedule.n_active(self._t)
            weights, rates = self._weights[:active], self._rates[:active]
            margins = [y * (mu[j] - u @ M[j] @ u) for j in range(active)]
            losses = np.array([self._value(m) for m in margins])
            regrets = weights @ losses / weights.sum() - losses
            largest = np.abs(regrets).max()
            if largest > 1e-12 * max(1.0, losses.max()):
                weights *= 1 + rates * regrets / largest
            for j in range(active):
                g, eta = self._slope(margins[j]), self._steps[j]
                M[j], mu[j] = step(M[j], mu[j], u, y, g, eta, self._shrinkage)
            self._t += 1
            starting = schedule.n_starting(self._t)
            for j in range(starting - 1, 0, -1):
                M[j], mu[j] = M[j - 1], mu[j - 1]
            self._weights[:starting] = self._rates[:starting]

    def learner(self, j: int) -> Floats:
        """Return the matrix of scale j."""
        return self._M[j]
