"""The accuracy on random pairs, beside that of the commoner answer and of Euclidean distance on the same pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ocelad._typing import Arrays, Floats, Metadata


class RandomPair(NamedTuple):
    """A pair that was drawn at random, among answers that are learned together.

    Attributes
    ----------
    at : int
        The index of its answer.
    left, right : int
        Positions of the items.
    distance : float
        The Euclidean distance of the two items as scaled.
    """

    at: int
    left: int
    right: int
    distance: float

    @property
    def code(self) -> int:
        """A number of the pair, in either order."""
        return min(self.left, self.right) << 31 | max(self.left, self.right)


class RandomCounts(NamedTuple):
    """How many random pairs there were, and how many of them were predicted correctly.

    Attributes
    ----------
    n : int
    n_correct : int
        By the metric, before it learned from the answer.
    n_commoner : int
        By always giving the answer that was commoner on these pairs: the best that knows nothing of the items.
    n_euclidean : int
        By Euclidean distance, before the answer was known; see ``RandomPairs``.
    """

    n: int = 0
    n_correct: int = 0
    n_commoner: int = 0
    n_euclidean: int = 0


@dataclass(frozen=True)
class RandomPairs:
    """Random pairs with answers, each counted once: a pair that is answered again was learned from before. Immutable.

    Euclidean distance predicts "same" below a threshold that made the fewest errors on the random pairs before; of
    several such thresholds, it takes the middle one, halfway between two distances. Until there was a pair of each
    kind, it predicts the commoner answer so far, and "different" first.

    Attributes
    ----------
    codes : array of int
        The codes of the pairs, ascending.
    distances : array
        The distances, ascending.
    same : array of bool
        The answers, in the order of the distances.
    n_correct, n_euclidean : int
        As in ``RandomCounts``.
    """

    codes: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    distances: Floats = field(default_factory=lambda: np.zeros(0))
    same: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    n_correct: int = 0
    n_euclidean: int = 0

    @property
    def counts(self) -> RandomCounts:
        """The counts up to now."""
        n, n_same = len(self.same), int(self.same.sum())
        return RandomCounts(n, self.n_correct, max(n_same, n - n_same), self.n_euclidean)

    @property
    def threshold(self) -> float:
        """The distance below which Euclidean distance predicts "same"."""
        n, n_same = len(self.same), int(self.same.sum())
        if n_same in (0, n):
            return inf if n_same else 0.0
        # errors[k]: the pairs that are predicted wrongly if the first k are predicted to be the same
        errors = np.concatenate([[n_same], n_same + np.cumsum(np.where(self.same, -1, 1))])
        between = np.concatenate([[True], self.distances[1:] > self.distances[:-1], [True]])
        best = np.flatnonzero(between & (errors == errors[between].min()))
        k = int(best[(len(best) - 1) // 2])
        if k in (0, n):
            return inf if k else 0.0
        return float(self.distances[k - 1] + (self.distances[k] - self.distances[k - 1]) / 2)

    def add(self, pair: RandomPair, *, same: bool, correct: bool) -> Self:
        """Return the pairs with one more; ``correct``: whether the metric predicted its answer."""
        at = int(np.searchsorted(self.codes, pair.code))
        if at < len(self.codes) and self.codes[at] == pair.code:
            return self
        place = int(np.searchsorted(self.distances, pair.distance))
        predicted = pair.distance < self.threshold
        return replace(
            self,
            codes=np.insert(self.codes, at, pair.code),
            distances=np.insert(self.distances, place, pair.distance),
            same=np.insert(self.same, place, same),
            n_correct=self.n_correct + correct,
            n_euclidean=self.n_euclidean + (predicted == same),
        )

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything as arrays and JSON values."""
        arrays: Arrays = {"codes": self.codes, "distances": self.distances, "same": self.same}
        return arrays, {"n_correct": self.n_correct, "n_euclidean": self.n_euclidean}

    @classmethod
    def from_state(cls, arrays: Mapping[str, Any], metadata: Mapping[str, Any]) -> Self:
        """Return what ``state`` returned, after validation."""
        codes, distances, same = arrays["codes"], arrays["distances"], arrays["same"]
        n_correct, n_euclidean = int(metadata["n_correct"]), int(metadata["n_euclidean"])
        types = (codes.dtype, distances.dtype, same.dtype) == (np.int64, np.float64, np.bool_)
        if not types or codes.ndim != 1 or not codes.shape == distances.shape == same.shape:
            raise ValueError(f"the random pairs have arrays of shapes {codes.shape}, {distances.shape}, {same.shape}")
        if not (codes[:1] >= 0).all() or not (np.diff(codes) > 0).all() or not (np.diff(distances) >= 0).all():
            raise ValueError("the random pairs are not in ascending order")
        if not np.isfinite(distances).all() or not max(n_correct, n_euclidean) <= len(codes):
            raise ValueError("the random pairs have distances that are not finite, or wrong counts")
        if min(n_correct, n_euclidean) < 0:
            raise ValueError("the random pairs have negative counts")
        return cls(codes, distances, same, n_correct, n_euclidean)
