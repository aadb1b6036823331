"""Platt scaling: each expert's squared distance becomes log odds of "same" by an online logistic fit."""

from __future__ import annotations

import numpy as np

from ocelad._typing import Floats
from ocelad.adaptive.config import AdaptiveConfig

#: Number of pairs of the warm-up, in which scales include the pair that is predicted.
WARMUP = 8
# The spread of relative distances before the first pair, which counts as one pair, and the least one.
INITIAL_SPREAD, MIN_SPREAD = 0.5, 1e-3
# The least slope of a fit: nearer never means less similar, and the metric is never zero.
MIN_SLOPE = 1e-3
# The least curvature of a pair in a Newton step, and the least mean distance: both only keep divisions finite.
MIN_CURVATURE, MIN_MEAN_DISTANCE = 1e-3, 1e-280
# The fit of a stored metric begins with this many times the pseudo-pairs of the others: it was calibrated before.
MEMORY_RIDGE = 4.0


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
    """Mean sizes of squared distances: of all pairs at first, then of about the last ``horizon`` pairs.

    During the warm-up the means include the pair that is predicted. Otherwise a first pair of nearly equal points would
    make all later distances look enormous. After ``horizon`` pairs, a size counts as at most ``winsor_limit`` times its
    mean, so that one outlier does not make all later pairs look alike. If more than WARMUP Euclidean lengths in a row
    are above the limit, the unit has changed, and nothing is limited.
    """

    def __init__(self, n_distances: int, config: AdaptiveConfig) -> None:
        self.values, self._count, self._n_long = np.ones(n_distances), 0, 0
        self._horizon, self._limit = config.horizon, config.winsor_limit
        self._frozen = np.zeros(n_distances, dtype=bool)

    @property
    def warming_up(self) -> bool:
        """Whether fewer than ``WARMUP`` pairs are included."""
        return self._count < WARMUP

    def freeze(self, k: int) -> None:
        """Set a mean to 1 for good, for a distance that is in log odds already."""
        self.values[k], self._frozen[k] = 1.0, True

    @property
    def known(self) -> np.ndarray:
        """Whether each distance was positive for some pair; until then it has no mean."""
        return np.asarray(self.values > MIN_MEAN_DISTANCE)

    def start(self, sizes: Floats) -> None:
        """Let distances that are positive for the first time begin with this pair's size as their mean."""
        self.values = np.where(~self.known & (sizes > 0.0), np.maximum(sizes, MIN_MEAN_DISTANCE), self.values)

    def update(self, sizes: Floats) -> None:
        """Include a pair; leading pairs of equal points are ignored."""
        if self._count == 0 and sizes[0] == 0.0:
            return
        if self._count >= self._horizon:
            limits = self._limit * self.values
            if sizes[0] > 0.0:
                self._n_long = self._n_long + 1 if sizes[0] > limits[0] else 0
            sizes = np.minimum(sizes, limits) if self._n_long <= WARMUP else sizes
        self._count += 1
        share = max(1.0 / self._horizon, 1.0 / self._count)
        moved = np.maximum((1.0 - share) * self.values + share * sizes, MIN_MEAN_DISTANCE)
        self.values = np.where(self._frozen, self.values, moved)


class RunningSpreads:
    """Mean squared deviations of the experts' relative distances from their mean, 1.

    After ``horizon`` pairs, a squared deviation counts as at most ``winsor_limit`` times its mean.
    """

    def __init__(self, n_experts: int, config: AdaptiveConfig, relative: bool) -> None:
        self.locations = np.full(n_experts, 0.0 if relative else 1.0)
        self.squares, self._count = np.full(n_experts, INITIAL_SPREAD**2), 1
        self._horizon, self._limit = config.horizon, config.winsor_limit
        self._frozen = np.zeros(n_experts, dtype=bool)

    def freeze(self, k: int) -> None:
        """Let the deviations of an expert be its distances for good."""
        self.locations[k], self.squares[k], self._frozen[k] = 0.0, 1.0, True

    def deviations(self, distances: Floats) -> Floats:
        """Return the distances in numbers of spreads above their mean."""
        return np.asarray((distances - self.locations) / np.sqrt(self.squares))

    def update(self, distances: Floats) -> None:
        """Include a pair."""
        self._count += 1
        share = max(1.0 / self._horizon, 1.0 / self._count)
        squares = (distances - self.locations) ** 2
        if self._count > self._horizon:
            squares = np.minimum(squares, self._limit * self.squares)
        moved = self.squares + share * (squares - self.squares)
        self.squares = np.where(self._frozen, self.squares, np.maximum(moved, MIN_SPREAD**2))


class PlattScaling:
    """Logistic regressions of the answer on (1, -deviation), one per expert (Platt 1999).

    Every pair makes one Newton step on the loss, discounted over ``horizon`` pairs, with a ridge of ``pseudo_count``
    pairs toward the initial fit ``start``: few answers change little. A deviation above ``limit`` counts as that.
    Deviations are distances in numbers of spreads above their mean, so that one initial fit suits data of any scale and
    dimension. Relative comparisons have no offset: the log odds that near is nearer than far are a multiple of the
    difference of their squared distances.
    """

    def __init__(
        self,
        n_experts: int,
        start: tuple[float, float],
        *,
        pseudo_count: float,
        horizon: float,
        limit: float,
        relative: bool,
    ) -> None:
        self._ridge, self._rate, self._limit, self._relative = pseudo_count, 1.0 / horizon, limit, relative
        offset, slope = start
        self._start = np.array([0.0 if relative else offset, slope])
        self.parameters = np.tile(self._start, (n_experts, 1))
        self._hessians = np.tile(self._ridge * np.eye(2), (n_experts, 1, 1))

    def log_odds(self, deviations: Floats) -> Floats:
        """Return each expert's log odds at a deviation."""
        return np.asarray(self.parameters[:, 0] - self.parameters[:, 1] * deviations)

    def reset(self, k: int, offset: float) -> None:
        """Start the fit of a stored metric, whose distances are in log odds already."""
        self.parameters[k] = offset, 1.0
        self._hessians[k] = MEMORY_RIDGE * self._ridge * np.eye(2)

    def copy_fit(self, source: int, target: int) -> None:
        """Let an expert continue from the fit of another one."""
        self.parameters[target], self._hessians[target] = self.parameters[source], self._hessians[source]

    def learn(self, deviations: Floats, log_odds: Floats, y: float, weight: float) -> None:
        """Make one Newton step per expert; slopes stay at ``MIN_SLOPE`` or above."""
        decay = (1.0 - self._rate) ** weight
        ones = np.full_like(deviations, 0.0 if self._relative else 1.0)
        inputs = np.stack([ones, -np.clip(deviations, -self._limit, self._limit)], axis=1)
        p = sigmoid(log_odds)
        curvature = weight * np.maximum(p * (1.0 - p), MIN_CURVATURE)
        products = inputs[:, :, None] * inputs[:, None, :]
        ridge = (1.0 - decay) * self._ridge
        self._hessians = decay * self._hessians + curvature[:, None, None] * products + ridge * np.eye(2)
        gradients = (weight * (p - (y > 0.0)))[:, None] * inputs + ridge * (self.parameters - self._start)
        self.parameters = self.parameters - np.linalg.solve(self._hessians, gradients[:, :, None])[:, :, 0]
        self.parameters[:, 1] = np.maximum(self.parameters[:, 1], MIN_SLOPE)
