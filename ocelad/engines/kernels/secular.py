"""The eigenvalues of a diagonal matrix plus a rank-one matrix, by the secular equation.

The eigenvalues of ``diag(d) + s zz'`` with s > 0 are the roots of ``f(x) = 1/s + sum z_i^2 / (d_i - x)``, one
between each two neighbouring poles and one above the last (Golub 1973). Each root is found as an offset from
its nearer pole, so that the differences to all poles keep their digits (Li 1993), and the eigenvectors come
from the z for which the computed roots are exact (Gu and Eisenstat 1994), so that they are orthogonal.

Eight roots are sought at once, one per vector lane. The loops over the lanes contain no branch and no sum over
lanes, and all that they write lies in one array at fixed places: that is what makes a compiler turn them into
vector instructions without reordering a sum. Their length comes as an argument, because loops of a constant
length are unrolled before anybody looks whether they are vectors.
"""

from __future__ import annotations

from math import sqrt

from ocelad._compile import compiled
from ocelad._typing import Floats

EPS = 2.0**-52
SMALLEST = 1e-290  # below it, products of the numbers at hand would underflow
LANES = 8
MAX_ITERATIONS = 60
# f is as near to zero as rounding lets it be.
ARRIVED = 4.0 * EPS
# A step that is so small beside the way to the nearest pole leaves an error of about its square.
LAST_STEP = 1e-7
# A pole that is none: no root comes near it when the problem has size 1.
NOWHERE = 8.0
# Where each lane's numbers lie in the work space.
ORIGIN, OFFSET, LOW, HIGH, LEFT, RIGHT, TOP, SIDE, DONE = 0, 8, 16, 24, 32, 40, 48, 56, 64
TERMS, SIZES, SLOPES, TURNS, N_NUMBERS = 72, 80, 88, 96, 104
# The rows of ``poles`` that are used here: the poles, the weights, and the roots as offsets BY from AT.
D, Z, AT, BY, PRODUCT = 0, 1, 2, 3, 4


@compiled
def padded(r: int) -> int:
    """The next multiple of LANES."""
    return (r + LANES - 1) // LANES * LANES


@compiled
def solve(poles: Floats, s: float, m: int, work: Floats) -> None:
    """Eigenvalues of ``diag(d) + s zz'``, ascending, as ``AT + BY``; z becomes the one that makes them exact.

    d and z are rows D and Z of ``poles``. ``d[:m]`` is strictly ascending, no ``z[:m]`` is zero, s > 0, and the problem
    has size 1: neither the poles nor ``s |z|^2`` are larger. Rows have room for ``padded(m)`` numbers.
    """
    level = 1.0 / s
    for i in range(m, padded(m)):
        poles[D, i], poles[Z, i] = NOWHERE + i, 0.0
    if m == 1:
        poles[AT, 0], poles[BY, 0] = poles[D, 0], poles[Z, 0] * poles[Z, 0] / level
        return
    total = 0.0
    for i in range(m):
        total += poles[Z, i] * poles[Z, i]
    for first in range(0, m, LANES):
        begin(poles, level, m, first, total, work, LANES)
        for _ in range(MAX_ITERATIONS):
            if improve(level, work, LANES):
                break
            evaluate(poles, m, work, LANES)
        for j in range(min(LANES, m - first)):
            poles[AT, first + j], poles[BY, first + j] = work[ORIGIN + j], work[OFFSET + j]
    exact_weights(poles, level, m, padded(m))


@compiled
def begin(poles: Floats, level: float, m: int, first: int, total: float, work: Floats, lanes: int) -> None:
    """Put each lane's root into the middle of where it may be; its nearer pole becomes its origin."""
    for j in range(lanes):
        root = min(first + j, m - 1)  # lanes behind the last root repeat it
        inner = min(root, m - 2)
        left, right = poles[D, inner], poles[D, inner + 1]
        work[LEFT + j] = left
        work[RIGHT + j] = right
        work[ORIGIN + j] = left if root < m - 1 else right
        work[OFFSET + j] = 0.5 * (right - left if root < m - 1 else total / level)
        work[SIDE + j] = 1.0 if root < m - 1 else -1.0
        work[TOP + j] = 0.0 if root < m - 1 else poles[Z, m - 1] * poles[Z, m - 1]
        work[DONE + j] = 0.0
    evaluate(poles, m, work, lanes)
    for j in range(lanes):
        half, at = work[OFFSET + j], work[ORIGIN + j]
        inside = work[SIDE + j] > 0.0
        nearer_right = inside & (level + work[TERMS + j] < 0.0)
        at = work[RIGHT + j] if nearer_right else at
        work[ORIGIN + j] = at
        work[OFFSET + j] = -half if nearer_right else half
        work[LOW + j] = -half if nearer_right else 0.0
        work[HIGH + j] = 0.0 if nearer_right else (half if inside else 2.0 * half)
        work[LEFT + j] -= at
        work[RIGHT + j] -= at


