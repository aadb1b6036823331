"""The elementwise L1 regulariser under a positive semidefinite constraint: exact, with a certificate.

The step ``argmin over M PSD of psi(M) - <D, M> + tau ||vec M||_1`` has no closed form. Its dual has simple
constraints: ``||vec M||_1 = max <Z, M> over |Z_ij| <= 1``, so that ``M(Z) = from_dual(D - Z)`` for a Z in the
box ``|Z_ij| <= tau``, and

    gap(Z) = tau ||vec M(Z)||_1 - <Z, M(Z)> >= 0

is how far, at most, the objective at M(Z) lies above its minimum. So every answer carries its own proof. (With the
squared Frobenius divergence the objective is strongly convex: M(Z) is within ``sqrt(2 gap)`` of the minimiser.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ocelad.checks import Floats
from ocelad.online.mirror import Divergence

RELATIVE_GAP = 1e-12
MAX_STEPS = 20_000


def shrink(divergence: Divergence, D: Floats, tau: float, tolerance: float = RELATIVE_GAP) -> Floats:
    """``argmin over M PSD of psi(M) - <D, M> + tau ||vec M||_1``, certified: gap at most ``tolerance tau ||vec M||_1``.

    It falls apart into the blocks of features that entries of D larger than tau connect, and costs what the largest
    of them costs.

    >>> from ocelad.online.mirror import SquaredFrobenius
    >>> shrink(SquaredFrobenius(), np.array([[2.0, 0.3], [0.3, 1.0]]), 0.5)
    array([[1.5, 0. ],
           [0. , 0.5]])
    """
    # Between blocks take Z_ij = D_ij, which is in the box. Then D - Z, and so M(Z), is block diagonal, and where M_ij
    # is zero the gap has no term: it is the sum of the blocks' gaps, each certified by itself.
    M = np.zeros_like(D)
    alone, blocks = _blocks(D, tau)
    M[alone, alone] = divergence.from_dual_eigenvalues(D[alone, alone] - tau)
    for block in blocks:
        inside = np.ix_(block, block)
        M[inside] = _shrink_block(divergence, D[inside], tau, tolerance)
    return M


def _blocks(D: Floats, tau: float) -> tuple[Any, list[Any]]:
    """The features that no entry larger than tau connects with another, and the connected sets of the others."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    # Not "> tau", by which entries that are not finite would connect nothing: they are for the caller to tell.
    connected = ~(np.abs(D) <= tau)
    np.fill_diagonal(connected, False)
    several = np.flatnonzero(connected.any(axis=0))
    alone = np.flatnonzero(~connected.any(axis=0))
    if not len(several):
        return alone, []
    graph = csr_array(connected[np.ix_(several, several)].astype(np.int8))
    _, names = connected_components(graph, directed=False)
    order = np.argsort(names, kind="stable")
    return alone, np.split(several[order], np.flatnonzero(np.diff(names[order])) + 1)


def _shrink_block(divergence: Divergence, D: Floats, tau: float, tolerance: float) -> Floats:
    """The same of one block, all at once.

    Accelerated projected gradient on the dual, restarted when its momentum points uphill. The step length
    is found by halving; it grows again slowly, since the curvature of the dual varies over the box.
    """
    Z = _start(divergence, D, tau)
    M = divergence.from_dual(D - Z)
    if not np.isfinite(M).all():
        return M  # an overflow, for the caller to tell
    ahead, M_ahead, momentum, length = Z, M, 1.0, 1.0
    for _ in range(MAX_STEPS):
        if gap(M, Z, tau) <= tolerance * tau * np.abs(M).sum():
            return M
        length *= 1.1
        while True:
            Z_next = np.clip(ahead + length * M_ahead, -tau, tau)
            move = Z_next - ahead
            M_next = _primal(divergence, D - Z_next)
            if np.isfinite(M_next).all():
                # The dual's gradient is -M; this holds when its curvature along the move is at most 1/length.
                bend = ((M_ahead - M_next) * move).sum()
                if bend * length <= (move * move).sum() * (1 + 1e-9) + 1e-300:
                    break
            length /= 2.0
        if ((ahead - Z_next) * (Z_next - Z)).sum() > 0:
            momentum = 1.0
        following = (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum)) / 2.0
        ahead = np.clip(Z_next + (momentum - 1.0) / following * (Z_next - Z), -tau, tau)
        momentum, Z, M = following, Z_next, M_next
        M_ahead = _primal(divergence, D - ahead)
        if not np.isfinite(M_ahead).all():
            ahead, M_ahead = Z, M
    raise ArithmeticError(
        f"the L1 step did not reach its duality gap in {MAX_STEPS} iterations; "
        "a larger l1_tolerance, or a smaller step_size or shrinkage, would"
    )


def _primal(divergence: Divergence, D: Floats) -> Floats:
    """``from_dual(D)``, infinite where it has no value."""
    return divergence.from_dual(D) if divergence.reaches(D) else np.full_like(D, np.inf)


def gap(M: Floats, Z: Floats, tau: float) -> float:
    """How far, at most, the objective at ``M = from_dual(D - Z)`` lies above its minimum."""
    return float(tau * np.abs(M).sum() - (Z * M).sum())


def _start(divergence: Divergence, D: Floats, tau: float) -> Floats:
    # For the Frobenius divergence this is already the answer when soft-thresholding leaves D positive semidefinite.
    Z = np.clip(D, -tau, tau)
    np.fill_diagonal(Z, tau)
    return Z if divergence.reaches(D - Z) else tau * np.eye(len(D))
