"""Cholesky factorization of one matrix along its rows, for the case that only one of eight lanes is in use.

Everything is stored in one work array R. Its first n rows are those of L', where ``L L'`` is the matrix; the diagonal
holds the inverses of L's diagonal. The rows below are vectors. Rows are padded with zeros to a multiple of eight, so
that eight entries of a row fill one register.
"""

from __future__ import annotations

from math import sqrt

from ocelad._compile import jit, jit_reassoc
from ocelad._typing import Floats
from ocelad.engines.kernels.secular import LANES


@jit
def factor_one(M: Floats, group: int, lane: int, n: int, inverse_unit: float, shift: float, R: Floats) -> bool:
    """Factor ``inverse_unit M + shift I`` for one lane of M; return False if it is not positive definite."""
    p = 0
    for j in range(n):
        for i in range(j + 1):
            R[i, j] = inverse_unit * M[group, p, lane]
            p += 1
    blocks = R.shape[1] // LANES
    B = R.reshape((len(R), blocks, LANES))  # constant indices within a block let the compiler keep it in a register
    for i in range(n):
        for m in range(blocks - i // LANES):
            eliminate(B, i, i // LANES + m)
        value = R[i, i] + shift
        if value <= 0.0:
            return False
        over = 1.0 / sqrt(value)
        for j in range(i):
            R[i, j] = 0.0
        for j in range(i, n):
            R[i, j] *= over
        R[i, i] = over
    return True


@jit
def eliminate(B: Floats, i: int, block: int) -> None:
    """Subtract the contribution of the rows above from eight entries of row i; rows are in blocks of eight."""
    a, b, c, d = B[i, block, 0], B[i, block, 1], B[i, block, 2], B[i, block, 3]
    e, f, g, h = B[i, block, 4], B[i, block, 5], B[i, block, 6], B[i, block, 7]
    for k in range(i):
        s = B[k, i // LANES, i % LANES]
        a -= s * B[k, block, 0]
        b -= s * B[k, block, 1]
        c -= s * B[k, block, 2]
        d -= s * B[k, block, 3]
        e -= s * B[k, block, 4]
        f -= s * B[k, block, 5]
        g -= s * B[k, block, 6]
        h -= s * B[k, block, 7]
    B[i, block, 0], B[i, block, 1], B[i, block, 2], B[i, block, 3] = a, b, c, d
    B[i, block, 4], B[i, block, 5], B[i, block, 6], B[i, block, 7] = e, f, g, h


@jit
def forward_one(R: Floats, n: int, source: int, target: int) -> None:
    """Compute ``R[target] = L^-1 R[source]``."""
    for j in range(n):
        R[target, j] = R[source, j]
    for i in range(n):
        R[target, i] *= R[i, i]
        value = R[target, i]
        for j in range(i + 1, n):
            R[target, j] -= value * R[i, j]


@jit
def backward_one(R: Floats, n: int, source: int, target: int) -> None:
    """Compute ``R[target] = L'^-1 R[source]``."""
    for j in range(n):
        R[target, j] = R[source, j]
    for i in range(n - 1, -1, -1):
        R[target, i] *= R[i, i]
        value = R[target, i]
        for j in range(i):
            R[target, j] -= value * R[j, i]


@jit_reassoc
def squared_norm_one(R: Floats, row: int) -> float:
    """Return the squared length of a row."""
    total = 0.0
    for j in range(R.shape[1]):
        total += R[row, j] * R[row, j]
    return total
