"""Reservoir: past points with their classes, from which new points are given partners to be compared with."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ocelad._validation import check_integer, is_sparse
from ocelad.pairs import SparseVector

# Points farther out could be compared with nobody: what a step does grows with the fourth power of a distance.
FARTHEST = 1e30


class Partner(NamedTuple):
    """A past point to compare a new one with, and whether the two are of the same class."""

    point: Any
    similar: bool


class Reservoir:
    """At most so many past points with their classes, a random sample in which the past fades.

    When it is full, a new point takes the place of a random one: a *biased* reservoir (Aggarwal, "On biased reservoir
    sampling in the presence of stream evolution", VLDB 2006), in which a point is still held after k further ones with
    probability ``(1 - 1/size)**k``. The uniform reservoir, where every point of the stream is held with the same
    probability, takes in fewer and fewer new points: after a change its partners would be those of a world long gone.

    To draw a partner or to put a point costs the same however many are held.

    Parameters
    ----------
    size : int
        At most so many points are held.
    seed : int or None
        Of the draws; None: another one every time.

    Examples
    --------
    >>> reservoir = Reservoir(size=10, seed=0)
    >>> reservoir.put([1.0, 2.0], "apple")
    >>> reservoir.put([8.0, 9.0], "pear")
    >>> reservoir.partners("apple", 2)
    [Partner(point=[1.0, 2.0], similar=True), Partner(point=[8.0, 9.0], similar=False)]
    """

    def __init__(self, size: int = 500, seed: int | None = None) -> None:
        self.size = check_integer(size, "reservoir_size", at_least=1)
        self._random = np.random.default_rng(seed)
        self._n_draws = 0
        self._points: list[Any] = []
        self._labels: list[Hashable] = []
        # Of each class the slots of its points, and of each slot where in that list it stands.
        self._members: dict[Hashable, list[int]] = {}
        self._places: list[int] = []
        # The classes that are held, and where in that list each stands.
        self._classes: list[Hashable] = []
        self._ranks: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._points)

    @property
    def points(self) -> tuple[Any, ...]:
        """The points that are held."""
        return tuple(self._points)

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The classes of the points that are held."""
        return tuple(self._labels)

    def partners(self, label: Hashable, count: int) -> list[Partner]:
        """``count`` partners for a new point of a class: by turns one of its class and one of another.

        Another class is any of those held, each as likely as the others, then any of its points: a rare class is
        compared with as often as a frequent one. Where there is none of a kind, that turn is left out. With an odd
        count the turns go on with the next point, so that over a stream there are as many of each kind.
        """
        drawn = []
        for _ in range(count):
            similar = self._n_draws % 2 == 0
            self._n_draws += 1
            members = self._members.get(label) if similar else self._of_another_class(label)
            if members:
                drawn.append(Partner(self._points[members[self._below(len(members))]], similar))
        return drawn

    def put(self, point: Any, label: Hashable) -> None:
        """Hold a point; it is kept, not copied, and must not be changed afterwards."""
        if len(self._points) < self.size:
            slot = len(self._points)
            self._points.append(point)
            self._labels.append(label)
            self._places.append(-1)
        else:
            slot = self._below(self.size)
            self._leave(slot)
            self._points[slot], self._labels[slot] = point, label
        self._enter(slot, label)

    def mark(self) -> tuple[int, Any]:
        """Where the draws are, for ``rewind``."""
        return self._n_draws, self._random.bit_generator.state

    def rewind(self, mark: tuple[int, Any]) -> None:
        """Take back the draws since ``mark``, between which no point was put."""
        self._n_draws, self._random.bit_generator.state = mark

    def copy(self) -> Reservoir:
        """One with the same points that goes on by itself; points are not copied."""
        other = object.__new__(Reservoir)
        other.__dict__.update(self.__dict__)
        other._random = deepcopy(self._random)
        for name in ("_points", "_labels", "_places", "_classes", "_ranks"):
            setattr(other, name, getattr(self, name).copy())
        other._members = {label: slots.copy() for label, slots in self._members.items()}
        return other

    def arrays(self) -> dict[str, Any]:
        """Its state in arrays, which with ``metadata`` is all of it; for points that are arrays or ``SparseVector``."""
        slots = [slot for label in self._classes for slot in self._members[label]]
        counts = [len(self._members[label]) for label in self._classes]
        arrays = {"slots": np.array(slots, dtype=np.int64), "counts": np.array(counts, dtype=np.int64)}
        if not self._points:
            return arrays
        points = stacked(self._points)
        if is_sparse(points):
            return {**arrays, "indptr": points.indptr, "indices": points.indices, "values": points.data}
        return {**arrays, "points": points}

    def metadata(self) -> dict[str, Any]:
        """The rest of its state, as JSON has it; for classes that are text, numbers, booleans or None."""
        classes = [label.item() if isinstance(label, np.generic) else label for label in self._classes]
        for label in classes:
            if not isinstance(label, (str, int, float, type(None))):
                raise TypeError(f"the class {label!r} cannot be written; accepted: text, numbers, booleans or None")
        sparse = self._points and isinstance(self._points[0], SparseVector)
        return {
            "size": self.size,
            "classes": classes,
            "n_features": self._points[0].n_features if sparse else None,
            "n_draws": self._n_draws,
            "random": self._random.bit_generator.state,
        }

    @classmethod
    def restored(cls, arrays: Mapping[str, Any], metadata: Mapping[str, Any]) -> Reservoir:
        """The reservoir whose ``arrays()`` and ``metadata()`` these are: it draws the same from here on."""
        reservoir = cls(metadata["size"])
        reservoir._random.bit_generator.state = metadata["random"]
        reservoir._n_draws = metadata["n_draws"]
        slots, at = arrays["slots"].tolist(), 0
        if sorted(slots) != list(range(len(slots))) or len(slots) > reservoir.size:
            raise ValueError("its reservoir has points in places that are not there")
        if sum(arrays["counts"].tolist()) != len(slots) or (arrays["counts"] < 1).any():
            raise ValueError("its reservoir has other points than its classes have")
        if not all(np.isfinite(arrays[name]).all() for name in ("points", "values") if name in arrays):
            raise ValueError("its reservoir holds numbers that are not finite")
        reservoir._points = _unstacked(arrays, metadata["n_features"], len(slots))
        if len(reservoir._points) != len(slots):
            raise ValueError(f"its reservoir has {len(reservoir._points)} points in {len(slots)} places")
        reservoir._labels, reservoir._places = [None] * len(slots), [-1] * len(slots)
        for label, count in zip(metadata["classes"], arrays["counts"].tolist(), strict=True):
            for slot in slots[at : at + count]:
                reservoir._labels[slot] = label
                reservoir._enter(slot, label)
            at += count
        return reservoir

    def _of_another_class(self, label: Hashable) -> list[int] | None:
        own = self._ranks.get(label)
        n_others = len(self._classes) - (own is not None)
        if n_others == 0:
            return None
        rank = self._below(n_others)
        if own is not None and rank >= own:
            rank += 1
        return self._members[self._classes[rank]]

    def _enter(self, slot: int, label: Hashable) -> None:
        if label not in self._ranks:
            self._ranks[label] = len(self._classes)
            self._classes.append(label)
            self._members[label] = []
        self._places[slot] = len(self._members[label])
        self._members[label].append(slot)

    def _leave(self, slot: int) -> None:
        """The last of a list takes the place of the one that leaves, so that no other has to move."""
        label = self._labels[slot]
        members, place = self._members[label], self._places[slot]
        members[place] = members[-1]
        self._places[members[-1]] = place
        members.pop()
        if not members:
            rank = self._ranks.pop(label)
            del self._members[label]
            last = self._classes.pop()
            if rank < len(self._classes):
                self._classes[rank], self._ranks[last] = last, rank

    def _below(self, count: int) -> int:
        return int(self._random.integers(count))


def stacked(points: Sequence[Any]) -> Any:
    """The points as rows: of arrays an array, of ``SparseVector``s a ``csr_array``."""
    if not isinstance(points[0], SparseVector):
        return np.stack(points)
    from scipy.sparse import csr_array

    indptr = np.concatenate([[0], np.cumsum([len(point.indices) for point in points])])
    indices = np.concatenate([point.indices for point in points])
    values = np.concatenate([point.values for point in points])
    return csr_array((values, indices, indptr), shape=(len(points), points[0].n_features))


def _unstacked(arrays: Mapping[str, Any], n_features: int | None, count: int) -> list[Any]:
    if count == 0:
        return []
    if n_features is None:
        return [row.copy() for row in arrays["points"]]
    ends = arrays["indptr"].tolist()
    return [
        SparseVector(arrays["indices"][first:last].copy(), arrays["values"][first:last].copy(), n_features)
        for first, last in pairwise(ends)
    ]
