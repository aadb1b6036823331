"""The JSON models of answers and of the log."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from ocelad.service.entries import Answer, Kind, PairSource
from ocelad.service.wire.models import MANY, MAX_BATCH_SIZE, ONE, Id, RequestModel, ResponseModel

ClientSource = Literal["active", "random", "link", "check", "settle", "given", "repeat"]


class NewComparison(RequestModel):
    left: Id
    right: Id
    answer: Answer
    ticket: Annotated[str, Field(max_length=100)] | None = None  # of the pair, from the service: how it was chosen
    source: ClientSource = "given"  # accepted from earlier clients and ignored: only a ticket tells the source


class NewComparisons(RequestModel):
    """A batch of comparisons, stored in order, all or none."""

    comparisons: Annotated[list[NewComparison], Field(min_length=1, max_length=MAX_BATCH_SIZE)]


def _one_or_many(body: Any) -> str:
    many = "comparisons" in body if isinstance(body, dict) else isinstance(body, NewComparisons)
    return MANY if many else ONE


#: The discriminator limits validation errors to the type that the client meant.
OneOrMany: TypeAlias = Annotated[
    Annotated[NewComparison, Tag(ONE)] | Annotated[NewComparisons, Tag(MANY)], Discriminator(_one_or_many)
]


class Acknowledgement(ResponseModel):
    """The entries are durable: they survive a kill of the server and a power cut."""

    first: int  # the number of the first entry
    last: int
    repeated: bool  # the idempotency key was known, so that the entries were not stored a second time


class Undo(RequestModel):
    seq: Annotated[int, Field(ge=1, le=2**53)] | None = None  # None: the person's last answer that is not undone


class LogEntry(ResponseModel):
    seq: int
    at: int  # milliseconds since 1970, UTC; 0 if it is erased
    kind: Kind
    left: str | None  # None if it is erased
    right: str | None
    source: PairSource
    person: str
    undoes: int | None
    undone: bool  # by a later entry
    name: str | None  # of the group of the item; only of the kind "name", whose left and right are the same item
    bundle: int | None  # the first of the entries that are undone together; None: the entry is undone by itself


class UndoResult(ResponseModel):
    seq: int  # the number of the undo; of a bundle, the number of its last undo
    entry: LogEntry  # the entry that was undone; of a bundle, the last one
    n_undone: int  # the number of entries that were undone: all entries of a bundle
    repeated: bool


class HistoryPage(ResponseModel):
    entries: list[LogEntry]
    next: int | None  # the value of after= for the next page; None: this is the last page
