"""Platt scaling: each expert's squared distance becomes log odds of "same" by an online logistic fit."""

from __future__ import annotations

import numpy as np

from ocelad._typing import Floats
from ocelad.adaptive.mixture.config import MixtureConfig

#: Before the first answer the log odds are ``OFFSET - SLOPE * distance / mean``: 0 slightly below the mean distance.
OFFSET, SLOPE = 1.0, 1.5
# One pair has at most this relative distance, and at least this curvature, in a Newton step.
MAX_RELATIVE_DISTANCE, MIN_CURVATURE = 20.0, 1e-3


def sigmoid(log_odds: Floats) -> Floats:
    """Return the probability of each log odds.

    >>> sigmoid(np.array([0.0, 1000.0]))
    array([0.5, 1. ])
    """
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * log_odds)))


def log_loss(log_odds: Floats, y: float) -> Floats:
    """Return the logarithmic loss of each log odds for the answer y, +1 for "same" or -1."""
    return np.asarray(np.logaddexp(0.0, -y * log_odds))


class RunningMeans:
    """Means of squared distances: of all pairs at first, then of about the last ``horizon`` pairs."""

    def __init__(self, n_distances: int, horizon: float) -> None:
        self.values, self._count, self._horizon = np.ones(n_distances), 0, horizon

    def relative(self, squares: Floats) -> Floats:
        """Return the squared distances divided by their means; the first pair sets the means."""
        if self._count == 0:
            self.values, self._count = np.maximum(squares, 1e-100), 1
        return np.asarray(squares / self.values)

    def update(self, squares: Floats, frozen: np.ndarray) -> None:
        """Include a pair; the means of ``frozen`` distances stay."""
        self._count += 1
        share = max(1.0 / self._horizon, 1.0 / self._count)
        moved = np.maximum(self.values + share * (squares - self.values), 1e-100)
        self.values = np.where(frozen, self.values, moved)


class PlattScaling:
    """Logistic regressions of the answer on (1, -distance), one per expert (Platt 1999).

    Every pair makes one Newton step on the loss, discounted over ``calibration_horizon`` rounds, with a ridge of
    ``calibration_pseudo_count`` pairs toward the initial fit: few answers change little. Distances are relative to
    their running means, so that a common factor of the data does not matter.
    """

    def __init__(self, n_experts: int, config: MixtureConfig) -> None:
        self._ridge, self._rate = config.calibration_pseudo_count, 1.0 / config.calibration_horizon
        self.parameters = np.tile([OFFSET, SLOPE], (n_experts, 1))
        self._hessians = np.tile(self._ridge * np.eye(2), (n_experts, 1, 1))

    def log_odds(self, relative: Floats) -> Floats:
        """Return each expert's log odds at its relative squared distance."""
        return np.asarray(self.parameters[:, 0] - self.parameters[:, 1] * relative)

    def reset(self, k: int, offset: float) -> None:
        """Start the fit of a stored metric, whose distances are in log odds already."""
        self.parameters[k] = offset, 1.0
        self._hessians[k] = 4.0 * self._ridge * np.eye(2)

    def learn(self, relative: Floats, log_odds: Floats, y: float) -> None:
        """Make one Newton step per expert; slopes stay at 0 or above, so that nearer never means less similar."""
        inputs = np.stack([np.ones_like(relative), -np.minimum(relative, MAX_RELATIVE_DISTANCE)], axis=1)
        p = sigmoid(log_odds)
        curvature = np.maximum(p * (1.0 - p), MIN_CURVATURE)
        products = inputs[:, :, None] * inputs[:, None, :]
        ridge = self._rate * self._ridge
        self._hessians = (1.0 - self._rate) * self._hessians + curvature[:, None, None] * products + ridge * np.eye(2)
        gradients = (p - (y > 0.0))[:, None] * inputs + ridge * (self.parameters - np.array([OFFSET, SLOPE]))
        self.parameters = self.parameters - np.linalg.solve(self._hessians, gradients[:, :, None])[:, :, 0]
        self.parameters[:, 1] = np.maximum(self.parameters[:, 1], 0.0)
