"""The COMID step (squared Frobenius divergence) of one metric in eigenform.

A metric is stored as orthonormal directions, the first rows of V, with eigenvalues ``lam`` in any order. All other
directions have the eigenvalue ``base``.

``V[buffer, k]`` holds either a direction or its coefficients in a basis of other vectors (``lowrank.Basis``). With a
basis, projections use the inner products of u with the basis vectors instead of the entries of u; rotations are the
same. Rows are padded with zeros to a multiple of LANES.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from ocelad._compile import jit, jit_inline, jit_reassoc
from ocelad._typing import Floats
from ocelad.engines.kernels.secular import (
    EPS,
    LANES,
    N_NUMBERS,
    OFFSET,
    ORIGIN,
    ROOT_OFFSET,
    ROOT_ORIGIN,
    SLOPE_SUM,
    TINY,
    D,
    Z,
    eigenvectors,
    solve,
)

# The residual of u outside the span of V is computed as a difference of squared lengths if it is at least this share
# of |u|^2. For a smaller one the difference would lose too many digits.
LARGE_RESIDUAL = 0.25


class Work(NamedTuple):
    """Scratch arrays of a step; their contents do not matter between two steps."""

    q: Floats  # (width,): the residual of u outside the span of V
    poles: Floats  # (N_POLES, R)
    Q: Floats  # (R * R,): rotation of the directions
    lanes: Floats  # (N_NUMBERS + 8 R,): work array of the secular equation, and eight eigenvectors
    order: np.ndarray  # (N_ORDERS, R), integers


# Rows of ``poles`` after those of the secular equation: all poles of M or -M, ascending; the projections of u; the new
# eigenvalues; the Givens rotations.
VALUE, WEIGHT, ROOT, COSINE, SINE, N_POLES = 5, 6, 7, 8, 9, 10
# Rows of ``order``: the row of V of each pole; the poles in the secular equation; the deflated poles; the two axes of
# each Givens rotation; the eigenvalues that are kept.
SOURCE, ACTIVE, DEFLATED, FIRST_AXIS, SECOND_AXIS, KEPT, N_ORDERS = 0, 1, 2, 3, 4, 5, 6


@jit_reassoc
def project(V: Floats, buffer: int, r: int, G: Floats, row: int, count: int, z: Floats, at: int) -> None:
    """Compute in ``z[at]`` the inner products of V's first r rows with the first ``count`` entries of ``G[row]``.

    Whole arrays are passed with indices because a view costs more than a short row. The inner loop uses only plain
    loop variables as indices because the compiler cannot prove that a sum of two is never negative.
    """
    for k in range(r):
        total = 0.0
        for j in range(count):
            total += V[buffer, k, j] * G[row, j]
        z[at, k] = total


@jit_reassoc
def squared_norm(U: Floats, row: int) -> float:
    """Return ``|U[row]|^2``."""
    total = 0.0
    for j in range(U.shape[1]):
        total += U[row, j] * U[row, j]
    return total


@jit
def squared_length(lam: Floats, z: Floats, slot: int, r: int, base: float, shift: float, norm2: float) -> float:
    """Return ``u'Mu`` from the projections z and the squared norm of u; eigenvalues are ``max(lam - shift, 0)``."""
    total, inside = 0.0, 0.0
    for k in range(r):
        square = z[slot, k] * z[slot, k]
        inside += square
        total += max(lam[slot, k] - shift, 0.0) * square
    return total + max(base - shift, 0.0) * max(norm2 - inside, 0.0)


@jit
def residual(lam: Floats, z: Floats, slot: int, r: int, base: float, shift: float, norm2: float) -> tuple[float, int]:
    """Return the squared length of u outside the directions with a non-zero eigenvalue, and the number of these."""
    inside, count = 0.0, 0
    for k in range(r):
        if lam[slot, k] > shift or base > shift:
            inside += z[slot, k] * z[slot, k]
            count += 1
    return norm2 - inside, count


@jit
def cancellation(
    V: Floats,
    buffer: int,
    r: int,
    lam: Floats,
    z: Floats,
    slot: int,
    threshold: float,
    gram: Floats,
    width: int,
    filled: int,
    q: Floats,
) -> float:
    """Return the summed squared lengths of the basis terms of u's projection; many times ``|u|^2`` means lost digits.

    The projection is onto the directions with eigenvalues above ``threshold``. Anchors have length 1; the squared
    lengths of the pairs after them are on the diagonal of ``gram``.
    """
    for j in range(filled):
        q[j] = 0.0
    for k in range(r):
        if lam[slot, k] > threshold:
            part = z[slot, k]
            for j in range(filled):
                q[j] += part * V[buffer, k, j]
    total = 0.0
    for j in range(width):
        total += q[j] * q[j]
    for j in range(width, filled):
        total += q[j] * q[j] * gram[j - width, j - width]
    return total


