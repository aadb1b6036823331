"""Project: the answers, queries and items of one project."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from numbers import Integral
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal
from urllib.parse import quote
from uuid import uuid4

from pydantic import BaseModel

from ocelad.client.connection import Connection, Model
from ocelad.client.errors import validate
from ocelad.client.events import Event, follow
from ocelad.curved_metric import AnyMetric, CurvedMetric
from ocelad.io import state_files
from ocelad.metric import Metric
from ocelad.service.entries import Answer, PairSource
from ocelad.service.wire import (
    Acknowledgement,
    ColumnValues,
    Contradiction,
    ContradictionPage,
    DistanceQuery,
    Distances,
    Embedding,
    EmbedQuery,
    Group,
    GroupItems,
    GroupName,
    GroupPage,
    HistoryPage,
    Item,
    ItemMap,
    ItemPage,
    ItemsAdded,
    LogEntry,
    Merge,
    MetricInfo,
    Neighbors,
    NewComparison,
    NewComparisons,
    NewItem,
    NewItems,
    NextPair,
    PointPair,
    ProjectInfo,
    Split,
    Timeline,
    Undo,
    UndoResult,
)

_EXPORT_FORMATS: dict[str, Literal["jsonl", "csv"]] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}


class Project:
    """A project of a service; created by ``Client.project``.

    A point is the id of an item, or features in their own units. Responses about the metric contain ``seq``, the number
    of the last log entry that it has learned from.
    """

    def __init__(self, connection: Connection, id: str) -> None:
        self.id = id
        self._connection = connection
        self._path = f"/v1/projects/{quote(id, safe='')}"

    def __repr__(self) -> str:
        return f"Project({self.id!r})"

    def info(self) -> ProjectInfo:
        """Return the numbers of items and answers, and the permission of the caller."""
        return self._connection.get(ProjectInfo, self._path)

    # Answers

    def compare(
        self, left: str | int, right: str | int, same: bool | None, *, source: PairSource = "given"
    ) -> Acknowledgement:
        """Answer whether two items are the same; None skips the pair. The answer is durable when this returns."""
        new = _comparison(left, right, same, source)
        return self._post_once(Acknowledgement, "comparisons", new, uuid4().hex)

    def compare_many(
        self, rows: Iterable[tuple[str | int, str | int, bool | None]], *, batch: int = 1000, key: str | None = None
    ) -> int:
        """Answer many pairs in order; each batch is stored completely and durably before the next is sent.

        Parameters
        ----------
        rows : iterable of (left, right, same)
        batch : int
            The number of answers per request, at most 10,000.
        key : str or None
            An idempotency key of at most 100 characters. If the same rows are sent again in the same batches with this
            key, for example after a crash, none is stored twice.

        Returns
        -------
        int
            The number of answers.
        """
        key = uuid4().hex if key is None else key
        remaining, count = iter(rows), 0
        while chunk := list(islice(remaining, batch)):
            new = [_comparison(left, right, same) for left, right, same in chunk]
            self._post_once(Acknowledgement, "comparisons", validate(NewComparisons, comparisons=new), f"{key}-{count}")
            count += len(chunk)
        return count

    def undo(self, seq: int | None = None) -> UndoResult:
        """Undo an answer: entry ``seq``, or the person's last one that is not undone.

        The answers of a merge or a split are undone together.
        """
        return self._post_once(UndoResult, "undo", validate(Undo, seq=seq), uuid4().hex)

    def history(self, after: int = 0) -> Iterator[LogEntry]:
        """Yield the entries of the log after a number, up to the present end."""
        cursor: int | None = after
        while cursor is not None:
            page = self._get(HistoryPage, "history", after=cursor, limit=1000)
            yield from page.entries
            cursor = page.next

    def events(self, after: int | None = None, *, max_outage: float | None = None) -> Iterator[Event]:
        """Yield events as they happen, without end, with every log entry exactly once.

        A lost connection is restored without a gap.

        Parameters
        ----------
        after : int or None
            The number of the last known entry; None: begin with the next one.
        max_outage : float or None
            Seconds without a connection after which a ServiceError is raised. None: retry without end, for example
            during a long restart of the service.
        """
        return follow(self._connection, f"{self._path}/events", after, max_outage)

    # Queries

    def metric(self) -> AnyMetric:
        """Return the current metric on features in their own units: a ``CurvedMetric``, if the project learns one."""
        with TemporaryDirectory() as folder:
            file = Path(folder, "metric")
            self._connection.download(f"{self._path}/metric", file, format="safetensors")
            return CurvedMetric.load(file) if state_files.read_kind(file) == "curved-metric" else Metric.load(file)

    def metric_info(self, *, matrix: bool = False) -> MetricInfo:
        """Return the features by their share of the squared distances between items, and the shares of the experts."""
        return self._get(MetricInfo, "metric", matrix=str(matrix).lower())

    def distance(self, pairs: Iterable[tuple[Any, Any]]) -> Distances:
        """Return the distance of each pair of points, and whether they are predicted to be the same."""
        new = [validate(PointPair, left=_point(left), right=_point(right)) for left, right in pairs]
        return self._post(Distances, "distance", validate(DistanceQuery, pairs=new))

    def embed(self, points: Iterable[Any], n_components: int = 2) -> Embedding:
        """Return coordinates along the principal directions; Euclidean distance approximates the learned one."""
        query = validate(EmbedQuery, points=[_point(point) for point in points], n_components=n_components)
        return self._post(Embedding, "embed", query)

    def neighbors(self, item: str | int, k: int = 10) -> Neighbors:
        """Return the nearest neighbours of an item."""
        return self._get(Neighbors, "neighbors", item=str(item), k=k)

    def next_pair(self) -> NextPair:
        """Return an informative pair of items to ask about."""
        return self._get(NextPair, "next-pair")

    def timeline(self) -> Timeline:
        """Return loss, accuracy, drift, the shares of the experts and detected changes over the answers."""
        return self._get(Timeline, "timeline")

    def map(self, clusters: int | None = None) -> ItemMap:
        """Return the coordinates of all items on the map, on request with ``clusters`` clusters."""
        return self._get(ItemMap, "map", clusters=clusters)

    # Groups

    def groups(self) -> Iterator[Group]:
        """Yield the groups that the answers imply, the largest first, each with its first items."""
        after: int | None = 0
        while after is not None:
            page = self._get(GroupPage, "groups", after=after, limit=200)
            yield from page.groups
            after = page.next

    def group_items(self, item: str | int) -> Iterator[Item]:
        """Yield all items of an item's group."""
        after: int | None = 0
        while after is not None:
            page = self._get(GroupItems, "groups/items", item=str(item), after=after, limit=200)
            yield from page.items
            after = page.next

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield the pairs whose answers contradict the groups."""
        after: int | None = 0
        while after is not None:
            page = self._get(ContradictionPage, "contradictions", after=after, limit=200)
            yield from page.contradictions
            after = page.next

    def merge_groups(self, left: str | int, right: str | int) -> Acknowledgement:
        """Join the groups of two items by answers "same", which ``undo`` takes back together."""
        new = validate(Merge, left=_id(left), right=_id(right))
        return self._post_once(Acknowledgement, "groups/merge", new, uuid4().hex)

    def split_group(self, items: Iterable[str | int]) -> Acknowledgement:
        """Make items of a group a group of their own by answers, which ``undo`` takes back together."""
        new = validate(Split, items=[_id(item) for item in items])
        return self._post_once(Acknowledgement, "groups/split", new, uuid4().hex)

    def name_group(self, item: str | int, name: str) -> Acknowledgement:
        """Name the group of an item; a group has the last name that was given to one of its items."""
        return self._post_once(
            Acknowledgement, "groups/name", validate(GroupName, item=_id(item), name=name), uuid4().hex
        )

    # Items

    def items(self) -> Iterator[Item]:
        """Yield all items in the order of their positions, without features."""
        page = self._get(ItemPage, "items", limit=200)
        yield from page.items
        while page.next is not None:
            page = self._get(ItemPage, "items", after=page.next, limit=200)
            yield from page.items

    def item(self, id: str | int) -> Item:
        """Return an item with its features."""
        return self._get(Item, f"items/{quote(str(id), safe='')}")

    def column(self, name: str) -> ColumnValues:
        """Return the values of a column that is not learned from."""
        return self._get(ColumnValues, f"columns/{quote(name, safe='')}")

    def add_items(self, items: Sequence[NewItem | dict[str, Any]]) -> ItemsAdded:
        """Add items with ids, features in the order of the project, and texts and fields if the project has them."""
        new = validate(NewItems, items=list(items))
        return self._post(ItemsAdded, "items", new, repeatable=False)

    def export(
        self,
        path: str | PathLike[str],
        content: Literal["comparisons", "log", "items", "groups"] = "comparisons",
        format: Literal["parquet", "jsonl", "csv"] | None = None,
    ) -> None:
        """Write the answers that are not undone, the whole log, the items, or the items' groups to a file, atomically.

        The default of the format follows from the suffix of the path: .jsonl, .csv, or Parquet.
        """
        format = format or _EXPORT_FORMATS.get(Path(path).suffix, "parquet")
        self._connection.download(f"{self._path}/export", Path(path), content=content, format=format)

    def _get(self, model: type[Model], part: str, **params: Any) -> Model:
        return self._connection.get(model, f"{self._path}/{part}", **params)

    def _post(self, model: type[Model], part: str, new: BaseModel, *, repeatable: bool = True) -> Model:
        return self._connection.post(model, f"{self._path}/{part}", new, repeatable=repeatable)

    def _post_once(self, model: type[Model], part: str, new: BaseModel, key: str) -> Model:
        """Send a request with an idempotency key, so that it can be retried."""
        return self._connection.post(model, f"{self._path}/{part}", new, key=key, repeatable=True)


def _answer(same: bool | None) -> Answer:
    return "skip" if same is None else "same" if same else "different"


def _comparison(left: str | int, right: str | int, same: bool | None, source: PairSource = "given") -> NewComparison:
    return validate(NewComparison, left=_id(left), right=_id(right), answer=_answer(same), source=source)


def _id(id: Any) -> Any:
    """Return an id as a string; numbered items may be given as integers.

    >>> _id(7), _id("7")
    ('7', '7')
    """
    return str(id) if isinstance(id, Integral) and not isinstance(id, bool) else id


def _point(point: Any) -> Any:
    """Return an id as a string, or features as a list."""
    return _id(point) if isinstance(point, str | Integral) else [float(value) for value in point]
