"""The JSON models of lists of answers, their changes, and imports."""

from __future__ import annotations

from typing import Literal

from ocelad.service.entries import Answer, PairSource
from ocelad.service.wire.items import Item
from ocelad.service.wire.models import RequestModel, ResponseModel

ImportFormat = Literal["csv", "jsonl", "parquet", "dedupe", "splink", "zingg"]


class ListedAnswer(ResponseModel):
    """An answer with its items."""

    seq: int
    at: int  # milliseconds since 1970, UTC
    answer: Answer
    left: Item
    right: Item
    source: PairSource
    person: str
    undone_by: int | None  # the number of the entry that undoes it
    bundle: int | None  # the first of the entries that are undone together; None: the answer is undone by itself
    may_change: bool  # whether the caller may change it or undo it


class AnswerPage(ResponseModel):
    answers: list[ListedAnswer]
    next: int | None  # the value of after= for the next page; None: this is the last page
    n_answers: int | None  # in all pages; None if counting takes too long
    n_items_searched: int | None  # fewer than all items if the search took too long; None without a search


class AnswerChange(RequestModel):
    answer: Answer


class AnswerChanged(ResponseModel):
    seq: int  # the number of the new answer
    undo: int  # the number of the undo of the former one
    repeated: bool  # the idempotency key was known, so that nothing was stored a second time


class UnknownInFile(ResponseModel):
    item: str  # as the file names it
    where: str  # in the file, such as "line 3"


class ImportResult(ResponseModel):
    format: Literal["pairs", "dedupe", "splink", "zingg"]
    dry_run: bool  # nothing was stored
    digest: str  # of the file
    n_answers: int  # that the file has about known items
    n_imported: int
    n_repeated: int  # an earlier import of the same file has stored them
    n_left_out: int  # rows without an answer
    n_unknown: int  # answers about unknown items, which were left out
    unknown: list[UnknownInFile]  # the first of them
    first: int | None  # the number of the first new entry
    last: int | None
    notes: list[str]  # sentences for people
