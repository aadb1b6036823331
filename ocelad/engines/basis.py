"""Where directions in many dimensions are kept: as anchors, and as the pairs of the block at hand.

Learners know their directions by coefficients in a frame: some anchors of their own, then the pairs that came since the
anchors were made. All work on vectors as long as the features is done here, for a block of pairs at a time: the inner
products of the pairs with the anchors and with each other before the block is played, and new anchors, which are
combinations of old anchors and pairs, after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad.ensemble.state_reader import StateReader
from ocelad.pairs import Events, SparseVector, as_dense, as_sparse

# Anchors that are as near to orthonormal as this need no orthonormalizeing.
ROUNDING = 4e-15


class Combination(NamedTuple):
    """Rows of new anchors: ``anchors @ old[first:first + anchors.shape[1]] + pairs @ (pairs of the block)``."""

    first: int
    anchors: Floats
    pairs: Floats


class Vectors(Protocol):
    """Anchors and the pairs of a block."""

    def add(self, rows: Any, first: int, last: int, products: Floats, gram: Floats, used: int) -> None:
        """Put rows first .. last - 1 into the block at ``used``; their inner products go into products and gram."""
        ...

    def renew(self, parts: Sequence[Combination], used: int) -> None:
        """New anchors in the place of the old ones; the block is empty."""
        ...

    def combine(self, part: Combination, used: int) -> Floats:
        """A combination as rows of numbers; changes nothing."""
        ...

    def append(self, rows: Floats) -> int:
        """More anchors, behind the others: the place of the first."""
        ...

    def orthonormalize(self, first: int, count: int) -> None:
        """Make some anchors that are nearly orthonormal so, as far as they are not."""
        ...

    def get(self, at: int) -> Floats:
        """One anchor, as an array of its own."""
        ...

    def put(self, at: int, row: Floats) -> None:
        """Let that anchor be another one."""
        ...

    def state(self, used: int) -> tuple[Arrays, Metadata]:
        """The anchors, and the pairs of the block, of which there are so many."""
        ...

    def restore(self, saved: StateReader, used: int) -> int:
        """Have what ``state`` gave: how many anchors there are."""
        ...


class DenseVectors:
    """Anchors and pairs as rows of numbers: all that is done with them is multiplying matrices."""

    def __init__(self, n_features: int, block: int) -> None:
        self._anchors = np.zeros((8, n_features))
        self._spare = np.zeros((8, n_features))
        self._count = 0
        self._pairs = np.zeros((block, n_features))

    @staticmethod
    def rows(events: Events) -> Any:
        """The events' differences as ``add`` wants them."""
        return events.U.toarray() if events.sparse else events.U

    @staticmethod
    def row(u: Any) -> Floats:
        """The same of one difference."""
        return as_dense(u).reshape(1, -1)

    def add(self, rows: Floats, first: int, last: int, products: Floats, gram: Floats, used: int) -> None:
        end = used + last - first
        self._pairs[used:end] = rows[first:last]
        new = self._pairs[used:end]
        products[used:end, : self._count] = new @ self._anchors[: self._count].T
        gram[used:end, :end] = new @ self._pairs[:end].T

    def renew(self, parts: Sequence[Combination], used: int) -> None:
        count = sum(len(part.anchors) for part in parts)
        self._anchors, self._spare = self._room(count, self._spare), self._anchors
        if count and used:
            stacked = np.concatenate([part.pairs for part in parts])
            np.matmul(stacked, self._pairs[:used], out=self._anchors[:count])
        elif count:
            self._anchors[:count] = 0.0
        at = 0
        for part in parts:
            r, c = part.anchors.shape
            if r and c:
                self._anchors[at : at + r] += part.anchors @ self._spare[part.first : part.first + c]
            at += r
        self._count = count

    def combine(self, part: Combination, used: int) -> Floats:
        old = self._anchors[part.first : part.first + part.anchors.shape[1]]
        rows: Floats = part.anchors @ old + part.pairs @ self._pairs[:used]
        return rows

    def append(self, rows: Floats) -> int:
        at = self._count
        self._count += len(rows)
        grown = self._room(self._count, self._anchors)
        if grown is not self._anchors:
            grown[:at], self._anchors = self._anchors[:at], grown
        self._anchors[at : self._count] = rows
        return at

    def orthonormalize(self, first: int, count: int) -> None:
        rows = self._anchors[first : first + count]
        off = rows @ rows.T - np.eye(count)
        if count and np.abs(off).max() > ROUNDING:
            rows -= (0.5 * off) @ rows

    def get(self, at: int) -> Floats:
        anchor: Floats = self._anchors[at].copy()
        return anchor

    def put(self, at: int, row: Floats) -> None:
        self._anchors[at] = row

    def state(self, used: int) -> tuple[Arrays, Metadata]:
        return {"anchors": self._anchors[: self._count].copy(), "pairs": self._pairs[:used].copy()}, {}

    def restore(self, saved: StateReader, used: int) -> int:
        n = self._pairs.shape[1]
        anchors = saved.floats("anchors", (None, n))
        self._pairs[:used] = saved.floats("pairs", (used, n))
        self._count = 0
        self.append(anchors)
        return self._count

    @staticmethod
    def _room(count: int, array: Floats) -> Floats:
        return array if count <= len(array) else np.zeros((2 * count, array.shape[1]))


