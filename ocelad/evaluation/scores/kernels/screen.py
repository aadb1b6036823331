"""Squared distances in single precision and a bound on their error: most of them need not be known any better.

With u = 2^-24, points y_i of m features and N_i = |y_i|^2, ``N_j - 2 y_i'y_j`` in single precision differs from
``|y_i - y_j|^2 - N_i`` by at most ``(2 m + 5) u (N_i + N_j)`` and terms of second order: ``2 (m + 1) u`` for the sum of
products, ``2 u`` for the rounding of the points, ``u`` for that of N_j. ``share_of_error`` is nearly twice as much: it
covers those terms, the roundings of what is compared, and those of distances in double precision. Two distances that
differ by more than their bounds are in the order that double precision would find; all others are computed in double
precision. So what is chosen does not depend on the screen.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ocelad._compile import compiled
from ocelad._typing import Floats
from ocelad.evaluation.scores.kernels.blocks import LANES

Singles: TypeAlias = npt.NDArray[np.float32]

# How many places are screened at a time.
ABREAST = 3
# Of points of size 1, what is too small for single precision changes no distance by more than this.
LOST = 2.0**-100


class Screen(NamedTuple):
    """Points in single precision, around the origin and of size 1.

    Attributes
    ----------
    blocks : array of shape (n_blocks, n_features, LANES)
        The points; what fills the last block is at the origin.
    lowered : array of shape (n_blocks, LANES)
        N_j less its share of the error; infinite where nothing is.
    slack : array of shape (n_blocks, LANES)
        Twice that share.
    share : float
        The error of a distance as a share of ``N_i + N_j``.
    factor : float
        What the points were multiplied by to have this size: a power of two.
    """

    blocks: Singles
    lowered: Singles
    slack: Singles
    share: float
    factor: float


def share_of_error(n_features: int) -> float:
    """The error of a distance in single precision is at most this times ``N_i + N_j``."""
    return 4 * (n_features + 4) * 2.0**-24


def screen_of(centred: Floats, largest: float) -> Screen:
    """The screen of points around the origin; no number, here or in places to come, is larger than ``largest``."""
    n, n_features = centred.shape
    n_blocks = -(-n // LANES)
    screen = Screen(
        np.zeros((n_blocks, n_features, LANES), dtype=np.float32),
        np.full((n_blocks, LANES), np.inf, dtype=np.float32),
        np.zeros((n_blocks, LANES), dtype=np.float32),
        share_of_error(n_features),
        2.0 ** -int(np.frexp(largest)[1]),
    )
    fill(centred, *screen)
    return screen


@compiled
def fill(centred: Floats, blocks: Singles, lowered: Singles, slack: Singles, share: float, factor: float) -> None:
    """Put the points where they belong."""
    n, n_features = centred.shape
    lengths = np.empty(LANES)
    for b in range(len(blocks)):
        count = min(LANES, n - b * LANES)
        for j in range(count):
            lengths[j] = 0.0
        for f in range(n_features):
            for j in range(count):
                y = factor * centred[b * LANES + j, f]
                blocks[b, f, j] = y
                lengths[j] += y * y
        for j in range(count):
            lowered[b, j] = (1 - share) * lengths[j]
            slack[b, j] = 2 * share * lengths[j]


@compiled
def put_place(centred: Floats, i: int, factor: float, doubled: Singles, row: int) -> float:
    """Put ``2 y_i`` of a place into a row; its N_i."""
    length = 0.0
    for f in range(centred.shape[1]):
        y = factor * centred[i, f]
        doubled[row, f] = 2 * y
        length += y * y
    return length


@compiled
def less_products(blocks: Singles, b: int, doubled: Singles, row: int, out: Singles) -> None:
    """Take ``2 y_i'y_j`` from ``out[row, b]`` and the next two rows, for the points y_j of block b.

    ``ABREAST`` places at a time, and four features: points and sums are loaded less often.
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
