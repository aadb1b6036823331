"""One metric in eigenform, and what a COMID step does to it (squared Frobenius divergence).

A metric is ``base * I`` plus what differs from it along some orthonormal directions: the first rows of V, with
eigenvalues lam in any order. All other directions have eigenvalue ``base``.

``V[buffer, k]`` need not hold the direction itself. It can hold its coefficients in a frame of other vectors
(``scales.Basis``): a projection then takes inner products with the frame in the place of the entries of u, and a
rotation does not care. Rows are padded with zeros to a multiple of the lanes.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from ocelad._compile import compiled, compiled_sums, inlined
from ocelad._typing import Floats
from ocelad.engines.kernels.secular import (
    AT,
    BY,
    EPS,
    LANES,
    N_NUMBERS,
    OFFSET,
    ORIGIN,
    SLOPES,
    SMALLEST,
    D,
    Z,
    solve,
    vectors,
)

# The part of u outside the span of V comes without looking at its entries when it is at least this much of |u|^2;
# of less, the difference of two squares would know too few digits.
PLAINLY_OUTSIDE = 0.25


class Work(NamedTuple):
    """Space for a step; what is in it between two steps means nothing."""

    q: Floats  # (width,): the part of u outside the span
    poles: Floats  # (N_POLES, R)
    Q: Floats  # (R * R,): how the directions turn
    lanes: Floats  # (N_NUMBERS + 8 R,): of the secular equation, and eight eigenvectors
    order: np.ndarray  # (N_ORDERS, R), integers


# Besides the rows of the secular equation: all poles, ascending, of M or of -M; what u has of each; the new
# eigenvalues; the planes that were turned.
VALUE, WEIGHT, ROOT, COSINE, SINE, N_POLES = 5, 6, 7, 8, 9, 10
# The row of V that a pole belongs to; which poles the secular equation sees, and which not; the two axes of each
# plane that was turned; which eigenvalues are kept.
SOURCE, TOUCHED, UNTOUCHED, ONE, OTHER, KEPT, N_ORDERS = 0, 1, 2, 3, 4, 5, 6


@compiled_sums
def project(V: Floats, buffer: int, r: int, G: Floats, row: int, count: int, z: Floats, at: int) -> None:
    """``z[at]``: the products of V's first r rows with ``G[row]``, of which ``count`` numbers are not zero.

    Arrays come whole, with the place in them: a view costs more than a short row. Only plain loop variables are
    indices in the inner loop: of a sum of two, the compiler cannot see that it never counts from the end.
    """
    for k in range(r):
        total = 0.0
        for j in range(count):
            total += V[buffer, k, j] * G[row, j]
        z[at, k] = total


@compiled_sums
def squared_norm(U: Floats, row: int) -> float:
    """``|U[row]|^2``."""
    total = 0.0
    for j in range(U.shape[1]):
        total += U[row, j] * U[row, j]
    return total


@compiled
def squared_length(lam: Floats, z: Floats, slot: int, r: int, base: float, shift: float, norm2: float) -> float:
    """``u'Mu`` from the projections z of u and its squared norm, all eigenvalues lowered by shift, not below 0."""
    total, inside = 0.0, 0.0
    for k in range(r):
        square = z[slot, k] * z[slot, k]
        inside += square
        total += max(lam[slot, k] - shift, 0.0) * square
    return total + max(base - shift, 0.0) * max(norm2 - inside, 0.0)


@compiled
def outside(lam: Floats, z: Floats, slot: int, r: int, base: float, shift: float, norm2: float) -> tuple[float, int]:
    """The squared length of the part of u outside the directions that count, from its projections; how many count."""
    inside, count = 0.0, 0
    for k in range(r):
        if lam[slot, k] > shift or base > shift:
            inside += z[slot, k] * z[slot, k]
            count += 1
    return norm2 - inside, count


