"""Projection of eight rank-one downdates onto the positive semidefinite cone by Cholesky factorizations.

By interlacing, at most one eigenvalue of ``M - s uu'`` is negative. It is ``-x`` for the root x > 0 of
``s u'(M + x I)^-1 u = 1``, and its eigenvector is ``(M + x I)^-1 u``. The projection therefore adds one rank-one term
and needs no other eigenvalue. As a function of x, the left side is a sum of poles left of zero, so that three or four
factorizations find the root.

All learners see the same pair. Eight of them run in parallel, one per vector lane, which is the last axis of every
array. Sums over other axes are held in eight variables, which the compiler keeps in one register. Matrices are stored
as lower triangles, row by row: entry (i, j) is at ``i (i + 1) / 2 + j``. When only one lane is still searching for its
root, the registers hold eight entries of one row of its matrix instead (``row_cholesky.py``).
"""

from __future__ import annotations

from math import sqrt
from typing import TypeAlias

from ocelad._compile import jit
from ocelad._typing import Floats
from ocelad.engines.kernels.row_cholesky import backward_one, factor_one, forward_one, squared_norm_one
from ocelad.engines.kernels.secular import EPS, LANES, TINY

Eight: TypeAlias = tuple[float, float, float, float, float, float, float, float]

BISECT_AFTER, MAX_ITERATIONS = 12, 200
# A step this small relative to the root leaves an error of about its cube in the root and its square in the vector.
LAST_STEP = 1e-6
# Rows of the vectors x: u / |u|; Y = L^-1 U; X = (M + x I)^-1 U; W = L^-1 X; T = (M + x I)^-1 X; the result.
U, Y, X, W, T, EIGENVECTOR, N_VECTORS = 0, 1, 2, 3, 4, 5, 6
# Rows of ``lanes``. SHIFT is the current x, and MAGNITUDE the resulting root, in units of s |u|^2.
S, SHIFT, LOW, HIGH, NOISE, STATUS, VALUE, SLOPE, CURVATURE, FAILED = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
MAGNITUDE, STEP, GUESS, INVERSE_UNIT, N_NUMBERS = 10, 11, 12, 13, 14
CONVERGED = 2.0  # value of STATUS when the root is found; 0 means finished and 1 searching


@jit
def entry(i: int, j: int) -> int:
    """Return the index of entry (i, j) in a lower triangle."""
    return i * (i + 1) // 2 + j


@jit
def outer_product(u: Floats, row: int, n: int, outer: Floats) -> None:
    """Compute the lower triangle of ``uu'``."""
    p = 0
    for i in range(n):
        for j in range(i + 1):
            outer[p] = u[row, i] * u[row, j]
            p += 1


@jit
def squared_lengths(M: Floats, group: int, outer: Floats, n: int) -> Eight:
    """Return ``u'Mu`` for each lane, from ``outer = uu'``."""
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
    for i in range(n):  # diagonal entries count once, not twice
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


@jit
def add_rank_one(M: Floats, group: int, outer: Floats, lanes: Floats, size: int) -> None:
    """Compute ``M += lanes[S] uu'`` with each lane's own factor."""
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


@jit
def add_correction(M: Floats, group: int, x: Floats, lanes: Floats, n: int) -> None:
    """Compute ``M += lanes[MAGNITUDE] vv'`` with each lane's own vector, the row EIGENVECTOR of x."""
    for i in range(n):
        a = lanes[MAGNITUDE, 0] * x[EIGENVECTOR, i, 0]
        b = lanes[MAGNITUDE, 1] * x[EIGENVECTOR, i, 1]
        c = lanes[MAGNITUDE, 2] * x[EIGENVECTOR, i, 2]
        d = lanes[MAGNITUDE, 3] * x[EIGENVECTOR, i, 3]
        e = lanes[MAGNITUDE, 4] * x[EIGENVECTOR, i, 4]
        f = lanes[MAGNITUDE, 5] * x[EIGENVECTOR, i, 5]
        g = lanes[MAGNITUDE, 6] * x[EIGENVECTOR, i, 6]
        h = lanes[MAGNITUDE, 7] * x[EIGENVECTOR, i, 7]
        for j in range(i + 1):
            p = i * (i + 1) // 2 + j
            M[group, p, 0] += a * x[EIGENVECTOR, j, 0]
            M[group, p, 1] += b * x[EIGENVECTOR, j, 1]
            M[group, p, 2] += c * x[EIGENVECTOR, j, 2]
            M[group, p, 3] += d * x[EIGENVECTOR, j, 3]
            M[group, p, 4] += e * x[EIGENVECTOR, j, 4]
            M[group, p, 5] += f * x[EIGENVECTOR, j, 5]
            M[group, p, 6] += g * x[EIGENVECTOR, j, 6]
            M[group, p, 7] += h * x[EIGENVECTOR, j, 7]