class SparseVectors:
    """Anchors feature by feature, of those features only that have been seen, and pairs as sparse rows.

    The anchors' entries for one feature lie side by side: a pair of few features reads few places of memory, whole
    lines of it.
    """

    _CHUNK = 4096  # features whose anchors are renewed at a time: they fit into the cache

    def __init__(self, n_features: int, block: int) -> None:
        self._n = n_features
        self._place = np.full(n_features, -1, dtype=np.int64)  # of each feature among those seen
        self._features = np.zeros(64, dtype=np.int64)  # the features seen, in their order
        self._n_seen = 0
        self._anchors = np.zeros((64, 8))
        self._count = 0
        self._block = block
        self._indptr = np.zeros(block + 1, dtype=np.int64)
        self._places = np.zeros(0, dtype=np.int64)
        self._values = np.zeros(0)

    @staticmethod
    def rows(events: Events) -> Any:
        """The events' differences as ``add`` wants them."""
        from scipy.sparse import csr_array

        return events.U if events.sparse else csr_array(events.U)

    @staticmethod
    def row(u: Any) -> SparseVector:
        """The same of one difference."""
        return as_sparse(u)

    def add(self, rows: Any, first: int, last: int, products: Floats, gram: Floats, used: int) -> None:
        if isinstance(rows, SparseVector):
            indptr, indices, values = np.array([0, len(rows.indices)]), rows.indices, rows.values
        else:
            ends = rows.indptr[first : last + 1].astype(np.int64)
            indptr, indices, values = ends - ends[0], rows.indices[ends[0] : ends[-1]], rows.data[ends[0] : ends[-1]]
        places = self._places_of(indices)
        start = self._indptr[used]
        self._places = np.concatenate([self._places[:start], places])
        self._values = np.concatenate([self._values[:start], values])
        end = used + last - first
        self._indptr[used : end + 1] = start + indptr
        new = self._csr(used, end)
        products[used:end, : self._count] = (new @ self._anchors[: self._n_seen])[:, : self._count]
        gram[used:end, :end] = (new @ self._csr(0, end).T).toarray()

    def renew(self, parts: Sequence[Combination], used: int) -> None:
        count = sum(len(part.anchors) for part in parts)
        n = self._n_seen
        if count > self._anchors.shape[1]:
            wider = np.zeros((len(self._anchors), (count * 5 // 4 + 8) // 8 * 8))
            wider[:n, : self._count] = self._anchors[:n, : self._count]
            self._anchors = wider
        old = self._anchors
        buffer = np.empty((min(self._CHUNK, max(n, 1)), count))
        for first in range(0, n, self._CHUNK):
            rows = old[first : min(first + self._CHUNK, n)]
            new, at = buffer[: len(rows)], 0
            for part in parts:
                r, c = part.anchors.shape
                np.matmul(rows[:, part.first : part.first + c], part.anchors.T, out=new[:, at : at + r])
                at += r
            rows[:, :count] = new
        if count and used:
            # Only features of the block's pairs gain anything from them.
            touched, inverse = np.unique(self._places[: self._indptr[used]], return_inverse=True)
            pairs = self._matrix(self._values[: self._indptr[used]], inverse, self._indptr[: used + 1], len(touched))
            stacked = np.concatenate([part.pairs for part in parts]).T
            old[touched, :count] += pairs.T @ np.ascontiguousarray(stacked)
        self._count = count
        self._places, self._values = self._places[:0], self._values[:0]

    def combine(self, part: Combination, used: int) -> Floats:
        n = self._n_seen
        old = self._anchors[:n, part.first : part.first + part.anchors.shape[1]]
        seen = part.anchors @ old.T
        if used:
            seen += (self._csr(0, used).T @ part.pairs.T).T
        rows = np.zeros((len(seen), self._n))
        rows[:, self._features[:n]] = seen
        return rows

    def append(self, rows: Floats) -> int:
        features = np.flatnonzero(rows.any(axis=0))
        places, at = self._places_of(features), self._count
        self._count += len(rows)
        if self._count > self._anchors.shape[1]:
            wider = np.zeros((len(self._anchors), (self._count * 5 // 4 + 8) // 8 * 8))
            wider[:, :at] = self._anchors[:, :at]
            self._anchors = wider
        self._anchors[: self._n_seen, at : self._count] = 0.0
        self._anchors[places, at : self._count] = rows[:, features].T
        return at

    def orthonormalize(self, first: int, count: int) -> None:
        columns = self._anchors[: self._n_seen, first : first + count]
        off = columns.T @ columns - np.eye(count)
        if count and np.abs(off).max() > ROUNDING:
            columns -= columns @ (0.5 * off)

    def get(self, at: int) -> Floats:
        row = np.zeros(self._n)
        row[self._features[: self._n_seen]] = self._anchors[: self._n_seen, at]
        return row

    def put(self, at: int, row: Floats) -> None:
        self._anchors[: self._n_seen, at] = row[self._features[: self._n_seen]]

    def state(self, used: int) -> tuple[Arrays, Metadata]:
        end = self._indptr[used]
        arrays = {
            "features": self._features[: self._n_seen],
            "anchors": self._anchors[: self._n_seen, : self._count],
            "indptr": self._indptr[: used + 1],
            "places": self._places[:end],
            "values": self._values[:end],
        }
        return {name: array.copy() for name, array in arrays.items()}, {"width": self._anchors.shape[1]}

    def restore(self, saved: StateReader, used: int) -> int:
        features = saved.distinct_integers("features", self._n - 1)
        n = len(features)
        anchors = saved.floats("anchors", (n, None))
        count = int(anchors.shape[1])
        indptr = saved.integers("indptr", (used + 1,), 0, 2**62)
        places = saved.integers("places", (None,), 0, n - 1)
        if indptr[0] != 0 or (np.diff(indptr) < 0).any() or indptr[-1] != len(places):
            raise ValueError("what was kept as 'indptr' does not say where rows begin and end")
        width = saved.integer("width", max(8, count), 2**24)
        self._anchors = np.zeros((max(64, n), width))
        self._anchors[:n, :count], self._count = anchors, count
        self._features = np.zeros(max(64, n), dtype=np.int64)
        self._features[:n], self._n_seen = features, n
        self._place[features] = np.arange(n)
        self._indptr[: used + 1] = indptr
        self._places, self._values = places, saved.floats("values", (len(places),))
        return self._count

    def _places_of(self, features: Any) -> Any:
        """Where each of the features is; those that were never seen are now."""
        places = self._place[features]
        if places.size and places.min() < 0:
            new = np.unique(features[places < 0])
            first = self._n_seen
            self._n_seen += len(new)
            if self._n_seen > len(self._anchors):
                room = min(max(2 * len(self._anchors), self._n_seen), max(self._n, self._n_seen))
                taller, longer = np.zeros((room, self._anchors.shape[1])), np.zeros(room, dtype=np.int64)
                taller[:first], longer[:first] = self._anchors[:first], self._features[:first]
                self._anchors, self._features = taller, longer
            self._place[new] = np.arange(first, self._n_seen)
            self._features[first : self._n_seen] = new
            self._anchors[first : self._n_seen] = 0.0
            places = self._place[features]
        return places

    def _csr(self, first: int, last: int) -> Any:
        start, end = self._indptr[first], self._indptr[last]
        indptr = self._indptr[first : last + 1] - start
        return self._matrix(self._values[start:end], self._places[start:end], indptr, self._n_seen)

    @staticmethod
    def _matrix(values: Floats, places: Any, indptr: Any, width: int) -> Any:
        from scipy.sparse import csr_array

        return csr_array((values, places, indptr), shape=(len(indptr) - 1, width))
