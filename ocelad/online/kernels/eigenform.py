"""One metric in eigenform, and what a COMID step does to it (squared Frobenius divergence).

A metric is ``base * I`` plus what differs from it along some orthonormal directions: the first columns of V, with
eigenvalues lam in descending order. All other directions have eigenvalue ``base``. V has one row per feature, so
that loops over the directions run along memory and need no sum over vector lanes; its rows are padded.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from ocelad.checks import Floats
from ocelad.online.compiled import compiled
from ocelad.online.kernels.secular import EPS, solve

LANES = 8
SMALLEST = 1e-290  # below it, products of the numbers at hand would underflow


class Work(NamedTuple):
    """Space for a step; what is in it between two steps means nothing."""

    q: Floats  # (n,): the new direction
    vectors: Floats  # (N_VECTORS, R)
    Q: Floats  # (R, R): how the directions turn
    core: Floats  # (R, R): the same, of those that the pair touches
    secular: Floats  # (N_ROWS, R): of the secular equation
    turn: Floats  # (R * R,): Q in the order of the columns of V
    before: Floats  # (n * R,): V without gaps
    after: Floats  # (n * R,): the same, turned
    order: np.ndarray  # (4, R), integers


N_VECTORS = 8


@compiled
def padded(r: int) -> int:
    """The next multiple of LANES."""
    return (r + LANES - 1) // LANES * LANES


@compiled
def project(V: Floats, slot: int, u: Floats, r: int, z: Floats, row: int) -> None:
    """``z[row] = V[slot]'u``, with zeros behind.

    Eight sums at a time are held in registers. Arrays come whole, with the slot: a view costs more than a short row.
    """
    for k in range(0, padded(r), LANES):
        a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for j in range(len(u)):
            x = u[j]
            a += x * V[slot, j, k]
            b += x * V[slot, j, k + 1]
            c += x * V[slot, j, k + 2]
            d += x * V[slot, j, k + 3]
            e += x * V[slot, j, k + 4]
            f += x * V[slot, j, k + 5]
            g += x * V[slot, j, k + 6]
            h += x * V[slot, j, k + 7]
        z[row, k], z[row, k + 1], z[row, k + 2], z[row, k + 3] = a, b, c, d
        z[row, k + 4], z[row, k + 5], z[row, k + 6], z[row, k + 7] = e, f, g, h
    for k in range(r, padded(r)):
        z[row, k] = 0.0


@compiled
def residual(V: Floats, slot: int, u: Floats, z: Floats, row: int, r: int, q: Floats) -> float:
    """``q = u - V[slot] z[row]``; its norm. u and q may be the same."""
    width = padded(r)
    total = 0.0
    for j in range(len(u)):
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for k in range(0, width, 4):
            a += V[slot, j, k] * z[row, k]
            b += V[slot, j, k + 1] * z[row, k + 1]
            c += V[slot, j, k + 2] * z[row, k + 2]
            d += V[slot, j, k + 3] * z[row, k + 3]
        q[j] = u[j] - ((a + b) + (c + d))
        total += q[j] * q[j]
    return sqrt(total)


@compiled
def new_direction(V: Floats, slot: int, u: Floats, z: Floats, r: int, norm: float, q: Floats) -> float:
    """The part of u outside the span of V[slot], to ``q``, scaled to length 1; its length, 0 where there is none.

    Orthogonalised a second time where cancellation has cost digits: twice is enough (Kahan and Parlett).
    """
    length = residual(V, slot, u, z, slot, r, q)
    if length < 0.7 * norm:
        again = z.shape[0] - 1  # a row that belongs to no slot
        project(V, slot, q, r, z, again)
        for k in range(r):
            z[slot, k] += z[again, k]
        length = residual(V, slot, q, z, again, r, q)
    if length <= 16.0 * EPS * norm:
        return 0.0
    for j in range(len(u)):
        q[j] /= length
    return length


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
def add_rank_one(V: Floats, lam: Floats, z: Floats, slot: int, r: int, s: float, work: Work) -> None:
    """Eigenform of ``M + s uu'``, with u = Vz: turns the first r columns of V[slot] and sets their eigenvalues.

    The eigenvalues come out in descending order and may be negative (one of them, when s is).
    """
    d, w, roots, value, weight = work.vectors[0], work.vectors[1], work.vectors[2], work.vectors[3], work.vectors[4]
    cosines, sines = work.vectors[5], work.vectors[6]
    source, touched, untouched, turned = work.order[0], work.order[1], work.order[2], work.order[3]
    Q, core = work.Q, work.core
    sign = 1.0 if s > 0.0 else -1.0
    factor = abs(s)
    # Ascending poles and a positive factor: those of M where something is added, of -M where it is taken away.
    for i in range(r):
        at = r - 1 - i if sign > 0.0 else i
        v = sign * lam[slot, at]
        j = i
        while j > 0 and value[j - 1] > v:  # only a new direction can be out of order
            value[j], source[j] = value[j - 1], source[j - 1]
            j -= 1
        value[j], source[j] = v, at
    # In units in which the problem has size 1, so that no scale of the data over- or underflows.
    size, reach = 0.0, 0.0
    for i in range(r):
        size = max(size, abs(value[i]))
        reach = max(reach, abs(z[slot, source[i]]))
    total = 0.0
    for i in range(r):
        weight[i] = z[slot, source[i]] / reach if reach > 0.0 else 0.0
        total += weight[i] * weight[i]
    change = factor * reach * reach * total
    unit = max(size, change)
    if change < SMALLEST or change <= EPS * EPS * unit:
        total, change, unit = 1.0, 0.0, max(unit, SMALLEST)  # no change that could be seen
    for i in range(r):
        value[i] /= unit
        weight[i] /= sqrt(total)
    factor = change / unit
    tolerance = 8.0 * EPS
    negligible = tolerance / factor if factor > 0.0 else 2.0

    # A pole that u hardly touches keeps its direction. Two (nearly) equal poles are turned in their plane until
    # u touches only one of them.
    m, n_untouched, n_turns, last = 0, 0, 0, -1
    for i in range(r):
        if abs(weight[i]) <= negligible:
            untouched[n_untouched] = i
            n_untouched += 1
            continue
        if last >= 0:
            length = sqrt(weight[last] * weight[last] + weight[i] * weight[i])
            cosine, sine = weight[i] / length, weight[last] / length
            if (value[i] - value[last]) * abs(cosine * sine) <= tolerance:
                weight[i] = length
                turned[n_turns] = last
                touched[r - 1 - n_turns] = i  # the far end is free: each turn leaves one pole untouched
                cosines[n_turns], sines[n_turns] = cosine, sine
                n_turns += 1
                one, other = value[last], value[i]
                value[last] = one * cosine * cosine + other * sine * sine
                value[i] = one * sine * sine + other * cosine * cosine
                untouched[n_untouched] = last
                n_untouched += 1
                m -= 1
        touched[m] = i
        m += 1
        last = i
    m = r - n_untouched  # as it is; said so, the compiler does not take it for the constant 0 that it began with
    for i in range(m):
        d[i], w[i] = value[touched[i]], weight[touched[i]]
    if m > 0:
        solve(d, w, factor, m, padded(m), work.secular, roots, core)

    # Both kinds merged, in descending order of the eigenvalues of M.
    width = padded(r)
    for i in range(1, n_untouched):
        at = untouched[i]
        j = i
        while j > 0 and value[untouched[j - 1]] > value[at]:
            untouched[j] = untouched[j - 1]
            j -= 1
        untouched[j] = at
    if n_untouched > 0:
        for i in range(r):
            for k in range(width):
                Q[i, k] = 0.0
    a, b = 0, 0
    for position in range(r):
        column = position if sign < 0.0 else r - 1 - position
        if b == m or (a < n_untouched and value[untouched[a]] <= roots[b]):
            Q[untouched[a], column] = 1.0
            lam[slot, column] = sign * value[untouched[a]] * unit
            a += 1
        else:
            for i in range(m):
                Q[touched[i], column] = core[i, b]
            lam[slot, column] = sign * roots[b] * unit
            b += 1
    for turn in range(n_turns - 1, -1, -1):
        one, other = turned[turn], touched[r - 1 - turn]
        for k in range(r):
            x, y = Q[one, k], Q[other, k]
            Q[one, k] = cosines[turn] * x + sines[turn] * y
            Q[other, k] = cosines[turn] * y - sines[turn] * x
    turned_rows = work.turn[: r * r].reshape((r, r))
    for i in range(r):
        row = source[i]
        for k in range(r):
            turned_rows[row, k] = Q[i, k]
    rotate(V, slot, turned_rows, r, work)


@compiled
def rotate(V: Floats, slot: int, Q: Floats, r: int, work: Work) -> None:
    """``V[slot] <- V[slot] Q`` on the first r columns, by BLAS, which wants them without gaps."""
    n = V.shape[1]
    before, after = work.before[: n * r].reshape((n, r)), work.after[: n * r].reshape((n, r))
    for j in range(n):
        for k in range(r):
            before[j, k] = V[slot, j, k]
    np.dot(before, Q, after)
    for j in range(n):
        for k in range(r):
            V[slot, j, k] = after[j, k]
