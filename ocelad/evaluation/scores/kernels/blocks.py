"""Points in blocks, ``LANES`` side by side, feature by feature: distances to a block are vector instructions."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ocelad._compile import compiled
from ocelad._typing import Floats

Ints: TypeAlias = npt.NDArray[np.int64]
# As wide as single precision, so that both go through the same vector lanes.
Narrow: TypeAlias = npt.NDArray[np.int32]

# A block of 25 features is 25 kB and stays in the fastest cache.
LANES = 128


@compiled
def packed(X: Floats) -> Floats:
    """The points in blocks, of shape (n_blocks, n_features, LANES); what fills the last one is infinitely far."""
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


@compiled
def distances_to(blocks: Floats, b: int, places: Floats, i: int, out: Floats, row: int) -> None:
    """Squared distances of the points in block b to place i, put into a row."""
    n_features = blocks.shape[1]
    for j in range(LANES):
        out[row, j] = 0.0
    by_four = n_features - n_features % 4
    for f in range(0, by_four, 4):  # four at a time: the sums are loaded and stored less often
        p, q, r, s = places[i, f], places[i, f + 1], places[i, f + 2], places[i, f + 3]
        for j in range(LANES):
            one, two = blocks[b, f, j] - p, blocks[b, f + 1, j] - q
            three, four = blocks[b, f + 2, j] - r, blocks[b, f + 3, j] - s
            result = out[row, j] + one * one
            result += two * two
            result += three * three
            out[row, j] = result + four * four
    for f in range(by_four, n_features):
        p = places[i, f]
        for j in range(LANES):
            one = blocks[b, f, j] - p
            out[row, j] += one * one
