"""The eigenvalues of a diagonal matrix plus a rank-one matrix, by the secular equation.

The eigenvalues of ``diag(d) + s zz'`` with s > 0 are the roots of ``f(x) = 1/s + sum z_i^2 / (d_i - x)``. One root
lies between each two neighbouring poles and one above the last (Golub 1973). Each root is stored as an offset from
its nearer pole, so that its differences to all poles keep their digits (Li 1993). The eigenvectors are computed
from the z for which the computed roots are exact (Gu and Eisenstat 1994), so that they are orthogonal.

Eight roots are computed at once, one per vector lane. The loops over the lanes contain no branch and no sum over
lanes, and they write to fixed places of one array. This lets the compiler use vector instructions without reordering
a sum. The number of lanes is an argument because the compiler unrolls loops of a constant length before it tries to
vectorize them.
"""

from __future__ import annotations

from math import sqrt

from ocelad._compile import jit
from ocelad._typing import Floats

EPS = 2.0**-52
TINY = 1e-290  # products of smaller numbers would underflow
LANES = 8
MAX_ITERATIONS = 60
# Relative size of f at which only rounding error is left.
RESIDUAL_TOLERANCE = 4.0 * EPS
# A step this small relative to the distance to the nearest pole leaves an error of about its square.
LAST_STEP = 1e-7
# Position of padding poles: no root comes near them when the problem has size 1.
DUMMY_POLE = 8.0
# Offsets of each lane's numbers in the work array.
ORIGIN, OFFSET, LOW, HIGH, LEFT, RIGHT, TOP, SIDE, DONE = 0, 8, 16, 24, 32, 40, 48, 56, 64
SUM, ABS_SUM, SLOPE_SUM, SIGNED_SLOPE_SUM, N_NUMBERS = 72, 80, 88, 96, 104
# Rows of ``poles``: the poles, the weights, and each root as ROOT_ORIGIN + ROOT_OFFSET.
D, Z, ROOT_ORIGIN, ROOT_OFFSET, PRODUCT = 0, 1, 2, 3, 4


@jit
def padded(r: int) -> int:
    """Return r rounded up to a multiple of LANES."""
    return (r + LANES - 1) // LANES * LANES


@jit
def solve(poles: Floats, s: float, m: int, work: Floats) -> None:
    """Compute the eigenvalues of ``diag(d) + s zz'``, ascending, as ``ROOT_ORIGIN + ROOT_OFFSET``.

    Also replaces z by the vector for which the computed roots are exact. d and z are the rows D and Z of ``poles``.
    ``d[:m]`` must be strictly ascending, ``z[:m]`` must have no zeros, s must be positive, and neither the poles nor
    ``s |z|^2`` may exceed 1 in size. Each row has room for ``padded(m)`` numbers.
    """
    inverse_s = 1.0 / s
    for i in range(m, padded(m)):
        poles[D, i], poles[Z, i] = DUMMY_POLE + i, 0.0
    if m == 1:
        poles[ROOT_ORIGIN, 0], poles[ROOT_OFFSET, 0] = poles[D, 0], poles[Z, 0] * poles[Z, 0] / inverse_s
        return
    total = 0.0
    for i in range(m):
        total += poles[Z, i] * poles[Z, i]
    for first in range(0, m, LANES):
        start_lanes(poles, inverse_s, m, first, total, work, LANES)
        for _ in range(MAX_ITERATIONS):
            if iterate(inverse_s, work, LANES):
                break
            evaluate(poles, m, work, LANES)
        for j in range(min(LANES, m - first)):
            poles[ROOT_ORIGIN, first + j], poles[ROOT_OFFSET, first + j] = work[ORIGIN + j], work[OFFSET + j]
    exact_weights(poles, inverse_s, m, padded(m))


@jit
def start_lanes(poles: Floats, inverse_s: float, m: int, first: int, total: float, work: Floats, lanes: int) -> None:
    """Place each lane at the middle of its bracket and choose the nearer pole as its origin."""
    for j in range(lanes):
        root = min(first + j, m - 1)  # lanes after the last root repeat it
        inner = min(root, m - 2)
        left, right = poles[D, inner], poles[D, inner + 1]
        work[LEFT + j] = left
        work[RIGHT + j] = right
        work[ORIGIN + j] = left if root < m - 1 else right
        work[OFFSET + j] = 0.5 * (right - left if root < m - 1 else total / inverse_s)
        work[SIDE + j] = 1.0 if root < m - 1 else -1.0
        work[TOP + j] = 0.0 if root < m - 1 else poles[Z, m - 1] * poles[Z, m - 1]
        work[DONE + j] = 0.0
    evaluate(poles, m, work, lanes)
    for j in range(lanes):
        half, at = work[OFFSET + j], work[ORIGIN + j]
        inside = work[SIDE + j] > 0.0
        nearer_right = inside & (inverse_s + work[SUM + j] < 0.0)
        at = work[RIGHT + j] if nearer_right else at
        work[ORIGIN + j] = at
        work[OFFSET + j] = -half if nearer_right else half
        work[LOW + j] = -half if nearer_right else 0.0
        work[HIGH + j] = 0.0 if nearer_right else (half if inside else 2.0 * half)
        work[LEFT + j] -= at
        work[RIGHT + j] -= at