@compiled
def strain(
    V: Floats,
    buffer: int,
    r: int,
    lam: Floats,
    z: Floats,
    slot: int,
    above: float,
    gram: Floats,
    width: int,
    filled: int,
    q: Floats,
) -> float:
    """The squared size of all that is added up to u's part inside the directions with eigenvalues above ``above``.

    In a frame, that is: anchors have length 1, the pairs behind them the lengths on the diagonal of ``gram``. Where it
    is much more than what comes out, digits are lost.
    """
    for j in range(filled):
        q[j] = 0.0
    for k in range(r):
        if lam[slot, k] > above:
            part = z[slot, k]
            for j in range(filled):
                q[j] += part * V[buffer, k, j]
    total = 0.0
    for j in range(width):
        total += q[j] * q[j]
    for j in range(width, filled):
        total += q[j] * q[j] * gram[j - width, j - width]
    return total


@compiled
def oblique_next(oblique: float, norm2: float, left: float, parts: float) -> float:
    """How far from orthonormal directions may be with one more, whose squared length beside the others is ``left``.

    What was oblique before, and what rounding makes so, is blown up when the rest of u is scaled to length 1; and its
    length is the root of a difference. Infinite where nothing is left.
    """
    if not left > 0.0:
        return inf
    rounding, scale = EPS * sqrt(1.0 + parts / norm2), sqrt(norm2 / left)
    inside = sqrt(max(norm2 - left, 0.0) / norm2)
    return scale * (oblique * inside + rounding + scale * rounding * rounding / EPS)


