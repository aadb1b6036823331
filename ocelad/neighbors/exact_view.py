"""ExactView: all items as one metric sees them, for searches that are certainly exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad.curved_metric import AnyMetric, CurvedMetric
from ocelad.neighbors.frame import CoveredForm, Frame
from ocelad.neighbors.geometry import QuadraticForm, forms_of
from ocelad.neighbors.segment import InFrame, Segment, sum_error

# Items and queries that are measured at once, at most.
BLOCK_ENTRIES, MAX_QUERIES = 2**18, 64


class Found(NamedTuple):
    """Positions of items and their squared distances from a query, the nearest first."""

    positions: npt.NDArray[np.int64]
    squares: Floats

    def without(self, position: int, k: int) -> Found:
        """Return the k nearest other than one item."""
        kept = np.flatnonzero(self.positions != position)[:k]
        return Found(self.positions[kept], self.squares[kept])


class _Part(NamedTuple):
    """A segment in a frame, with the squared lengths of its points by the metric."""

    segment: Segment
    stored: InFrame
    squares: npt.NDArray[Any]


class _Query(NamedTuple):
    """Prepared queries relative to the center, and what their products with items are made of.

    ``d^2(q, p) = own + squares(p) - 2 (p . vectors + y . coordinates + f . features)``
    """

    points: Floats
    own: Floats
    vectors: Floats
    coordinates: Floats
    features: Floats


class ExactView:
    """Searches all items by one metric. Immutable, so threads may search while the metric moves on.

    The squared distance is ``q'Mq - 2 q'Mp + p'Mp``. The last term, of each item, is computed here, from stored
    coordinates; a search takes one product of the items and the query. It is computed in the vectors' precision with a
    bound on its error, and the items that may be among the nearest by this bound are then measured by the metric
    itself. So the result is certain.

    Parameters
    ----------
    segments : sequence of Segment
    frame : Frame
        Covers the metric.
    metric : Metric or CurvedMetric
    n_changes : int
        How often the items had changed.
    """

    def __init__(self, segments: Sequence[Segment], frame: Frame, metric: AnyMetric, n_changes: int = 0) -> None:
        self.metric, self.n_changes, self._frame = metric, n_changes, frame
        self._form, self._curved = forms_of(metric)
        self._covered = None if self._form.matrix is not None else frame.express(self._form)
        self._sizes = _Sizes.of(frame, self._form, self._covered, self._curved)
        self._parts = [self._measure(segment) for segment in segments]

    @property
    def n_bytes(self) -> int:
        """The memory of what was computed here."""
        return sum(part.squares.nbytes for part in self._parts)

    def _measure(self, segment: Segment) -> _Part:
        """Compute the squared lengths of the items of a segment."""
        with np.errstate(over="ignore", invalid="ignore"):  # a search finds out what is too large for the vectors' type
            return self._measure_in_frame(segment)

    def _measure_in_frame(self, segment: Segment) -> _Part:
        stored = segment.in_frame(self._frame)
        kind = segment.vectors.dtype
        if self._covered is None:
            assert self._form.matrix is not None
            squares = stored.matrix_squares(segment, self._form.matrix)
        else:
            squares = stored.squares @ self._covered.weights.astype(kind)
            _add_squares(squares, stored.coordinates, self._covered.matrix)
        if self._curved is not None:
            _add_squares(squares, stored.features, self._curved)
        return _Part(segment, stored, squares)

    def search(self, queries: Floats, k: int) -> list[Found]:
        """Return the k nearest items of each query, a row; fewer if there are fewer items."""
        found: list[Found] = []
        k = min(k, sum(len(part.segment) for part in self._parts))
        for first in range(0, len(queries), MAX_QUERIES):
            rows = queries[first : first + MAX_QUERIES]
            nearest = _Nearest(len(rows), k)
            for positions, lower, upper in self._bounds(rows):
                nearest.add(positions, lower, upper)
            found += [self._rank(query, places, k) for query, places in zip(rows, nearest.candidates(), strict=True)]
        return found

    def within(self, query: Floats, max_square: float) -> Found:
        """Return all items whose squared distance from a query is at most this, the nearest first."""
        places = [part[lower[0] <= max_square] for part, lower, _ in self._bounds(query[None])]
        found = self._rank(query, np.concatenate([np.empty(0, dtype=np.int64), *places]), None)
        kept = found.squares <= max_square
        return Found(found.positions[kept], found.squares[kept])

    def _rank(self, query: Floats, places: npt.NDArray[np.int64], k: int | None) -> Found:
        """Measure items by the metric itself, and return the k nearest; places count the items of all segments."""
        positions, squares = np.empty(len(places), dtype=np.int64), np.empty(len(places))
        first = 0
        for part in self._parts:
            here = (places >= first) & (places < first + len(part.segment))
            rows = places[here] - first
            first += len(part.segment)
            if len(rows):
                positions[here] = part.segment.positions[rows]
                squares[here] = self.metric.squared_distance(part.segment.vectors[rows].astype(np.float64), query)
        alive = positions >= 0
        positions, squares = positions[alive], squares[alive]
        order = np.lexsort((positions, squares))[:k]
        return Found(positions[order], squares[order])

    # Bounds.

    def _bounds(self, queries: Floats) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[Any], npt.NDArray[Any]]]:
        """Yield the places of blocks of items, and bounds of their squared distances, of shape (n_queries, n_items)."""
        query = self._prepare(queries)
        first = 0
        for part in self._parts:
            step = max(BLOCK_ENTRIES // len(queries), 1)
            for start in range(0, len(part.segment), step):
                block = slice(start, min(start + step, len(part.segment)))
                with np.errstate(over="ignore", invalid="ignore"):
                    squares, margins = self._estimate(part, block, query)
                    lower, upper = squares - margins, squares + margins
                overflowed = ~(np.isfinite(squares) & np.isfinite(margins))
                if overflowed.any():
                    lower[overflowed], upper[overflowed] = -np.inf, np.inf
                removed = part.segment.positions[block] < 0
                lower[:, removed] = upper[:, removed] = np.inf
                yield np.arange(first + block.start, first + block.stop), lower, upper
            first += len(part.segment)

    def _estimate(self, part: _Part, block: slice, query: _Query) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return squared distances, and bounds on their errors."""
        stored, kind = part.stored, part.segment.vectors.dtype
        geometry, center = self._frame.geometry, self._frame.center
        products = geometry.factored(query.vectors).astype(kind) @ part.segment.vectors[block].T
        if stored.lengths_inverse is not None:
            products *= stored.lengths_inverse[block]
        products -= (query.vectors @ center).astype(kind)[:, None]
        if query.coordinates.shape[1]:
            products += query.coordinates.astype(kind) @ stored.coordinates[block].T
        if query.features.shape[1]:
            products += query.features.astype(kind) @ stored.features[block].T
        products *= -2.0
        products += part.squares[block]
        products += query.own.astype(kind)[:, None]
        margins = self._sizes.margins(query, stored, block, kind)
        return products, margins

    def _prepare(self, queries: Floats) -> _Query:
        """Return what products with items need of queries."""
        metric, n = self.metric, len(queries)
        prepared = metric.prepare(queries) if isinstance(metric, CurvedMetric) else queries
        P = prepared - self._frame.center
        if self._covered is None:
            assert self._form.matrix is not None
            vectors, coordinates = P @ self._form.matrix, np.zeros((n, 0))
            own = np.einsum("ij,ij->i", vectors, P)
        else:
            inside = P @ self._frame.basis.T
            vectors = P * (self._covered.weights @ self._frame.diagonals)
            coordinates = inside @ self._covered.matrix
            own = np.einsum("ij,ij->i", vectors, P) + np.einsum("ij,ij->i", coordinates, inside)
        features = np.zeros((n, 0))
        if self._curved is not None and isinstance(metric, CurvedMetric) and metric.feature_map is not None:
            mapped = metric.feature_map(prepared)
            features = mapped @ self._curved
            own = own + np.einsum("ij,ij->i", features, mapped)
        return _Query(P, own, vectors, coordinates, features)


