"""Clusters of items whose numbers stay as alike as can be while the metric changes."""

from __future__ import annotations

from threading import Lock

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from ocelad import checks
from ocelad.checks import Floats
from ocelad.scores.clustering import k_means
from ocelad.service.learning.cloud import Singles

Labels = npt.NDArray[np.uint8]

MOST_CLUSTERS = 100
# New clusters take the place of the old ones when they are so much tighter.
_BETTER = 0.95
# New ones are looked for among so many items.
_SOME = 500
_MOST_ROUNDS = 30
# For how many numbers of clusters the last ones are remembered.
_REMEMBERED = 16


class Clusters:
    """The last clusters of each number of them, by which the next ones are numbered; for any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: dict[int, Labels] = {}

    def of(self, coordinates: Singles, k: int) -> Labels:
        """The cluster of each item, 0 to k - 1, by k-means; from the last ones, unless new ones are much tighter."""
        k = min(checks.whole(k, "k", at_least=1, at_most=MOST_CLUSTERS), len(coordinates))
        with self._lock:
            last = self._last.get(k)
        labels, cost = _settled(coordinates, _centres_of_some(coordinates, k))
        if last is not None:
            centres = _means(coordinates[: len(last)], last, k)
            going_on, cost_going_on = _settled(coordinates, centres)
            labels = _renumbered(labels, going_on, k) if cost < _BETTER * cost_going_on else going_on
        with self._lock:
            self._last.pop(k, None)
            self._last[k] = labels
            while len(self._last) > _REMEMBERED:
                del self._last[next(iter(self._last))]
        return labels


def _centres_of_some(coordinates: Singles, k: int) -> Singles:
    """The middles of k clusters of some of the items."""
    some = coordinates[:: max(1, len(coordinates) // max(_SOME, 20 * k))]
    return _means(some, k_means(some.astype(np.float64), k), k)


def _means(coordinates: Singles, labels: npt.NDArray[np.integer], k: int) -> Singles:
    """The mean of each cluster; the mean of all where it is empty."""
    sums, counts = _sums(coordinates, labels, k)
    means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1.0)[:, None], coordinates.mean(axis=0))
    return means.astype(np.float32)


def _sums(coordinates: Singles, labels: npt.NDArray[np.integer], k: int) -> tuple[Floats, Floats]:
    member = np.zeros((k, len(labels)), dtype=np.float32)
    member[labels, np.arange(len(labels))] = 1.0
    return np.asarray(member @ coordinates, dtype=np.float64), member.sum(axis=1, dtype=np.float64)


def _settled(coordinates: Singles, centres: Singles) -> tuple[Labels, float]:
    """Clusters by Lloyd's algorithm from some centres, and the sum of the squared distances to them."""
    labels = np.zeros(0, dtype=np.uint8)
    for _ in range(_MOST_ROUNDS):
        squares = np.square(centres).sum(axis=1) - 2.0 * (coordinates @ centres.T)
        now = squares.argmin(axis=1).astype(np.uint8)
        if len(labels) and np.count_nonzero(now != labels) <= len(labels) // 2000:
            break
        labels = now
        centres = _means(coordinates, labels, len(centres))
    return labels, float(np.square(coordinates - centres[labels]).sum(dtype=np.float64))


def _renumbered(labels: Labels, like: Labels, k: int) -> Labels:
    """The same clusters with the numbers that agree most with other ones."""
    shared = np.bincount(labels.astype(np.intp) * k + like, minlength=k * k).reshape(k, k)
    return np.asarray(linear_sum_assignment(-shared)[1], dtype=np.uint8)[labels]
