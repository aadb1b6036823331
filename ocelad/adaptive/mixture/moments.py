"""Discriminants: distances from the second moments of similar pairs and of all pairs over exponential windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ocelad._typing import Floats

# A pair whose squared distance by the moments exceeds this multiple of the mean has a weight below 1.
OUTLIER_LIMIT = 2.5
# Window and ridge of the moments of all pairs.
ALL_WINDOW, ALL_RIDGE = 1024, 10.0


class WindowMoments:
    """Weighted means of ``xx'`` over exponential windows, shrunk toward the identity by a ridge of some pairs."""

    def __init__(self, n_features: int, windows: Sequence[int], ridge: float) -> None:
        self.n, self._ridge = n_features, ridge
        self._decays = 1.0 - 2.0 / (np.array(windows, dtype=float) + 1.0)
        self._sums, self._counts = np.zeros((len(windows), n_features, n_features)), np.zeros(len(windows))
        self._invert()

    @property
    def means(self) -> Floats:
        """The shrunk mean of each window."""
        return np.asarray((self._sums + self._ridge * np.eye(self.n)) / (self._counts + self._ridge)[:, None, None])

    def _invert(self) -> None:
        self.inverses = np.linalg.inv(self.means)

    def learn(self, x: Floats, add: bool) -> None:
        """Let every window forget one round and, with ``add``, include the difference x."""
        self._sums *= self._decays[:, None, None]
        self._counts *= self._decays
        if add:
            relative = np.einsum("i,kij,j->k", x, self.inverses, x) / self.n
            weights = np.minimum(1.0, OUTLIER_LIMIT / np.maximum(relative, 1e-300))
            self._sums += weights[:, None, None] * np.outer(x, x)
            self._counts += weights
        self._invert()


class Discriminants:
    """One distance per window, ``A = S^-1 T S^-1``: S the moments of similar pairs, T those of all pairs.

    Where all pairs spread no wider than similar ones, a direction has the weight of the whitened distance; where they
    spread r times wider, r^2 times that. KISSME's ``S^-1 - T^-1`` (Koestinger et al. 2012) weighs directions by the
    same ratio but is not positive semidefinite; this form is, by construction.
    """

    def __init__(self, n_features: int, windows: Sequence[int], ridge: float) -> None:
        self._similar = WindowMoments(n_features, windows, ridge)
        self._all = WindowMoments(n_features, [ALL_WINDOW], ALL_RIDGE)

    @property
    def matrices(self) -> Floats:
        """The matrix of each window's squared distance."""
        return np.asarray(self._similar.inverses @ self._all.means[0] @ self._similar.inverses)

    @property
    def whitening(self) -> Floats:
        """The matrix of the whitened distance."""
        return np.asarray(self._all.inverses[0])

    def learn(self, x: Floats, y: float) -> None:
        """Update the moments."""
        self._similar.learn(x, add=y > 0.0)
        self._all.learn(x, add=True)
