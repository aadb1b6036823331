"""The proximal step of the elementwise L1 norm over positive semidefinite matrices, with a certificate.

The step ``argmin over M PSD of psi(M) - <D, M> + tau ||vec M||_1`` has no closed form. Its dual has box constraints:
since ``||vec M||_1 = max <Z, M> over |Z_ij| <= 1``, the minimiser is ``M(Z) = from_dual(D - Z)`` for a Z in the box
``|Z_ij| <= tau``, and the duality gap

    gap(Z) = tau ||vec M(Z)||_1 - <Z, M(Z)> >= 0

bounds the distance of the objective at M(Z) from its minimum. The gap certifies every result. (With the squared
Frobenius divergence the objective is strongly convex, and M(Z) is within ``sqrt(2 gap)`` of the minimiser.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad.learners.mirror_maps import Divergence, SquaredFrobenius

RELATIVE_GAP = 1e-12
MAX_STEPS = 20_000
# With the squared Frobenius divergence, this many gradient steps alternate with this many Newton steps.
GRADIENT_STEPS = 100
NEWTON_STEPS = 20


def shrink(divergence: Divergence, D: Floats, tau: float, tolerance: float = RELATIVE_GAP) -> Floats:
    """Return the M PSD that minimises ``psi(M) - <D, M> + tau ||vec M||_1``.

    The duality gap of the result is at most ``tolerance tau ||vec M||_1``. The problem separates into blocks of
    features that are connected by entries of D above tau, and the largest block determines the cost.

    >>> from ocelad.learners.mirror_maps import SquaredFrobenius
    >>> shrink(SquaredFrobenius(), np.array([[2.0, 0.3], [0.3, 1.0]]), 0.5)
    array([[1.5, 0. ],
           [0. , 0.5]])
    """
    # Between blocks choose Z_ij = D_ij, which is in the box. Then D - Z and M(Z) are block diagonal. The gap has no
    # terms where M_ij is zero, so it is the sum of the blocks' gaps, each of which is certified.
    M = np.zeros_like(D)
    isolated, blocks = _blocks(D, tau)
    M[isolated, isolated] = divergence.from_dual_eigenvalues(D[isolated, isolated] - tau)
    for block in blocks:
        inside = np.ix_(block, block)
        M[inside] = _shrink_block(divergence, D[inside], tau, tolerance)
    return M


def _blocks(D: Floats, tau: float) -> tuple[Any, list[Any]]:
    """Return the features that no entry above tau connects to another, and the connected components of the others."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    # With "> tau", NaN entries would connect nothing; here they reach the result, where the caller detects them.
    connected = ~(np.abs(D) <= tau)
    np.fill_diagonal(connected, False)
    has_neighbors = connected.any(axis=0)
    joined, isolated = np.flatnonzero(has_neighbors), np.flatnonzero(~has_neighbors)
    if not len(joined):
        return isolated, []
    _, labels = connected_components(csr_array(connected[np.ix_(joined, joined)].astype(np.int8)))
    order = np.argsort(labels, kind="stable")
    return isolated, np.split(joined[order], np.flatnonzero(np.diff(labels[order])) + 1)


