"""Inverses of second moments that are forgotten: one pair changes them by a term of rank one.

``P[k]`` is the inverse of ``ridge + sum of weight * xx'``. Its lower triangle is computed and mirrored: an
antisymmetric part, once there, would grow by every forgetting.
"""

from __future__ import annotations

from ocelad._compile import compiled, compiled_sums
from ocelad._typing import Floats


@compiled_sums
def form(P: Floats, k: int, x: Floats, v: Floats, n: int) -> float:
    """``x'Px``; ``Px`` comes to ``v[k]``. x is a row of a matrix of one."""
    total = 0.0
    for i in range(n):
        product = 0.0
        for j in range(n):
            product += P[k, i, j] * x[0, j]
        v[k, i] = product
        total += product * x[0, i]
    return total


@compiled
def add(P: Floats, k: int, v: Floats, square: float, saved: float, weight: float, n: int) -> None:
    """Forget all but a share of the moments, then add ``weight xx'``, where v[k] is Px and square is x'Px."""
    grown = 1.0 / saved
    share = weight * grown * grown / (1.0 + weight * square * grown)
    for i in range(n):
        part = share * v[k, i]
        for j in range(i + 1):
            P[k, i, j] = grown * P[k, i, j] - part * v[k, j]
    mirror(P, k, n)


@compiled
def strengthen(P: Floats, k: int, i: int, weight: float, column: Floats, n: int) -> None:
    """Add a weight to feature i's own moment."""
    share = weight / (1.0 + weight * P[k, i, i])
    for j in range(n):
        column[j] = P[k, i, j]
    for r in range(n):
        part = share * column[r]
        for j in range(r + 1):
            P[k, r, j] -= part * column[j]
    mirror(P, k, n)


@compiled
def mirror(P: Floats, k: int, n: int) -> None:
    """The upper triangle from the lower one."""
    for i in range(n):
        for j in range(i):
            P[k, j, i] = P[k, i, j]


@compiled
def is_sound(P: Floats, k: int, n: int) -> bool:
    """Whether rounding has left the diagonal as that of an inverse can be: finite, 0 or above."""
    sound = True
    for i in range(n):
        sound = sound and 0.0 <= P[k, i, i] < 1e300
    return sound


@compiled
def begin(P: Floats, k: int, ridge: float, spread: Floats, n: int) -> None:
    """Moments of no pairs: the ridge alone, relative to each feature's spread; what never differed has no weight."""
    for i in range(n):
        for j in range(n):
            P[k, i, j] = 0.0
        if spread[i] > 0.0:
            P[k, i, i] = 1.0 / (ridge * spread[i])
