"""Eight matrices less a rank-one term each, clipped to be positive semidefinite: by Cholesky factors, no spectrum.

At most one eigenvalue of ``M - s uu'`` is negative, by interlacing. It is ``-x`` for the root x > 0 of
``s u'(M + x I)^-1 u = 1``, its eigenvector is ``(M + x I)^-1 u``, and nothing else of the spectrum is needed: what is
clipped off is one more rank-one term. The function of x is a sum of poles left of zero, so that three or four
factorisations find the root.

All learners see the same pair, so eight of them do the same thing, each in its own vector lane: the last axis of
every array. Sums over other axes are held in eight variables, which the compiler makes one register. Matrices are
lower triangles, row by row: entry (i, j) is at ``i (i + 1) / 2 + j``.
"""

from __future__ import annotations

from math import sqrt
from typing import TypeAlias

from ocelad.checks import Floats
from ocelad.online.compiled import compiled
from ocelad.online.kernels.secular import EPS, LANES, SMALLEST

Eight: TypeAlias = tuple[float, float, float, float, float, float, float, float]

PATIENCE, MAX_ITERATIONS = 12, 200
# A step this small beside the root leaves an error of about its cube in the root, its square in the eigenvector.
LAST_STEP = 1e-6
# Vectors of the work space: u, L^-1 u, (M + x I)^-1 u, L^-1 of it, and (M + x I)^-1 of it.
U, Y, X, W, T, KEPT, N_VECTORS = 0, 1, 2, 3, 4, 5, 6
# Numbers of each lane.
S, AT, LOW, HIGH, NOISE, OPEN, VALUE, SLOPE, BEND, FAILED = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
SIZE, STEP, GUESS, PER_UNIT, N_NUMBERS = 10, 11, 12, 13, 14
LAST = 2.0  # of OPEN: the root is found


@compiled
def entry(i: int, j: int) -> int:
    """Where in a triangle entry (i, j) is."""
    return i * (i + 1) // 2 + j


@compiled
def products(u: Floats, row: int, n: int, outer: Floats) -> None:
    """``uu'`` as a triangle."""
    p = 0
    for i in range(n):
        for j in range(i + 1):
            outer[p] = u[row, i] * u[row, j]
            p += 1


@compiled
def squared_lengths(M: Floats, group: int, outer: Floats, n: int) -> Eight:
    """``u'Mu`` of each lane, from ``outer = uu'``."""
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for p in range(entry(n, 0)):
        x = 2.0 * outer[p]
        a += x * M[group, p, 0]
        b += x * M[group, p, 1]
        c += x * M[group, p, 2]
        d += x * M[group, p, 3]
        e += x * M[group, p, 4]
        f += x * M[group, p, 5]
        g += x * M[group, p, 6]
        h += x * M[group, p, 7]
    for i in range(n):  # the diagonal is there once
        p = entry(i, i)
        x = outer[p]
        a -= x * M[group, p, 0]
        b -= x * M[group, p, 1]
        c -= x * M[group, p, 2]
        d -= x * M[group, p, 3]
        e -= x * M[group, p, 4]
        f -= x * M[group, p, 5]
        g -= x * M[group, p, 6]
        h -= x * M[group, p, 7]
    return a, b, c, d, e, f, g, h


@compiled
def add(M: Floats, group: int, outer: Floats, lanes: Floats, size: int) -> None:
    """``M += lanes[S] uu'``, each lane by its own factor."""
    a, b, c, d = lanes[S, 0], lanes[S, 1], lanes[S, 2], lanes[S, 3]
    e, f, g, h = lanes[S, 4], lanes[S, 5], lanes[S, 6], lanes[S, 7]
    for p in range(size):
        x = outer[p]
        M[group, p, 0] += a * x
        M[group, p, 1] += b * x
        M[group, p, 2] += c * x
        M[group, p, 3] += d * x
        M[group, p, 4] += e * x
        M[group, p, 5] += f * x
        M[group, p, 6] += g * x
        M[group, p, 7] += h * x


@compiled
def add_clipped(M: Floats, group: int, x: Floats, lanes: Floats, n: int) -> None:
    """``M += lanes[SIZE] vv'``, each lane by its own vector, in the row KEPT of x."""
    for i in range(n):
        a = lanes[SIZE, 0] * x[KEPT, i, 0]
        b = lanes[SIZE, 1] * x[KEPT, i, 1]
        c = lanes[SIZE, 2] * x[KEPT, i, 2]
        d = lanes[SIZE, 3] * x[KEPT, i, 3]
        e = lanes[SIZE, 4] * x[KEPT, i, 4]
        f = lanes[SIZE, 5] * x[KEPT, i, 5]
        g = lanes[SIZE, 6] * x[KEPT, i, 6]
        h = lanes[SIZE, 7] * x[KEPT, i, 7]
        for j in range(i + 1):
            p = entry(i, j)
            M[group, p, 0] += a * x[KEPT, j, 0]
            M[group, p, 1] += b * x[KEPT, j, 1]
            M[group, p, 2] += c * x[KEPT, j, 2]
            M[group, p, 3] += d * x[KEPT, j, 3]
            M[group, p, 4] += e * x[KEPT, j, 4]
            M[group, p, 5] += f * x[KEPT, j, 5]
            M[group, p, 6] += g * x[KEPT, j, 6]
            M[group, p, 7] += h * x[KEPT, j, 7]