@jit
def factor(M: Floats, group: int, n: int, C: Floats, lanes: Floats) -> None:
    """Compute the Cholesky factors L of ``lanes[INVERSE_UNIT] M + lanes[SHIFT] I`` in C.

    The diagonal of C holds the inverses of L's diagonal. If a matrix is not positive definite, FAILED is set to 1 and
    the lane's factor is meaningless. Two rows are computed at a time below the diagonal, so that row j is read half as
    often. The lanes are written out in one function because the compiler vectorizes only that form.
    """
    for k in range(LANES):
        lanes[FAILED, k] = 0.0
    for j in range(n):
        p = j * (j + 1) // 2 + j
        a = M[group, p, 0] * lanes[INVERSE_UNIT, 0] + lanes[SHIFT, 0]
        b = M[group, p, 1] * lanes[INVERSE_UNIT, 1] + lanes[SHIFT, 1]
        c = M[group, p, 2] * lanes[INVERSE_UNIT, 2] + lanes[SHIFT, 2]
        d = M[group, p, 3] * lanes[INVERSE_UNIT, 3] + lanes[SHIFT, 3]
        e = M[group, p, 4] * lanes[INVERSE_UNIT, 4] + lanes[SHIFT, 4]
        f = M[group, p, 5] * lanes[INVERSE_UNIT, 5] + lanes[SHIFT, 5]
        g = M[group, p, 6] * lanes[INVERSE_UNIT, 6] + lanes[SHIFT, 6]
        h = M[group, p, 7] * lanes[INVERSE_UNIT, 7] + lanes[SHIFT, 7]
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
            a = M[group, p, 0] * lanes[INVERSE_UNIT, 0]
            b = M[group, p, 1] * lanes[INVERSE_UNIT, 1]
            c = M[group, p, 2] * lanes[INVERSE_UNIT, 2]
            d = M[group, p, 3] * lanes[INVERSE_UNIT, 3]
            e = M[group, p, 4] * lanes[INVERSE_UNIT, 4]
            f = M[group, p, 5] * lanes[INVERSE_UNIT, 5]
            g = M[group, p, 6] * lanes[INVERSE_UNIT, 6]
            h = M[group, p, 7] * lanes[INVERSE_UNIT, 7]
            aa = M[group, q, 0] * lanes[INVERSE_UNIT, 0]
            bb = M[group, q, 1] * lanes[INVERSE_UNIT, 1]
            cc = M[group, q, 2] * lanes[INVERSE_UNIT, 2]
            dd = M[group, q, 3] * lanes[INVERSE_UNIT, 3]
            ee = M[group, q, 4] * lanes[INVERSE_UNIT, 4]
            ff = M[group, q, 5] * lanes[INVERSE_UNIT, 5]
            gg = M[group, q, 6] * lanes[INVERSE_UNIT, 6]
            hh = M[group, q, 7] * lanes[INVERSE_UNIT, 7]
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
            a = M[group, p, 0] * lanes[INVERSE_UNIT, 0]
            b = M[group, p, 1] * lanes[INVERSE_UNIT, 1]
            c = M[group, p, 2] * lanes[INVERSE_UNIT, 2]
            d = M[group, p, 3] * lanes[INVERSE_UNIT, 3]
            e = M[group, p, 4] * lanes[INVERSE_UNIT, 4]
            f = M[group, p, 5] * lanes[INVERSE_UNIT, 5]
            g = M[group, p, 6] * lanes[INVERSE_UNIT, 6]
            h = M[group, p, 7] * lanes[INVERSE_UNIT, 7]
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


@jit
def forward(C: Floats, n: int, x: Floats, source: int, target: int) -> None:
    """Compute ``x[target] = L^-1 x[source]``."""
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


@jit
def backward(C: Floats, n: int, x: Floats, source: int, target: int) -> None:
    """Compute ``x[target] = L'^-1 x[source]``."""
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


@jit
def squared_norms(x: Floats, row: int, n: int, lanes: Floats, target: int) -> None:
    """Compute the squared lengths of the vectors in a row of x into ``lanes[target]``."""
    for k in range(LANES):
        lanes[target, k] = 0.0
    for i in range(n):
        for k in range(LANES):
            lanes[target, k] += x[row, i, k] * x[row, i, k]


@jit
def find_negative_eigenpairs(
    M: Floats, group: int, n: int, norm2: float, C: Floats, x: Floats, lanes: Floats, R: Floats
) -> None:
    """Find the negative eigenvalue of each lane's ``M - s uu'``, with s in ``lanes[S]`` and ``u / |u|`` in x[U].

    Stores its magnitude in ``lanes[MAGNITUDE]``, in units of ``s |u|^2``, and its eigenvector in ``x[EIGENVECTOR]``.
    The magnitude is 0 if no eigenvalue is negative beyond rounding or if s is not positive. All computations use that
    unit, so that no scale of the data overflows or underflows. ``lanes[GUESS]`` is the starting point.
    """
    for k in range(LANES):
        largest = 0.0
        for i in range(n):
            largest = max(largest, M[group, entry(i, i), k])
        unit = lanes[S, k] * norm2  # an upper bound of the root
        searching = unit > max(TINY, 4.0 * n * EPS * largest)
        lanes[INVERSE_UNIT, k] = 1.0 / unit if searching else 1.0 / max(largest, TINY)
        lanes[NOISE, k] = 4.0 * n * EPS * max(largest * lanes[INVERSE_UNIT, k], 1.0)
        lanes[LOW, k], lanes[HIGH, k], lanes[MAGNITUDE, k] = 0.0, 1.0, 0.0
        lanes[STATUS, k] = 1.0 if searching else 0.0
        lanes[SHIFT, k] = lanes[GUESS, k] if searching else 1.0
    for iteration in range(MAX_ITERATIONS):
        n_searching, lane = 0, 0
        for k in range(LANES):
            if lanes[STATUS, k] > 0.0:
                n_searching, lane = n_searching + 1, k
        if n_searching == 0:
            break
        if n_searching == 1:
            iterate_one(M, group, lane, n, x, lanes, R, iteration)
        else:
            iterate_all(M, group, n, C, x, lanes, iteration)


