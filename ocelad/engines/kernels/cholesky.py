"""Eight matrices less a rank-one term each, clipped to be positive semidefinite: by Cholesky factors, no spectrum.

At most one eigenvalue of ``M - s uu'`` is negative, by interlacing. It is ``-x`` for the root x > 0 of
``s u'(M + x I)^-1 u = 1``, its eigenvector is ``(M + x I)^-1 u``, and nothing else of the spectrum is needed: what is
clipped off is one more rank-one term. The function of x is a sum of poles left of zero, so that three or four
factorisations find the root.

All learners see the same pair, so eight of them do the same thing, each in its own vector lane: the last axis of
every array. Sums over other axes are held in eight variables, which the compiler makes one register. Matrices are
lower triangles, row by row: entry (i, j) is at ``i (i + 1) / 2 + j``. Where one lane alone still looks for its root,
registers hold eight entries of a row of its matrix instead (``row_cholesky.py``).
"""

from __future__ import annotations

from math import sqrt
from typing import TypeAlias

from ocelad._compile import compiled
from ocelad._typing import Floats
from ocelad.engines.kernels.row_cholesky import backward_one, factor_one, forward_one, square_one
from ocelad.engines.kernels.secular import EPS, LANES, SMALLEST

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
            p = i * (i + 1) // 2 + j
            M[group, p, 0] += a * x[KEPT, j, 0]
            M[group, p, 1] += b * x[KEPT, j, 1]
            M[group, p, 2] += c * x[KEPT, j, 2]
            M[group, p, 3] += d * x[KEPT, j, 3]
            M[group, p, 4] += e * x[KEPT, j, 4]
            M[group, p, 5] += f * x[KEPT, j, 5]
            M[group, p, 6] += g * x[KEPT, j, 6]
            M[group, p, 7] += h * x[KEPT, j, 7]


