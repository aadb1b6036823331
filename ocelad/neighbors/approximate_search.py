"""ApproximateSearch: an index of another library, built for one metric, finds candidates for a later one."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, RLock, Thread
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad.curved_metric import AnyMetric
from ocelad.neighbors.backends import Backend
from ocelad.neighbors.exact_search import ExactSearch
from ocelad.neighbors.exact_view import ExactView, Found
from ocelad.neighbors.item_ids import Positions
from ocelad.neighbors.item_table import ItemTable, Snapshot
from ocelad.neighbors.recall_watch import N_SAMPLED, RecallWatch
from ocelad.neighbors.segment import Segment

#: Candidates per neighbour with effort 1.
N_CANDIDATES = 8
# Neighbours by which the recall of a new index is measured, before users have searched.
N_NEIGHBORS = 10
# An index is renewed when this share of the items was added or removed since it was built; the new ones are scanned.
MAX_CHANGED_SHARE = 0.1

MakeBackend: TypeAlias = Callable[[], Backend]


class ApproximateSearch:
    """Searches an index that was built for an earlier metric, and ranks what it finds by the current one. Thread-safe.

    The recall is measured in the background while searches go on. When it is below what was promised, the index is
    built again, in the background too, and takes the place of the old one.

    Parameters
    ----------
    table : ItemTable
    make : callable
        Returns an empty index.
    promise : float
        The recall that is promised.
    """

    exact = False

    def __init__(self, table: ItemTable, make: MakeBackend, promise: float) -> None:
        self._table, self._make = table, make
        self._exact = ExactSearch(table)
        self._lock, self._building = Lock(), RLock()
        self._worker: Thread | None = None
        self._failure: Exception | None = None
        self._built: BuiltIndex | None = None
        self.watch = RecallWatch(promise)
        self.n_renewals = 0

    @property
    def n_bytes(self) -> int:
        """The memory that is used beside the vectors and the index."""
        return self._exact.n_bytes

    def view(self, metric: AnyMetric) -> ExactView:
        """Return all items as a metric sees them, for searches that must be exact."""
        return self._exact.view(metric)

    def built(self, metric: AnyMetric) -> BuiltIndex:
        """Return the index; it is built at the first search."""
        with self._building:
            if self._built is None:
                return self.use(BuiltIndex.build(self._make, self._table.snapshot, metric), metric)
            return self._built

    def use(self, built: BuiltIndex, metric: AnyMetric) -> BuiltIndex:
        """Use an index from now on, after measuring its recall, on items if there were no queries yet."""
        if not self.watch.has_queries:
            self.watch.remember(self._table.draw(N_SAMPLED, np.random.default_rng(0)), N_NEIGHBORS)
        self.watch.start_again()
        self._measure(built, metric)
        self._built = built
        return built

    def search(self, metric: AnyMetric, queries: Floats, k: int) -> list[Found]:
        """Return about the k nearest items of each query."""
        built = self._built or self.built(metric)  # without waiting for one that is being renewed
        self.watch.remember(queries, k)
        self._start_worker(metric)
        return self._rank(built, metric, queries, k, self.watch.effort)

    def _rank(self, built: BuiltIndex, metric: AnyMetric, queries: Floats, k: int, effort: int) -> list[Found]:
        """Return the nearest of the candidates, and of the items that the index does not hold."""
        snapshot = self._table.snapshot
        positions, added = built.positions_in(snapshot), built.added_in(snapshot)
        count = min(N_CANDIDATES * effort * k, len(positions))
        found = []
        for query, near in zip(queries, built.candidates(queries, count, effort), strict=True):
            alive = near[positions[near] >= 0]
            parts = [(positions[alive], built.vectors(alive))]
            for segment in added:
                rows = segment.alive
                parts.append((segment.positions[rows], segment.vectors[rows].astype(np.float64)))
            places = np.concatenate([places for places, _ in parts])
            squares = np.concatenate([metric.squared_distance(X, query) if len(X) else np.empty(0) for _, X in parts])
            order = np.lexsort((places, squares))[:k]
            found.append(Found(places[order], squares[order]))
        few = [at for at, one in enumerate(found) if len(one.positions) < min(k, snapshot.n_items)]
        if few:  # most candidates were removed, or a small part of the index was searched
            for at, one in zip(few, self._exact.view(metric).search(queries[few], k), strict=True):
                found[at] = one
        return found

    # The recall, and renewal.

    def _start_worker(self, metric: AnyMetric) -> None:
        """Measure the recall in the background, if it is time to; report what failed there."""
        with self._lock:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise RuntimeError(f"the index could not be renewed: {failure}") from failure
            if self._worker is None and self.watch.is_due(metric):
                self._worker = Thread(target=self._work, args=(metric,), name="ocelad-recall")
                self._worker.start()

    def _work(self, metric: AnyMetric) -> None:
        try:
            self.check_recall(metric)
        except Exception as failure:  # the next search reports it
            self._failure = failure
        finally:
            self._worker = None

    def _measure(self, built: BuiltIndex, metric: AnyMetric) -> bool:
        """Measure the recall of an index; return whether it is too old."""

        def approximate(queries: Floats, k: int, effort: int) -> list[Found]:
            return self._rank(built, metric, queries, k, effort)

        return self.watch.measure(metric, self._exact.view(metric).search, approximate)

    def check_recall(self, metric: AnyMetric) -> float:
        """Measure the recall, and renew the index if it is below what was promised; return the recall."""
        built = self.built(metric)
        too_old, recall = self._measure(built, metric), self.watch.recall
        if too_old or built.n_changed(self._table.snapshot) > MAX_CHANGED_SHARE * len(self._table):
            self.renew(metric)
        return recall

    def renew(self, metric: AnyMetric) -> None:
        """Build the index again; searches use the old one until the new one is ready."""
        with self._building:
            self.use(BuiltIndex.build(self._make, self._table.snapshot, metric), metric)
            self.n_renewals += 1


class BuiltIndex(NamedTuple):
    """An index of another library: the items of some segments, embedded by one metric.

    Attributes
    ----------
    backend : Backend
        Its rows are the items that were there, segment by segment.
    metric : Metric or CurvedMetric
    segments : tuple of Segment
    """

    backend: Backend
    metric: AnyMetric
    segments: tuple[Segment, ...]

    @classmethod
    def build(cls, make: MakeBackend, snapshot: Snapshot, metric: AnyMetric) -> BuiltIndex:
        """Embed all items by a metric, and build an index of them."""
        segments = snapshot.segments
        n_items = sum(len(segment.alive) for segment in segments)
        if not n_items:
            raise ValueError("the index has no items; add some first")
        points = np.empty((n_items, embed(metric, segments[0].vectors[:1]).shape[1]), dtype=np.float32)
        first = 0
        for segment in segments:
            for block in segment.blocks(points.shape[1]):
                vectors = segment.vectors[block][segment.positions[block] >= 0]
                if len(vectors):
                    points[first : first + len(vectors)] = embed(metric, vectors)
                first += len(vectors)
        backend = make()
        backend.build(points)
        return cls(backend, metric, segments)

    def candidates(self, queries: Floats, count: int, effort: int) -> list[npt.NDArray[np.int64]]:
        """Return the numbers of rows near each query, by the metric of the index."""
        found = self.backend.search(embed(self.metric, queries), count, effort)
        return [np.unique(rows[rows >= 0]) for rows in found]

    def vectors(self, rows: npt.NDArray[np.int64]) -> Floats:
        """Return the vectors of rows, in float64."""
        starts = np.cumsum([0, *(len(segment.alive) for segment in self.segments)])[:-1]
        of = np.searchsorted(starts, rows, side="right") - 1
        vectors = np.empty((len(rows), self.segments[0].vectors.shape[1]))
        for at in np.unique(of).tolist():
            segment, here = self.segments[at], of == at
            vectors[here] = segment.vectors[segment.alive[rows[here] - starts[at]]]
        return vectors

    def positions_in(self, snapshot: Snapshot) -> Positions:
        """Return the position of each row; -1 if its item has been removed or changed."""
        now = {id(segment.vectors): segment.positions for segment in snapshot.segments}
        parts = [
            now[id(segment.vectors)][segment.alive] if id(segment.vectors) in now else np.full(len(segment.alive), -1)
            for segment in self.segments
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def is_outdated(self, snapshot: Snapshot) -> bool:
        """Whether items were added, removed or changed since."""
        return self.segments != snapshot.segments

    def n_changed(self, snapshot: Snapshot) -> int:
        """Return how many items were added, changed or removed since."""
        n_added = sum(len(segment.alive) for segment in self.added_in(snapshot))
        return n_added + int((self.positions_in(snapshot) < 0).sum())

    def added_in(self, snapshot: Snapshot) -> list[Segment]:
        """Return the segments that the index does not hold."""
        held = {id(segment.vectors) for segment in self.segments}
        return [segment for segment in snapshot.segments if id(segment.vectors) not in held]


def embed(metric: AnyMetric, vectors: Any) -> npt.NDArray[np.float32]:
    """Return vectors in the space in which the Euclidean distance is the metric's, in single precision."""
    points = np.ascontiguousarray(metric.embed(np.asarray(vectors, dtype=np.float64)), dtype=np.float32)
    return points if points.shape[1] else np.zeros((len(points), 1), dtype=np.float32)  # all distances are 0
