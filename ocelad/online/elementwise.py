"""The elementwise L1 regulariser under a positive semidefinite constraint: exact, with a certificate.

The step ``argmin over M PSD of psi(M) - <D, M> + tau ||vec M||_1`` has no closed form. Its dual has simple
constraints: ``||vec M||_1 = max <Z, M> over |Z_ij| <= 1``, so that ``M(Z) = from_dual(D - Z)`` for a Z in the
box ``|Z_ij| <= tau``, and

    gap(Z) = tau ||vec M(Z)||_1 - <Z, M(Z)> >= 0

is how far, at most, the objective at M(Z) lies above its minimum. So every answer carries its own proof.
"""

from __future__ import annotations

import numpy as np

from ocelad.checks import Floats
from ocelad.online.mirror import Divergence

RELATIVE_GAP = 1e-12
MAX_STEPS = 20_000


def shrink(divergence: Divergence, D: Floats, tau: float) -> Floats:
    """``argmin over M PSD of psi(M) - <D, M> + tau ||vec M||_1``, certified to ``RELATIVE_GAP``.

    Accelerated projected gradient on the dual, restarted when its momentum points uphill. The step length
    is found by halving; it grows again slowly, since the curvature of the dual varies over the box.

    >>> from ocelad.online.mirror import SquaredFrobenius
    >>> shrink(SquaredFrobenius(), np.array([[2.0, 0.3], [0.3, 1.0]]), 0.5)
    array([[1.5, 0. ],
           [0. , 0.5]])
    """
    Z = _start(divergence, D, tau)
    M = divergence.from_dual(D - Z)
    if not np.isfinite(M).all():
        return M  # an overflow, for the caller to tell
    ahead, M_ahead, momentum, length = Z, M, 1.0, 1.0
    for _ in range(MAX_STEPS):
        if gap(M, Z, tau) <= RELATIVE_GAP * tau * np.abs(M).sum():
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
        f"the L1 step did not reach its duality gap in {MAX_STEPS} iterations; a smaller step_size or shrinkage would"
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