class _Sizes(NamedTuple):
    """Sizes of the parts of a metric, from which bounds on rounding errors follow."""

    diagonal: float  # the largest entry
    learned: float  # the norm of the matrix of coordinates, or of the metric
    curved: float
    center: float
    slack: float  # what the frame does not cover
    n_terms: int  # of a sum of products, and some more for the sums of these

    @classmethod
    def of(cls, frame: Frame, form: QuadraticForm, covered: CoveredForm | None, curved: Floats | None) -> _Sizes:
        learned = form.matrix if covered is None else covered.matrix
        assert learned is not None
        return cls(
            0.0 if covered is None else float(np.abs(covered.weights) @ frame.diagonals.max(axis=1)),
            float(np.linalg.norm(learned, 2)) if learned.size else 0.0,
            0.0 if curved is None else float(np.linalg.norm(curved, 2)),
            float(np.linalg.norm(frame.center)),
            0.0 if covered is None else covered.slack,
            max(frame.basis.shape[1], 0 if curved is None else len(curved)) + 8,
        )

    def margins(self, query: _Query, stored: InFrame, block: slice, kind: Any) -> npt.NDArray[Any]:
        """Return bounds on the errors of squared distances, of shape (n_queries, n_items of the block).

        Each product of n numbers has a relative error of at most ``sum_error(n)``, relative to the lengths of its
        factors; so does the sum of squares over the directions of a matrix, times the root of their number.
        """
        unit = sum_error(kind, self.n_terms)
        error = unit + stored.error  # of coordinates, relative to the length of a point
        rows = query.points, query.vectors, query.coordinates, query.features
        own, of_vectors, of_coordinates, of_features = (np.linalg.norm(part, axis=1) for part in rows)
        root = np.sqrt(self.n_terms)
        # The error is at most constant + linear * r + square * r^2 for a point at a distance r from the center, plus
        # the same for curved features.
        square = 2.0 * unit * self.diagonal + (2.0 * error + 4.0 * unit * root) * self.learned
        center = error * self.learned * self.center
        linear = 4.0 * unit * of_vectors + (4.0 * unit + 2.0 * error) * of_coordinates + 2.0 * center
        constant = (4.0 * unit * of_vectors + 2.0 * error * of_coordinates) * self.center
        constant = constant + 2.0 * unit * np.abs(query.own) + center * error * self.center
        if self.slack:
            square, linear = square + self.slack, linear + 2.0 * self.slack * own
            constant = constant + self.slack * np.square(own)
        # Numbers below the smallest normal one lose digits, or vanish.
        tiny = 4.0 * self.n_terms * float(np.finfo(kind).smallest_normal)
        square, linear = square + tiny, linear + tiny
        sizes = 1.0 + self.diagonal + self.learned + self.curved + self.center
        constant = constant + tiny * (sizes + stored.max_factor * (1.0 + of_vectors))
        radii = stored.radii[block]
        margins: npt.NDArray[Any] = np.multiply.outer(linear.astype(kind), radii)
        margins += np.square(radii) * kind.type(square)
        if self.curved:
            curved_radii = stored.curved_radii[block]
            margins += np.multiply.outer((4.0 * unit * of_features).astype(kind), curved_radii)
            margins += np.square(curved_radii) * kind.type((4.0 * unit + 4.0 * unit * root) * self.curved)
        margins += (constant * 1.01).astype(kind)[:, None]
        return margins


