"""Rank-one updates of inverse second moments with exponential forgetting (recursive least squares).

``P[k]`` is the inverse of ``ridge + sum of weight * xx'``. Only its lower triangle is computed and then mirrored,
because forgetting would amplify an antisymmetric part.
"""

from __future__ import annotations

from ocelad._compile import jit, jit_reassoc
from ocelad._typing import Floats


@jit_reassoc
def quadratic_form(P: Floats, k: int, x: Floats, Px: Floats, n: int) -> float:
    """Return ``x'P[k]x`` and store ``P[k]x`` in ``Px[k]``; x has the shape (1, n)."""
    total = 0.0
    for i in range(n):
        product = 0.0
        for j in range(n):
            product += P[k, i, j] * x[0, j]
        Px[k, i] = product
        total += product * x[0, i]
    return total


@jit
def discount_and_add(P: Floats, k: int, Px: Floats, square: float, decay: float, weight: float, n: int) -> None:
    """Multiply the moments by ``decay``, then add ``weight xx'``; ``Px[k]`` is P[k]x and ``square`` is x'P[k]x."""
    inverse_decay = 1.0 / decay
    share = weight * inverse_decay * inverse_decay / (1.0 + weight * square * inverse_decay)
    for i in range(n):
        part = share * Px[k, i]
        for j in range(i + 1):
            P[k, i, j] = inverse_decay * P[k, i, j] - part * Px[k, j]
    symmetrize(P, k, n)


@jit
def add_to_diagonal(P: Floats, k: int, i: int, weight: float, column: Floats, n: int) -> None:
    """Add ``weight`` to the i-th diagonal entry of the moments."""
    share = weight / (1.0 + weight * P[k, i, i])
    for j in range(n):
        column[j] = P[k, i, j]
    for r in range(n):
        part = share * column[r]
        for j in range(r + 1):
            P[k, r, j] -= part * column[j]
    symmetrize(P, k, n)


@jit
def symmetrize(P: Floats, k: int, n: int) -> None:
    """Copy the lower triangle to the upper one."""
    for i in range(n):
        for j in range(i):
            P[k, j, i] = P[k, i, j]


@jit
def is_valid(P: Floats, k: int, n: int) -> bool:
    """Return whether the diagonal is finite and not negative, as that of an inverse must be despite rounding."""
    valid = True
    for i in range(n):
        valid = valid and 0.0 <= P[k, i, i] < 1e300
    return valid


@jit
def reset_moments(P: Floats, k: int, ridge: float, mean_squares: Floats, n: int) -> None:
    """Reset the moments to the ridge, relative to each feature's mean square; features that never differed get 0."""
    for i in range(n):
        for j in range(n):
            P[k, i, j] = 0.0
        if mean_squares[i] > 0.0:
            P[k, i, i] = 1.0 / (ridge * mean_squares[i])