@compiled
def factor(M: Floats, group: int, n: int, C: Floats, lanes: Floats) -> None:
    """Cholesky factors L of ``lanes[PER_UNIT] M + lanes[AT] I``, below the diagonal of C; on it, one over that of L.

    Where a matrix is not positive definite, FAILED says so, and what comes out means nothing. Below the diagonal two
    rows at a time, so that row j is read half as often; and all spelled out in one function: that is where a compiler
    finds its vectors.
    """
    for k in range(LANES):
        lanes[FAILED, k] = 0.0
    for j in range(n):
        p = j * (j + 1) // 2 + j
        a = M[group, p, 0] * lanes[PER_UNIT, 0] + lanes[AT, 0]
        b = M[group, p, 1] * lanes[PER_UNIT, 1] + lanes[AT, 1]
        c = M[group, p, 2] * lanes[PER_UNIT, 2] + lanes[AT, 2]
        d = M[group, p, 3] * lanes[PER_UNIT, 3] + lanes[AT, 3]
        e = M[group, p, 4] * lanes[PER_UNIT, 4] + lanes[AT, 4]
        f = M[group, p, 5] * lanes[PER_UNIT, 5] + lanes[AT, 5]
        g = M[group, p, 6] * lanes[PER_UNIT, 6] + lanes[AT, 6]
        h = M[group, p, 7] * lanes[PER_UNIT, 7] + lanes[AT, 7]
        for k in range(j):
            a -= C[j, k, 0] * C[j, k, 0]
            b -= C[j, k, 1] * C[j, k, 1]
            c -= C[j, k, 2] * C[j, k, 2]
            d -= C[j, k, 3] * C[j, k, 3]
            e -= C[j, k, 4] * C[j, k, 4]
            f -= C[j, k, 5] * C[j, k, 5]
            g -= C[j, k, 6] * C[j, k, 6]
            h -= C[j, k, 7] * C[j, k, 7]
        lanes[VALUE, 0] = a
        lanes[VALUE, 1] = b
        lanes[VALUE, 2] = c
        lanes[VALUE, 3] = d
        lanes[VALUE, 4] = e
        lanes[VALUE, 5] = f
        lanes[VALUE, 6] = g
        lanes[VALUE, 7] = h
        C[j, j, 0] = 1.0 / sqrt(a if a > 0.0 else 1.0)
        C[j, j, 1] = 1.0 / sqrt(b if b > 0.0 else 1.0)
        C[j, j, 2] = 1.0 / sqrt(c if c > 0.0 else 1.0)
        C[j, j, 3] = 1.0 / sqrt(d if d > 0.0 else 1.0)
        C[j, j, 4] = 1.0 / sqrt(e if e > 0.0 else 1.0)
        C[j, j, 5] = 1.0 / sqrt(f if f > 0.0 else 1.0)
        C[j, j, 6] = 1.0 / sqrt(g if g > 0.0 else 1.0)
        C[j, j, 7] = 1.0 / sqrt(h if h > 0.0 else 1.0)
        for k in range(LANES):
            lanes[FAILED, k] = 1.0 if lanes[VALUE, k] <= 0.0 else lanes[FAILED, k]
        i = j + 1
        while i + 2 <= n:
            p, q = i * (i + 1) // 2 + j, (i + 1) * (i + 2) // 2 + j
            a = M[group, p, 0] * lanes[PER_UNIT, 0]
            b = M[group, p, 1] * lanes[PER_UNIT, 1]
            c = M[group, p, 2] * lanes[PER_UNIT, 2]
            d = M[group, p, 3] * lanes[PER_UNIT, 3]
            e = M[group, p, 4] * lanes[PER_UNIT, 4]
            f = M[group, p, 5] * lanes[PER_UNIT, 5]
            g = M[group, p, 6] * lanes[PER_UNIT, 6]
            h = M[group, p, 7] * lanes[PER_UNIT, 7]
            aa = M[group, q, 0] * lanes[PER_UNIT, 0]
            bb = M[group, q, 1] * lanes[PER_UNIT, 1]
            cc = M[group, q, 2] * lanes[PER_UNIT, 2]
            dd = M[group, q, 3] * lanes[PER_UNIT, 3]
            ee = M[group, q, 4] * lanes[PER_UNIT, 4]
            ff = M[group, q, 5] * lanes[PER_UNIT, 5]
            gg = M[group, q, 6] * lanes[PER_UNIT, 6]
            hh = M[group, q, 7] * lanes[PER_UNIT, 7]
            for k in range(j):
                a -= C[i, k, 0] * C[j, k, 0]
                b -= C[i, k, 1] * C[j, k, 1]
                c -= C[i, k, 2] * C[j, k, 2]
                d -= C[i, k, 3] * C[j, k, 3]
                e -= C[i, k, 4] * C[j, k, 4]
                f -= C[i, k, 5] * C[j, k, 5]
                g -= C[i, k, 6] * C[j, k, 6]
                h -= C[i, k, 7] * C[j, k, 7]
                aa -= C[i + 1, k, 0] * C[j, k, 0]
                bb -= C[i + 1, k, 1] * C[j, k, 1]
                cc -= C[i + 1, k, 2] * C[j, k, 2]
                dd -= C[i + 1, k, 3] * C[j, k, 3]
                ee -= C[i + 1, k, 4] * C[j, k, 4]
                ff -= C[i + 1, k, 5] * C[j, k, 5]
                gg -= C[i + 1, k, 6] * C[j, k, 6]
                hh -= C[i + 1, k, 7] * C[j, k, 7]
            C[i, j, 0] = a * C[j, j, 0]
            C[i, j, 1] = b * C[j, j, 1]
            C[i, j, 2] = c * C[j, j, 2]
            C[i, j, 3] = d * C[j, j, 3]
            C[i, j, 4] = e * C[j, j, 4]
            C[i, j, 5] = f * C[j, j, 5]
            C[i, j, 6] = g * C[j, j, 6]
            C[i, j, 7] = h * C[j, j, 7]
            C[i + 1, j, 0] = aa * C[j, j, 0]
            C[i + 1, j, 1] = bb * C[j, j, 1]
            C[i + 1, j, 2] = cc * C[j, j, 2]
            C[i + 1, j, 3] = dd * C[j, j, 3]
            C[i + 1, j, 4] = ee * C[j, j, 4]
            C[i + 1, j, 5] = ff * C[j, j, 5]
            C[i + 1, j, 6] = gg * C[j, j, 6]
            C[i + 1, j, 7] = hh * C[j, j, 7]
            i += 2
        if i < n:
            p = i * (i + 1) // 2 + j
            a = M[group, p, 0] * lanes[PER_UNIT, 0]
            b = M[group, p, 1] * lanes[PER_UNIT, 1]
            c = M[group, p, 2] * lanes[PER_UNIT, 2]
            d = M[group, p, 3] * lanes[PER_UNIT, 3]
            e = M[group, p, 4] * lanes[PER_UNIT, 4]
            f = M[group, p, 5] * lanes[PER_UNIT, 5]
            g = M[group, p, 6] * lanes[PER_UNIT, 6]
            h = M[group, p, 7] * lanes[PER_UNIT, 7]
            for k in range(j):
                a -= C[i, k, 0] * C[j, k, 0]
                b -= C[i, k, 1] * C[j, k, 1]
                c -= C[i, k, 2] * C[j, k, 2]
                d -= C[i, k, 3] * C[j, k, 3]
                e -= C[i, k, 4] * C[j, k, 4]
                f -= C[i, k, 5] * C[j, k, 5]
                g -= C[i, k, 6] * C[j, k, 6]
                h -= C[i, k, 7] * C[j, k, 7]
            C[i, j, 0] = a * C[j, j, 0]
            C[i, j, 1] = b * C[j, j, 1]
            C[i, j, 2] = c * C[j, j, 2]
            C[i, j, 3] = d * C[j, j, 3]
            C[i, j, 4] = e * C[j, j, 4]
            C[i, j, 5] = f * C[j, j, 5]
            C[i, j, 6] = g * C[j, j, 6]
            C[i, j, 7] = h * C[j, j, 7]


