"""Reservoir: a random sample of past points and their classes, with which new points are compared."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ocelad._validation import check_integer, is_sparse
from ocelad.pairs import SparseVector

# Larger coordinates would overflow in a step, which grows with the fourth power of a distance.
MAX_COORDINATE = 1e30


class Partner(NamedTuple):
    """A past point to compare with a new one, and whether both have the same class."""

    point: Any
    similar: bool


class Reservoir:
    """A random sample of past points and their classes that favours recent points.

    When the reservoir is full, a new point replaces a random one. This is a *biased* reservoir (Aggarwal, "On biased
    reservoir sampling in the presence of stream evolution", VLDB 2006): a point is still present after k more points
    with probability ``(1 - 1/size)**k``. A uniform reservoir, which holds every point of the stream with the same
    probability, accepts fewer and fewer new points and would keep outdated partners after a change.

    The time to draw a partner or to add a point does not depend on the size.

    Parameters
    ----------
    size : int
        The maximal number of points.
    seed : int or None
        The seed of the draws; None: a random seed.

    Examples
    --------
    >>> reservoir = Reservoir(size=10, seed=0)
    >>> reservoir.add([1.0, 2.0], "apple")
    >>> reservoir.add([8.0, 9.0], "pear")
    >>> reservoir.draw_partners("apple", 2)
    [Partner(point=[1.0, 2.0], similar=True), Partner(point=[8.0, 9.0], similar=False)]
    """

    def __init__(self, size: int = 500, seed: int | None = None) -> None:
        self.size = check_integer(size, "reservoir_size", at_least=1)
        self._random = np.random.default_rng(seed)
        self._n_draws = 0
        self._points: list[Any] = []
        self._labels: list[Hashable] = []
        # The slots of the points of each class, and the position of each slot in that list.
        self._members: dict[Hashable, list[int]] = {}
        self._positions: list[int] = []
        # The classes of the held points, and the position of each class in that list.
        self._classes: list[Hashable] = []
        self._class_positions: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._points)

    @property
    def points(self) -> tuple[Any, ...]:
        """The held points."""
        return tuple(self._points)

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The classes of the held points."""
        return tuple(self._labels)

    def draw_partners(self, label: Hashable, count: int) -> list[Partner]:
        """Draw up to ``count`` partners for a new point, alternately from its class and from other classes.

        For another class, first a class is drawn with equal probabilities, then one of its points, so that rare and
        frequent classes are drawn equally often. If no suitable point is held, the draw is skipped. The alternation
        continues across calls, so that over a stream both kinds are drawn equally often, even with an odd count.
        """
        drawn = []
        for _ in range(count):
            similar = self._n_draws % 2 == 0
            self._n_draws += 1
            members = self._members.get(label) if similar else self._draw_other_class(label)
            if members:
                drawn.append(Partner(self._points[members[self._draw_below(len(members))]], similar))
        return drawn

    def add(self, point: Any, label: Hashable) -> None:
        """Add a point. It is not copied and must not be modified afterwards."""
        if len(self._points) < self.size:
            slot = len(self._points)
            self._points.append(point)
            self._labels.append(label)
            self._positions.append(-1)
        else:
            slot = self._draw_below(self.size)
            self._remove_slot(slot)
            self._points[slot], self._labels[slot] = point, label
        self._insert_slot(slot, label)

    def random_state(self) -> tuple[int, Any]:
        """Return the state of the draws, for ``set_random_state``."""
        return self._n_draws, self._random.bit_generator.state

    def set_random_state(self, state: tuple[int, Any]) -> None:
        """Undo all draws since ``random_state``; no point may have been added in between."""
        self._n_draws, self._random.bit_generator.state = state

    def copy(self) -> Reservoir:
        """Return an independent reservoir with the same points, which are not copied."""
        other = object.__new__(Reservoir)
        other.__dict__.update(self.__dict__)
        other._random = deepcopy(self._random)
        for name in ("_points", "_labels", "_positions", "_classes", "_class_positions"):
            setattr(other, name, getattr(self, name).copy())
        other._members = {label: slots.copy() for label, slots in self._members.items()}
        return other

    def arrays(self) -> dict[str, Any]:
        """Return the arrays of its state, for points that are arrays or ``SparseVector``; ``metadata`` is the rest."""
        slots = [slot for label in self._classes for slot in self._members[label]]
        counts = [len(self._members[label]) for label in self._classes]
        arrays = {"slots": np.array(slots, dtype=np.int64), "counts": np.array(counts, dtype=np.int64)}
        if not self._points:
            return arrays
        points = stack_points(self._points)
        if is_sparse(points):
            return {**arrays, "indptr": points.indptr, "indices": points.indices, "values": points.data}
        return {**arrays, "points": points}

    def metadata(self) -> dict[str, Any]:
        """Return the JSON values of its state, for classes that are strings, numbers, booleans or None."""
        classes = [label.item() if isinstance(label, np.generic) else label for label in self._classes]
        for label in classes:
            if not isinstance(label, (str, int, float, type(None))):
                raise TypeError(f"the class {label!r} cannot be saved; accepted: strings, numbers, booleans or None")
        sparse = self._points and isinstance(self._points[0], SparseVector)
        return {
            "size": self.size,
            "classes": classes,
            "n_features": self._points[0].n_features if sparse else None,
            "n_draws": self._n_draws,
            "random": self._random.bit_generator.state,
        }

    @classmethod
    def from_state(cls, arrays: Mapping[str, Any], metadata: Mapping[str, Any]) -> Reservoir:
        """Return the reservoir whose ``arrays`` and ``metadata`` are given, after checking them."""
        reservoir = cls(metadata["size"])
        reservoir._random.bit_generator.state = metadata["random"]
        reservoir._n_draws = metadata["n_draws"]
        slots, at = arrays["slots"].tolist(), 0
        if sorted(slots) != list(range(len(slots))) or len(slots) > reservoir.size:
            raise ValueError("its reservoir has points outside of its slots")
        if sum(arrays["counts"].tolist()) != len(slots) or (arrays["counts"] < 1).any():
            raise ValueError("the points of its reservoir do not match its classes")
        if not all(np.isfinite(arrays[name]).all() for name in ("points", "values") if name in arrays):
            raise ValueError("its reservoir holds numbers that are not finite")
        reservoir._points = _unstack_points(arrays, metadata["n_features"], len(slots))
        if len(reservoir._points) != len(slots):
            raise ValueError(f"its reservoir has {len(reservoir._points)} points in {len(slots)} slots")
        reservoir._labels, reservoir._positions = [None] * len(slots), [-1] * len(slots)
        for label, count in zip(metadata["classes"], arrays["counts"].tolist(), strict=True):
            for slot in slots[at : at + count]:
                reservoir._labels[slot] = label
                reservoir._insert_slot(slot, label)
            at += count
        return reservoir

    def _draw_other_class(self, label: Hashable) -> list[int] | None:
        own = self._class_positions.get(label)
        n_others = len(self._classes) - (own is not None)
        if n_others == 0:
            return None
        rank = self._draw_below(n_others)
        if own is not None and rank >= own:
            rank += 1
        return self._members[self._classes[rank]]

    def _insert_slot(self, slot: int, label: Hashable) -> None:
        if label not in self._class_positions:
            self._class_positions[label] = len(self._classes)
            self._classes.append(label)
            self._members[label] = []
        self._positions[slot] = len(self._members[label])
        self._members[label].append(slot)

    def _remove_slot(self, slot: int) -> None:
        """Remove a slot from its class. The last entry of a list replaces the removed one, so that no other moves."""
        label = self._labels[slot]
        members, position = self._members[label], self._positions[slot]
        members[position] = members[-1]
        self._positions[members[-1]] = position
        members.pop()
        if not members:
            rank = self._class_positions.pop(label)
            del self._members[label]
            last = self._classes.pop()
            if rank < len(self._classes):
                self._classes[rank], self._class_positions[last] = last, rank

    def _draw_below(self, count: int) -> int:
        return int(self._random.integers(count))


def stack_points(points: Sequence[Any]) -> Any:
    """Return the points as the rows of an array, or of a ``csr_array`` if they are ``SparseVector``."""
    if not isinstance(points[0], SparseVector):
        return np.stack(points)
    from scipy.sparse import csr_array

    indptr = np.concatenate([[0], np.cumsum([len(point.indices) for point in points])])
    indices = np.concatenate([point.indices for point in points])
    values = np.concatenate([point.values for point in points])
    return csr_array((values, indices, indptr), shape=(len(points), points[0].n_features))


def _unstack_points(arrays: Mapping[str, Any], n_features: int | None, count: int) -> list[Any]:
    if count == 0:
        return []
    if n_features is None:
        return [row.copy() for row in arrays["points"]]
    ends = arrays["indptr"].tolist()
    return [
        SparseVector(arrays["indices"][first:last].copy(), arrays["values"][first:last].copy(), n_features)
        for first, last in pairwise(ends)
    ]
