"""Discriminants: distances from the second moments of similar pairs and of all pairs over exponential windows."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np

from ocelad._typing import Floats
from ocelad.adaptive.config import AdaptiveConfig


class WindowMoments:
    """Weighted means of ``xx'`` over exponential windows, shrunk toward the identity by a ridge of some pairs.

    The ridge decays with the sums. Each update restores what was lost, to one feature after the other: n features get
    in n updates what they all lost. That makes every update of a rank of two, so that compiled code can update the
    inverse instead of computing it.
    """

    def __init__(self, n_features: int, windows: Sequence[float], config: AdaptiveConfig) -> None:
        self.n, self._ridge, self._outlier_limit = n_features, config.ridge, config.outlier_limit
        self._decays = 1.0 - 1.0 / np.array(windows, dtype=float)
        self._reset()

    def _reset(self) -> None:
        """Forget all pairs."""
        self._sums = np.tile(self._ridge * np.eye(self.n), (len(self._decays), 1, 1))
        self._counts, self._n_updates = np.zeros(len(self._decays)), 0
        self.inverses = np.linalg.inv(self.means)

    @property
    def means(self) -> Floats:
        """The shrunk mean of each window."""
        return np.asarray(self._sums / (self._counts + self._ridge)[:, None, None])

    def restart(self, rows: Floats, weights: Floats) -> None:
        """Let all windows but the first begin again with these differences."""
        fresh = copy(self)
        fresh._reset()
        for x, weight in zip(rows, weights.tolist(), strict=True):
            fresh.learn(x, weight)
        self._sums[1:], self._counts[1:] = fresh._sums[1:], fresh._counts[1:]
        self.inverses = np.linalg.inv(self.means)

    def learn(self, x: Floats, weight: float) -> None:
        """Let every window forget and include the difference x with a weight; outliers count less."""
        relative = np.einsum("i,kij,j->k", x, self.inverses, x) / self.n
        weights = weight * np.minimum(1.0, self._outlier_limit / np.maximum(relative, 1e-300))
        decays = self._decays**weight
        self._sums = decays[:, None, None] * self._sums + weights[:, None, None] * np.outer(x, x)
        self._counts = decays * self._counts + weights
        i = self._n_updates % self.n
        self._sums[:, i, i] += self.n * self._ridge * (1.0 - decays)
        self._n_updates += 1
        self.inverses = np.linalg.inv(self.means)


class Discriminants:
    """One distance per window, ``A = S^-1 T S^-1``: S the moments of similar pairs, T those of all pairs.

    Where all pairs spread no wider than similar ones, a direction has the weight of the whitened distance; where they
    spread r times wider, r^2 times that. KISSME's ``S^-1 - T^-1`` (Koestinger et al. 2012) weighs directions by the
    same ratio but is not positive semidefinite; this form is, by construction. Up to the ridge it does not depend on
    the units of the features. The ridge shrinks ``windows`` toward the Euclidean distance and ``scaled_windows``
    toward the standardized one.
    """

    def __init__(
        self, n_features: int, windows: Sequence[int], scaled_windows: Sequence[int], config: AdaptiveConfig
    ) -> None:
        self._similar = WindowMoments(n_features, windows, config)
        self._scaled_similar = WindowMoments(n_features, scaled_windows, config)
        self._all = WindowMoments(n_features, [config.scale_horizon], config)

    def matrices(self, ratios: Floats) -> Floats:
        """Return the matrices of the whitened distance and of each window's distance, on standardized features.

        ``ratios`` are those of half-standardized to standardized features.
        """
        T, products = self._all.means[0], np.outer(ratios, ratios)
        half = self._similar.inverses @ (products * T) @ self._similar.inverses
        scaled = self._scaled_similar.inverses @ T @ self._scaled_similar.inverses
        return np.concatenate([self._all.inverses, products * half, scaled])

    def restart(self, standardized: Floats, weights: Floats, ratios: Floats) -> Floats:
        """Let the longer windows begin again with these similar pairs; return the mean of each window's distance.

        The mean of ``x'Ax`` over all pairs is the trace of ``AT``.
        """
        self._similar.restart(ratios * standardized, weights)
        self._scaled_similar.restart(standardized, weights)
        return np.asarray(np.einsum("kij,ij->k", self.matrices(ratios)[1:], self._all.means[0]))

    def learn(self, standardized: Floats, ratios: Floats, y: float, weight: float) -> None:
        """Update the moments of all pairs, and those of similar pairs if the pair is one."""
        self._all.learn(standardized, 1.0)
        if y > 0.0 and weight > 0.0:
            self._similar.learn(ratios * standardized, weight)
            self._scaled_similar.learn(standardized, weight)
