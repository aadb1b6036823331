"""Nearest-neighbour search: candidates in float32 with an error bound, then an exact order in float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad.estimators.stream_statistics import probe_directions
from ocelad.metric import Metric
from ocelad.service.learning.item_points import Floats32, ItemPoints

# Rounding errors of sums of n terms grow as sqrt(n); the error bound is this multiple of eps * sqrt(n).
_ERROR_FACTOR = 8.0
_EPS = float(np.finfo(np.float32).eps)
# The number of points per matrix product.
_BLOCK_SIZE = 1000


class NeighborSearch:
    """Prepares a metric so that a search costs one product of a matrix and a vector. Immutable.

    For centered points ``x`` and ``q``, ``d^2 = x'Mx - 2 x'Mq + q'Mq``; the first term is computed here, once.
    """

    def __init__(self, item_points: ItemPoints, metric: Metric) -> None:
        self._item_points, self._metric = item_points, metric
        # Slightly more than the norm of the metric, estimated from a few products.
        self._size = 1.5 * float(np.linalg.norm(metric.matmul(probe_directions(item_points.n_features)))) or 1.0
        self._squares: Floats32 = _squares(item_points.centered, metric, self._size)

    def neighbors(self, position: int, k: int) -> tuple[npt.NDArray[np.intp], Floats]:
        """Return the positions of the k items nearest to an item, the nearest first, and their distances."""
        item_points = self._item_points
        query = item_points.centered[position].astype(np.float64)
        product = (self._metric.matmul(query[:, None])[:, 0] / self._size).astype(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = self._squares - 2.0 * (item_points.centered @ product)  # without q'Mq, which is constant
            error = np.float32(_ERROR_FACTOR * _EPS * np.sqrt(item_points.n_features)) * np.square(
                item_points.norms + item_points.norms[position]
            )
            upper = squares + error
            upper[position] = np.inf
            k = min(k, len(upper) - 1)
            if k < 1:
                return np.empty(0, dtype=np.intp), np.empty(0)
            bound = np.partition(np.nan_to_num(upper, nan=np.inf), k - 1)[k - 1]
            candidates = np.flatnonzero(~(squares - error > bound))
        candidates = candidates[candidates != position]
        distances = self._metric.length(item_points.points[candidates] - item_points.points[position])
        order = np.argsort(distances, kind="stable")[:k]
        return candidates[order], distances[order]


def _squares(X: Floats32, metric: Metric, size: float) -> Floats32:
    """Return ``x' M x / size`` of all rows in float32."""
    squares = np.empty(len(X), dtype=np.float32)
    arrays = metric.arrays()
    if "matrix" in arrays:
        matrix = (arrays["matrix"] / size).astype(np.float32)
        for block in _blocks(len(X)):
            squares[block] = np.einsum("ij,ij->i", X[block] @ matrix, X[block])
        return squares
    rows, scales = arrays["rows"].astype(np.float32), (arrays["scales"] / size).astype(np.float32)
    diagonal = (arrays["diagonal"] / size).astype(np.float32)
    for block in _blocks(len(X)):
        squares[block] = np.square(X[block] @ rows.T) @ scales + np.einsum("ij,ij->i", diagonal * X[block], X[block])
    return squares


def _blocks(n: int) -> list[slice]:
    return [slice(first, first + _BLOCK_SIZE) for first in range(0, n, _BLOCK_SIZE)]
