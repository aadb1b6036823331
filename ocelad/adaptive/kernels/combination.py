"""The metric of the ensemble as one matrix, what stored metrics measure, and how far the metric has moved."""

from __future__ import annotations

from math import sqrt

from ocelad._compile import jit, jit_exact, jit_reassoc
from ocelad._typing import Floats
from ocelad.adaptive.kernels.moments import MomentState, half_form
from ocelad.engines.kernels import lowrank


@jit
def half_ratios(roots: Floats, n: int, ratios: Floats) -> None:
    """Compute the factors of half-standardized features relative to standardized ones."""
    mean = 0.0
    for i in range(n):
        mean += 1.0 / roots[i] / n
    for i in range(n):
        ratios[i] = 1.0 / sqrt(roots[i] * mean)


@jit
def window_inverse(moments: MomentState, k: int, ratios: Floats, n: int, inverse: Floats) -> None:
    """Store the P of a window in standardized features."""
    for i in range(n):
        for j in range(n):
            inverse[i, j] = moments.P[k, i, j]
    if k < moments.n_half:
        for i in range(n):
            for j in range(n):
                inverse[i, j] *= ratios[i] * ratios[j]


@jit
def window_factor(moments: MomentState, k: int, ridge: float) -> float:
    """Return the factor that makes ``P T P`` the distance of a window."""
    own, of_all = moments.counts[k] + ridge, moments.counts[len(moments.counts) - 1] + ridge
    return float(own * own / of_all)


@jit
def multiply(A: Floats, B: Floats, n: int, product: Floats) -> None:
    """Store the product of two matrices."""
    for i in range(n):
        for j in range(n):
            product[i, j] = 0.0
        for k in range(n):
            factor = A[i, k]
            for j in range(n):
                product[i, j] += factor * B[k, j]


@jit
def window_mean(moments: MomentState, k: int, ratios: Floats, ridge: float, n: int, A: Floats, B: Floats) -> float:
    """Return the mean squared distance of all pairs by a window; A and B are scratch."""
    window_inverse(moments, k, ratios, n, A)
    multiply(A, moments.T, n, B)
    total = 0.0
    for i in range(n):
        for j in range(n):
            total += B[i, j] * B[j, i]
    return float(window_factor(moments, k, ridge) * total / (moments.counts[len(moments.counts) - 1] + ridge))


@jit
def combine(
    moments: MomentState,
    comid: lowrank.State,
    roots: Floats,
    ratios: Floats,
    coefficients: Floats,
    n_comid: int,
    comid_factor: float,
    comid_floor: float,
    ridge: float,
    n: int,
    A: Floats,
    B: Floats,
    matrix: Floats,
) -> None:
    """Store the weighted sum of the priors, the windows and the COMID learners; A and B are scratch.

    ``comid_factor`` is the squared common unit, in which COMID learns; each COMID distance has ``comid_floor`` of the
    Euclidean one. Only the lower triangle is computed, and then mirrored.
    """
    all_pairs = len(moments.counts) - 1
    of_whitened = coefficients[2] * (moments.counts[all_pairs] + ridge)
    for i in range(n):
        for j in range(i + 1):
            matrix[i, j] = of_whitened * moments.P[all_pairs, i, j]
    for k in range(all_pairs):
        coefficient = coefficients[3 + k] * window_factor(moments, k, ridge)
        if coefficient == 0.0:
            continue
        window_inverse(moments, k, ratios, n, A)
        multiply(A, moments.T, n, B)
        for i in range(n):
            for r in range(n):
                factor = coefficient * B[i, r]
                for j in range(i + 1):
                    matrix[i, j] += factor * A[r, j]
    floor, base = 0.0, 0.0
    for i in range(n):
        for j in range(i + 1):
            matrix[i, j] *= roots[i] * roots[j]
    for learner in range(n_comid):
        coefficient = comid_factor * coefficients[3 + all_pairs + learner]
        slot = comid.slots[learner]
        own_base = max(comid.base[slot] - comid.shift[slot], 0.0)
        floor += comid_floor / n * coefficient
        base += coefficient * own_base
        for r in range(comid.rank[slot]):
            scale = coefficient * (max(comid.lam[slot, r] - comid.shift[slot], 0.0) - own_base)
            for i in range(n):
                factor = scale * comid.V[comid.buffer[slot], r, i]
                for j in range(i + 1):
                    matrix[i, j] += factor * comid.V[comid.buffer[slot], r, j]
    for i in range(n):
        matrix[i, i] += coefficients[0] + coefficients[1] * roots[i] * roots[i] + floor + base
        for j in range(i):
            matrix[j, i] = matrix[i, j]


@jit_exact
def add_scaled(matrix: Floats, other: Floats, weight: float, n: int) -> None:
    """Add a multiple of another matrix, with the bits of NumPy."""
    for i in range(n):
        for j in range(n):
            matrix[i, j] += weight * other[i, j]


@jit
def squared_lengths(matrix: Floats, U: Floats, n: int, squares: Floats) -> None:
    """Store the squared length of each row by a symmetric matrix."""
    for row in range(len(U)):
        squares[row] = max(half_form(matrix, U, row, n), 0.0)


@jit_reassoc
def relative_change(matrix: Floats, before: Floats, roots: Floats, n: int) -> float:
    """Return ``|M - M_before| / |M|`` in the Frobenius norm, of features divided by their factors ``roots``."""
    change, size = 0.0, 0.0
    for i in range(n):
        for j in range(n):
            unit = 1.0 / (roots[i] * roots[j])
            difference, entry = (matrix[i, j] - before[i, j]) * unit, matrix[i, j] * unit
            change += difference * difference
            size += entry * entry
    return sqrt(change / size) if size > 0.0 else 0.0
