"""ItemTable: the items of an index, which can be added, removed and changed while threads search."""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad._validation import check_array, is_sparse
from ocelad.estimators.item_lookup import ID_COLUMN
from ocelad.io import dataframes
from ocelad.neighbors.item_ids import ItemIds, Positions
from ocelad.neighbors.segment import BLOCK_ENTRIES, Segment


class Snapshot(NamedTuple):
    """The items at one time, and how often they had changed."""

    segments: tuple[Segment, ...]
    n_changes: int

    @property
    def n_items(self) -> int:
        """The number of items."""
        return sum(len(segment.alive) for segment in self.segments)


class ItemTable:
    """Vectors with ids, in segments. Thread-safe.

    The vectors of a segment do not change: new ones make a new segment, and removed ones leave a gap. Small segments
    are merged, so that there are few.

    Parameters
    ----------
    vectors : array of shape (n_items, n_features)
        As ``check_vectors`` returns it.
    ids : sequence of hashable values, or None
        None: the row numbers.
    """

    def __init__(self, vectors: npt.NDArray[Any], ids: Sequence[Any] | None) -> None:
        self._lock = RLock()
        self._ids = ItemIds(ids, len(vectors))
        self._snapshot = Snapshot((Segment(vectors, np.arange(len(vectors))),), 0)
        self.n_features, self.dtype = vectors.shape[1], vectors.dtype

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, name: object) -> bool:
        with self._lock:
            return name in self._ids

    @property
    def ids(self) -> list[Any]:
        """The ids of all items."""
        with self._lock:
            return list(self._ids)

    @property
    def snapshot(self) -> Snapshot:
        """The items now; later changes do not change it."""
        return self._snapshot

    def take_ids(self, positions: Any) -> npt.NDArray[Any]:
        """Return the ids of items."""
        with self._lock:
            return self._ids.take(positions)

    def find(self, ids: Sequence[Any]) -> tuple[Positions, Floats]:
        """Return the positions of items and their vectors, in float64."""
        with self._lock:
            positions = self._ids.positions(ids)
            return positions, self.vectors(positions)

    def vectors(self, positions: Positions) -> Floats:
        """Return the vectors of items, in float64."""
        vectors = np.empty((len(positions), self.n_features))
        for segment in self._snapshot.segments:
            rows = segment.rows_of(positions)
            vectors[rows >= 0] = segment.vectors[rows[rows >= 0]]
        return vectors

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """Return the vectors of some items, drawn with replacement."""
        with self._lock:
            positions = [segment.positions[segment.alive] for segment in self._snapshot.segments]
            return self.vectors(rng.choice(np.concatenate(positions), size=count))

    def add(self, vectors: npt.NDArray[Any], ids: Sequence[Any] | None) -> None:
        """Add items; an id that is there already is refused, and nothing is added."""
        with self._lock:
            self._change(self._ids.add(ids, len(vectors)), vectors)

    def remove(self, ids: Sequence[Any]) -> None:
        """Remove items."""
        with self._lock:
            self._change(self._ids.remove(ids))

    def update(self, vectors: npt.NDArray[Any], ids: Sequence[Any]) -> None:
        """Give items new vectors."""
        if len(ids) != len(vectors):
            raise ValueError(f"there are {len(ids)} ids and {len(vectors)} items; accepted: one id for each item")
        with self._lock:
            positions = self._ids.positions(ids)
            if len(np.unique(positions)) < len(positions):
                raise ValueError("an item is named twice; accepted: each item once")
            self._change(positions, vectors)

    def _change(self, positions: Positions, vectors: npt.NDArray[Any] | None = None) -> None:
        """Remove the items at positions, and add those with new vectors."""
        segments = []
        for segment in self._snapshot.segments:
            rows = segment.rows_of(positions)
            segments.append(segment.without(rows[rows >= 0]) if (rows >= 0).any() else segment)
        if vectors is not None:
            segments = _append(segments, Segment(vectors, positions))
        self._snapshot = Snapshot(tuple(segments), self._snapshot.n_changes + 1)


def _append(segments: list[Segment], last: Segment) -> list[Segment]:
    """Add a segment; the last ones, but not the first, are merged until each is far larger than the next."""
    while len(segments) > 1 and len(segments[-1]) <= 2 * len(last):
        last = _merge(segments.pop(), last)
    return [*segments, last]


def _merge(first: Segment, second: Segment) -> Segment:
    """Return one segment of the items of two that are still there."""
    parts = first, second
    return Segment(
        np.concatenate([segment.vectors[segment.alive] for segment in parts]),
        np.concatenate([segment.positions[segment.alive] for segment in parts]),
    )


def split_ids(items: Any, ids: Sequence[Any] | None) -> tuple[Any, Sequence[Any] | None]:
    """Return items without a column of ids, and their ids: the given ones, or those of a table, if it has any."""
    named = dataframes.split_ids(items, ID_COLUMN, "items")
    if named is not None:
        found, rest = named
        return rest, found if ids is None else ids
    if ids is None:
        dataframes.check_index(items, "items")
    return items, ids


def check_vectors(items: Any, name: str, n_features: int | None = None, kind: Any = None) -> npt.NDArray[Any]:
    """Return finite vectors, of float32 or float64, as they are if possible; ``kind`` is the type that is needed."""
    if is_sparse(items):
        raise TypeError(f"{name} is a sparse matrix; accepted: an array of shape (n_items, n_features)")
    vectors = items if isinstance(items, np.ndarray) else np.asarray(items)
    if vectors.dtype == np.float16:
        vectors = vectors.astype(np.float32)
    if vectors.dtype not in (np.float32, np.float64):
        vectors = check_array(vectors, name, 2)
    if vectors.ndim != 2 or 0 in vectors.shape:
        raise ValueError(f"{name} has shape {vectors.shape}; accepted: (n_items, n_features), with at least one item")
    if n_features is not None and vectors.shape[1] != n_features:
        raise ValueError(f"{name} has {vectors.shape[1]} features; {n_features} are expected")
    step = max(BLOCK_ENTRIES // vectors.shape[1], 1)
    for first in range(0, len(vectors), step):
        finite = np.isfinite(vectors[first : first + step])
        if not finite.all():
            row, column = np.argwhere(~finite)[0].tolist()
            at = (first + row, column)
            raise ValueError(f"{name} holds {vectors[at]} at index {at}; only finite numbers are accepted")
    return np.ascontiguousarray(vectors, dtype=kind)