def _shrink_block(divergence: Divergence, D: Floats, tau: float, tolerance: float) -> Floats:
    """Solve the step for one block by gradient steps, alternating with Newton steps for the Frobenius divergence."""
    Z = _start(divergence, D, tau)
    M = divergence.from_dual(D - Z)
    if not np.isfinite(M).all():
        return M  # the caller detects the overflow
    newton = isinstance(divergence, SquaredFrobenius)
    steps = GRADIENT_STEPS if newton else MAX_STEPS
    for cycle in range(MAX_STEPS // steps):
        Z, M = _gradient_steps(divergence, D, tau, Z, M, tolerance, steps)
        if not _certified(M, Z, tau, tolerance) and newton:
            Z, M = _newton_steps(D, tau, Z, tolerance, min(60 * (cycle + 1), 600))
        if _certified(M, Z, tau, tolerance):
            return M
    raise ArithmeticError(
        f"the L1 step did not reach its duality gap in {MAX_STEPS} iterations; "
        "use a larger l1_tolerance, or a smaller step_size or shrinkage"
    )


def _certified(M: Floats, Z: Floats, tau: float, tolerance: float) -> bool:
    return gap(M, Z, tau) <= tolerance * tau * float(np.abs(M).sum())


def _gradient_steps(
    divergence: Divergence, D: Floats, tau: float, Z: Floats, M: Floats, tolerance: float, max_steps: int
) -> tuple[Floats, Floats]:
    """Minimise the dual by accelerated projected gradient steps, restarted when the momentum points uphill.

    The step length is halved until it is short enough. It grows again slowly, because the dual's curvature varies.
    """
    ahead, M_ahead, momentum, length = Z, M, 1.0, 1.0
    for _ in range(max_steps):
        if _certified(M, Z, tau, tolerance):
            break
        length *= 1.1
        while True:
            Z_next = np.clip(ahead + length * M_ahead, -tau, tau)
            move = Z_next - ahead
            M_next = _primal(divergence, D - Z_next)
            if np.isfinite(M_next).all():
                # The dual's gradient is -M; the condition holds if its curvature along the move is at most 1/length.
                curvature = ((M_ahead - M_next) * move).sum()
                if curvature * length <= (move * move).sum() * (1 + 1e-9) + 1e-300:
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
    return Z, M


def _newton_steps(D: Floats, tau: float, Z: Floats, tolerance: float, max_products: int) -> tuple[Floats, Floats]:
    """Take Newton steps on the dual of the squared Frobenius divergence, among the entries inside the box.

    They converge fast where the minimiser is singular and gradient steps slow down. They may stall, and gradient steps
    then continue. The result needs no proof of convergence, because the gap certifies it.
    """
    eigenvalues, Q, M = _projected(D - Z)
    for _ in range(NEWTON_STEPS):
        if _certified(M, Z, tau, tolerance):
            break
        here = gap(M, Z, tau)
        near = 1e-3 * min(tau, float(np.linalg.norm(M)))
        at_bound = (np.abs(Z) >= tau - near) & (Z * M > 0)  # and the gradient points out of the box
        relative = here / (tau * float(np.abs(M).sum()))
        target = np.where(at_bound, 0.0, M)
        step = np.where(at_bound, M, _newton_step(eigenvalues, Q, target, ~at_bound, relative, max_products))
        length = 1.0
        while True:
            Z_next = np.clip(Z + length * step, -tau, tau)
            following = _projected(D - Z_next)
            lower = np.square(following[2]).sum() <= np.square(M).sum() - 2e-4 * (M * (Z_next - Z)).sum()
            if lower or gap(following[2], Z_next, tau) <= 0.9 * here:
                break
            length /= 2.0
            if length < 1e-3:
                return Z, M
        Z, (eigenvalues, Q, M) = Z_next, following
    return Z, M


def _projected(A: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the eigenvalues and eigenvectors of A, and the nearest positive semidefinite matrix."""
    eigenvalues, Q = np.linalg.eigh(A)
    M = (Q * np.maximum(eigenvalues, 0.0)) @ Q.T
    return eigenvalues, Q, (M + M.T) / 2.0


def _newton_step(
    eigenvalues: Floats, Q: Floats, target: Floats, free: Any, relative: float, max_products: int
) -> Floats:
    """Return the change of Z at its free entries that makes M zero there, to first order.

    Solved by conjugate gradients with a small damping.
    """
    positive = np.maximum(eigenvalues, 0.0)
    differences = eigenvalues[:, None] - eigenvalues
    close = np.abs(differences) <= 1e-14 * np.abs(eigenvalues).max()
    is_positive = eigenvalues > 0
    both = is_positive[:, None] & is_positive
    # The derivative of the projection in the basis of the eigenvectors: divided differences of max(0, .).
    slopes = np.where(close, both, (positive[:, None] - positive) / np.where(close, 1.0, differences))
    damping = 1e-3 * min(1.0, relative**0.5)
    step, residual = np.zeros_like(target), target
    direction, square = residual, float((residual * residual).sum())
    enough = 1e-4 * min(1.0, relative) * square
    for _ in range(max_products):
        if square <= enough:
            break
        image = np.where(free, Q @ (slopes * (Q.T @ direction @ Q)) @ Q.T, 0.0) + damping * direction
        length = square / float((direction * image).sum())
        step, residual = step + length * direction, residual - length * image
        before, square = square, float((residual * residual).sum())
        direction = residual + square / before * direction
    return (step + step.T) / 2.0


def _primal(divergence: Divergence, D: Floats) -> Floats:
    """Return ``from_dual(D)``, or an infinite matrix if the minimum does not exist."""
    return divergence.from_dual(D) if divergence.reaches(D) else np.full_like(D, np.inf)


def gap(M: Floats, Z: Floats, tau: float) -> float:
    """Return the duality gap of ``M = from_dual(D - Z)``: a bound on its objective minus the minimum."""
    return float(tau * np.abs(M).sum() - (Z * M).sum())


def _start(divergence: Divergence, D: Floats, tau: float) -> Floats:
    # For the Frobenius divergence this is the solution if soft-thresholding leaves D positive semidefinite.
    Z = np.clip(D, -tau, tau)
    np.fill_diagonal(Z, tau)
    return Z if divergence.reaches(D - Z) else tau * np.eye(len(D))
