"""Segment: the vectors of some items, and what a frame needs of them."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad.neighbors.frame import Frame

# Numbers that are computed at once, so that they stay in the processor's cache.
BLOCK_ENTRIES = 2**19


class Segment:
    """Items whose vectors do not change, with coordinates in a frame.

    Parameters
    ----------
    vectors : array of shape (n_items, n_features), of float32 or float64
        May be memory-mapped.
    positions : array of int of shape (n_items,)
        The number of each item in the index; -1 if it was removed.

    Attributes
    ----------
    alive : array of int
        The rows of the items that were not removed.
    """

    def __init__(self, vectors: npt.NDArray[Any], positions: npt.NDArray[np.int64]) -> None:
        self.vectors, self.positions = vectors, positions
        self._numbers, self._order = positions, np.argsort(positions, kind="stable")
        self.alive: npt.NDArray[np.intp] = np.arange(len(vectors))
        self._in_frame: InFrame | None = None

    def __len__(self) -> int:
        return len(self.vectors)

    def blocks(self, n_columns: int = 0) -> Iterator[slice]:
        """Yield slices of rows such that a block and as many computed columns are small."""
        step = max(BLOCK_ENTRIES // max(self.vectors.shape[1], n_columns), 1)
        for first in range(0, len(self), step):
            yield slice(first, min(first + step, len(self)))

    def in_frame(self, frame: Frame) -> InFrame:
        """Return what is stored for a frame, after computing what is new."""
        before = self._in_frame
        if before is None or not before.frame.geometry.measures_like(frame.geometry):
            before = InFrame.start(self, frame)
        self._in_frame = before if before.frame is frame else before.moved(self, frame)
        return self._in_frame

    def rows_of(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        """Return the rows of items; -1 for those that are not here, or no longer."""
        at = np.searchsorted(self._numbers, positions, sorter=self._order)
        rows = self._order[np.minimum(at, len(self) - 1)]
        return np.where(self.positions[rows] == positions, rows, -1)

    def without(self, rows: npt.NDArray[np.intp]) -> Segment:
        """Return the segment without some of its rows: they keep their place, and are never found."""
        other = copy(self)
        other.positions = self.positions.copy()
        other.positions[rows] = -1
        other.alive = np.flatnonzero(other.positions >= 0)
        return other

    @property
    def n_bytes(self) -> int:
        """The memory of what is stored beside the vectors."""
        return 0 if self._in_frame is None else self._in_frame.n_bytes


class InFrame(NamedTuple):
    """Arrays with a row per item of a segment, in the vectors' type. Their rows do not change.

    Attributes
    ----------
    lengths_inverse : array of shape (n_items,) or None
        What the vectors are multiplied by, if points have unit length.
    max_factor : float
        The largest of them; 0 if there are none.
    radii, curved_radii : array of shape (n_items,)
        Distances of prepared points from the center, and lengths of curved features, rounded up.
    features : array of shape (n_items, n_curved)
    squares : array of shape (n_items, n_diagonals)
    coordinates : array of shape (n_items, n_directions)
    error : float
        A bound on the error of the coordinates, relative to the lengths of the prepared points.
    """

    frame: Frame
    lengths_inverse: npt.NDArray[Any] | None
    max_factor: float
    radii: npt.NDArray[Any]
    curved_radii: npt.NDArray[Any]
    features: npt.NDArray[Any]
    squares: npt.NDArray[Any]
    coordinates: npt.NDArray[Any]
    error: float

    @property
    def n_bytes(self) -> int:
        arrays = (self.radii, self.curved_radii, self.features, self.squares, self.coordinates)
        owned = sum(array.base.nbytes if array.base is not None else array.nbytes for array in arrays)
        return owned + (0 if self.lengths_inverse is None else self.lengths_inverse.nbytes)

    @classmethod
    def start(cls, segment: Segment, frame: Frame) -> InFrame:
        """Compute what depends on the geometry: one pass over the vectors."""
        geometry, kind, n = frame.geometry, segment.vectors.dtype, len(segment)
        inverse = np.empty(n, dtype=kind) if geometry.unit_length else None
        radii, squares = np.empty(n, dtype=kind), np.empty((n, 1), dtype=kind)
        features = np.empty((n, geometry.n_curved), dtype=kind)
        curved_radii = np.empty(n if geometry.n_curved else 0, dtype=kind)
        for block in segment.blocks(geometry.n_curved):
            X = segment.vectors[block].astype(np.float64)
            P = geometry.prepare(X)
            if inverse is not None:
                factored = geometry.factored(X)
                largest = np.abs(factored).argmax(axis=1)[:, None]
                entries, units = (np.take_along_axis(array, largest, axis=1)[:, 0] for array in (factored, P))
                inverse[block] = np.divide(units, entries, out=np.ones(len(X)), where=entries != 0.0)
            squared = np.square(P - frame.center).sum(axis=1)
            squares[block, 0], radii[block] = squared, _round_up(np.sqrt(squared), kind)
            if geometry.feature_map is not None:
                mapped = geometry.feature_map(P)
                features[block], curved_radii[block] = mapped, _round_up(np.linalg.norm(mapped, axis=1), kind)
        max_factor = 0.0 if inverse is None else float(inverse.max(initial=0.0))
        plain, empty = Frame.at(geometry, frame.center), np.empty((n, 0), dtype=kind)
        return cls(plain, inverse, max_factor, radii, curved_radii, features, squares, empty, 0.0)

    def moved(self, segment: Segment, frame: Frame) -> InFrame:
        """Return the arrays for another frame of the same geometry: only what is new is computed."""
        squares = self._moved_squares(segment, frame)
        coordinates, error = self._moved_coordinates(segment, frame)
        return self._replace(frame=frame, squares=squares, coordinates=coordinates, error=error)

    def _moved_squares(self, segment: Segment, frame: Frame) -> npt.NDArray[Any]:
        before, after = self.frame.diagonals, frame.diagonals
        if before.shape == after.shape and (before == after).all():
            return self.squares
        known = {diagonal.tobytes(): at for at, diagonal in enumerate(before)}
        columns = [known.get(diagonal.tobytes(), -1) for diagonal in after]
        squares = np.empty((len(segment), len(after)), dtype=self.squares.dtype)
        for at, column in enumerate(columns):
            if column >= 0:
                squares[:, at] = self.squares[:, column]
        new = [at for at, column in enumerate(columns) if column < 0]
        for block in segment.blocks() if new else ():
            squares[block, new] = np.square(self._prepared(segment, block)) @ after[new].T
        return squares

    def _moved_coordinates(self, segment: Segment, frame: Frame) -> tuple[npt.NDArray[Any], float]:
        before, after, kind = self.frame.basis, frame.basis, self.coordinates.dtype
        kept = len(before)
        if len(after) >= kept and (after[:kept] is before or (after[:kept] == before).all()):
            if len(after) == kept:
                return self.coordinates, self.error
            coordinates = _widen(self.coordinates, len(after), frame.max_directions)
            self._project(segment, after[kept:], coordinates[:, kept:])
            return coordinates, float(np.hypot(self.error, sum_error(kind, after.shape[1] + 2)))
        # Turn the stored coordinates into the new directions; what is outside the old ones is computed.
        turned = after @ before.T
        outside = after - turned @ before
        scaled, directions, dropped = _split(outside)
        coordinates = np.empty((len(segment), len(after)), dtype=kind)
        rest = np.empty((len(segment), len(directions)), dtype=kind)
        if len(directions):
            self._project(segment, directions, rest)
        for block in segment.blocks(max(len(before), len(after))):
            part = self.coordinates[block].astype(np.float64) @ turned.T
            coordinates[block] = part + rest[block].astype(np.float64) @ scaled.T if len(directions) else part
        error = self.error + dropped + (sum_error(kind, after.shape[1] + 2) if len(directions) else 0.0)
        return coordinates, error + 2.0 * float(np.finfo(kind).eps)

    def _project(self, segment: Segment, directions: Floats, out: npt.NDArray[Any]) -> None:
        """Compute coordinates along directions: products of the vectors as they are, one pass over them."""
        offset = (directions @ self.frame.center).astype(segment.vectors.dtype)
        for block, products in self.products(segment, directions.T, None):
            out[block] = products - offset

    def products(
        self, segment: Segment, directions: Floats, curved: Floats | None
    ) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
        """Yield blocks of products of prepared points, and of curved features, with the columns of two matrices."""
        kind = segment.vectors.dtype
        matrix = self.frame.geometry.factored(directions.T).astype(kind).T
        for block in segment.blocks(directions.shape[1]):
            products = segment.vectors[block] @ matrix
            if self.lengths_inverse is not None:
                products *= self.lengths_inverse[block, None]
            if curved is not None:
                products += self.features[block] @ curved.astype(kind)
            yield block, products

    def _prepared(self, segment: Segment, block: slice) -> Floats:
        """Return prepared points relative to the center."""
        geometry = self.frame.geometry
        return geometry.prepare(segment.vectors[block].astype(np.float64)) - self.frame.center

    def matrix_squares(self, segment: Segment, matrix: Floats) -> npt.NDArray[Any]:
        """Return ``p' matrix p`` of all prepared points p relative to the center."""
        kind = segment.vectors.dtype
        factor = matrix.astype(kind)
        squares = np.empty(len(segment), dtype=kind)
        for block in segment.blocks():
            P = self._prepared(segment, block).astype(kind)
            squares[block] = np.einsum("ij,ij->i", P @ factor, P)
        return squares