class _Nearest:
    """The items that may be among the k nearest of each query, while blocks of bounds come in."""

    def __init__(self, n_queries: int, k: int) -> None:
        self._k = k
        self._upper = np.full((n_queries, k), np.inf)  # the k smallest upper bounds
        self._kept: list[tuple[npt.NDArray[np.intp], npt.NDArray[np.int64], npt.NDArray[Any]]] = []

    def add(self, places: npt.NDArray[np.int64], lower: npt.NDArray[Any], upper: npt.NDArray[Any]) -> None:
        k = self._k
        smallest = np.partition(upper, k - 1, axis=1)[:, :k] if upper.shape[1] > k else upper
        merged = np.concatenate([self._upper, smallest.astype(np.float64)], axis=1)
        self._upper = np.partition(merged, k - 1, axis=1)[:, :k]
        queries, columns = np.nonzero(lower <= self._upper.max(axis=1)[:, None])
        self._kept.append((queries, places[columns], lower[queries, columns]))

    def candidates(self) -> list[npt.NDArray[np.int64]]:
        """Return the places of the candidates of each query."""
        bound = self._upper.max(axis=1)
        queries, places, lower = (np.concatenate(parts) for parts in zip(*self._kept, strict=True))
        kept = lower <= bound[queries]
        queries, places = queries[kept], places[kept]
        order = np.argsort(queries, kind="stable")
        return np.split(places[order], np.searchsorted(queries[order], np.arange(1, len(bound))))


def _add_squares(squares: npt.NDArray[Any], points: npt.NDArray[Any], matrix: Floats) -> None:
    """Add ``y' matrix y`` of all rows y."""
    if not matrix.size:
        return
    values, vectors = np.linalg.eigh(matrix)
    factors = (vectors * np.sqrt(np.abs(values))).astype(points.dtype)
    signs = np.sign(values).astype(points.dtype)
    step = max(BLOCK_ENTRIES // max(factors.shape), 1)
    for first in range(0, len(points), step):
        turned = points[first : first + step] @ factors
        squares[first : first + step] += np.square(turned, out=turned) @ signs
