"""PriorTrust: how well the prior distance finds similar pairs among the nearest ones."""

from __future__ import annotations

from math import exp

from ocelad.adaptive.mixture.config import MixtureConfig

# Rounds without a bound for near pairs, horizon of the share of similar pairs, and decay of near pairs.
N_FIRST, RATE_HORIZON, DECAY = 20, 500.0, 0.99


class PriorTrust:
    """The trust in the prior: a power of its lift among near pairs.

    Nearest neighbours are decided by pairs that are much nearer than most answered pairs, so the log loss says little
    about them. The lift does: how much more often near pairs are similar than all pairs, relative to the largest
    possible value. Pseudo-pairs make the first trust 1: doing nothing is right until answers say otherwise.
    """

    def __init__(self, config: MixtureConfig) -> None:
        self._config = config
        self._round, self._bound = 0, 1.0
        self._similar = self._count = 0.0
        self._similar_rate = 0.5

    @property
    def value(self) -> float:
        """The trust, 0 to 1."""
        pseudo_count, rate = self._config.near_pseudo_count, self._similar_rate
        near = (self._similar + pseudo_count) / (self._count + pseudo_count)
        lift = max(0.0, (near - rate) / max(1.0 - rate, 1e-9))
        return float(lift**self._config.trust_exponent)

    def update(self, distance: float, y: float) -> None:
        """Count the pair if it is near, and move the bound toward the quantile ``near_share``."""
        self._round += 1
        similar = float(y > 0.0)
        if self._round <= N_FIRST:
            self._bound = min(self._bound, distance) if distance > 0.0 else self._bound
        else:
            near = float(distance < self._bound)
            if near:
                self._similar, self._count = DECAY * self._similar + similar, DECAY * self._count + 1.0
            self._bound *= exp(max(0.05, 2.0 / self._round) * (self._config.near_share - near))
        share = max(1.0 / (self._round + 1.0), 1.0 / RATE_HORIZON)
        self._similar_rate += share * (similar - self._similar_rate)
