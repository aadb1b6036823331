"""Clusters of items whose numbers stay as alike as can be while the metric changes."""

from __future__ import annotations

from threading import Lock

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from ocelad._validation import check_integer
from ocelad.evaluation.scores.clustering import k_means
from ocelad.service.learning.item_points import Singles

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
        k = min(check_integer(k, "k", at_least=1, at_most=MOST_CLUSTERS), len(coordinates))
        with self._lock:
            last = self._last.get(k)
        labels = _gone_on(coordinates, last, k) if last is not None else _anew(coordinates, k)
        with self._lock:
            self._last.pop(k, None)
            self._last[k] = labels
            while len(self._last) > _REMEMBERED:
                del self._last[next(iter(self._last))]
        return labels


def _anew(coordinates: Singles, k: int) -> Labels:
    """Clusters of all items, from those of some."""
    some = coordinates[_some(coordinates, k)]
    return _settled(coordinates, _means(some, _k_means(some, k), k))


def _gone_on(coordinates: Singles, last: Labels, k: int) -> Labels:
    """Clusters from the last ones, which may be of fewer items; new ones with the same numbers if those are better."""
    labels = _settled(coordinates, _means(coordinates[: len(last)], last, k))
    which = _some(coordinates, k)  # to look at some is enough as long as nothing is found
    some = coordinates[which]
    if _cost(some, _k_means(some, k), k) < _BETTER * _cost(some, labels[which], k):
        anew = _anew(coordinates, k)
        if _cost(coordinates, anew, k) < _BETTER * _cost(coordinates, labels, k):
            return _renumbered(anew, labels, k)
    return labels


def _some(coordinates: Singles, k: int) -> slice:
    """Some items, spread over all."""
    return slice(None, None, max(1, len(coordinates) // max(_SOME, 20 * k)))


def _k_means(coordinates: Singles, k: int) -> Labels:
    return k_means(coordinates.astype(np.float64), k).astype(np.uint8)


def _means(coordinates: Singles, labels: Labels, k: int) -> Singles:
    """The mean of each cluster; the mean of all where it is empty."""
    member = np.zeros((k, len(labels)), dtype=np.float32)
    member[labels, np.arange(len(labels))] = 1.0
    counts = member.sum(axis=1)[:, None]
    means = member @ coordinates / np.maximum(counts, 1.0)
    return np.asarray(np.where(counts > 0, means, coordinates.mean(axis=0)))


def _cost(coordinates: Singles, labels: Labels, k: int) -> float:
    """The sum of the squared distances to the means of the clusters."""
    return float(np.square(coordinates - _means(coordinates, labels, k)[labels]).sum(dtype=np.float64))


def _settled(coordinates: Singles, centres: Singles) -> Labels:
    """Clusters by Lloyd's algorithm from some centres."""
    labels = np.zeros(0, dtype=np.uint8)
    for _ in range(_MOST_ROUNDS):
        squares = np.square(centres).sum(axis=1) - 2.0 * (coordinates @ centres.T)
        now = squares.argmin(axis=1).astype(np.uint8)
        if len(labels) and np.count_nonzero(now != labels) <= len(labels) // 2000:
            break
        labels = now
        centres = _means(coordinates, labels, len(centres))
    return labels


def _renumbered(labels: Labels, like: Labels, k: int) -> Labels:
    """The same clusters with the numbers that agree most with other ones."""
    shared = np.bincount(labels.astype(np.intp) * k + like, minlength=k * k).reshape(k, k)
    return np.asarray(linear_sum_assignment(-shared)[1], dtype=np.uint8)[labels]