@jit
def next_orthogonality_loss(orthogonality_loss: float, norm2: float, residual2: float, cancelled: float) -> float:
    """Bound the loss of orthogonality after adding a direction whose residual has the squared length ``residual2``.

    Scaling the residual to length 1 amplifies the earlier loss and the rounding errors. In addition, its length is the
    root of a difference. Returns infinity without a residual.
    """
    if not residual2 > 0.0:
        return inf
    rounding, normalize = EPS * sqrt(1.0 + cancelled / norm2), sqrt(norm2 / residual2)
    inside = sqrt(max(norm2 - residual2, 0.0) / norm2)
    return normalize * (orthogonality_loss * inside + rounding + normalize * rounding * rounding / EPS)


@jit_inline
def rank_one_update(
    V: Floats,
    lam: Floats,
    z: Floats,
    slot: int,
    source: int,
    target: int,
    rank: int,
    base: float,
    shift: float,
    s: float,
    tau: float,
    U: Floats,
    row: int,
    norm2: float,
    n: int,
    vector: int,
    length: float,
    max_rank: int,
    work: Work,
) -> tuple[int, float, int]:
    """Compute the eigenform of ``((M - shift I)+ + s uu' - tau I)+``; directions move from buffer source to target.

    ``vector`` is the index of u in the basis; -1 means that V holds the directions themselves and u is ``U[row]``. If
    ``length`` is not negative, that basis vector is not u but the normalized residual of u outside the directions, and
    ``length`` is the residual's length. Returns the rank, the base, and how many directions ``max_rank`` has dropped.
    """
    poles, order, Q = work.poles, work.order, work.Q
    sign, rows = 1.0 if s > 0.0 else -1.0, V.shape[2]
    base = max(base - shift, 0.0)
    m, column = sort_poles(lam, z, slot, rank, base, shift, sign, poles, order)
    new_row_is_u = length < 0.0
    if m < n:
        residual2 = norm2
        for k in range(rank):  # z is 0 for directions whose eigenvalue has become 0
            residual2 -= z[slot, k] * z[slot, k]
        if vector >= 0:
            length = sqrt(residual2) if new_row_is_u else length
            for j in range(rows):
                V[source, column, j] = 0.0
            V[source, column, vector] = 1.0
        elif residual2 >= LARGE_RESIDUAL * norm2:
            length = sqrt(residual2)
            for j in range(rows):
                V[source, column, j] = U[row, j]
        else:
            new_row_is_u = False
            length = orthogonalize(V, source, z, slot, rank, U, row, sqrt(norm2), rows, work.q)
            for j in range(rows):
                V[source, column, j] = work.q[j]
            for i in range(m):  # orthogonalize has refined the projections
                poles[WEIGHT, i] = z[slot, order[SOURCE, i]]
        if length > 0.0:
            m = insert_pole(sign * base, length, column, m, poles, order)
            rank = max(rank, column + 1)
    unit, factor = normalize(abs(s), m, poles)
    n_deflated, n_rotations = deflate(m, factor, poles, order)
    n_active = m - n_deflated
    for i in range(n_active):
        poles[D, i], poles[Z, i] = poles[VALUE, order[ACTIVE, i]], poles[WEIGHT, order[ACTIVE, i]]
    if n_active > 0:
        solve(poles, factor, n_active, work.lanes)
    for i in range(n_active):
        poles[ROOT, i] = max(sign * (poles[ROOT_ORIGIN, i] + poles[ROOT_OFFSET, i]) * unit - tau, 0.0)
    for i in range(n_deflated):
        poles[ROOT, n_active + i] = max(sign * poles[VALUE, order[DEFLATED, i]] * unit - tau, 0.0)

    base = max(base - tau, 0.0)
    if m == n and n <= max_rank:
        base = 0.0  # no direction is left that would have it as its eigenvalue
    n_kept = select_positive(m, base, poles, order)
    n_cut = max(n_kept - max_rank, 0)
    for _ in range(n_cut):
        n_kept = drop_nearest_to_base(poles, order, n_kept, base)
    if n_kept > 0:
        for k in range(n_kept):
            lam[slot, k] = poles[ROOT, order[KEPT, k]]
        rotation(n_active, n_rotations, n_kept, rank, poles, order, Q, work.lanes)
        if new_row_is_u and length > 0.0:
            substitute_u(z, slot, column, length, rank, n_kept, Q)
        np.dot(Q[: n_kept * rank].reshape((n_kept, rank)), V[source, :rank], V[target, :n_kept])
    return n_kept, base, n_cut


