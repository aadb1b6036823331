"""The basis vectors of ``BlockedBank``: anchors, and the pairs of the current block.

A learner represents its directions by coefficients in a basis, which consists of its anchors and of the pairs since the
anchors were last computed. This module does all work on vectors of length n_features, for a block of pairs at a time.
Before a block is played it computes the inner products of the pairs with the anchors and with each other. After the
block it computes new anchors as linear combinations of the old anchors and the pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad.ensemble.state_reader import StateReader
from ocelad.pairs import Events, SparseVector, as_dense, as_sparse

# Anchors with at most this loss of orthogonality need no orthonormalisation.
ROUNDING = 4e-15


class Combination(NamedTuple):
    """New anchors as rows: ``anchors @ old[first:first + anchors.shape[1]] + pairs @ (pairs of the block)``."""

    first: int
    anchors: Floats
    pairs: Floats


class BasisVectors(Protocol):
    """The anchors and the pairs of a block."""

    def rows(self, events: Events) -> Any:
        """Return the events' differences in the form that ``add`` accepts."""
        ...

    def row(self, u: Any) -> Any:
        """Return one difference in the form that ``add`` accepts."""
        ...

    def add(self, rows: Any, first: int, last: int, products: Floats, gram: Floats, used: int) -> None:
        """Add rows first .. last - 1 to the block at ``used``; write their inner products to products and gram."""
        ...

    def renew(self, parts: Sequence[Combination], used: int) -> None:
        """Replace the anchors by these combinations and empty the block."""
        ...

    def combine(self, part: Combination, used: int) -> Floats:
        """Return a combination as dense rows."""
        ...

    def append(self, rows: Floats) -> int:
        """Append anchors and return the index of the first of them."""
        ...

    def orthonormalize(self, first: int, count: int) -> None:
        """Orthonormalise some anchors that are nearly orthonormal, by one first-order correction."""
        ...

    def get(self, at: int) -> Floats:
        """Return a copy of one anchor."""
        ...

    def put(self, at: int, row: Floats) -> None:
        """Replace one anchor."""
        ...

    def state(self, used: int) -> tuple[Arrays, Metadata]:
        """Return the anchors and the ``used`` pairs of the block."""
        ...

    def restore(self, saved: StateReader, used: int) -> int:
        """Restore what ``state`` returned; return the number of anchors."""
        ...


class DenseVectors(BasisVectors):
    """Anchors and pairs as dense rows; all operations are matrix products."""

    def __init__(self, n_features: int, block: int) -> None:
        self._anchors = np.zeros((8, n_features))
        self._spare = np.zeros((8, n_features))
        self._count = 0
        self._pairs = np.zeros((block, n_features))

    def rows(self, events: Events) -> Any:
        return events.U.toarray() if events.sparse else events.U

    def row(self, u: Any) -> Floats:
        return as_dense(u).reshape(1, -1)

    def add(self, rows: Floats, first: int, last: int, products: Floats, gram: Floats, used: int) -> None:
        end = used + last - first
        self._pairs[used:end] = rows[first:last]
        new = self._pairs[used:end]
        products[used:end, : self._count] = new @ self._anchors[: self._count].T
        gram[used:end, :end] = new @ self._pairs[:end].T

    def renew(self, parts: Sequence[Combination], used: int) -> None:
        count = sum(len(part.anchors) for part in parts)
        self._anchors, self._spare = self._reserve(count, self._spare), self._anchors
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
        larger = self._reserve(self._count, self._anchors)
        if larger is not self._anchors:
            larger[:at], self._anchors = self._anchors[:at], larger
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
    def _reserve(count: int, array: Floats) -> Floats:
        return array if count <= len(array) else np.zeros((2 * count, array.shape[1]))


