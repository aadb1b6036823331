"""Answers of a log that match a filter, newest or oldest first, in pages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select

from ocelad.service.entries import Answer, Entry, PairSource
from ocelad.service.store.tables import entries as table

# The largest number of items in one statement; entries are compared with more of them here.
_MAX_ITEMS = 1_000
# The number of entries that are read at once when they are compared here.
_PAGE = 5_000
_ANSWERS = ("same", "different", "skip")


@dataclass(frozen=True)
class AnswerFilter:
    """Which answers are listed; None: all.

    Attributes
    ----------
    person : str or None
        Who answered, as it is stored.
    answer : {"same", "different", "skip"} or None
    source : PairSource or None
    undone : bool or None
        Whether the answer is undone.
    items : tuple of frozenset of int
        Positions of items; one of the two items of an answer is in each of these sets.
    """

    person: str | None = None
    answer: Answer | None = None
    source: PairSource | None = None
    undone: bool | None = None
    items: tuple[frozenset[int], ...] = ()

    @property
    def _few(self) -> list[frozenset[int]]:
        return [positions for positions in self.items if len(positions) <= _MAX_ITEMS]

    @property
    def _many(self) -> list[frozenset[int]]:
        return [positions for positions in self.items if len(positions) > _MAX_ITEMS]

    def conditions(self, number: int, last: int) -> list[ColumnElement[bool]]:
        """Return the conditions that the database checks, on entries up to ``last``."""
        found: list[ColumnElement[bool]] = [table.c.project == number, table.c.seq <= last]
        found.append(table.c.kind.in_(_ANSWERS) if self.answer is None else table.c.kind == self.answer)
        found += [] if self.person is None else [table.c.who == self.person]
        found += [] if self.source is None else [table.c.asked == self.source]
        for positions in self._few:
            found.append(or_(table.c.left_item.in_(positions), table.c.right_item.in_(positions)))
        if self.undone is not None:
            undo = _undo.c.seq
            found.append(undo.is_not(None) if self.undone else undo.is_(None))
        return found

    def accepts(self, left: int, right: int) -> bool:
        """Return whether the items of an answer are among those that the database does not check."""
        return all(left in positions or right in positions for positions in self._many)


@dataclass(frozen=True)
class AnswerRows:
    """Some answers of a list.

    Attributes
    ----------
    answers : list of (Entry, int or None)
        Each with the number of the entry that undoes it.
    next : int or None
        The number to continue after; None: there are no more.
    """

    answers: list[tuple[Entry, int | None]]
    next: int | None


_undo = table.alias("undo")
_COLUMNS = list(table.c)[1:]


def load_answers(
    connection: Connection,
    number: int,
    filter: AnswerFilter,
    *,
    last: int,
    after: int | None,
    limit: int,
    newest_first: bool,
    seconds: float,
) -> AnswerRows:
    """Return up to ``limit`` answers after entry ``after`` in the order of the list.

    If the time is over before, fewer are returned, and ``next`` says where to continue.
    """
    deadline = time.monotonic() + seconds
    found: list[tuple[Entry, int | None]] = []
    size = limit + 1 if not filter._many else max(limit + 1, _PAGE)
    while True:
        query = _select(filter, number, last, *_COLUMNS, _undo.c.seq).limit(size)
        if after is not None:
            query = query.where(table.c.seq < after if newest_first else table.c.seq > after)
        rows = connection.execute(query.order_by(table.c.seq.desc() if newest_first else table.c.seq)).all()
        for row in rows:
            if filter.accepts(row.left_item, row.right_item):
                if len(found) == limit:
                    return AnswerRows(found, found[-1][0].seq)
                found.append((Entry(*row[:-1]), row[-1]))
        if len(rows) < size:
            return AnswerRows(found, None)
        after = rows[-1].seq
        if time.monotonic() > deadline:
            return AnswerRows(found, after)


def count_answers(
    connection: Connection, number: int, filter: AnswerFilter, *, last: int, seconds: float
) -> int | None:
    """Return the number of answers that match a filter; None if counting takes longer than ``seconds``."""
    if not filter._many:
        return connection.scalar(_select(filter, number, last, func.count())) or 0
    deadline = time.monotonic() + seconds
    query = _select(filter, number, last, table.c.left_item, table.c.right_item)
    count = 0
    for page in _pages(connection, query):
        count += sum(filter.accepts(left, right) for left, right in page)
        if time.monotonic() > deadline:
            return None
    return count


def _select(filter: AnswerFilter, number: int, last: int, *columns: Any) -> Select[Any]:
    undoes = and_(_undo.c.project == table.c.project, _undo.c.undoes == table.c.seq)
    joined = table.outerjoin(_undo, undoes)
    return select(*columns).select_from(joined).where(*filter.conditions(number, last))


def _pages(connection: Connection, query: Select[Any]) -> Iterator[Any]:
    yield from connection.execute(query, execution_options={"yield_per": _PAGE}).partitions()
