"""Nearest-neighbour search: candidates in float32 with an error bound, then an exact order in float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad.curved_metric import AnyMetric, CurvedMetric, linear_part
from ocelad.estimators.stream_statistics import probe_directions
from ocelad.metric import Metric
from ocelad.service.learning.item_points import Floats32, MeasuredPoints, as_linear

# Rounding errors of sums of n terms grow as sqrt(n); the error bound is this multiple of eps * sqrt(n).
_ERROR_FACTOR = 8.0
_EPS = float(np.finfo(np.float32).eps)
# The number of points per matrix product.
_BLOCK_SIZE = 1000


class NeighborSearch:
    """Prepares a metric so that a search costs one product of a matrix and a vector. Immutable.

    For centered points ``x`` and ``q``, in the features that the metric is linear in,
    ``d^2 = x'Mx - 2 x'Mq + q'Mq``; the first term is computed here, once.
    """

    def __init__(self, measured: MeasuredPoints, metric: AnyMetric) -> None:
        self._measured, self._metric, self._linear = measured, metric, as_linear(metric)
        # Slightly more than the norm of the metric, estimated from a few products.
        self._size = 1.5 * float(np.linalg.norm(self._linear.matmul(probe_directions(measured.n_measured)))) or 1.0
        n = metric.n_features
        self._squares: Floats32 = _squares(measured.centered[:, :n], linear_part(metric), self._size)
        if isinstance(metric, CurvedMetric) and metric.curved_part is not None:
            self._squares += _squares(measured.centered[:, n:], metric.curved_part, self._size)

    def neighbors(self, position: int, k: int) -> tuple[npt.NDArray[np.intp], Floats]:
        """Return the positions of the k items nearest to an item, the nearest first, and their distances."""
        measured = self._measured
        query = measured.centered[position].astype(np.float64)
        product = (self._linear.matmul(query[:, None])[:, 0] / self._size).astype(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = self._squares - 2.0 * (measured.centered @ product)  # without q'Mq, which is constant
            error = np.float32(_ERROR_FACTOR * _EPS * np.sqrt(measured.n_measured)) * np.square(
                measured.norms + measured.norms[position]
            )
            upper = squares + error
            upper[position] = np.inf
            k = min(k, len(upper) - 1)
            if k < 1:
                return np.empty(0, dtype=np.intp), np.empty(0)
            bound = np.partition(np.nan_to_num(upper, nan=np.inf), k - 1)[k - 1]
            candidates = np.flatnonzero(~(squares - error > bound))
        candidates = candidates[candidates != position]
        distances = self._metric.distance(measured.points[candidates], measured.points[position])
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
