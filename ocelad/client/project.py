"""Project: what a program can tell a project, and ask of it."""

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
from ocelad.client.errors import checked
from ocelad.client.events import Event, follow
from ocelad.metric import Metric
from ocelad.service.entries import Answer, PairSource
from ocelad.service.wire import (
    Acknowledgement,
    ColumnValues,
    DistanceQuery,
    Distances,
    Embedding,
    EmbedQuery,
    HistoryPage,
    Item,
    ItemMap,
    ItemPage,
    ItemsAdded,
    LogEntry,
    MetricInfo,
    Neighbors,
    NewComparison,
    NewComparisons,
    NewItem,
    NewItems,
    NextPair,
    PointPair,
    ProjectInfo,
    Timeline,
    Undo,
    UndoResult,
)


class Project:
    """One project of a service; made by ``Client.project``.

    Points are given as ids of items, or as features in their own units. What is told of the metric is what was learned
    up to the entry ``seq`` of the log.
    """

    def __init__(self, connection: Connection, id: str) -> None:
        self.id = id
        self._connection = connection
        self._path = f"/v1/projects/{quote(id, safe='')}"

    def __repr__(self) -> str:
        return f"Project({self.id!r})"

    def info(self) -> ProjectInfo:
        """How many items and answers there are, and what may be done."""
        return self._connection.get(ProjectInfo, self._path)

    # Answers

    def compare(
        self, left: str | int, right: str | int, same: bool | None, *, source: PairSource = "given"
    ) -> Acknowledgement:
        """Say that two items are the same or not; None skips them. It is durable when this returns."""
        new = _comparison(left, right, same, source)
        return self._post_once(Acknowledgement, "comparisons", new, uuid4().hex)

    def compare_many(
        self, rows: Iterable[tuple[str | int, str | int, bool | None]], *, batch: int = 1000, key: str | None = None
    ) -> int:
        """Say it of many, in their order; each batch is durable, whole, before the next is sent.

        Parameters
        ----------
        rows : iterable of (left, right, same)
        batch : int
            How many are sent at once, at most 10,000.
        key : str or None
            A name for all of them, at most 100 characters: when the same rows are sent with it again in the same
            batches, as after a crash, those that are there are not kept twice.

        Returns
        -------
        int
            How many they were.
        """
        key = uuid4().hex if key is None else key
        remaining, count = iter(rows), 0
        while chunk := list(islice(remaining, batch)):
            new = [_comparison(left, right, same) for left, right, same in chunk]
            self._post_once(Acknowledgement, "comparisons", checked(NewComparisons, comparisons=new), f"{key}-{count}")
            count += len(chunk)
        return count

    def undo(self, seq: int | None = None) -> UndoResult:
        """Have an answer count as never given: an entry of the log, or one's own last one that stands."""
        return self._post_once(UndoResult, "undo", checked(Undo, seq=seq), uuid4().hex)

    def history(self, after: int = 0) -> Iterator[LogEntry]:
        """The entries of the log that come after one, up to the last that there is."""
        place: int | None = after
        while place is not None:
            page = self._get(HistoryPage, "history", after=place, limit=1000)
            yield from page.entries
            place = page.next

    def events(self, after: int | None = None, *, patience: float | None = None) -> Iterator[Event]:
        """What happens, as it happens, without end: every entry after one, or from now on, exactly once.

        A lost connection is made again, and nothing is missed.

        Parameters
        ----------
        after : int or None
            The last entry that is known; None: from now on.
        patience : float or None
            Seconds in which no connection may come about before a ServiceError tells why; None: it is tried without
            end, as over a restart of the service that takes long.
        """
        return follow(self._connection, f"{self._path}/events", after, patience)

    # Questions

    def metric(self) -> Metric:
        """The metric now, on features in their own units."""
        with TemporaryDirectory() as folder:
            file = Path(folder, "metric")
            self._connection.download(f"{self._path}/metric", file, format="safetensors")
            return Metric.load(file)

    def metric_info(self, *, matrix: bool = False) -> MetricInfo:
        """What the metric weighs, by features and scales."""
        return self._get(MetricInfo, "metric", matrix=str(matrix).lower())

    def distance(self, pairs: Iterable[tuple[Any, Any]]) -> Distances:
        """How far apart two points of each pair are, and whether that is the same."""
        new = [checked(PointPair, left=_point(left), right=_point(right)) for left, right in pairs]
        return self._post(Distances, "distance", checked(DistanceQuery, pairs=new))

    def embed(self, points: Iterable[Any], n_components: int = 2) -> Embedding:
        """Places where Euclidean distance is the learned one, along the heaviest directions."""
        query = checked(EmbedQuery, points=[_point(point) for point in points], n_components=n_components)
        return self._post(Embedding, "embed", query)

    def neighbors(self, item: str | int, k: int = 10) -> Neighbors:
        """The items nearest to one."""
        return self._get(Neighbors, "neighbors", item=str(item), k=k)

    def next_pair(self) -> NextPair:
        """Two items that it is worth asking somebody about."""
        return self._get(NextPair, "next-pair")

    def timeline(self) -> Timeline:
        """What happened along the answers."""
        return self._get(Timeline, "timeline")

    def map(self, clusters: int | None = None) -> ItemMap:
        """All items in the plane."""
        return self._get(ItemMap, "map", clusters=clusters)

    # Items

    def items(self) -> Iterator[Item]:
        """All items, in the order of their positions; without their features."""
        page = self._get(ItemPage, "items", limit=200)
        yield from page.items
        while page.next is not None:
            page = self._get(ItemPage, "items", after=page.next, limit=200)
            yield from page.items

    def item(self, id: str | int) -> Item:
        """One item, with its features."""
        return self._get(Item, f"items/{quote(str(id), safe='')}")

    def column(self, name: str) -> ColumnValues:
        """The values of a column that is not learned from."""
        return self._get(ColumnValues, f"columns/{quote(name, safe='')}")

    def add_items(self, items: Sequence[NewItem | dict[str, Any]]) -> ItemsAdded:
        """Add items: an id and features in the project's order each, and a text and fields where it has them."""
        new = checked(NewItems, items=list(items))
        return self._post(ItemsAdded, "items", new, repeatable=False)

    def export(
        self,
        path: str | PathLike[str],
        content: Literal["comparisons", "log", "items"] = "comparisons",
        format: Literal["parquet", "jsonl"] | None = None,
    ) -> None:
        """Write the answers that stand, the whole log, or the items into a file, whole or not at all."""
        format = format or ("jsonl" if Path(path).suffix in (".jsonl", ".ndjson") else "parquet")
        self._connection.download(f"{self._path}/export", Path(path), content=content, format=format)

    def _get(self, model: type[Model], part: str, **params: Any) -> Model:
        return self._connection.get(model, f"{self._path}/{part}", **params)

    def _post(self, model: type[Model], part: str, new: BaseModel, *, repeatable: bool = True) -> Model:
        return self._connection.post(model, f"{self._path}/{part}", new, repeatable=repeatable)

    def _post_once(self, model: type[Model], part: str, new: BaseModel, key: str) -> Model:
        """Send something that the service knows again by its key."""
        return self._connection.post(model, f"{self._path}/{part}", new, key=key, repeatable=True)


def _answer(same: bool | None) -> Answer:
    return "skip" if same is None else "same" if same else "different"


def _comparison(left: str | int, right: str | int, same: bool | None, source: PairSource = "given") -> NewComparison:
    return checked(NewComparison, left=_id(left), right=_id(right), answer=_answer(same), source=source)


def _id(id: Any) -> Any:
    """Ids are texts; where items are numbered, whole numbers are what one has at hand.

    >>> _id(7), _id("7")
    ('7', '7')
    """
    return str(id) if isinstance(id, Integral) and not isinstance(id, bool) else id


def _point(point: Any) -> Any:
    """An id as text; an array as a list."""
    return _id(point) if isinstance(point, str | Integral) else [float(value) for value in point]