def _split(rows: Floats) -> tuple[Floats, Floats, float]:
    """Return ``scaled`` and orthonormal ``directions`` with ``rows = scaled @ directions``, and what is left out."""
    left, lengths, directions = np.linalg.svd(rows, full_matrices=False)
    kept = lengths > 1e-12
    return left[:, kept] * lengths[kept], directions[kept], float(np.linalg.norm(lengths[~kept]))


def _widen(array: npt.NDArray[Any], n_columns: int, max_columns: int) -> npt.NDArray[Any]:
    """Return an array with more columns: a wider view of the same memory, if there is room, or a larger copy."""
    base = array.base if array.base is not None else array
    if isinstance(base, np.ndarray) and base.ndim == 2 and base.shape[1] >= n_columns:
        return base[:, :n_columns]
    room = max(n_columns, min(n_columns + max(n_columns // 2, 8), max_columns))
    wider = np.empty((len(array), room), dtype=array.dtype)
    wider[:, : array.shape[1]] = array
    return wider[:, :n_columns]


def sum_error(kind: Any, n_terms: int) -> float:
    """Return a bound on the relative error of a sum of products, whatever the order of summation (Higham 2002)."""
    product = n_terms * float(np.finfo(kind).eps) / 2.0
    return product / (1.0 - product)


def _round_up(values: Floats, kind: Any) -> npt.NDArray[Any]:
    return np.asarray(values * (1.0 + 2.0 * float(np.finfo(kind).eps)), dtype=kind)
