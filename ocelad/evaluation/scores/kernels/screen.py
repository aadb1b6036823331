"""Squared distances in single precision with a bound on their error.

Most comparisons of distances are decided by the screen: if two distances differ by more than their error bounds, double
precision gives the same order. All others are computed in double precision, so that the result is the same as without
the screen.

With u = 2^-24, points y_i of m features and N_i = |y_i|^2, ``N_j - 2 y_i'y_j`` in single precision differs from
``|y_i - y_j|^2 - N_i`` by at most ``(2 m + 5) u (N_i + N_j)`` and terms of second order: ``2 (m + 1) u`` for the sum of
products, ``2 u`` for the rounding of the points, ``u`` for the rounding of N_j. ``relative_error_bound`` is nearly
twice as large. It also covers the terms of second order, the roundings of the compared values, and the rounding errors
of distances in double precision.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ocelad._compile import jit
from ocelad._typing import Floats
from ocelad.evaluation.scores.kernels.distance_blocks import LANES

Float32s: TypeAlias = npt.NDArray[np.float32]

# The number of queries that are screened at a time.
QUERIES_PER_PASS = 3
# A bound on the change of a distance by underflow in single precision, for points of size 1.
UNDERFLOW_ERROR = 2.0**-100


class Screen(NamedTuple):
    """Points in single precision, centred and scaled to size 1.

    Attributes
    ----------
    blocks : array of shape (n_blocks, n_features, LANES)
        The points; padding in the last block is 0.
    lower_norms : array of shape (n_blocks, LANES)
        N_j minus its part of the error bound; infinite for padding.
    slack : array of shape (n_blocks, LANES)
        Twice the part of the error bound that is due to N_j.
    relative_error : float
        The error bound of a distance relative to ``N_i + N_j``.
    scale : float
        The power of two by which the points were multiplied.
    """

    blocks: Float32s
    lower_norms: Float32s
    slack: Float32s
    relative_error: float
    scale: float


def relative_error_bound(n_features: int) -> float:
    """Return the bound on the error of a distance in single precision, relative to ``N_i + N_j``."""
    return 4 * (n_features + 4) * 2.0**-24


def make_screen(centred: Floats, largest: float) -> Screen:
    """Return the screen of centred points. ``largest`` bounds the absolute values of all points and later queries."""
    n, n_features = centred.shape
    n_blocks = -(-n // LANES)
    screen = Screen(
        np.zeros((n_blocks, n_features, LANES), dtype=np.float32),
        np.full((n_blocks, LANES), np.inf, dtype=np.float32),
        np.zeros((n_blocks, LANES), dtype=np.float32),
        relative_error_bound(n_features),
        2.0 ** -int(np.frexp(largest)[1]),
    )
    fill_screen(centred, *screen)
    return screen


@jit
def fill_screen(
    centred: Floats, blocks: Float32s, lower_norms: Float32s, slack: Float32s, relative_error: float, scale: float
) -> None:
    """Store the points in the arrays of a screen."""
    n, n_features = centred.shape
    lengths = np.empty(LANES)
    for b in range(len(blocks)):
        count = min(LANES, n - b * LANES)
        for j in range(count):
            lengths[j] = 0.0
        for f in range(n_features):
            for j in range(count):
                y = scale * centred[b * LANES + j, f]
                blocks[b, f, j] = y
                lengths[j] += y * y
        for j in range(count):
            lower_norms[b, j] = (1 - relative_error) * lengths[j]
            slack[b, j] = 2 * relative_error * lengths[j]


@jit
def load_query(centred: Floats, i: int, scale: float, doubled: Float32s, row: int) -> float:
    """Store ``2 y_i`` of a query in ``doubled[row]``, and return its N_i."""
    length = 0.0
    for f in range(centred.shape[1]):
        y = scale * centred[i, f]
        doubled[row, f] = 2 * y
        length += y * y
    return length


@jit
def subtract_products(blocks: Float32s, b: int, doubled: Float32s, row: int, out: Float32s) -> None:
    """Subtract ``2 y_i'y_j`` from ``out[row, b]`` and the next two rows, for the points y_j of block b.

    It processes ``QUERIES_PER_PASS`` queries and four features at a time, which saves loads of points and sums.
    """
    second, third = row + 1, row + 2
    n_features = blocks.shape[1]
    by_four = n_features - n_features % 4
    for f in range(0, by_four, 4):
        p0, p1, p2, p3 = doubled[row, f], doubled[row, f + 1], doubled[row, f + 2], doubled[row, f + 3]
        q0, q1, q2, q3 = doubled[second, f], doubled[second, f + 1], doubled[second, f + 2], doubled[second, f + 3]
        r0, r1, r2, r3 = doubled[third, f], doubled[third, f + 1], doubled[third, f + 2], doubled[third, f + 3]
        for j in range(LANES):
            y0, y1, y2, y3 = blocks[b, f, j], blocks[b, f + 1, j], blocks[b, f + 2, j], blocks[b, f + 3, j]
            out[row, b, j] = out[row, b, j] - p0 * y0 - p1 * y1 - p2 * y2 - p3 * y3
            out[second, b, j] = out[second, b, j] - q0 * y0 - q1 * y1 - q2 * y2 - q3 * y3
            out[third, b, j] = out[third, b, j] - r0 * y0 - r1 * y1 - r2 * y2 - r3 * y3
    for f in range(by_four, n_features):
        p, q, r = doubled[row, f], doubled[second, f], doubled[third, f]
        for j in range(LANES):
            y = blocks[b, f, j]
            out[row, b, j] -= p * y
            out[second, b, j] -= q * y
            out[third, b, j] -= r * y
