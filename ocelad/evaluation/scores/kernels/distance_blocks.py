"""Points in blocks of ``LANES`` points, feature by feature, so that distances to a block use vector instructions."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ocelad._compile import jit
from ocelad._typing import Floats

Ints: TypeAlias = npt.NDArray[np.int64]
# As wide as single precision, so that both use the same number of vector lanes.
Int32s: TypeAlias = npt.NDArray[np.int32]

# A block of 25 features has 25 kB and fits in the L1 cache.
LANES = 128


@jit
def pack_blocks(X: Floats) -> Floats:
    """Return the points in blocks of shape (n_blocks, n_features, LANES). Padding in the last block is infinite."""
    n, n_features = X.shape
    blocks = np.empty((-(-n // LANES), n_features, LANES))
    for b in range(len(blocks)):
        count = min(LANES, n - b * LANES)
        for f in range(n_features):
            for j in range(count):
                blocks[b, f, j] = X[b * LANES + j, f]
            for j in range(count, LANES):
                blocks[b, f, j] = np.inf
    return blocks


@jit
def squared_distances(blocks: Floats, b: int, queries: Floats, i: int, out: Floats, row: int) -> None:
    """Compute the squared distances between the points of block b and query i, and store them in ``out[row]``."""
    n_features = blocks.shape[1]
    for j in range(LANES):
        out[row, j] = 0.0
    by_four = n_features - n_features % 4
    for f in range(0, by_four, 4):  # four features at a time save loads and stores of the sums
        p, q, r, s = queries[i, f], queries[i, f + 1], queries[i, f + 2], queries[i, f + 3]
        for j in range(LANES):
            one, two = blocks[b, f, j] - p, blocks[b, f + 1, j] - q
            three, four = blocks[b, f + 2, j] - r, blocks[b, f + 3, j] - s
            result = out[row, j] + one * one
            result += two * two
            result += three * three
            out[row, j] = result + four * four
    for f in range(by_four, n_features):
        p = queries[i, f]
        for j in range(LANES):
            one = blocks[b, f, j] - p
            out[row, j] += one * one
