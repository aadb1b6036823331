"""k-means clusters whose numbers change as little as possible while the metric changes."""

from __future__ import annotations

from threading import Lock

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from ocelad._validation import check_integer
from ocelad.service.learning.item_points import Floats32

Labels = npt.NDArray[np.uint8]

MAX_CLUSTERS = 100
# A new clustering replaces the updated old one if its cost is below this share of the old one's.
_MAX_COST_RATIO = 0.95
# A new clustering is computed on about this many items, or 20 per cluster if that is more.
_SAMPLE_SIZE = 500
_MAX_ITERATIONS = 30
# Of more items, the clusters of about this many are refined; the others join the nearest.
_MAX_REFINED = 50_000
# The number of distances that are computed at once.
_BLOCK_ENTRIES = 1 << 21
# A new clustering is the best of this many runs.
_N_RUNS = 3
# The number of values of k for which the last labels are stored.
_MAX_STORED = 16


class StableKMeans:
    """k-means that starts from the last clustering with the same k. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: dict[int, Labels] = {}

    def labels(self, coordinates: Floats32, k: int) -> Labels:
        """Return the cluster of each item, 0 to k - 1.

        Lloyd's algorithm continues from the last labels. A new clustering replaces the result only if it is clearly
        tighter; its clusters are then numbered to agree with the last labels as far as possible.
        """
        k = min(check_integer(k, "k", at_least=1, at_most=MAX_CLUSTERS), len(coordinates))
        with self._lock:
            last = self._last.get(k)
        labels = _update(coordinates, last, k) if last is not None else _cluster(coordinates, k)
        with self._lock:
            self._last.pop(k, None)
            self._last[k] = labels
            while len(self._last) > _MAX_STORED:
                del self._last[next(iter(self._last))]
        return labels


def _cluster(coordinates: Floats32, k: int) -> Labels:
    """Cluster a sample of the items, then refine the clusters on all items."""
    sample = coordinates[_sample(coordinates, k)]
    return _lloyd(coordinates, _means(sample, _k_means(sample, k), k))


def _update(coordinates: Floats32, last: Labels, k: int) -> Labels:
    """Refine the last labels, which may belong to fewer items, or replace them by a clearly better clustering."""
    labels = _lloyd(coordinates, _means(coordinates[: len(last)], last, k))
    selected = _sample(coordinates, k)  # the costs of a sample are enough as long as no better clustering is found
    sample = coordinates[selected]
    if _cost(sample, _k_means(sample, k), k) < _MAX_COST_RATIO * _cost(sample, labels[selected], k):
        new = _cluster(coordinates, k)
        if _cost(coordinates, new, k) < _MAX_COST_RATIO * _cost(coordinates, labels, k):
            return _match_numbers(new, labels, k)
    return labels


def _sample(coordinates: Floats32, k: int) -> slice:
    """Return equally spaced items."""
    return slice(None, None, max(1, len(coordinates) // max(_SAMPLE_SIZE, 20 * k)))


def _k_means(coordinates: Floats32, k: int) -> Labels:
    """Return the best of some runs of Lloyd's algorithm. In plain NumPy, so that no request waits for a compiler."""
    generator = np.random.default_rng(0)
    runs = (_lloyd(coordinates, _initial_centres(coordinates, k, generator)) for _ in range(_N_RUNS))
    return min(runs, key=lambda labels: _cost(coordinates, labels, k))


def _initial_centres(coordinates: Floats32, k: int, generator: np.random.Generator) -> Floats32:
    """Draw centres by greedy k-means++ (Arthur and Vassilvitskii 2007): the next one is the best of some candidates."""
    chosen = [int(generator.integers(len(coordinates)))]
    nearest = np.square(coordinates - coordinates[chosen[0]]).sum(axis=1, dtype=np.float64)
    for _ in range(k - 1):
        sums = np.cumsum(nearest)
        drawn = np.searchsorted(sums, sums[-1] * generator.random(2 + int(np.log(k))), side="right")
        candidates = np.minimum(drawn, len(coordinates) - 1)  # if all points are chosen, or by rounding
        squares = np.square(coordinates[candidates, None] - coordinates).sum(axis=2, dtype=np.float64)
        reduced = np.minimum(nearest, squares)
        best = int(reduced.sum(axis=1).argmin())
        chosen.append(int(candidates[best]))
        nearest = reduced[best]
    return coordinates[chosen]


def _means(coordinates: Floats32, labels: Labels, k: int) -> Floats32:
    """Return the mean of each cluster, and the mean of all items for an empty cluster."""
    counts = np.bincount(labels, minlength=k)[:, None]
    sums = np.stack([np.bincount(labels, weights=column, minlength=k) for column in coordinates.T], axis=1)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), coordinates.mean(axis=0, dtype=np.float64))
    return means.astype(np.float32)


def _cost(coordinates: Floats32, labels: Labels, k: int) -> float:
    """Return the sum of the squared distances to the cluster means."""
    return float(np.square(coordinates - _means(coordinates, labels, k)[labels]).sum(dtype=np.float64))


def _lloyd(coordinates: Floats32, centres: Floats32) -> Labels:
    """Run Lloyd's algorithm from these centres until at most 1 in 2000 labels changes; of many items, on a sample."""
    labels = np.zeros(0, dtype=np.uint8)
    sample = coordinates[:: -(-len(coordinates) // _MAX_REFINED) or 1]
    for _ in range(_MAX_ITERATIONS):
        nearest = _nearest(sample, centres)
        if len(labels) and np.count_nonzero(nearest != labels) <= len(labels) // 2000:
            break
        labels = nearest
        centres = _means(sample, labels, len(centres))
    return labels if len(sample) == len(coordinates) else _nearest(coordinates, centres)


def _nearest(coordinates: Floats32, centres: Floats32) -> Labels:
    """Return the number of the nearest centre of each item."""
    labels = np.empty(len(coordinates), dtype=np.uint8)
    lengths, step = np.square(centres).sum(axis=1), max(_BLOCK_ENTRIES // len(centres), 1)
    for first in range(0, len(coordinates), step):
        block = slice(first, first + step)
        labels[block] = (lengths - 2.0 * (coordinates[block] @ centres.T)).argmin(axis=1)
    return labels


def _match_numbers(labels: Labels, reference: Labels, k: int) -> Labels:
    """Renumber clusters so that as many labels as possible agree with the reference."""
    shared = np.bincount(labels.astype(np.intp) * k + reference, minlength=k * k).reshape(k, k)
    return np.asarray(linear_sum_assignment(-shared)[1], dtype=np.uint8)[labels]