class SparseVectors(BasisVectors):
    """Anchors as columns over the features that have occurred, and pairs as sparse rows.

    All anchors' entries of one feature are contiguous, so a pair with few features reads few cache lines.
    """

    _CHUNK = 4096  # the number of features whose anchors are renewed at a time; these fit into the cache

    def __init__(self, n_features: int, block: int) -> None:
        self._n = n_features
        self._position = np.full(n_features, -1, dtype=np.int64)  # of each feature among those that have occurred
        self._features = np.zeros(64, dtype=np.int64)  # the features that have occurred, in order of occurrence
        self._n_seen = 0
        self._anchors = np.zeros((64, 8))
        self._count = 0
        self._block = block
        self._indptr = np.zeros(block + 1, dtype=np.int64)
        self._positions = np.zeros(0, dtype=np.int64)
        self._values = np.zeros(0)

    def rows(self, events: Events) -> Any:
        from scipy.sparse import csr_array

        return events.U if events.sparse else csr_array(events.U)

    def row(self, u: Any) -> SparseVector:
        return as_sparse(u)

    def add(self, rows: Any, first: int, last: int, products: Floats, gram: Floats, used: int) -> None:
        if isinstance(rows, SparseVector):
            indptr, indices, values = np.array([0, len(rows.indices)]), rows.indices, rows.values
        else:
            ends = rows.indptr[first : last + 1].astype(np.int64)
            indptr, indices, values = ends - ends[0], rows.indices[ends[0] : ends[-1]], rows.data[ends[0] : ends[-1]]
        positions = self._find_positions(indices)
        start = self._indptr[used]
        self._positions = np.concatenate([self._positions[:start], positions])
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
            # The pairs contribute only to the features that occur in them.
            touched, inverse = np.unique(self._positions[: self._indptr[used]], return_inverse=True)
            pairs = self._matrix(self._values[: self._indptr[used]], inverse, self._indptr[: used + 1], len(touched))
            stacked = np.concatenate([part.pairs for part in parts]).T
            old[touched, :count] += pairs.T @ np.ascontiguousarray(stacked)
        self._count = count
        self._positions, self._values = self._positions[:0], self._values[:0]

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
        positions, at = self._find_positions(features), self._count
        self._count += len(rows)
        if self._count > self._anchors.shape[1]:
            wider = np.zeros((len(self._anchors), (self._count * 5 // 4 + 8) // 8 * 8))
            wider[:, :at] = self._anchors[:, :at]
            self._anchors = wider
        self._anchors[: self._n_seen, at : self._count] = 0.0
        self._anchors[positions, at : self._count] = rows[:, features].T
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
            "places": self._positions[:end],
            "values": self._values[:end],
        }
        return {name: array.copy() for name, array in arrays.items()}, {"width": self._anchors.shape[1]}

    def restore(self, saved: StateReader, used: int) -> int:
        features = saved.distinct_integers("features", self._n - 1)
        n = len(features)
        anchors = saved.floats("anchors", (n, None))
        count = int(anchors.shape[1])
        indptr = saved.integers("indptr", (used + 1,), 0, 2**62)
        positions = saved.integers("places", (None,), 0, n - 1)
        if indptr[0] != 0 or (np.diff(indptr) < 0).any() or indptr[-1] != len(positions):
            raise ValueError("saved array 'indptr' does not mark the beginnings and ends of rows")
        width = saved.integer("width", max(8, count), 2**24)
        self._anchors = np.zeros((max(64, n), width))
        self._anchors[:n, :count], self._count = anchors, count
        self._features = np.zeros(max(64, n), dtype=np.int64)
        self._features[:n], self._n_seen = features, n
        self._position[features] = np.arange(n)
        self._indptr[: used + 1] = indptr
        self._positions, self._values = positions, saved.floats("values", (len(positions),))
        return self._count

    def _find_positions(self, features: Any) -> Any:
        """Return the positions of the features; features that have not occurred before get new positions."""
        positions = self._position[features]
        if positions.size and positions.min() < 0:
            new = np.unique(features[positions < 0])
            first = self._n_seen
            self._n_seen += len(new)
            if self._n_seen > len(self._anchors):
                n_rows = min(max(2 * len(self._anchors), self._n_seen), max(self._n, self._n_seen))
                taller, longer = np.zeros((n_rows, self._anchors.shape[1])), np.zeros(n_rows, dtype=np.int64)
                taller[:first], longer[:first] = self._anchors[:first], self._features[:first]
                self._anchors, self._features = taller, longer
            self._position[new] = np.arange(first, self._n_seen)
            self._features[first : self._n_seen] = new
            self._anchors[first : self._n_seen] = 0.0
            positions = self._position[features]
        return positions

    def _csr(self, first: int, last: int) -> Any:
        start, end = self._indptr[first], self._indptr[last]
        indptr = self._indptr[first : last + 1] - start
        return self._matrix(self._values[start:end], self._positions[start:end], indptr, self._n_seen)

    @staticmethod
    def _matrix(values: Floats, positions: Any, indptr: Any, width: int) -> Any:
        from scipy.sparse import csr_array

        return csr_array((values, positions, indptr), shape=(len(indptr) - 1, width))
