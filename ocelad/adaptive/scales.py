"""FeatureScales: the mean square of each feature's difference, enlarged where a feature differs rarely."""

from __future__ import annotations

import numpy as np

from ocelad._typing import Floats
from ocelad.adaptive.calibration import WARMUP
from ocelad.adaptive.config import AdaptiveConfig


class FeatureScales:
    """Running mean squares of the features, shrunk toward their common mean.

    A feature that differs rarely has a tiny mean square. Dividing by it would let the few pairs in which the feature
    differs dominate. Two things prevent that. The mean square over the pairs in which the feature differs, divided by
    ``outlier_limit``, is added: then a feature that differs contributes at most ``outlier_limit`` times its usual
    share. And the logarithm is shrunk toward that of the mean of all features by ``ridge`` pseudo-pairs in which the
    feature differs; in logarithms, because features may have different units.

    During the warm-up the mean squares include the pair that is predicted, as ``RunningMeans`` do. After it, a
    difference with a mean square above ``outlier_limit`` is shortened to that, unless it is one of more than ``WARMUP``
    in a row: then the unit has changed.
    """

    def __init__(self, n_features: int, config: AdaptiveConfig) -> None:
        self._sums, self._counts, self._count, self._n_included = np.zeros(n_features), np.zeros(n_features), 0.0, 0
        self._n_long = 0
        self._limit, self._ridge, self._decay = config.outlier_limit, config.ridge, 1.0 - 1.0 / config.scale_horizon

    @property
    def warming_up(self) -> bool:
        """Whether fewer than ``WARMUP`` differences are included."""
        return self._n_included < WARMUP

    def update(self, x: Floats) -> None:
        """Include a difference; leading differences of zero are ignored."""
        if self._count == 0.0 and not x.any():
            return
        shrink = 1.0
        if not self.warming_up and x.any():
            shrink = self.length_limit(x)
            self._n_long = self._n_long + 1 if shrink < 1.0 else 0
            shrink = shrink if self._n_long <= WARMUP else 1.0
        self._sums, self._count = self._decay * self._sums + (shrink * x) ** 2, self._decay * self._count + 1.0
        self._counts = self._decay * self._counts + (x != 0.0)
        self._n_included += 1

    def length_limit(self, x: Floats) -> float:
        """Return the factor that shortens a difference with a mean square above ``outlier_limit``, otherwise 1."""
        relative = self.factor**2 * float(x @ x) / (len(x) * self._limit)
        return 1.0 if relative <= 1.0 else float(1.0 / np.sqrt(relative))

    @property
    def sums_of_squares(self) -> Floats:
        """The discounted sum of the squared differences of each feature; 0 for one that never differed."""
        return self._sums.copy()

    @property
    def factor(self) -> float:
        """The common factor that gives differences a mean squared length of n."""
        return float(np.sqrt(self._count / self._sums.mean())) if self._count else 1.0

    @property
    def inverse_roots(self) -> Floats:
        """The factor of each feature that gives it a mean square of about 1."""
        if not self._count:
            return np.ones_like(self._sums)
        mean = self._sums.mean() / self._count
        counts = np.maximum(self._counts, 1e-300)
        relative = np.maximum(self._sums / mean * (1.0 / self._count + 1.0 / (self._limit * counts)), 1e-300)
        shares = self._counts / (self._counts + self._ridge)
        return np.asarray(np.exp(-0.5 * shares * np.log(relative)) / np.sqrt(mean))

    @property
    def ratios(self) -> Floats:
        """The factors of half-standardized features relative to ``inverse_roots``.

        Half-standardized features are divided by the fourth root of their mean square. Where similar pairs are unknown,
        discriminants are the moments of all pairs, ``x'Tx``. On half-standardized features that is about the Euclidean
        distance; on standardized ones it is about the standardized distance.
        """
        roots = self.inverse_roots
        return np.asarray(1.0 / np.sqrt(roots * np.mean(1.0 / roots)))