@compiled
def less_products(C: Floats, i: int, D: Floats, j: int, end: int, start: Eight) -> Eight:
    """``start`` less the sum of ``C[i, k] D[j, k]`` over k < end, lane by lane."""
    a, b, c, d, e, f, g, h = start
    for k in range(end):
        a -= C[i, k, 0] * D[j, k, 0]
        b -= C[i, k, 1] * D[j, k, 1]
        c -= C[i, k, 2] * D[j, k, 2]
        d -= C[i, k, 3] * D[j, k, 3]
        e -= C[i, k, 4] * D[j, k, 4]
        f -= C[i, k, 5] * D[j, k, 5]
        g -= C[i, k, 6] * D[j, k, 6]
        h -= C[i, k, 7] * D[j, k, 7]
    return a, b, c, d, e, f, g, h


@compiled
def put_scaled(C: Floats, i: int, j: int, values: Eight, D: Floats, k: int) -> None:
    """``C[i, j] = values * D[k, k]``."""
    a, b, c, d, e, f, g, h = values
    C[i, j, 0] = a * D[k, k, 0]
    C[i, j, 1] = b * D[k, k, 1]
    C[i, j, 2] = c * D[k, k, 2]
    C[i, j, 3] = d * D[k, k, 3]
    C[i, j, 4] = e * D[k, k, 4]
    C[i, j, 5] = f * D[k, k, 5]
    C[i, j, 6] = g * D[k, k, 6]
    C[i, j, 7] = h * D[k, k, 7]


@compiled
def take(M: Floats, i: int, j: int) -> Eight:
    """The numbers of all lanes at one place."""
    return M[i, j, 0], M[i, j, 1], M[i, j, 2], M[i, j, 3], M[i, j, 4], M[i, j, 5], M[i, j, 6], M[i, j, 7]


@compiled
def take_scaled(M: Floats, group: int, p: int, lanes: Floats) -> Eight:
    """The numbers of all lanes at one place, in their units."""
    return (
        M[group, p, 0] * lanes[PER_UNIT, 0],
        M[group, p, 1] * lanes[PER_UNIT, 1],
        M[group, p, 2] * lanes[PER_UNIT, 2],
        M[group, p, 3] * lanes[PER_UNIT, 3],
        M[group, p, 4] * lanes[PER_UNIT, 4],
        M[group, p, 5] * lanes[PER_UNIT, 5],
        M[group, p, 6] * lanes[PER_UNIT, 6],
        M[group, p, 7] * lanes[PER_UNIT, 7],
    )


@compiled
def factor(M: Floats, group: int, n: int, C: Floats, lanes: Floats) -> None:
    """Cholesky factors L of ``lanes[PER_UNIT] M + lanes[AT] I``, below the diagonal of C; on it, one over that of L.

    Where a matrix is not positive definite, FAILED says so, and what comes out means nothing.
    """
    for k in range(LANES):
        lanes[FAILED, k] = 0.0
    for j in range(n):
        a, b, c, d, e, f, g, h = less_products(C, j, C, j, j, take_scaled(M, group, entry(j, j), lanes))
        lanes[VALUE, 0], lanes[VALUE, 1], lanes[VALUE, 2], lanes[VALUE, 3] = a, b, c, d
        lanes[VALUE, 4], lanes[VALUE, 5], lanes[VALUE, 6], lanes[VALUE, 7] = e, f, g, h
        for k in range(LANES):
            value = lanes[VALUE, k] + lanes[AT, k]
            lanes[FAILED, k] = 1.0 if value <= 0.0 else lanes[FAILED, k]
            C[j, j, k] = 1.0 / sqrt(value if value > 0.0 else 1.0)
        for i in range(j + 1, n):
            rest = less_products(C, i, C, j, j, take_scaled(M, group, entry(i, j), lanes))
            put_scaled(C, i, j, rest, C, j)


@compiled
def forward(C: Floats, n: int, x: Floats, source: int, target: int) -> None:
    """``x[target] = L^-1 x[source]``."""
    for i in range(n):
        put_scaled(x, target, i, less_products(C, i, x, target, i, take(x, source, i)), C, i)


