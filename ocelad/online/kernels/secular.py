"""The eigenproblem of a diagonal matrix plus a rank-one matrix, by the secular equation.

The eigenvalues of ``diag(d) + s zz'`` with s > 0 are the roots of ``f(x) = 1/s + sum z_i^2 / (d_i - x)``, one
between each two neighbouring poles and one above the last (Golub 1973). Each root is found as an offset from
its nearer pole, so that the differences to all poles keep their digits (Li 1993), and the eigenvectors come
from the z for which the computed roots are exact (Gu and Eisenstat 1994), so that they are orthogonal.

All roots between poles are sought at once: the inner loops run over the roots, along memory, and contain no sum
over vector lanes, so that they become vector instructions without any reordering of sums.
"""

from __future__ import annotations

from math import sqrt

from ocelad.checks import Floats
from ocelad.online.compiled import compiled

EPS = 2.0**-52
MAX_ITERATIONS = 60
# f is as near to zero as rounding lets it be.
ARRIVED = 4.0 * EPS
# Rows of the work space.
ORIGIN, OFFSET, LOW, HIGH, PSI, PHI, PSI_SLOPE, PHI_SLOPE, N_ROWS = 0, 1, 2, 3, 4, 5, 6, 7, 8


@compiled
def solve(d: Floats, z: Floats, s: float, m: int, width: int, work: Floats, roots: Floats, Q: Floats) -> None:
    """Eigenvalues (to ``roots``, ascending) and eigenvectors (to the columns of ``Q``) of ``diag(d) + s zz'``.

    ``d[:m]`` is strictly ascending, no ``z[:m]`` is zero, s > 0. Arrays have room for ``width`` >= m entries, a
    multiple of the number of lanes; what is behind m only fills the lanes.
    """
    level = 1.0 / s
    origin, offset, low, high = work[ORIGIN], work[OFFSET], work[LOW], work[HIGH]
    psi, phi, psi_slope, phi_slope = work[PSI], work[PHI], work[PSI_SLOPE], work[PHI_SLOPE]
    for j in range(m, width):  # any numbers at which nothing is divided by zero
        d[j] = 2.0 * abs(d[m - 1]) + j
        origin[j], offset[j] = d[0], 1.0
    if m > 1:
        for j in range(width):
            inner = min(j, m - 2)  # the lanes behind repeat the last one
            half = 0.5 * (d[inner + 1] - d[inner])
            origin[j] = d[inner]
            offset[j] = half
        evaluate(d, z, m, width, origin, offset, psi, phi, psi_slope, phi_slope)
        for j in range(width):
            inner = min(j, m - 2)
            half = offset[j]
            below = level + psi[j] + phi[j] < 0.0
            origin[j] = d[inner + 1] if below else d[inner]
            offset[j] = -half if below else half
            low[j] = -half if below else 0.0
            high[j] = 0.0 if below else half
        for _ in range(MAX_ITERATIONS):
            if improve(d, level, m, width, origin, offset, low, high, psi, phi, psi_slope, phi_slope):
                break
            evaluate(d, z, m, width, origin, offset, psi, phi, psi_slope, phi_slope)
    origin[m - 1] = d[m - 1]
    offset[m - 1] = last_root(d, z, level, m)
    for j in range(m):
        roots[j] = origin[j] + offset[j]
    exact_weights(d, z, level, m, width, origin, offset, psi)
    vectors(d, z, m, width, origin, offset, phi, Q)


@compiled
def evaluate(
    d: Floats,
    z: Floats,
    m: int,
    width: int,
    origin: Floats,
    offset: Floats,
    psi: Floats,
    phi: Floats,
    psi_slope: Floats,
    phi_slope: Floats,
) -> None:
    """At every root's current place: the sums over the poles below (psi) and above it (phi), and their slopes."""
    for j in range(width):
        psi[j] = 0.0
        phi[j] = 0.0
        psi_slope[j] = 0.0
        phi_slope[j] = 0.0
    for i in range(m):
        di, zi = d[i], z[i]
        for j in range(width):
            ratio = zi / ((di - origin[j]) - offset[j])
            term, square = zi * ratio, ratio * ratio
            psi[j] += term if i <= j else 0.0
            phi[j] += 0.0 if i <= j else term
            psi_slope[j] += square if i <= j else 0.0
            phi_slope[j] += 0.0 if i <= j else square


