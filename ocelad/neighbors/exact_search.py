"""ExactSearch: exact searches of a table of items by a metric that moves."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad.curved_metric import AnyMetric, CurvedMetric
from ocelad.neighbors.exact_view import ExactView, Found
from ocelad.neighbors.frame import Frame
from ocelad.neighbors.geometry import Geometry, forms_of
from ocelad.neighbors.item_table import ItemTable

# Items from which the center is computed.
_N_CENTER = 4096


class ExactSearch:
    """Keeps a view of the items by the last metric, and computes for the next one only what is new. Thread-safe."""

    exact = True

    def __init__(self, table: ItemTable) -> None:
        self._table, self._lock = table, Lock()
        self._frame: Frame | None = None
        self._view: ExactView | None = None

    def search(self, metric: AnyMetric, queries: Floats, k: int) -> list[Found]:
        """Return the k nearest items of each query; fewer if there are fewer."""
        return self.view(metric).search(queries, k)

    def neighbors_of(self, metric: AnyMetric, positions: Sequence[int], k: int) -> list[Found]:
        """Return the k items nearest to each of some items, without the item itself; fewer if there are fewer."""
        queries = self._table.vectors(np.asarray(positions, dtype=np.int64))
        found = self.search(metric, queries, k + 1)
        return [one.without(position, k) for one, position in zip(found, positions, strict=True)]

    def project(
        self, metric: AnyMetric, directions: Floats, curved: Floats | None = None, *, offset: Floats | float = 0.0
    ) -> npt.NDArray[np.float32]:
        """Return products of all items with directions: a row per item, by position, and a column per direction.

        Parameters
        ----------
        metric : Metric or CurvedMetric
            What is multiplied are points as it prepares them, and their curved features.
        directions : array of shape (n_features, n_directions)
        curved : array of shape (n_curved, n_directions), or None
            Directions of the curved features, whose products are added.
        offset : array of shape (n_directions,), or float
            What is subtracted from each row, before it is rounded to float32.
        """
        with self._lock:
            self._frame = self._frame_like(metric)
            snapshot = self._table.snapshot
            parts = [(segment, segment.in_frame(self._frame)) for segment in snapshot.segments]
        n_items = 1 + max(int(segment.positions.max(initial=-1)) for segment, _ in parts)
        products = np.zeros((n_items, directions.shape[1]), dtype=np.float32)
        for segment, stored in parts:
            for block, of_block in stored.products(segment, directions, curved):
                alive = segment.positions[block] >= 0
                products[segment.positions[block][alive]] = of_block[alive] - offset
        return products

    def view(self, metric: AnyMetric) -> ExactView:
        """Return all items as a metric sees them."""
        view = self._view
        if view is not None and view.metric is metric and view.n_changes == self._table.snapshot.n_changes:
            return view
        with self._lock:  # one thread computes what the others wait for
            view, snapshot = self._view, self._table.snapshot
            if view is None or view.metric is not metric or view.n_changes != snapshot.n_changes:
                self._frame = self._frame_for(metric)
                view = self._view = ExactView(snapshot.segments, self._frame, metric, snapshot.n_changes)
            return view

    def _frame_like(self, metric: AnyMetric) -> Frame:
        """Return a frame with the geometry of a metric: the present one, or a new one."""
        frame, geometry = self._frame, Geometry(metric)
        if frame is None or not frame.geometry.measures_like(geometry):
            some = self._table.snapshot.segments[0].vectors[:_N_CENTER].astype(np.float64)
            prepared = metric.prepare(some) if isinstance(metric, CurvedMetric) else some
            frame = Frame.at(geometry, prepared.mean(axis=0))
        return frame

    def _frame_for(self, metric: AnyMetric) -> Frame:
        """Return a frame that covers a metric."""
        frame = self._frame_like(metric)
        form, _ = forms_of(metric)
        return frame if form.matrix is not None else frame.cover(form)

    @property
    def n_bytes(self) -> int:
        """The memory that is used beside the vectors."""
        of_view = 0 if self._view is None else self._view.n_bytes
        return of_view + sum(segment.n_bytes for segment in self._table.snapshot.segments)