@jit
def iterate_all(M: Floats, group: int, n: int, C: Floats, x: Floats, lanes: Floats, iteration: int) -> None:
    """Run one iteration for all lanes and finish the lanes that converge."""
    factor(M, group, n, C, lanes)
    forward(C, n, x, U, Y)
    backward(C, n, x, Y, X)
    forward(C, n, x, X, W)
    squared_norms(x, Y, n, lanes, VALUE)
    squared_norms(x, X, n, lanes, SLOPE)
    squared_norms(x, W, n, lanes, CURVATURE)
    n_converged = update_roots(lanes, iteration)
    if n_converged > 0:
        # The eigenvector at the new root, correct to the square of the step.
        backward(C, n, x, W, T)
        for i in range(n):
            for k in range(LANES):
                if lanes[STATUS, k] == CONVERGED:
                    x[EIGENVECTOR, i, k] = x[X, i, k] - lanes[STEP, k] * x[T, i, k]
        for k in range(LANES):
            lanes[STATUS, k] = 0.0 if lanes[STATUS, k] == CONVERGED else lanes[STATUS, k]


@jit
def iterate_one(M: Floats, group: int, lane: int, n: int, x: Floats, lanes: Floats, R: Floats, iteration: int) -> None:
    """Run one iteration for the only lane that is still searching, along rows of R (``row_cholesky.py``)."""
    found = factor_one(M, group, lane, n, lanes[INVERSE_UNIT, lane], lanes[SHIFT, lane], R)
    lanes[FAILED, lane] = 0.0 if found else 1.0
    if found:
        for i in range(n):
            R[n + U, i] = x[U, i, lane]
        forward_one(R, n, n + U, n + Y)
        backward_one(R, n, n + Y, n + X)
        forward_one(R, n, n + X, n + W)
        lanes[VALUE, lane] = squared_norm_one(R, n + Y)
        lanes[SLOPE, lane] = squared_norm_one(R, n + X)
        lanes[CURVATURE, lane] = squared_norm_one(R, n + W)
    if update_roots(lanes, iteration) > 0:
        backward_one(R, n, n + W, n + T)
        for i in range(n):
            x[EIGENVECTOR, i, lane] = R[n + X, i] - lanes[STEP, lane] * R[n + T, i]
        lanes[STATUS, lane] = 0.0


@jit
def update_roots(lanes: Floats, iteration: int) -> int:
    """Move each searching lane towards its root and return how many have converged.

    After BISECT_AFTER iterations, every other step bisects the bracket on a logarithmic scale.
    """
    n_converged = 0
    for k in range(LANES):
        if lanes[STATUS, k] == 0.0:
            continue
        shift, noise = lanes[SHIFT, k], lanes[NOISE, k]
        if lanes[FAILED, k] > 0.0:  # rounding has made M slightly indefinite
            lanes[LOW, k] = shift
            lanes[SHIFT, k] = 2.0 * shift
            continue
        value, slope, curvature = lanes[VALUE, k], lanes[SLOPE, k], lanes[CURVATURE, k]
        if value <= 1.0 and shift <= noise:
            lanes[STATUS, k] = 0.0  # no negative eigenvalue
            continue
        if value > 1.0:
            lanes[LOW, k] = shift
        else:
            lanes[HIGH, k] = shift
        low, high = lanes[LOW, k], lanes[HIGH, k]
        # Model with one pole and a constant that matches the value, slope and curvature.
        reach = slope / curvature
        constant = value - slope * reach
        step = slope * reach * reach / (1.0 - constant) - reach if constant < 1.0 else high
        moved = shift + step
        if abs(step) <= LAST_STEP * shift:
            lanes[STATUS, k], lanes[MAGNITUDE, k], lanes[STEP, k] = CONVERGED, moved, step
            n_converged += 1
            continue
        if not low < moved < high:  # there may be no root at all: test at zero next
            moved = 0.5 * (low + high) if value > 1.0 or low > 0.0 else 0.0
        if iteration > BISECT_AFTER and iteration % 2 == 0:
            moved = sqrt(max(low, noise) * high)
        lanes[SHIFT, k] = max(moved, noise)
    return n_converged