@compiled
def backward(C: Floats, n: int, x: Floats, source: int, target: int) -> None:
    """``x[target] = L'^-1 x[source]``."""
    for i in range(n - 1, -1, -1):
        a, b, c, d, e, f, g, h = take(x, source, i)
        for k in range(i + 1, n):
            a -= C[k, i, 0] * x[target, k, 0]
            b -= C[k, i, 1] * x[target, k, 1]
            c -= C[k, i, 2] * x[target, k, 2]
            d -= C[k, i, 3] * x[target, k, 3]
            e -= C[k, i, 4] * x[target, k, 4]
            f -= C[k, i, 5] * x[target, k, 5]
            g -= C[k, i, 6] * x[target, k, 6]
            h -= C[k, i, 7] * x[target, k, 7]
        put_scaled(x, target, i, (a, b, c, d, e, f, g, h), C, i)


@compiled
def square(x: Floats, row: int, n: int, lanes: Floats, at: int) -> None:
    """``lanes[at]``: the squared lengths of the vectors in a row of x."""
    for k in range(LANES):
        lanes[at, k] = 0.0
    for i in range(n):
        for k in range(LANES):
            lanes[at, k] += x[row, i, k] * x[row, i, k]


@compiled
def clip(M: Floats, group: int, n: int, norm2: float, C: Floats, x: Floats, lanes: Floats) -> None:
    """The negative eigenvalue of each lane's ``M - s uu'``: its size, to SIZE, and its vector, to the row KEPT of x.

    0 where there is none beyond rounding, and where ``lanes[S]``, which is s, is not above 0. ``u / |u|`` is in the row
    U of x. SIZE is in units of ``s |u|^2``, as all that is done here, so that no scale of the data over- or
    underflows; ``lanes[GUESS]`` says where to begin.
    """
    for k in range(LANES):
        largest = 0.0
        for i in range(n):
            largest = max(largest, M[group, entry(i, i), k])
        unit = lanes[S, k] * norm2  # no root exceeds it
        open_ = unit > max(SMALLEST, 4.0 * n * EPS * largest)
        lanes[PER_UNIT, k] = 1.0 / unit if open_ else 1.0 / max(largest, SMALLEST)
        lanes[NOISE, k] = 4.0 * n * EPS * max(largest * lanes[PER_UNIT, k], 1.0)
        lanes[LOW, k], lanes[HIGH, k], lanes[SIZE, k] = 0.0, 1.0, 0.0
        lanes[OPEN, k] = 1.0 if open_ else 0.0
        lanes[AT, k] = lanes[GUESS, k] if open_ else 1.0
    for iteration in range(MAX_ITERATIONS):
        n_open = 0.0
        for k in range(LANES):
            n_open += lanes[OPEN, k]
        if n_open == 0.0:
            break
        factor(M, group, n, C, lanes)
        forward(C, n, x, U, Y)
        backward(C, n, x, Y, X)
        forward(C, n, x, X, W)
        square(x, Y, n, lanes, VALUE)
        square(x, X, n, lanes, SLOPE)
        square(x, W, n, lanes, BEND)
        n_last = step(lanes, iteration)
        if n_last > 0:
            # The vector at the new place, to the square of the step.
            backward(C, n, x, W, T)
            for i in range(n):
                for k in range(LANES):
                    if lanes[OPEN, k] == LAST:
                        x[KEPT, i, k] = x[X, i, k] - lanes[STEP, k] * x[T, i, k]
            for k in range(LANES):
                lanes[OPEN, k] = 0.0 if lanes[OPEN, k] == LAST else lanes[OPEN, k]


@compiled
def step(lanes: Floats, iteration: int) -> int:
    """Move each open lane towards its root; how many have made their last step.

    Should that take long, every other step halves the place where the root may be, on a logarithmic scale.
    """
    n_last = 0
    for k in range(LANES):
        if lanes[OPEN, k] == 0.0:
            continue
        at, noise = lanes[AT, k], lanes[NOISE, k]
        if lanes[FAILED, k] > 0.0:  # rounding has made M a little negative
            lanes[LOW, k] = at
            lanes[AT, k] = 2.0 * at
            continue
        value, slope, bend = lanes[VALUE, k], lanes[SLOPE, k], lanes[BEND, k]
        if value <= 1.0 and at <= noise:
            lanes[OPEN, k] = 0.0  # nothing is negative
            continue
        if value > 1.0:
            lanes[LOW, k] = at
        else:
            lanes[HIGH, k] = at
        low, high = lanes[LOW, k], lanes[HIGH, k]
        # The pole and the constant that have the same value, slope and curvature here.
        reach = slope / bend
        constant = value - slope * reach
        way = slope * reach * reach / (1.0 - constant) - reach if constant < 1.0 else high
        moved = at + way
        if abs(way) <= LAST_STEP * at:
            lanes[OPEN, k], lanes[SIZE, k], lanes[STEP, k] = LAST, moved, way
            n_last += 1
            continue
        if not low < moved < high:  # if there is no root ahead, there may be none at all: the next look is at zero
            moved = 0.5 * (low + high) if value > 1.0 or low > 0.0 else 0.0
        if iteration > PATIENCE and iteration % 2 == 0:
            moved = sqrt(max(low, noise) * high)
        lanes[AT, k] = max(moved, noise)
    return n_last