@jit
def sort_poles(
    lam: Floats,
    z: Floats,
    slot: int,
    rank: int,
    base: float,
    shift: float,
    sign: float,
    poles: Floats,
    order: np.ndarray,
) -> tuple[int, int]:
    """Sort the non-zero eigenvalues, times sign, ascending; return their number and the first free row of V."""
    m, column = 0, rank
    backwards = rank > 0 and sign * lam[slot, 0] > sign * lam[slot, rank - 1]
    for i in range(rank):
        k = rank - 1 - i if backwards else i
        value = max(lam[slot, k] - shift, 0.0)
        if value > 0.0 or base > 0.0:
            m = insert_pole(sign * value, z[slot, k], k, m, poles, order)
        else:
            z[slot, k] = 0.0
            column = min(column, k)
    return m, column


@jit
def insert_pole(value: float, weight: float, column: int, m: int, poles: Floats, order: np.ndarray) -> int:
    """Insert a pole into the first m sorted ones and return the new number of poles."""
    j = m
    while j > 0 and poles[VALUE, j - 1] > value:
        poles[VALUE, j], poles[WEIGHT, j] = poles[VALUE, j - 1], poles[WEIGHT, j - 1]
        order[SOURCE, j] = order[SOURCE, j - 1]
        j -= 1
    poles[VALUE, j], poles[WEIGHT, j], order[SOURCE, j] = value, weight, column
    return m + 1


@jit
def orthogonalize(
    V: Floats, source: int, z: Floats, slot: int, rank: int, U: Floats, row: int, norm: float, width: int, q: Floats
) -> float:
    """Compute in ``q`` the normalized residual of u outside the span of V; return its length, 0 if it is only rounding.

    Orthogonalizes twice, which is enough (Kahan and Parlett), and adds the second pass's corrections to z. z is 0 for
    directions whose eigenvalue has become 0.
    """
    length, again = 0.0, z.shape[0] - 1  # scratch row; it belongs to no slot
    for j in range(width):
        q[j] = U[row, j]
    for k in range(rank):
        z[again, k] = z[slot, k]
    for attempt in range(2):
        for k in range(rank):
            part = z[again, k]
            for j in range(width):
                q[j] -= part * V[source, k, j]
        for k in range(rank):
            if attempt == 0 and z[slot, k] != 0.0:
                part = 0.0
                for j in range(width):
                    part += V[source, k, j] * q[j]
                z[again, k] = part
                z[slot, k] += part
    total = 0.0
    for j in range(width):
        total += q[j] * q[j]
    length = sqrt(total)
    if length <= 16.0 * EPS * norm:
        return 0.0
    for j in range(width):
        q[j] /= length
    return length


@jit
def normalize(factor: float, m: int, poles: Floats) -> tuple[float, float]:
    """Scale the problem to size 1 to avoid overflow and underflow; return the unit and the factor in that unit."""
    size, max_weight = 0.0, 0.0
    for i in range(m):
        size = max(size, abs(poles[VALUE, i]))
        max_weight = max(max_weight, abs(poles[WEIGHT, i]))
    total, inverse_weight = 0.0, 1.0 / max_weight if max_weight > TINY else 0.0
    for i in range(m):
        weight = poles[WEIGHT, i] * inverse_weight
        poles[WEIGHT, i] = weight
        total += weight * weight
    change = factor * max_weight * max_weight * total
    unit = max(size, change)
    if change < TINY or change <= EPS * EPS * unit:
        total, change, unit = 1.0, 0.0, max(unit, TINY)  # the change is below rounding
    inverse_unit, inverse_length = 1.0 / unit, 1.0 / sqrt(total)
    for i in range(m):
        poles[VALUE, i] *= inverse_unit
        poles[WEIGHT, i] *= inverse_length
    return unit, change / unit


