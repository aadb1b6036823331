"""PriorTrust: how well the prior distance finds similar pairs among the nearest ones."""

from __future__ import annotations

from math import exp

from ocelad.adaptive.config import AdaptiveConfig

# Rounds before near pairs are counted; near pairs over which their counts decay; the least step of the bound.
N_FIRST, NEAR_HORIZON, MIN_BOUND_STEP = 20, 100.0, 0.05


class PriorTrust:
    """The trust in the prior: a power of its lift among near pairs.

    Nearest neighbours are decided by pairs that are much nearer than most answered pairs, so the log loss says little
    about them. The lift does: how much more often near pairs are similar than all pairs, relative to the largest
    possible value. Pseudo-pairs make the first trust 1: doing nothing is right until answers say otherwise.
    """

    def __init__(self, config: AdaptiveConfig) -> None:
        self._pseudo_count, self._exponent = config.ridge, config.trust_exponent
        self._near_share, self._rate_horizon = config.near_share, config.scale_horizon
        self._round, self._bound = 0, 1.0
        self._similar = self._count = 0.0
        self._similar_rate = 0.5

    @property
    def value(self) -> float:
        """The trust, 0 to 1."""
        near = (self._similar + self._pseudo_count) / (self._count + self._pseudo_count)
        lift = max(0.0, (near - self._similar_rate) / max(1.0 - self._similar_rate, 1e-9))
        return float(lift**self._exponent)

    def update(self, distance: float, y: float, weight: float) -> None:
        """Count the pair if it is near, and move the bound toward the quantile ``near_share``."""
        self._round += 1
        similar = float(y > 0.0)
        if self._round <= N_FIRST:
            self._bound = min(self._bound, distance) if distance > 0.0 else self._bound
        else:
            near = float(distance < self._bound)
            if near:
                decay = 1.0 - weight / NEAR_HORIZON
                self._similar, self._count = decay * self._similar + weight * similar, decay * self._count + weight
            self._bound *= exp(max(MIN_BOUND_STEP, 2.0 / self._round) * (self._near_share - near))
        share = min(1.0, weight) * max(1.0 / (self._round + 1.0), 1.0 / self._rate_horizon)
        self._similar_rate += share * (similar - self._similar_rate)
