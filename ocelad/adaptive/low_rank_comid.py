"""LowRankComid: one COMID learner whose metric differs from a multiple of the identity in few directions."""

from __future__ import annotations

import numpy as np

from ocelad._typing import Floats
from ocelad.learners.losses import logistic_slope

# Shorter differences define no direction; their squares would be subnormal.
_TINY = 1e-290


class LowRankComid:
    """COMID with the logistic loss and the squared Frobenius divergence (equation 4), without a regularizer.

    The metric is ``base * I`` plus a difference along orthonormal directions V. A step changes it by a multiple of
    ``xx'``, which adds at most one direction, and clips negative eigenvalues at 0. Beyond ``max_rank`` directions the
    one whose eigenvalue is nearest to the base is dropped. With ``max_rank`` n the learner is exact.

    Parameters
    ----------
    n_features : int
    step_size : float
    max_rank : int
    """

    def __init__(self, n_features: int, step_size: float, max_rank: int) -> None:
        self._step_size, self._max_rank = step_size, max_rank
        self.base, self.threshold = 1.0 / n_features, 1.0
        self.directions, self.eigenvalues = np.zeros((0, n_features)), np.zeros(0)

    def square(self, x: Floats) -> float:
        """Return the squared length of x."""
        z = self.directions @ x
        return max(float(self.base * (x @ x) + (self.eigenvalues - self.base) @ z**2), 0.0)

    def learn_pair(self, x: Floats, y: float, weight: float) -> None:
        """Take a step on a pair."""
        size = weight * self._step_size * logistic_slope(y * (self.threshold - self.square(x)))
        self.threshold = max(1.0, self.threshold + size * y)
        self._add([(x, -size * y)])

    def learn_relative(self, near: Floats, far: Floats, weight: float) -> None:
        """Take a step on a relative comparison."""
        if np.array_equal(abs(near), abs(far)) and (np.array_equal(near, far) or np.array_equal(near, -far)):
            return
        size = weight * self._step_size * logistic_slope(self.square(far) - self.square(near))
        self._add([(far, size), (near, -size)])

    def _add(self, terms: list[tuple[Floats, float]]) -> None:
        """Add ``factor * xx'`` for each term, clip negative eigenvalues, and drop directions beyond ``max_rank``."""
        n = self.directions.shape[1]
        terms = [(x, factor) for x, factor in terms if x @ x >= _TINY]
        if not terms:
            return
        basis, eigenvalues = self.directions, self.eigenvalues
        for x, _ in terms:
            residual = x - basis.T @ (basis @ x)
            residual -= basis.T @ (basis @ residual)
            if len(basis) < n and residual @ residual > 1e-28 * (x @ x):
                basis = np.vstack([basis, residual / np.sqrt(residual @ residual)])
                eigenvalues = np.append(eigenvalues, self.base)
        core = np.diag(eigenvalues)
        for x, factor in terms:
            core += factor * np.outer(basis @ x, basis @ x)
        eigenvalues, rotation = np.linalg.eigh(core)
        eigenvalues = np.maximum(eigenvalues, 0.0)
        keep = np.sort(np.argsort(-np.abs(eigenvalues - self.base), kind="stable")[: self._max_rank])
        self.directions, self.eigenvalues = rotation.T[keep] @ basis, eigenvalues[keep]