@compiled
def evaluate(poles: Floats, m: int, work: Floats, lanes: int) -> None:
    """The terms of f at each lane's place: their sum and that of their sizes, of their slopes, and of these signed.

    A term is negative for the poles below the place and positive for those above, and so is its signed slope: the
    two sums tell the sides apart. Four poles at a time, because the sums come from memory and go back there.
    """
    for j in range(lanes):
        work[TERMS + j] = 0.0
        work[SIZES + j] = 0.0
        work[SLOPES + j] = 0.0
        work[TURNS + j] = 0.0
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
            work[TERMS + j] += (term0 + term1) + (term2 + term3)
            work[SIZES + j] += (size0 + size1) + (size2 + size3)
            work[SLOPES + j] += (term0 * inverse0 + term1 * inverse1) + (term2 * inverse2 + term3 * inverse3)
            work[TURNS + j] += (size0 * inverse0 + size1 * inverse1) + (size2 * inverse2 + size3 * inverse3)


@compiled
def improve(level: float, work: Floats, lanes: int) -> bool:
    """Move every root by the rational function that has both sides' values and slopes (the middle way).

    Returns whether all of them have arrived.
    """
    for j in range(lanes):
        x = work[OFFSET + j]
        f = level + work[TERMS + j]
        low = x if f < 0.0 else work[LOW + j]
        high = work[HIGH + j] if f < 0.0 else x
        to_left, to_right = work[LEFT + j] - x, work[RIGHT + j] - x
        side = work[SIDE + j]
        # The root above all poles takes the last pole for its right side, though it is on its left.
        top = work[TOP + j] / (to_right * to_right)
        slopes, turns = work[SLOPES + j], work[TURNS + j]
        below, above = 0.5 * (slopes - turns) - top, 0.5 * (slopes + turns) + top
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
        arrived = (work[DONE + j] > 0.0) | (abs(f) <= ARRIVED * (level + work[SIZES + j]))
        last = inside & (abs(step) <= LAST_STEP * nearest)
        stuck = (moved == x) | (moved == low) | (moved == high)
        work[OFFSET + j] = x if arrived else moved
        work[LOW + j] = low
        work[HIGH + j] = high
        work[DONE + j] = 1.0 if arrived | last | stuck else 0.0
    n_done = 0.0
    for j in range(lanes):
        n_done += work[DONE + j]
    return n_done == lanes


@compiled
def exact_weights(poles: Floats, level: float, m: int, width: int) -> None:
    """Replace z by the one for which the computed roots are exact."""
    at, by = poles[AT, m - 1], poles[BY, m - 1]
    for i in range(width):
        poles[PRODUCT, i] = level * abs((poles[D, i] - at) - by)
    for j in range(m - 1):
        at, by, this, following = poles[AT, j], poles[BY, j], poles[D, j], poles[D, j + 1]
        for i in range(width):
            d = poles[D, i]
            pole = this if d > this else following
            poles[PRODUCT, i] *= abs((d - at) - by) / abs(pole - d)
    for i in range(width):
        root = sqrt(poles[PRODUCT, i])
        poles[Z, i] = root if poles[Z, i] > 0.0 else -root


@compiled
def vectors(poles: Floats, m: int, work: Floats, lanes: int) -> None:
    """The eigenvectors ``z_i / (d_i - root)`` of the roots in ORIGIN and OFFSET, one per lane, behind all else in work.

    One over their lengths is in SLOPES.
    """
    for j in range(lanes):
        work[TERMS + j] = 0.0
    for i in range(m):
        d, z, at = poles[D, i], poles[Z, i], N_NUMBERS + lanes * i
        for j in range(lanes):
            x = z / ((d - work[ORIGIN + j]) - work[OFFSET + j])
            work[at + j] = x
            work[TERMS + j] += x * x
    for j in range(lanes):
        work[SLOPES + j] = 1.0 / sqrt(work[TERMS + j])
