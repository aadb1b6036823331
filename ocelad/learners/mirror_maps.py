"""Bregman divergences of positive semidefinite matrices, with the mirror maps that generate them.

A convex function psi generates the divergence ``B(M, N) = psi(M) - psi(N) - <grad psi(N), M - N>``. The mirror map
``to_dual = grad psi`` and its inverse ``from_dual = grad psi*`` reduce a composite mirror descent step (equation 4) to
three operations: map to the dual, add the gradient, and map back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ocelad._typing import Floats

_EPS = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)


class Divergence(Protocol):
    """A Bregman divergence between symmetric matrices."""

    positive_definite: bool
    """Whether the divergence is finite only at positive definite matrices, so that eigenvalues must start above 0."""

    def between(self, M: Floats, N: Floats) -> float:
        """Return ``B(M, N)``: zero if M equals N, positive otherwise."""
        ...

    def to_dual(self, M: Floats) -> Floats:
        """Return ``grad psi(M)``."""
        ...

    def from_dual(self, D: Floats) -> Floats:
        """Return ``grad psi*(D)``: the positive semidefinite M that minimises ``psi(M) - <D, M>``."""
        ...

    def from_dual_eigenvalues(self, eigenvalues: Floats) -> Floats:
        """Return the eigenvalues of ``from_dual(D)``, given those of D."""
        ...

    def reaches(self, D: Floats) -> bool:
        """Return whether the minimum of ``from_dual`` exists."""
        ...


class SquaredFrobenius:
    """``B(M, N) = ||M - N||_F^2 / 2`` on positive semidefinite matrices, as in the paper's experiments.

    >>> SquaredFrobenius().from_dual(np.diag([2.0, -1.0]))
    array([[2., 0.],
           [0., 0.]])
    """

    positive_definite = False

    def between(self, M: Floats, N: Floats) -> float:
        return float(np.square(M - N).sum()) / 2.0

    def to_dual(self, M: Floats) -> Floats:
        return M

    def from_dual(self, D: Floats) -> Floats:
        return _spectral(D, self.from_dual_eigenvalues)

    def from_dual_eigenvalues(self, eigenvalues: Floats) -> Floats:
        return np.maximum(eigenvalues, 0.0)

    def reaches(self, D: Floats) -> bool:
        return True


class VonNeumann:
    """``B(M, N) = tr(M log M - M log N - M + N)``, the relative entropy; every step stays positive definite.

    >>> VonNeumann().from_dual(np.zeros((2, 2)))
    array([[1., 0.],
           [0., 1.]])
    """

    positive_definite = True

    def between(self, M: Floats, N: Floats) -> float:
        return float((M * (self.to_dual(M) - self.to_dual(N))).sum() - np.trace(M - N))

    def to_dual(self, M: Floats) -> Floats:
        return _spectral(M, lambda eigenvalues: np.log(_positive(eigenvalues)))

    def from_dual(self, D: Floats) -> Floats:
        return _spectral(D, self.from_dual_eigenvalues)

    def from_dual_eigenvalues(self, eigenvalues: Floats) -> Floats:
        return np.exp(eigenvalues)

    def reaches(self, D: Floats) -> bool:
        return True


class Burg:
    """``B(M, N) = tr(M N^-1) - log det(M N^-1) - n``, also called LogDet; every step stays positive definite.

    >>> Burg().from_dual(-np.diag([4.0, 2.0]))
    array([[0.25, 0.  ],
           [0.  , 0.5 ]])
    """

    positive_definite = True

    def between(self, M: Floats, N: Floats) -> float:
        ratios = np.linalg.eigvals(np.linalg.solve(N, M)).real
        return float((ratios - np.log(ratios) - 1.0).sum())

    def to_dual(self, M: Floats) -> Floats:
        return _spectral(M, lambda eigenvalues: -1.0 / _positive(eigenvalues))

    def from_dual(self, D: Floats) -> Floats:
        return _spectral(D, self.from_dual_eigenvalues)

    def from_dual_eigenvalues(self, eigenvalues: Floats) -> Floats:
        return 1.0 / -eigenvalues

    def reaches(self, D: Floats) -> bool:
        eigenvalues = np.linalg.eigvalsh(-D)
        return bool(eigenvalues[0] > len(D) * _EPS * eigenvalues[-1])


DIVERGENCES: dict[str, Divergence] = {"frobenius": SquaredFrobenius(), "von_neumann": VonNeumann(), "burg": Burg()}


def _spectral(S: Floats, function: Callable[[Floats], Any]) -> Floats:
    """Return the symmetric matrix with the eigenvectors of S and ``function`` of its eigenvalues."""
    eigenvalues, V = np.linalg.eigh(S)
    result: Floats = (V * function(eigenvalues)) @ V.T
    return (result + result.T) / 2.0


def _positive(eigenvalues: Floats) -> Floats:
    """Raise eigenvalues that rounding has made too small to the smallest size that float64 resolves."""
    # Twice the bound of Burg.reaches, so that Burg.reaches(to_dual(M)) is true for every M.
    return np.maximum(eigenvalues, max(2.0 * len(eigenvalues) * _EPS * eigenvalues[-1], _TINY))
