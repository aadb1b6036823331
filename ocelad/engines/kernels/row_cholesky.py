"""The Cholesky factor of one matrix, along its rows: for a learner that is alone, where the lanes of others are empty.

All is in one work space R: its first n rows are those of L', where ``L L'`` is the matrix, with one over the diagonal
in the place of the diagonal; the rows below are vectors. Rows are filled up with zeros to a multiple of eight, so that
eight entries of a row are one register.
"""

from __future__ import annotations

from math import sqrt

from ocelad._compile import compiled, compiled_sums
from ocelad._typing import Floats
from ocelad.engines.kernels.secular import LANES


@compiled
def factor_one(M: Floats, group: int, lane: int, n: int, per_unit: float, at: float, R: Floats) -> bool:
    """Factor ``per_unit M + at I``, of one lane of M; False where it is not positive definite."""
    p = 0
    for j in range(n):
        for i in range(j + 1):
            R[i, j] = per_unit * M[group, p, lane]
            p += 1
    blocks = R.shape[1] // LANES
    B = R.reshape((len(R), blocks, LANES))  # constant places in a block are what a compiler makes a register of
    for i in range(n):
        for m in range(blocks - i // LANES):
            reduce(B, i, i // LANES + m)
        value = R[i, i] + at
        if value <= 0.0:
            return False
        over = 1.0 / sqrt(value)
        for j in range(i):
            R[i, j] = 0.0
        for j in range(i, n):
            R[i, j] *= over
        R[i, i] = over
    return True


@compiled
def reduce(B: Floats, i: int, block: int) -> None:
    """Eight entries of row i less what the rows above take from them; rows are in blocks of eight."""
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


@compiled
def forward_one(R: Floats, n: int, source: int, target: int) -> None:
    """``R[target] = L^-1 R[source]``."""
    for j in range(n):
        R[target, j] = R[source, j]
    for i in range(n):
        R[target, i] *= R[i, i]
        value = R[target, i]
        for j in range(i + 1, n):
            R[target, j] -= value * R[i, j]


@compiled
def backward_one(R: Floats, n: int, source: int, target: int) -> None:
    """``R[target] = L'^-1 R[source]``."""
    for j in range(n):
        R[target, j] = R[source, j]
    for i in range(n - 1, -1, -1):
        R[target, i] *= R[i, i]
        value = R[target, i]
        for j in range(i):
            R[target, j] -= value * R[j, i]


@compiled_sums
def square_one(R: Floats, row: int) -> float:
    """The squared length of a row."""
    total = 0.0
    for j in range(R.shape[1]):
        total += R[row, j] * R[row, j]
    return total
