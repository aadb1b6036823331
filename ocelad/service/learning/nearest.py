"""The items nearest to one: found in single precision with room for its errors, then ordered in double precision."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad.estimators.stream_statistics import probe_directions
from ocelad.metric import Metric
from ocelad.service.learning.item_points import ItemPoints, Singles

# Rounding errors of sums of n terms grow as the root of n; so many times that is left as room for them.
_ROOM = 8.0
_EPS = float(np.finfo(np.float32).eps)
# How many points are multiplied by a metric at a time.
_AT_A_TIME = 1000


class Nearest:
    """What makes a search for the nearest items one product of a matrix and a vector. Immutable.

    With ``x`` for centred points, ``d^2 = x'Mx - 2 x'Mq + q'Mq``; the first part is computed here, once.
    """

    def __init__(self, cloud: ItemPoints, metric: Metric) -> None:
        self._cloud, self._metric = cloud, metric
        # A little more than the metric's size, by a few of its products.
        self._size = 1.5 * float(np.linalg.norm(metric.matmul(directions(cloud.n_features)))) or 1.0
        self._squares: Singles = _squares(cloud.singles, metric, self._size)

    def neighbors(self, position: int, k: int) -> tuple[npt.NDArray[np.intp], Floats]:
        """The positions of the k items nearest to another, the nearest first, and how far they are."""
        cloud = self._cloud
        own = cloud.singles[position].astype(np.float64)
        product = (self._metric.times(own[:, None])[:, 0] / self._size).astype(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = self._squares - 2.0 * (cloud.singles @ product)  # but for what is the same for all
            room = np.float32(_ROOM * _EPS * np.sqrt(cloud.n_features)) * np.square(
                cloud.lengths + cloud.lengths[position]
            )
            above = squares + room
            above[position] = np.inf
            k = min(k, len(above) - 1)
            if k < 1:
                return np.empty(0, dtype=np.intp), np.empty(0)
            farthest = np.partition(np.nan_to_num(above, nan=np.inf), k - 1)[k - 1]
            candidates = np.flatnonzero(~(squares - room > farthest))
        candidates = candidates[candidates != position]
        distances = self._metric.length(cloud.points[candidates] - cloud.points[position])
        order = np.argsort(distances, kind="stable")[:k]
        return candidates[order], distances[order]


def _squares(X: Singles, metric: Metric, size: float) -> Singles:
    """``x' M x / size`` of all rows, in single precision."""
    squares = np.empty(len(X), dtype=np.float32)
    held = metric.arrays()
    if "matrix" in held:
        matrix = (held["matrix"] / size).astype(np.float32)
        for part in _parts(len(X)):
            squares[part] = np.einsum("ij,ij->i", X[part] @ matrix, X[part])
        return squares
    rows, scales = held["rows"].astype(np.float32), (held["scales"] / size).astype(np.float32)
    diagonal = (held["diagonal"] / size).astype(np.float32)
    for part in _parts(len(X)):
        squares[part] = np.square(X[part] @ rows.T) @ scales + np.einsum("ij,ij->i", diagonal * X[part], X[part])
    return squares


def _parts(count: int) -> list[slice]:
    return [slice(first, first + _AT_A_TIME) for first in range(0, count, _AT_A_TIME)]
