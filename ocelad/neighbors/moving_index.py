"""MovingIndex: nearest neighbours by a distance that moves with each answer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from ocelad._typing import Floats
from ocelad._validation import check_array, check_integer, check_number
from ocelad.curved_metric import AnyMetric, CurvedMetric
from ocelad.metric import Metric
from ocelad.neighbors import index_files
from ocelad.neighbors.approximate_search import ApproximateSearch
from ocelad.neighbors.backends import backend_factory, check_options
from ocelad.neighbors.exact_search import ExactSearch
from ocelad.neighbors.exact_view import Found
from ocelad.neighbors.item_table import ItemTable, check_vectors, split_ids

#: The recall that indexes of other libraries promise, by default.
RECALL = 0.99
# Pairs of items by which ``spread`` compares two metrics, and the quantiles of their ratios.
_N_COMPARED, _QUANTILES = 1000, (0.05, 0.95)


class MovingMetric(Protocol):
    """What has a metric that changes: a ``MetricTracker``, for example."""

    @property
    def metric_(self) -> AnyMetric: ...


class Neighbors(NamedTuple):
    """Neighbours of one query, or of several: then each array has a row per query.

    Attributes
    ----------
    ids : array
        The nearest first.
    distances : array
    probabilities : array
        The probability of "same" for each.
    exact : bool
        Whether these are certainly the nearest.
    """

    ids: npt.NDArray[Any]
    distances: Floats
    probabilities: Floats
    exact: bool


class MovingIndex:
    """Finds the nearest items by the current metric of a tracker, at all times, without being built again.

    A metric is a diagonal and some learned directions. An answer adds about one direction, so almost all that a search
    needs is stored already. The backend "exact" is right after each answer, and certain of it. The others are indexes
    of other libraries, built for an earlier metric. They find candidates, which are ranked by the current one. Their
    recall is measured on the users' queries in the background, and an index is renewed when it falls below what was
    promised; searches go on meanwhile.

    Threads may search, and change items, while another one lets the tracker learn.

    Parameters
    ----------
    items : array-like of shape (n_items, n_features)
        Of float32 or float64; it may be memory-mapped. An array is not copied, and must not be changed.
    metric : MetricTracker, LabelMetricTracker, Metric or CurvedMetric
        Anything with an attribute ``metric_``; or a metric, which can be set anew: ``index.metric = ...``.
    ids : sequence of hashable values, or None
        None: the strings in the column ``id`` or in the index of a table, as for a ``preprocessor``; otherwise the row
        numbers.
    backend : {"exact", "faiss", "usearch", "lancedb"}
    recall : float
        What an index of another library promises: the share of the true nearest neighbours that it finds.
    options : dict or None
        Options of the backend, such as ``{"kind": "hnsw"}``.

    Examples
    --------
    >>> from ocelad import MetricTracker
    >>> rng = np.random.default_rng(0)
    >>> items = rng.normal(size=(500, 8)).astype(np.float32)
    >>> tracker = MetricTracker(preprocessor=items).start(8)
    >>> index = MovingIndex(items, tracker)
    >>> for left, right in rng.integers(500, size=(300, 2)):
    ...     tracker = tracker.learn_one(left, right, abs(items[left, 0] - items[right, 0]) < 0.5)
    >>> found = index.search(items[7], k=3)
    >>> found.exact, int(found.ids[0])
    (True, 7)
    >>> bool(abs(items[found.ids, 0] - items[7, 0]).max() < 1)
    True
    """

    def __init__(
        self,
        items: Any,
        metric: MovingMetric | AnyMetric,
        *,
        ids: Sequence[Any] | None = None,
        backend: str = "exact",
        recall: float = RECALL,
        options: dict[str, Any] | None = None,
    ) -> None:
        items, ids = split_ids(items, ids)
        vectors = check_vectors(items, "items")
        self._source = _check_source(metric, vectors.shape[1])
        self._table = ItemTable(vectors, ids)
        promise = check_number(recall, "recall", above=0, at_most=1)
        self._settings: dict[str, Any] = {"backend": backend, "recall": promise, "options": check_options(options)}
        if backend == "exact":
            if options:
                raise ValueError(f"the backend 'exact' has no options; got {options!r}")
            self._searcher: ExactSearch | ApproximateSearch = ExactSearch(self._table)
        else:
            make = backend_factory(backend, self._settings["options"])
            self._searcher = ApproximateSearch(self._table, make, promise)

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        backend = self._settings["backend"]
        return f"<MovingIndex of {len(self)} items with {self._table.n_features} features, backend {backend!r}>"

    def __contains__(self, id: object) -> bool:
        return id in self._table

    @property
    def ids(self) -> list[Any]:
        """The ids of all items."""
        return self._table.ids

    @property
    def metric(self) -> AnyMetric:
        """The current metric."""
        return self._source if isinstance(self._source, Metric | CurvedMetric) else self._source.metric_

    @metric.setter
    def metric(self, metric: MovingMetric | AnyMetric) -> None:
        self._source = _check_source(metric, self._table.n_features)

    # Searches.

    def search(self, queries: Any, k: int = 10) -> Neighbors:
        """Return the k nearest items by the current metric; fewer if there are fewer.

        Parameters
        ----------
        queries : array-like of shape (n_features,) or (n_queries, n_features)
        k : int
        """
        rows = check_array(queries, "queries", 1, 2, n_features=self._table.n_features)
        neighbors = self._search(np.atleast_2d(rows), check_integer(k, "k", at_least=1))
        return neighbors if rows.ndim == 2 else _first(neighbors)

    def neighbors_of(self, ids: Any, k: int = 10) -> Neighbors:
        """Return the k items nearest to each of some items, without the item itself.

        Parameters
        ----------
        ids : sequence of ids, or one id
            One text or number counts as a list of one: each array of the result has one row.
        k : int
        """
        k = check_integer(k, "k", at_least=1)
        names = _as_list(ids)
        if not names:
            raise ValueError("ids is empty; accepted: at least one id")
        positions, vectors = self._table.find(names)
        return self._search(vectors, k, positions.tolist())

    def vectors_of(self, ids: Any) -> Floats:
        """Return the vectors of items, in float64; ``ids`` are as in ``neighbors_of``."""
        return self._table.find(_as_list(ids))[1]

    def _search(self, rows: Floats, k: int, excluded: list[int] | None = None) -> Neighbors:
        if not len(self):
            raise ValueError("the index has no items; add some first")
        metric = self.metric
        found = self._searcher.search(metric, rows, k if excluded is None else k + 1)
        if excluded is not None:
            found = [one.without(position, k) for one, position in zip(found, excluded, strict=True)]
        return self._neighbors(found, metric, self._searcher.exact)

    def within(self, query: Any, error: float = 0.02, *, probability: float | None = None) -> Neighbors:
        """Return the items that may be taken for the same as a query, the nearest first; always exact.

        Parameters
        ----------
        query : array-like of shape (n_features,)
        error : float
            The share of errors that is promised along the stream; see ``MetricTracker.decide``, which decides.
        probability : float or None
            Instead, the items that are the same with at least this probability.
        """
        point = check_array(query, "query", 1, n_features=self._table.n_features)
        metric = self.metric
        if probability is None:
            decide = getattr(self._source, "decide_log_odds", None)
            if decide is None:
                raise TypeError(
                    "a metric alone makes no decisions; accepted: an index of a MetricTracker, or probability="
                )
            found = self._searcher.view(metric).within(point, metric.threshold)  # "same" has log odds of 0 or more
            same = decide(metric.threshold - found.squares, error) > 0
            found = Found(found.positions[same], found.squares[same])
        else:
            share = check_number(probability, "probability", above=0)
            if share >= 1.0:
                raise ValueError(f"probability must be below 1; got {probability!r}")
            found = self._searcher.view(metric).within(point, metric.threshold - float(np.log(share / (1.0 - share))))
        return _first(self._neighbors([found], metric, True))

    def _neighbors(self, found: list[Found], metric: AnyMetric, exact: bool) -> Neighbors:
        positions, squares = (np.stack(parts) for parts in zip(*found, strict=True))
        ids = self._table.take_ids(positions)
        return Neighbors(ids, np.sqrt(squares), expit(metric.threshold - squares), exact)

    # Items.

    def add(self, items: Any, ids: Sequence[Any] | None = None) -> None:
        """Add items, as in ``MovingIndex``; an id that is there already is refused, and nothing is added."""
        items, ids = split_ids(items, ids)
        self._table.add(check_vectors(items, "items", self._table.n_features, self._table.dtype), ids)

    def remove(self, ids: Any) -> None:
        """Remove items; ``ids`` are as in ``neighbors_of``."""
        self._table.remove(_as_list(ids))

    def update(self, items: Any, ids: Any) -> None:
        """Give items new vectors; ``ids`` are as in ``neighbors_of``."""
        self._table.update(check_vectors(items, "items", self._table.n_features, self._table.dtype), _as_list(ids))

    @property
    def n_bytes(self) -> int:
        """The memory that is used beside the vectors, without what an index of another library takes."""
        return self._searcher.n_bytes

    # How far the metric has moved.

    def spread(self, before: AnyMetric) -> float:
        """Return how differently the current metric and an earlier one measure: 1 if they agree, up to a factor.

        It is the ratio of the 95 % to the 5 % quantile of the ratios of the distances of random pairs of items. When it
        is far above 1, an index that was exported with the earlier metric is out of date.
        """
        rng = np.random.default_rng(0)
        left, right = self._table.draw(_N_COMPARED, rng), self._table.draw(_N_COMPARED, rng)
        now, then = (metric.distance(left, right) for metric in (self.metric, before))
        differ = (now > 0.0) & (then > 0.0)
        low, high = np.quantile(now[differ] / then[differ], _QUANTILES) if differ.any() else (1.0, 1.0)
        return float(high / low)

    @property
    def measured_recall(self) -> float:
        """The share of the true nearest neighbours that searches found when it was measured last."""
        return self._searcher.watch.recall if isinstance(self._searcher, ApproximateSearch) else 1.0

    @property
    def n_renewals(self) -> int:
        """How often the index of another library was built again."""
        return self._searcher.n_renewals if isinstance(self._searcher, ApproximateSearch) else 0

    def check_recall(self) -> float:
        """Measure the recall now, renew the index if it is below what was promised, and return the recall.

        Searches have this done in the background, every few answers.
        """
        return self._searcher.check_recall(self.metric) if isinstance(self._searcher, ApproximateSearch) else 1.0

    def renew(self) -> None:
        """Build the index of another library again, for the current metric; searches go on meanwhile."""
        if isinstance(self._searcher, ApproximateSearch):
            self._searcher.renew(self.metric)

    # Files.

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the items, and the index of another library, into a folder, which is replaced; not the metric."""
        built = None
        if isinstance(self._searcher, ApproximateSearch):
            built = self._searcher.built(self.metric)
            if built.is_outdated(self._table.snapshot):
                self.renew()
                built = self._searcher.built(self.metric)
        index_files.write(folder, self._table, built, self._settings)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], metric: MovingMetric | AnyMetric, *, items: Any = None) -> Self:
        """Read an index that ``save`` wrote; its vectors are memory-mapped.

        Parameters
        ----------
        folder : path
        metric : as in ``MovingIndex``
        items : array-like or None
            The items that the index should hold, in the order of its ``ids``; if it holds others, it is refused.
        """
        saved = index_files.read(folder)
        if items is not None:
            vectors = check_vectors(split_ids(items, saved.ids)[0], "items", kind=saved.vectors.dtype)
            index_files.check_same_items(folder, saved, vectors)
        index = cls(saved.vectors, metric, ids=saved.ids, **saved.settings)
        if isinstance(index._searcher, ApproximateSearch):
            index._searcher.use(index_files.read_built(folder, index._table, saved.settings), index.metric)
        return index


def _check_source(metric: Any, n_features: int) -> Any:
    """Return a metric, or what has one, after checking it."""
    found = metric if isinstance(metric, Metric | CurvedMetric) else getattr(metric, "metric_", None)
    if not isinstance(found, Metric | CurvedMetric):
        raise TypeError(
            f"metric has the type {type(metric).__name__}; accepted: a Metric, such as tracker.play() or "
            "fleet.metric(key), or a MetricTracker that has been started, by fit or .start(n_features)"
        )
    if found.n_features != n_features:
        raise ValueError(f"the items have {n_features} features; the metric has {found.n_features}")
    return metric


def _as_list(ids: Any) -> list[Any]:
    """Return ids as a list; one text or number is a list of one."""
    return [ids] if isinstance(ids, str | bytes) or not isinstance(ids, Iterable) else list(ids)


def _first(neighbors: Neighbors) -> Neighbors:
    """Return the neighbours of the first query."""
    ids, distances, probabilities, exact = neighbors
    return Neighbors(ids[0], distances[0], probabilities[0], exact)