@compiled
def improve(
    d: Floats,
    level: float,
    m: int,
    width: int,
    origin: Floats,
    offset: Floats,
    low: Floats,
    high: Floats,
    psi: Floats,
    phi: Floats,
    psi_slope: Floats,
    phi_slope: Floats,
) -> bool:
    """Move every root by the rational function that has both parts' values and slopes (the middle way)."""
    arrived = True
    for j in range(m - 1):
        x = offset[j]
        f = level + psi[j] + phi[j]
        if abs(f) <= ARRIVED * (level - psi[j] + phi[j]):
            continue
        if f < 0.0:
            low[j] = x
        else:
            high[j] = x
        to_left, to_right = (d[j] - origin[j]) - x, (d[j + 1] - origin[j]) - x
        c = f - to_left * psi_slope[j] - to_right * phi_slope[j]
        a = (to_left + to_right) * f - to_left * to_right * (psi_slope[j] + phi_slope[j])
        b = to_left * to_right * f
        root = sqrt(abs(a * a - 4.0 * b * c))
        step = (a - root) / (2.0 * c) if a <= 0.0 else 2.0 * b / (a + root)
        if not f * step < 0.0:
            step = -f / (psi_slope[j] + phi_slope[j])
        moved = x + step
        if not low[j] < moved < high[j]:
            moved = 0.5 * (low[j] + high[j])
            if moved == low[j] or moved == high[j]:
                continue
        if moved != x:
            arrived = False
            offset[j] = moved
    return arrived


@compiled
def last_root(d: Floats, z: Floats, level: float, m: int) -> float:
    """The offset of the root above the last pole, by interpolation with the last two poles."""
    if m == 1:
        return float(z[0] * z[0] / level)
    total = 0.0
    for i in range(m):
        total += z[i] * z[i]
    last = d[m - 1]
    low, high = 0.0, total / level
    x = 0.5 * high
    for _ in range(MAX_ITERATIONS):
        psi, psi_slope = 0.0, 0.0
        for i in range(m - 1):
            ratio = z[i] / ((d[i] - last) - x)
            psi += z[i] * ratio
            psi_slope += ratio * ratio
        ratio = z[m - 1] / -x
        phi, phi_slope = z[m - 1] * ratio, ratio * ratio
        f = level + psi + phi
        if abs(f) <= ARRIVED * (level - psi - phi):
            break
        if f < 0.0:
            low = x
        else:
            high = x
        to_left, to_right = (d[m - 2] - last) - x, -x
        c = f - to_left * psi_slope - to_right * phi_slope
        a = (to_left + to_right) * f - to_left * to_right * (psi_slope + phi_slope)
        b = to_left * to_right * f
        root = sqrt(abs(a * a - 4.0 * b * c))
        step = (a + root) / (2.0 * c) if a >= 0.0 else 2.0 * b / (a - root)
        if not f * step < 0.0:
            step = -f / (psi_slope + phi_slope)
        moved = x + step
        if not low < moved < high:
            moved = 0.5 * (low + high)
            if moved in (low, high):
                break
        if moved == x:
            break
        x = moved
    return x


@compiled
def exact_weights(
    d: Floats, z: Floats, level: float, m: int, width: int, origin: Floats, offset: Floats, product: Floats
) -> None:
    """Replace z by the one for which the computed roots are exact."""
    for i in range(width):
        product[i] = level * abs((d[i] - origin[m - 1]) - offset[m - 1])
    for j in range(m - 1):
        at, by, this, following = origin[j], offset[j], d[j], d[j + 1]
        for i in range(width):
            pole = this if j < i else following
            product[i] *= abs((d[i] - at) - by) / abs(pole - d[i])
    for i in range(m):
        z[i] = sqrt(product[i]) if z[i] > 0.0 else -sqrt(product[i])


@compiled
def vectors(d: Floats, z: Floats, m: int, width: int, origin: Floats, offset: Floats, total: Floats, Q: Floats) -> None:
    """The eigenvectors ``z_i / (d_i - root_j)``, scaled to length 1, as the columns of Q."""
    for j in range(width):
        total[j] = 0.0
    for i in range(m):
        di, zi = d[i], z[i]
        row = Q[i]
        for j in range(width):
            row[j] = zi / ((di - origin[j]) - offset[j])
            total[j] += row[j] * row[j]
    for j in range(width):
        total[j] = 1.0 / sqrt(total[j])
    for i in range(m):
        row = Q[i]
        for j in range(width):
            row[j] *= total[j]
