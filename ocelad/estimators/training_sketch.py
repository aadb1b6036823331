"""TrainingSketch: a small digest of the pairs that a tracker learned from, by which they are recognized elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats

Hashes = npt.NDArray[np.uint64]

# The number of hashes of each kind that are kept: 64 KiB, exact up to this many different pairs.
MAX_HASHES = 8192
# Constants of SplitMix64 (Steele, Lea and Flood 2014), which mixes the bits of a number.
_GAMMA, _MIX_1, _MIX_2 = (np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Overlap(NamedTuple):
    """How many of some pairs, or of some points, were learned from.

    Attributes
    ----------
    n_learned : int
        Their number; an estimate, if it is not exact.
    n : int
        The number of all of them.
    exact : bool
        Whether all were looked up, not only a sample.
    """

    n_learned: int
    n: int
    exact: bool


class TrainingSketch:
    """The smallest hashes of the pairs learned from and of their points, the points' spreads, and the answers' counts.

    Hashes are uniform, so that the smallest are a random sample of all (Bar-Yossef et al. 2002). It does not depend on
    the order of the pairs. What is looked up is sampled in the same way, by its own hash. x and z may be exchanged, and
    labels do not matter.

    Examples
    --------
    >>> pairs = np.arange(12.0).reshape(3, 2, 2)
    >>> sketch = TrainingSketch()
    >>> sketch.add(pairs[:2], np.array([1.0, -1.0]))
    >>> sketch.find_pairs(hash_pairs(pairs[1:, ::-1]))
    Overlap(n_learned=1, n=2, exact=True)
    >>> sketch.find_points(hash_points(pairs[:, 0]))
    Overlap(n_learned=2, n=3, exact=True)
    >>> sketch.standard_deviations()
    array([2.23606798, 2.23606798])
    """

    def __init__(self) -> None:
        self._pairs = np.empty(0, dtype=np.uint64)
        self._points = np.empty(0, dtype=np.uint64)
        # The number of points, and of each feature the mean and the sum of squared deviations from it.
        self._moments = np.zeros((3, 0))
        #: The numbers of similar and of dissimilar pairs.
        self.n_similar = self.n_dissimilar = 0

    def add(self, pairs: Floats, y: Floats) -> None:
        """Add pairs, an array of shape (n_pairs, 2, n_features), with labels +1 and -1."""
        points = [hash_points(pairs[:, k]) for k in range(2)]
        self._pairs = _smallest(self._pairs, _combine(*points))
        self._points = _smallest(self._points, *points)
        n_similar = int(np.count_nonzero(y > 0))
        self.n_similar, self.n_dissimilar = self.n_similar + n_similar, self.n_dissimilar + len(y) - n_similar
        self._moments = _add_moments(self._moments, pairs.reshape(-1, pairs.shape[2]))

    def find_pairs(self, hashes: Hashes) -> Overlap:
        """Count the pairs that were learned from, given the results of ``hash_pairs``."""
        return _count(self._pairs, hashes)

    def find_points(self, hashes: Hashes) -> Overlap:
        """Count the points that were in a pair learned from, given the results of ``hash_points``."""
        return _count(self._points, hashes)

    def standard_deviations(self) -> Floats | None:
        """Return the standard deviation of each feature over the points of the pairs; None if they overflow."""
        n, _, squares = self._moments
        deviations = np.sqrt(squares / n)
        return deviations if len(deviations) and np.isfinite(deviations).all() else None

    def arrays(self) -> dict[str, Any]:
        """Return the state as arrays, for a file."""
        answers = np.array([self.n_similar, self.n_dissimilar], dtype=np.int64)
        return {"pairs": self._pairs, "points": self._points, "moments": self._moments, "answers": answers}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        """Return the sketch whose ``arrays`` are given, after checking them."""
        sketch = cls()
        for name in ("pairs", "points"):
            hashes = np.asarray(arrays[name])
            if hashes.dtype != np.uint64 or hashes.ndim != 1 or len(hashes) > MAX_HASHES:
                raise ValueError(f"its sketch of the {name} learned from has the type {hashes.dtype}{hashes.shape}")
            if (hashes[1:] <= hashes[:-1]).any():
                raise ValueError(f"its sketch of the {name} learned from is not ascending")
        moments = np.asarray(arrays["moments"])
        if moments.dtype != np.float64 or moments.ndim != 2 or len(moments) != 3 or (moments[0] < 1).any():
            raise ValueError(f"its moments of the points learned from have the type {moments.dtype}{moments.shape}")
        sketch._pairs, sketch._points = np.asarray(arrays["pairs"]), np.asarray(arrays["points"])
        sketch._moments = moments
        answers = np.asarray(arrays["answers"])
        if answers.dtype != np.int64 or answers.shape != (2,) or (answers < 0).any():
            raise ValueError(f"its numbers of answers learned from are {answers.tolist()}")
        sketch.n_similar, sketch.n_dissimilar = answers.tolist()
        return sketch


def hash_points(X: Any) -> Hashes:
    """Return a 64-bit hash of each row, which is the same on every machine.

    >>> first, other, again = hash_points(np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 2.0]]))
    >>> bool(first == again), bool(first == other)
    (True, False)
    """
    bits = np.ascontiguousarray(X, dtype=np.float64) + 0.0  # -0.0 and 0.0 are equal points
    words = bits.view(np.uint64)
    # The last bits of most doubles are zeros. A multiple of such a number has them, too, so the first bits are added.
    words = words ^ (words >> np.uint64(32))
    coefficients = _mix(np.arange(1, words.shape[1] + 1, dtype=np.uint64) * _GAMMA) | np.uint64(1)
    return _mix(words @ coefficients)


def hash_pairs(pairs: Floats) -> Hashes:
    """Return a 64-bit hash of each pair, which does not depend on the order of its points.

    >>> pairs = np.arange(4.0).reshape(1, 2, 2)
    >>> bool(hash_pairs(pairs) == hash_pairs(pairs[:, ::-1]))
    True
    """
    return _combine(hash_points(pairs[:, 0]), hash_points(pairs[:, 1]))


def _mix(words: Hashes) -> Hashes:
    """Return numbers of which every bit depends on every bit of the given ones."""
    words = (words ^ (words >> np.uint64(30))) * _MIX_1
    words = (words ^ (words >> np.uint64(27))) * _MIX_2
    return words ^ (words >> np.uint64(31))


def _combine(left: Hashes, right: Hashes) -> Hashes:
    return _mix(np.minimum(left, right) * _GAMMA + np.maximum(left, right))


def _smallest(known: Hashes, *hashes: Hashes) -> Hashes:
    """Return the smallest hashes, ascending."""
    new = np.concatenate(hashes)
    if len(known) == MAX_HASHES:
        new = new[new < known[-1]]
    return np.unique(np.concatenate([known, new]))[:MAX_HASHES] if len(new) else known


def _add_moments(moments: Floats, X: Floats) -> Floats:
    """Return the moments with further points (Chan, Golub and LeVeque 1983)."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = X.mean(axis=0)
        new = np.array([np.full(X.shape[1], float(len(X))), mean, np.square(X - mean).sum(axis=0)])
        if not moments.shape[1]:
            return new
        n, change = moments[0] + new[0], new[1] - moments[1]
        squares = moments[2] + new[2] + np.square(change) * moments[0] * new[0] / n
        return np.array([n, moments[1] + change * new[0] / n, squares])


def _count(known: Hashes, hashes: Hashes) -> Overlap:
    """Count the hashes that are known; of those above the largest one that is kept, nothing is known."""
    if len(known) < MAX_HASHES:
        return Overlap(int(np.isin(hashes, known).sum()), len(hashes), True)
    sampled = hashes[hashes <= known[-1]]
    share = float(np.isin(sampled, known).mean()) if len(sampled) else 0.0
    return Overlap(round(share * len(hashes)), len(hashes), len(sampled) == len(hashes))