@inlined
def change(
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
    """Eigenform of ``(M - shift I)+ + s uu'``, then lowered by tau, none below zero. Columns go from source to target.

    ``vector`` says which vector of the frame u is; -1: there is no frame, V holds the directions themselves, and u is
    ``U[row]``. Where ``length`` is not negative, that vector is not u but the part of u outside the directions, scaled
    to length 1, and u has so much of it. Returns the rank, the base, and how many directions ``max_rank`` has cut.
    """
    poles, order, Q = work.poles, work.order, work.Q
    sign, rows = 1.0 if s > 0.0 else -1.0, V.shape[2]
    base = max(base - shift, 0.0)
    m, column = sort_poles(lam, z, slot, rank, base, shift, sign, poles, order)
    plain = length < 0.0
    if m < n:
        left = norm2
        for k in range(rank):  # z is 0 of those that do not count any more
            left -= z[slot, k] * z[slot, k]
        if vector >= 0:
            length = sqrt(left) if plain else length
            for j in range(rows):
                V[source, column, j] = 0.0
            V[source, column, vector] = 1.0
        elif left >= PLAINLY_OUTSIDE * norm2:
            length = sqrt(left)
            for j in range(rows):
                V[source, column, j] = U[row, j]
        else:
            plain = False
            length = new_direction(V, source, z, slot, rank, U, row, sqrt(norm2), rows, work.q)
            for j in range(rows):
                V[source, column, j] = work.q[j]
            for i in range(m):  # the projections have gained digits
                poles[WEIGHT, i] = z[slot, order[SOURCE, i]]
        if length > 0.0:
            m = insert(sign * base, length, column, m, poles, order)
            rank = max(rank, column + 1)
    unit, factor = scale(abs(s), m, poles)
    n_untouched, n_turns = deflate(m, factor, poles, order)
    n_touched = m - n_untouched
    for i in range(n_touched):
        poles[D, i], poles[Z, i] = poles[VALUE, order[TOUCHED, i]], poles[WEIGHT, order[TOUCHED, i]]
    if n_touched > 0:
        solve(poles, factor, n_touched, work.lanes)
    for i in range(n_touched):
        poles[ROOT, i] = max(sign * (poles[AT, i] + poles[BY, i]) * unit - tau, 0.0)
    for i in range(n_untouched):
        poles[ROOT, n_touched + i] = max(sign * poles[VALUE, order[UNTOUCHED, i]] * unit - tau, 0.0)

    base = max(base - tau, 0.0)
    if m == n and n <= max_rank:
        base = 0.0  # nothing is left that it would be the eigenvalue of
    n_kept = keep(m, base, poles, order)
    n_cut = max(n_kept - max_rank, 0)
    for _ in range(n_cut):
        n_kept = cut(poles, order, n_kept, base)
    if n_kept > 0:
        for k in range(n_kept):
            lam[slot, k] = poles[ROOT, order[KEPT, k]]
        round_state(n_touched, n_turns, n_kept, rank, poles, order, Q, work.lanes)
        if plain and length > 0.0:
            unmix(z, slot, column, length, rank, n_kept, Q)
        np.dot(Q[: n_kept * rank].reshape((n_kept, rank)), V[source, :rank], V[target, :n_kept])
    return n_kept, base, n_cut


@compiled
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
    """The eigenvalues that count, times sign, ascending: how many, and the first row that is free."""
    m, column = 0, rank
    backwards = rank > 0 and sign * lam[slot, 0] > sign * lam[slot, rank - 1]
    for i in range(rank):
        k = rank - 1 - i if backwards else i
        value = max(lam[slot, k] - shift, 0.0)
        if value > 0.0 or base > 0.0:
            m = insert(sign * value, z[slot, k], k, m, poles, order)
        else:
            z[slot, k] = 0.0
            column = min(column, k)
    return m, column


@compiled
def insert(value: float, weight: float, column: int, m: int, poles: Floats, order: np.ndarray) -> int:
    """Put a pole in its place among the first m; how many there are now."""
    j = m
    while j > 0 and poles[VALUE, j - 1] > value:
        poles[VALUE, j], poles[WEIGHT, j] = poles[VALUE, j - 1], poles[WEIGHT, j - 1]
        order[SOURCE, j] = order[SOURCE, j - 1]
        j -= 1
    poles[VALUE, j], poles[WEIGHT, j], order[SOURCE, j] = value, weight, column
    return m + 1


@compiled
def new_direction(
    V: Floats, source: int, z: Floats, slot: int, rank: int, U: Floats, row: int, norm: float, width: int, q: Floats
) -> float:
    """The part of u outside the span of V, scaled to length 1, to ``q``; its length, 0 where there is none.

    Orthogonalised twice, which is enough (Kahan and Parlett); z gains what the second time finds. A direction that
    does not count any more has a z of 0.
    """
    length, again = 0.0, z.shape[0] - 1  # a row that belongs to no slot
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


@compiled
def scale(factor: float, m: int, poles: Floats) -> tuple[float, float]:
    """Bring the problem to size 1, so that no scale of the data over- or underflows: the unit, and the factor in it."""
    size, reach = 0.0, 0.0
    for i in range(m):
        size = max(size, abs(poles[VALUE, i]))
        reach = max(reach, abs(poles[WEIGHT, i]))
    total, per_reach = 0.0, 1.0 / reach if reach > SMALLEST else 0.0
    for i in range(m):
        weight = poles[WEIGHT, i] * per_reach
        poles[WEIGHT, i] = weight
        total += weight * weight
    change = factor * reach * reach * total
    unit = max(size, change)
    if change < SMALLEST or change <= EPS * EPS * unit:
        total, change, unit = 1.0, 0.0, max(unit, SMALLEST)  # no change that could be seen
    per_unit, per_length = 1.0 / unit, 1.0 / sqrt(total)
    for i in range(m):
        poles[VALUE, i] *= per_unit
        poles[WEIGHT, i] *= per_length
    return unit, change / unit


@compiled
def deflate(m: int, factor: float, poles: Floats, order: np.ndarray) -> tuple[int, int]:
    """Set apart what needs no secular equation: how many poles, and how many planes were turned for it.

    A pole that u hardly touches keeps its direction. Two (nearly) equal poles are turned in their plane until u
    touches only one of them.
    """
    tolerance = 8.0 * EPS
    negligible = tolerance / factor if factor > 0.0 else 2.0
    n_touched, n_untouched, n_turns, last = 0, 0, 0, -1
    for i in range(m):
        weight = poles[WEIGHT, i]
        if abs(weight) <= negligible:
            order[UNTOUCHED, n_untouched] = i
            n_untouched += 1
            continue
        if last >= 0:
            before = poles[WEIGHT, last]
            square = before * before + weight * weight
            one, other = poles[VALUE, last], poles[VALUE, i]
            if (other - one) * abs(before * weight) <= tolerance * square:
                length = sqrt(square)
                cosine, sine = weight / length, before / length
                poles[WEIGHT, i] = length
                order[ONE, n_turns], order[OTHER, n_turns] = order[SOURCE, last], order[SOURCE, i]
                poles[COSINE, n_turns], poles[SINE, n_turns] = cosine, sine
                n_turns += 1
                poles[VALUE, last] = one * cosine * cosine + other * sine * sine
                poles[VALUE, i] = one * sine * sine + other * cosine * cosine
                order[UNTOUCHED, n_untouched] = last
                n_untouched += 1
                n_touched -= 1
        order[TOUCHED, n_touched] = i
        n_touched += 1
        last = i
    return n_untouched, n_turns


@compiled
def keep(m: int, base: float, poles: Floats, order: np.ndarray) -> int:
    """Which eigenvalues differ from nothing; how many."""
    n_kept = 0
    for i in range(m):
        if poles[ROOT, i] > 0.0 or base > 0.0:
            order[KEPT, n_kept] = i
            n_kept += 1
    return n_kept


@compiled
def cut(poles: Floats, order: np.ndarray, n_kept: int, base: float) -> int:
    """Let go of the eigenvalue that is nearest to the base: the smallest, where the base is zero."""
    nearest = 0
    for k in range(n_kept):
        if abs(poles[ROOT, order[KEPT, k]] - base) < abs(poles[ROOT, order[KEPT, nearest]] - base):
            nearest = k
    for k in range(nearest, n_kept - 1):
        order[KEPT, k] = order[KEPT, k + 1]
    return n_kept - 1


@compiled
def round_state(
    n_touched: int,
    n_turns: int,
    n_kept: int,
    rank: int,
    poles: Floats,
    order: np.ndarray,
    Q: Floats,
    work: Floats,
) -> None:
    """Q, of shape (n_kept, rank): the eigenvectors that are kept, in terms of the rows of V."""
    for i in range(n_kept * rank):
        Q[i] = 0.0
    n_solved = 0  # kept eigenvalues come in the order of the roots, those that no equation was solved for behind
    while n_solved < n_kept and order[KEPT, n_solved] < n_touched:
        n_solved += 1
    for first in range(0, n_solved, LANES):
        count = min(LANES, n_solved - first)
        for j in range(LANES):
            root = order[KEPT, first + min(j, count - 1)]  # lanes behind the last root repeat it
            work[ORIGIN + j], work[OFFSET + j] = poles[AT, root], poles[BY, root]
        vectors(poles, n_touched, work, LANES)
        for i in range(n_touched):
            column = order[SOURCE, order[TOUCHED, i]]
            for j in range(count):
                Q[(first + j) * rank + column] = work[SLOPES + j] * work[N_NUMBERS + LANES * i + j]
    for k in range(n_solved, n_kept):
        Q[k * rank + order[SOURCE, order[UNTOUCHED, order[KEPT, k] - n_touched]]] = 1.0
    for plane in range(n_turns - 1, -1, -1):
        one, other = order[ONE, plane], order[OTHER, plane]
        cosine, sine = poles[COSINE, plane], poles[SINE, plane]
        for k in range(0, n_kept * rank, rank):
            x, y = Q[k + one], Q[k + other]
            Q[k + one] = cosine * x + sine * y
            Q[k + other] = cosine * y - sine * x


@compiled
def unmix(z: Floats, slot: int, new: int, length: float, rank: int, n_kept: int, Q: Floats) -> None:
    """Q for V with u itself in the new row, in the place of the direction ``(u - V'z) / length``."""
    for k in range(0, n_kept * rank, rank):
        Q[k + new] /= length
        part = Q[k + new]
        for i in range(rank):
            if i != new:
                Q[k + i] -= part * z[slot, i]
