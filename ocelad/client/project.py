"""Project: the answers, queries and items of one project."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    AgreementReport,
    AnswerChange,
    AnswerChanged,
    AnswerPage,
    ColumnValues,
    Contradiction,
    ContradictionPage,
    Disagreement,
    DisagreementPage,
    DistanceQuery,
    Distances,
    Embedding,
    EmbedQuery,
    Erased,
    Erasure,
    Group,
    GroupItems,
    GroupName,
    GroupPage,
    HistoryPage,
    ImportFormat,
    ImportResult,
    Item,
    ItemMap,
    ItemPage,
    ItemsAdded,
    LearnedWeights,
    ListedAnswer,
    LogEntry,
    Merge,
    MetricInfo,
    Neighbors,
    NewComparison,
    NewComparisons,
    NewItem,
    NewItems,
    NextPair,
    NoContent,
    PeoplePage,
    Person,
    PointPair,
    ProjectChange,
    ProjectInfo,
    Settled,
    Settlement,
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

    def change(
        self,
        *,
        title: str | None = None,
        question: str | None = None,
        guidelines: str | None = None,
        cards: Mapping[str, Any] | None = None,
    ) -> ProjectInfo:
        """Change what is given; requires the permission "admin".

        Parameters
        ----------
        title, question, guidelines : str or None
        cards : mapping or None
            The columns of items' cards by role: "title", "text", "link" and "picture" name a column or are None,
            "fields" lists columns. ``info().card_columns`` are the columns that can be chosen.
        """
        given = {"title": title, "question": question, "guidelines": guidelines, "cards": cards}
        change = validate(ProjectChange, **{name: value for name, value in given.items() if value is not None})
        return self._connection.patch(ProjectInfo, self._path, change)

    # Answers

    def compare(
        self,
        left: str | int,
        right: str | int,
        same: bool | None,
        *,
        ticket: str | None = None,
        source: PairSource = "given",
    ) -> Acknowledgement:
        """Answer whether two items are the same; None skips the pair. The answer is durable when this returns.

        ``ticket`` is that of the pair if ``next_pair`` returned it: it shows how the pair was chosen. ``source`` is
        accepted for programs that were written before there were tickets, and ignored.
        """
        new = _comparison(left, right, same, ticket)
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

    def answers(
        self,
        *,
        person: str | None = None,
        answer: Answer | None = None,
        source: PairSource | None = None,
        item: str | int | None = None,
        search: str | None = None,
        undone: bool | None = None,
        order: Literal["newest", "oldest"] = "newest",
    ) -> Iterator[ListedAnswer]:
        """Yield the answers with their items that match all given filters.

        Parameters
        ----------
        person : str or None
            Who answered, as it is stored.
        answer : {"same", "different", "skip"} or None
        source : str or None
            How the pair was chosen, such as "random" or "import".
        item : str, int or None
            The id of one of the two items.
        search : str or None
            Words in the id, the text or a field of one of the two items, in any case.
        undone : bool or None
            Only undone answers, or only others; None: both.
        order : {"newest", "oldest"}
            Which answers come first.
        """
        filters = {"person": person, "answer": answer, "source": source, "search": search, "order": order}
        filters |= {"item": None if item is None else str(item)}
        filters |= {"undone": None if undone is None else str(undone).lower()}
        page = self._get(AnswerPage, "answers", limit=200, **filters)
        yield from page.answers
        while page.next is not None:
            page = self._get(AnswerPage, "answers", limit=200, after=page.next, **filters)
            yield from page.answers

    def change_answer(self, seq: int, same: bool | None) -> AnswerChanged:
        """Replace answer ``seq`` by another one in your name; None skips the pair. Both entries are stored together."""
        change = validate(AnswerChange, answer=_answer(same))
        return self._post_once(AnswerChanged, f"answers/{int(seq)}/change", change, uuid4().hex)

    def import_answers(
        self,
        file: str | PathLike[str] | bytes,
        *,
        format: ImportFormat | None = None,
        id_column: str | None = None,
        skip_unknown: bool = False,
        dry_run: bool = False,
    ) -> ImportResult:
        """Import answers from a file. The same file is imported once, so that an interrupted import can be repeated.

        Parameters
        ----------
        file : path, or bytes
            A table of id_a, id_b and same (CSV, TSV, JSON lines, Parquet), a training file of dedupe, or labelled pairs
            of Splink or Zingg; or its content.
        format : {"csv", "jsonl", "parquet", "dedupe", "splink", "zingg"} or None
            None: found from the content.
        id_column : str or None
            The column of ids in records of dedupe and Zingg; None: one of the usual names.
        skip_unknown : bool
            Whether to leave out answers about unknown items; otherwise they are an error.
        dry_run : bool
            Whether to check the file only.
        """
        data = file if isinstance(file, bytes) else Path(file).read_bytes()
        flags = {"skip_unknown": skip_unknown, "dry_run": dry_run}
        params = {"format": format, "id_column": id_column, **{name: "true" for name, value in flags.items() if value}}
        return self._connection.upload(ImportResult, f"{self._path}/import", data, repeatable=True, **params)

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

    def distance(self, pairs: Iterable[tuple[Any, Any]], error: float | None = None) -> Distances:
        """Return the distance of each pair of points, and the probability that they are the same.

        With ``error``, each pair is decided or left to a person: at most this share of the decided ones is wrong.
        """
        new = [validate(PointPair, left=_point(left), right=_point(right)) for left, right in pairs]
        return self._post(Distances, "distance", validate(DistanceQuery, pairs=new, error=error))

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

    # People

    def people(self) -> Iterator[Person]:
        """Yield the people who have answered, by name, with their figures.

        Without the permission "review" only the caller is among them.
        """
        after: str | None = None
        while True:
            page = self._get(PeoplePage, "people", after=after, limit=1000)
            yield from page.people
            if page.next is None:
                return
            after = page.next

    def agreement(self) -> AgreementReport:
        """Return how far people agree: the share of equal answers, Krippendorff's alpha, Cohen's kappa of couples."""
        return self._get(AgreementReport, "agreement")

    def disagreements(self) -> Iterator[Disagreement]:
        """Yield the pairs about which people's answers differ, and that nobody has settled."""
        after: int | None = 0
        while after is not None:
            page = self._get(DisagreementPage, "disagreements", after=after, limit=200)
            yield from page.disagreements
            after = page.next

    def settle(self, left: str | int, right: str | int, same: bool | None) -> Settled:
        """Settle a pair: this answer is learned from, and other answers are undone. None: it cannot be answered."""
        new = validate(Settlement, left=_id(left), right=_id(right), answer=_answer(same))
        return self._post_once(Settled, "disagreements/settle", new, uuid4().hex)

    def learn_weights(self) -> LearnedWeights:
        """Estimate how often each person is right, and let their answers weigh accordingly."""
        return self._post(LearnedWeights, "people/weights/learn", NoContent())

    def erase_person(self, person: str) -> Erased:
        """Erase all answers of a person for good; ``person`` is the name as ``people`` returns it."""
        new = validate(Erasure, person=person, confirm=person)
        return self._post(Erased, "people/erase", new, repeatable=False)

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
        if str(id) in (".", ".."):  # which have another meaning in a path
            return self._get(Item, "item", id=str(id))
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
        format: Literal["parquet", "jsonl", "csv", "dedupe", "splink", "zingg"] | None = None,
    ) -> None:
        """Write the answers that are not undone, the whole log, the items, or the items' groups to a file, atomically.

        The default of the format follows from the suffix of the path: .jsonl, .csv, or Parquet. Answers can also be
        written as a training file of dedupe, or as labelled pairs of Splink or Zingg.
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


def _comparison(left: str | int, right: str | int, same: bool | None, ticket: str | None = None) -> NewComparison:
    return validate(NewComparison, left=_id(left), right=_id(right), answer=_answer(same), ticket=ticket)


def _id(id: Any) -> Any:
    """Return an id as a string; numbered items may be given as integers.

    >>> _id(7), _id("7")
    ('7', '7')
    """
    return str(id) if isinstance(id, Integral) and not isinstance(id, bool) else id


def _point(point: Any) -> Any:
    """Return an id as a string, or features as a list."""
    return _id(point) if isinstance(point, str | Integral) else [float(value) for value in point]
