"""FeatureScales: the mean square of each feature's difference, shrunk where a feature was seen rarely."""

from __future__ import annotations

import numpy as np

from ocelad._typing import Floats
from ocelad.adaptive.calibration import WARMUP
from ocelad.adaptive.config import AdaptiveConfig


class FeatureScales:
    """Running mean squares of the features, with pseudo-pairs at the mean of all features.

    A feature that is almost always 0 has a tiny mean square. Dividing by it would let the few pairs in which the
    feature differs dominate; the pseudo-pairs bound their influence. Before the first difference that is not zero, all
    factors are 1. During the warm-up the mean squares include the pair that is predicted, as ``RunningMeans`` do.
    """

    def __init__(self, n_features: int, config: AdaptiveConfig) -> None:
        self._sums, self._count, self._n_included = np.zeros(n_features), 0.0, 0
        self._pseudo_count, self._decay = config.ridge, 1.0 - 1.0 / config.scale_horizon

    @property
    def warming_up(self) -> bool:
        """Whether fewer than ``WARMUP`` differences are included."""
        return self._n_included < WARMUP

    def update(self, x: Floats) -> None:
        """Include a difference; leading differences of zero are ignored."""
        if self._count > 0.0 or x.any():
            self._sums, self._count = self._decay * self._sums + x**2, self._decay * self._count + 1.0
            self._n_included += 1

    @property
    def factor(self) -> float:
        """The common factor that gives differences a mean squared length of n."""
        return float(np.sqrt(self._count / self._sums.mean())) if self._count else 1.0

    @property
    def inverse_roots(self) -> Floats:
        """The factor of each feature that gives it a mean square of 1."""
        if not self._count:
            return np.ones_like(self._sums)
        mean = self._sums.mean() / self._count
        squares = (self._sums + self._pseudo_count * mean) / (self._count + self._pseudo_count)
        return np.asarray(1.0 / np.sqrt(squares))