@compiled
def forward(C: Floats, n: int, x: Floats, source: int, target: int) -> None:
    """``x[target] = L^-1 x[source]``."""
    for i in range(n):
        a = x[source, i, 0]
        b = x[source, i, 1]
        c = x[source, i, 2]
        d = x[source, i, 3]
        e = x[source, i, 4]
        f = x[source, i, 5]
        g = x[source, i, 6]
        h = x[source, i, 7]
        for k in range(i):
            a -= C[i, k, 0] * x[target, k, 0]
            b -= C[i, k, 1] * x[target, k, 1]
            c -= C[i, k, 2] * x[target, k, 2]
            d -= C[i, k, 3] * x[target, k, 3]
            e -= C[i, k, 4] * x[target, k, 4]
            f -= C[i, k, 5] * x[target, k, 5]
            g -= C[i, k, 6] * x[target, k, 6]
            h -= C[i, k, 7] * x[target, k, 7]
        x[target, i, 0] = a * C[i, i, 0]
        x[target, i, 1] = b * C[i, i, 1]
        x[target, i, 2] = c * C[i, i, 2]
        x[target, i, 3] = d * C[i, i, 3]
        x[target, i, 4] = e * C[i, i, 4]
        x[target, i, 5] = f * C[i, i, 5]
        x[target, i, 6] = g * C[i, i, 6]
        x[target, i, 7] = h * C[i, i, 7]


@compiled
def backward(C: Floats, n: int, x: Floats, source: int, target: int) -> None:
    """``x[target] = L'^-1 x[source]``."""
    for i in range(n - 1, -1, -1):
        a = x[source, i, 0]
        b = x[source, i, 1]
        c = x[source, i, 2]
        d = x[source, i, 3]
        e = x[source, i, 4]
        f = x[source, i, 5]
        g = x[source, i, 6]
        h = x[source, i, 7]
        for k in range(i + 1, n):
            a -= C[k, i, 0] * x[target, k, 0]
            b -= C[k, i, 1] * x[target, k, 1]
            c -= C[k, i, 2] * x[target, k, 2]
            d -= C[k, i, 3] * x[target, k, 3]
            e -= C[k, i, 4] * x[target, k, 4]
            f -= C[k, i, 5] * x[target, k, 5]
            g -= C[k, i, 6] * x[target, k, 6]
            h -= C[k, i, 7] * x[target, k, 7]
        x[target, i, 0] = a * C[i, i, 0]
        x[target, i, 1] = b * C[i, i, 1]
        x[target, i, 2] = c * C[i, i, 2]
        x[target, i, 3] = d * C[i, i, 3]
        x[target, i, 4] = e * C[i, i, 4]
        x[target, i, 5] = f * C[i, i, 5]
        x[target, i, 6] = g * C[i, i, 6]
        x[target, i, 7] = h * C[i, i, 7]


@compiled
def square(x: Floats, row: int, n: int, lanes: Floats, at: int) -> None:
    """``lanes[at]``: the squared lengths of the vectors in a row of x."""
    for k in range(LANES):
        lanes[at, k] = 0.0
    for i in range(n):
        for k in range(LANES):
            lanes[at, k] += x[row, i, k] * x[row, i, k]


@compiled
def clip(M: Floats, group: int, n: int, norm2: float, C: Floats, x: Floats, lanes: Floats, R: Floats) -> None:
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
        n_open, lane = 0, 0
        for k in range(LANES):
            if lanes[OPEN, k] > 0.0:
                n_open, lane = n_open + 1, k
        if n_open == 0:
            break
        if n_open == 1:
            look_alone(M, group, lane, n, x, lanes, R, iteration)
        else:
            look(M, group, n, C, x, lanes, iteration)


@compiled
def look(M: Floats, group: int, n: int, C: Floats, x: Floats, lanes: Floats, iteration: int) -> None:
    """Look for the roots of all lanes once more; those that are found are closed."""
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
def look_alone(M: Floats, group: int, lane: int, n: int, x: Floats, lanes: Floats, R: Floats, iteration: int) -> None:
    """The same where only this lane is open: by rows of R (``row_cholesky.py``)."""
    found = factor_one(M, group, lane, n, lanes[PER_UNIT, lane], lanes[AT, lane], R)
    lanes[FAILED, lane] = 0.0 if found else 1.0
    if found:
        for i in range(n):
            R[n + U, i] = x[U, i, lane]
        forward_one(R, n, n + U, n + Y)
        backward_one(R, n, n + Y, n + X)
        forward_one(R, n, n + X, n + W)
        lanes[VALUE, lane] = square_one(R, n + Y)
        lanes[SLOPE, lane] = square_one(R, n + X)
        lanes[BEND, lane] = square_one(R, n + W)
    if step(lanes, iteration) > 0:
        backward_one(R, n, n + W, n + T)
        for i in range(n):
            x[KEPT, i, lane] = R[n + X, i] - lanes[STEP, lane] * R[n + T, i]
        lanes[OPEN, lane] = 0.0


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
