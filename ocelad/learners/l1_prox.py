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

from ocelad._typing import Floats
from ocelad.learners.mirror_maps import Divergence, SquaredFrobenius

RELATIVE_GAP = 1e-12
MAX_STEPS = 20_000
# With the squared Frobenius divergence, so many of either kind in turns.
GRADIENT_STEPS = 100
NEWTON_STEPS = 20


def shrink(divergence: Divergence, D: Floats, tau: float, tolerance: float = RELATIVE_GAP) -> Floats:
    """``argmin over M PSD of psi(M) - <D, M> + tau ||vec M||_1``, certified: gap at most ``tolerance tau ||vec M||_1``.

    It falls apart into the blocks of features that entries of D larger than tau connect, and costs what the largest
    of them costs.

    >>> from ocelad.learners.mirror_maps import SquaredFrobenius
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
    """The same of one block, all at once: gradient steps, and for the squared Frobenius divergence Newton's between."""
    Z = _start(divergence, D, tau)
    M = divergence.from_dual(D - Z)
    if not np.isfinite(M).all():
        return M  # an overflow, for the caller to tell
    newton = isinstance(divergence, SquaredFrobenius)
    steps = min(GRADIENT_STEPS, MAX_STEPS) if newton else MAX_STEPS
    for round_state in range(MAX_STEPS // steps):
        Z, M = _gradient_steps(divergence, D, tau, Z, M, tolerance, steps)
        if not _certified(M, Z, tau, tolerance) and newton:
            Z, M = _newton_steps(D, tau, Z, tolerance, min(60 * (round_state + 1), 600))
        if _certified(M, Z, tau, tolerance):
            return M
    raise ArithmeticError(
        f"the L1 step did not reach its duality gap in {MAX_STEPS} iterations; "
        "a larger l1_tolerance, or a smaller step_size or shrinkage, would"
    )


def _certified(M: Floats, Z: Floats, tau: float, tolerance: float) -> bool:
    return gap(M, Z, tau) <= tolerance * tau * float(np.abs(M).sum())


def _gradient_steps(
    divergence: Divergence, D: Floats, tau: float, Z: Floats, M: Floats, tolerance: float, most: int
) -> tuple[Floats, Floats]:
    """Accelerated projected gradient on the dual, restarted when its momentum points uphill.

    The step length is found by halving; it grows again slowly, since the curvature of the dual varies over the box.
    """
    ahead, M_ahead, momentum, length = Z, M, 1.0, 1.0
    for _ in range(most):
        if _certified(M, Z, tau, tolerance):
            break
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
    return Z, M


def _newton_steps(D: Floats, tau: float, Z: Floats, tolerance: float, most_products: int) -> tuple[Floats, Floats]:
    """Some of Newton's steps on the dual of the squared Frobenius divergence, among the entries inside the box.

    Where the minimiser is singular, gradient steps come nearer ever more slowly; these do not. They may stall, so that
    gradient steps go on from there. Nothing here has to be trusted: what counts is the gap at the end.
    """
    eigenvalues, Q, M = _projected(D - Z)
    for _ in range(NEWTON_STEPS):
        if _certified(M, Z, tau, tolerance):
            break
        here = gap(M, Z, tau)
        near = 1e-3 * min(tau, float(np.linalg.norm(M)))
        held = (np.abs(Z) >= tau - near) & (Z * M > 0)  # at the bound that they are pushed against
        relative = here / (tau * float(np.abs(M).sum()))
        step = np.where(held, M, _newton_step(eigenvalues, Q, np.where(held, 0.0, M), ~held, relative, most_products))
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
    """The eigenvalues and eigenvectors of A, and the positive semidefinite matrix nearest to it."""
    eigenvalues, Q = np.linalg.eigh(A)
    M = (Q * np.maximum(eigenvalues, 0.0)) @ Q.T
    return eigenvalues, Q, (M + M.T) / 2.0


def _newton_step(
    eigenvalues: Floats, Q: Floats, target: Floats, free: Any, relative: float, most_products: int
) -> Floats:
    """The change of Z, among its free entries, that would make M zero there: conjugate gradients, a little damped."""
    positive = np.maximum(eigenvalues, 0.0)
    apart = eigenvalues[:, None] - eigenvalues
    close = np.abs(apart) <= 1e-14 * np.abs(eigenvalues).max()
    both = (eigenvalues > 0)[:, None] & (eigenvalues > 0)
    # How the projection changes with its argument: divided differences of max(0, .), in the eigenvectors' frame.
    slopes = np.where(close, both, (positive[:, None] - positive) / np.where(close, 1.0, apart))
    damping = 1e-3 * min(1.0, relative**0.5)
    step, residual = np.zeros_like(target), target
    direction, square = residual, float((residual * residual).sum())
    enough = 1e-4 * min(1.0, relative) * square
    for _ in range(most_products):
        if square <= enough:
            break
        image = np.where(free, Q @ (slopes * (Q.T @ direction @ Q)) @ Q.T, 0.0) + damping * direction
        length = square / float((direction * image).sum())
        step, residual = step + length * direction, residual - length * image
        before, square = square, float((residual * residual).sum())
        direction = residual + square / before * direction
    return (step + step.T) / 2.0


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