@jit
def evaluate(poles: Floats, m: int, work: Floats, lanes: int) -> None:
    """Evaluate at each lane's point: the sums of f's terms, their sizes, their slopes and their signed slopes.

    A term is negative for a pole below the point and positive for one above, and so is its signed slope. The two sums
    of slopes therefore separate the two sides. Four poles are handled at a time because the sums live in memory.
    """
    for j in range(lanes):
        work[SUM + j] = 0.0
        work[ABS_SUM + j] = 0.0
        work[SLOPE_SUM + j] = 0.0
        work[SIGNED_SLOPE_SUM + j] = 0.0
    for i in range(0, m, 4):
        d0, d1, d2, d3 = poles[D, i], poles[D, i + 1], poles[D, i + 2], poles[D, i + 3]
        z0, z1, z2, z3 = poles[Z, i], poles[Z, i + 1], poles[Z, i + 2], poles[Z, i + 3]
        s0, s1, s2, s3 = z0 * z0, z1 * z1, z2 * z2, z3 * z3
        for j in range(lanes):
            at, by = work[ORIGIN + j], work[OFFSET + j]
            inverse0, inverse1 = 1.0 / ((d0 - at) - by), 1.0 / ((d1 - at) - by)
            inverse2, inverse3 = 1.0 / ((d2 - at) - by), 1.0 / ((d3 - at) - by)
            term0, term1, term2, term3 = s0 * inverse0, s1 * inverse1, s2 * inverse2, s3 * inverse3
            size0, size1, size2, size3 = abs(term0), abs(term1), abs(term2), abs(term3)
            work[SUM + j] += (term0 + term1) + (term2 + term3)
            work[ABS_SUM + j] += (size0 + size1) + (size2 + size3)
            work[SLOPE_SUM + j] += (term0 * inverse0 + term1 * inverse1) + (term2 * inverse2 + term3 * inverse3)
            work[SIGNED_SLOPE_SUM + j] += (size0 * inverse0 + size1 * inverse1) + (size2 * inverse2 + size3 * inverse3)


@jit
def iterate(inverse_s: float, work: Floats, lanes: int) -> bool:
    """Move every root by the rational interpolant that matches the values and slopes of both sides ("middle way").

    Returns whether all lanes have converged.
    """
    for j in range(lanes):
        x = work[OFFSET + j]
        f = inverse_s + work[SUM + j]
        low = x if f < 0.0 else work[LOW + j]
        high = work[HIGH + j] if f < 0.0 else x
        to_left, to_right = work[LEFT + j] - x, work[RIGHT + j] - x
        side = work[SIDE + j]
        # The root above all poles treats the last pole as its right side, although it lies to the left.
        top = work[TOP + j] / (to_right * to_right)
        slopes, signed_slopes = work[SLOPE_SUM + j], work[SIGNED_SLOPE_SUM + j]
        below, above = 0.5 * (slopes - signed_slopes) - top, 0.5 * (slopes + signed_slopes) + top
        c = f - to_left * below - to_right * above
        a = (to_left + to_right) * f - to_left * to_right * slopes
        b = to_left * to_right * f
        root = sqrt(abs(a * a - 4.0 * b * c))
        direct = side * a <= 0.0
        step = (a - side * root if direct else 2.0 * b) / (2.0 * c if direct else a + side * root)
        newton = -f / slopes
        step = step if f * step < 0.0 else newton
        moved = x + step
        inside = (moved > low) & (moved < high)
        moved = moved if inside else 0.5 * (low + high)
        nearest = min(abs(to_left), abs(to_right))
        converged = (work[DONE + j] > 0.0) | (abs(f) <= RESIDUAL_TOLERANCE * (inverse_s + work[ABS_SUM + j]))
        last = inside & (abs(step) <= LAST_STEP * nearest)
        stuck = (moved == x) | (moved == low) | (moved == high)
        work[OFFSET + j] = x if converged else moved
        work[LOW + j] = low
        work[HIGH + j] = high
        work[DONE + j] = 1.0 if converged | last | stuck else 0.0
    n_done = 0.0
    for j in range(lanes):
        n_done += work[DONE + j]
    return n_done == lanes


@jit
def exact_weights(poles: Floats, inverse_s: float, m: int, width: int) -> None:
    """Replace z by the vector for which the computed roots are the exact eigenvalues."""
    at, by = poles[ROOT_ORIGIN, m - 1], poles[ROOT_OFFSET, m - 1]
    for i in range(width):
        poles[PRODUCT, i] = inverse_s * abs((poles[D, i] - at) - by)
    for j in range(m - 1):
        at, by, this, following = poles[ROOT_ORIGIN, j], poles[ROOT_OFFSET, j], poles[D, j], poles[D, j + 1]
        for i in range(width):
            d = poles[D, i]
            pole = this if d > this else following
            poles[PRODUCT, i] *= abs((d - at) - by) / abs(pole - d)
    for i in range(width):
        root = sqrt(poles[PRODUCT, i])
        poles[Z, i] = root if poles[Z, i] > 0.0 else -root


@jit
def eigenvectors(poles: Floats, m: int, work: Floats, lanes: int) -> None:
    """Compute the eigenvectors ``z_i / (d_i - root)`` of the roots in ORIGIN and OFFSET, one per lane.

    They are stored in ``work`` from N_NUMBERS on, not normalized; the inverses of their lengths go to SLOPE_SUM.
    """
    for j in range(lanes):
        work[SUM + j] = 0.0
    for i in range(m):
        d, z, at = poles[D, i], poles[Z, i], N_NUMBERS + lanes * i
        for j in range(lanes):
            x = z / ((d - work[ORIGIN + j]) - work[OFFSET + j])
            work[at + j] = x
            work[SUM + j] += x * x
    for j in range(lanes):
        work[SLOPE_SUM + j] = 1.0 / sqrt(work[SUM + j])