@jit
def deflate(m: int, factor: float, poles: Floats, order: np.ndarray) -> tuple[int, int]:
    """Remove the poles that need no secular equation; return their number and the number of Givens rotations.

    A pole with a negligible projection keeps its direction. Two nearly equal poles are rotated in their plane until
    only one of them has a projection.
    """
    tolerance = 8.0 * EPS
    negligible = tolerance / factor if factor > 0.0 else 2.0
    n_active, n_deflated, n_rotations, last = 0, 0, 0, -1
    for i in range(m):
        weight = poles[WEIGHT, i]
        if abs(weight) <= negligible:
            order[DEFLATED, n_deflated] = i
            n_deflated += 1
            continue
        if last >= 0:
            before = poles[WEIGHT, last]
            square = before * before + weight * weight
            one, other = poles[VALUE, last], poles[VALUE, i]
            if (other - one) * abs(before * weight) <= tolerance * square:
                length = sqrt(square)
                cosine, sine = weight / length, before / length
                poles[WEIGHT, i] = length
                order[FIRST_AXIS, n_rotations], order[SECOND_AXIS, n_rotations] = order[SOURCE, last], order[SOURCE, i]
                poles[COSINE, n_rotations], poles[SINE, n_rotations] = cosine, sine
                n_rotations += 1
                poles[VALUE, last] = one * cosine * cosine + other * sine * sine
                poles[VALUE, i] = one * sine * sine + other * cosine * cosine
                order[DEFLATED, n_deflated] = last
                n_deflated += 1
                n_active -= 1
        order[ACTIVE, n_active] = i
        n_active += 1
        last = i
    return n_deflated, n_rotations


@jit
def select_positive(m: int, base: float, poles: Floats, order: np.ndarray) -> int:
    """Select the eigenvalues to keep, all of them if the base is positive; return their number."""
    n_kept = 0
    for i in range(m):
        if poles[ROOT, i] > 0.0 or base > 0.0:
            order[KEPT, n_kept] = i
            n_kept += 1
    return n_kept


@jit
def drop_nearest_to_base(poles: Floats, order: np.ndarray, n_kept: int, base: float) -> int:
    """Drop the eigenvalue nearest to the base, which is the smallest if the base is 0; return the number left."""
    nearest = 0
    for k in range(n_kept):
        if abs(poles[ROOT, order[KEPT, k]] - base) < abs(poles[ROOT, order[KEPT, nearest]] - base):
            nearest = k
    for k in range(nearest, n_kept - 1):
        order[KEPT, k] = order[KEPT, k + 1]
    return n_kept - 1


@jit
def rotation(
    n_active: int,
    n_rotations: int,
    n_kept: int,
    rank: int,
    poles: Floats,
    order: np.ndarray,
    Q: Floats,
    work: Floats,
) -> None:
    """Compute Q, of shape (n_kept, rank): the kept eigenvectors as combinations of the rows of V."""
    for i in range(n_kept * rank):
        Q[i] = 0.0
    n_solved = 0  # kept eigenvalues are in the order of the roots, deflated ones last
    while n_solved < n_kept and order[KEPT, n_solved] < n_active:
        n_solved += 1
    for first in range(0, n_solved, LANES):
        count = min(LANES, n_solved - first)
        for j in range(LANES):
            root = order[KEPT, first + min(j, count - 1)]  # lanes after the last root repeat it
            work[ORIGIN + j], work[OFFSET + j] = poles[ROOT_ORIGIN, root], poles[ROOT_OFFSET, root]
        eigenvectors(poles, n_active, work, LANES)
        for i in range(n_active):
            column = order[SOURCE, order[ACTIVE, i]]
            for j in range(count):
                Q[(first + j) * rank + column] = work[SLOPE_SUM + j] * work[N_NUMBERS + LANES * i + j]
    for k in range(n_solved, n_kept):
        Q[k * rank + order[SOURCE, order[DEFLATED, order[KEPT, k] - n_active]]] = 1.0
    for plane in range(n_rotations - 1, -1, -1):
        one, other = order[FIRST_AXIS, plane], order[SECOND_AXIS, plane]
        cosine, sine = poles[COSINE, plane], poles[SINE, plane]
        for k in range(0, n_kept * rank, rank):
            x, y = Q[k + one], Q[k + other]
            Q[k + one] = cosine * x + sine * y
            Q[k + other] = cosine * y - sine * x


@jit
def substitute_u(z: Floats, slot: int, new: int, length: float, rank: int, n_kept: int, Q: Floats) -> None:
    """Rewrite Q for a V whose new row is u itself instead of the direction ``(u - V'z) / length``."""
    for k in range(0, n_kept * rank, rank):
        Q[k + new] /= length
        part = Q[k + new]
        for i in range(rank):
            if i != new:
                Q[k + i] -= part * z[slot, i]
