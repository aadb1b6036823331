"""The log: how a group of requests becomes entries, and how entries are read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, select

from ocelad.service.entries import Entry, NewEntry
from ocelad.service.store.bulk import insert_rows
from ocelad.service.store.errors import (
    AlreadyUndone,
    KeyConflict,
    NothingToUndo,
    Refused,
    UnknownEntry,
)
from ocelad.service.store.project_rows import ProjectRow
from ocelad.service.store.tables import entries as table
from ocelad.service.store.tables import keys

# Entry's attributes are the columns after the project's number, in their order.
_READ = select(*list(table.c)[1:])
_values = attrgetter(*Entry.__slots__)
# A statement names this many keys at most.
_KEYS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Appended:
    """What came of a request: its entries, which are durable now; ``repeated`` where they were so before."""

    entries: tuple[Entry, ...]
    repeated: bool


@dataclass(slots=True, eq=False)
class Request:
    """Entries that wait to be written; or, where there are none, an undo of ``undoes``, or of the last by ``who``."""

    project: str
    new: Sequence[NewEntry]
    who: str
    key: str | None = None
    undoes: int | None = None
    future: Future[Appended] = field(default_factory=Future)
    digest: bytes = field(init=False)

    def __post_init__(self) -> None:
        # Who belongs to it: two people who happen to choose one key and one answer made two answers.
        self.digest = b"" if self.key is None else self._digest()

    def _digest(self) -> bytes:
        entries = [[entry.left, entry.right, entry.answer, entry.asked] for entry in self.new]
        content: list[Any] = entries or ["undo", self.undoes]
        return hashlib.sha256(json.dumps([self.who, content]).encode()).digest()


class Group:
    """Requests that are written in one transaction.

    A request that is refused leaves no trace, and the others are written.

    Parameters
    ----------
    connection : Connection
        In a transaction.
    projects : mapping of str to ProjectRow
    at : int
        When, in milliseconds since 1970.

    Attributes
    ----------
    written : dict of str to list of Entry
        The new entries by project, in order.
    """

    def __init__(self, connection: Connection, projects: Mapping[str, ProjectRow], at: int) -> None:
        self._connection = connection
        self._projects = projects
        self._at = at
        self._rows: list[tuple[Any, ...]] = []
        self._keys: list[tuple[Any, ...]] = []
        self._known: dict[tuple[str, str], tuple[bytes, int, int]] = {}
        self.written: dict[str, list[Entry]] = {}

    def write(self, requests: Sequence[Request]) -> list[Appended | Refused]:
        """Write them, in this order; what came of each."""
        self._find_keys(requests)
        results: list[Appended | Refused] = []
        for request in requests:
            try:
                results.append(self._write(request))
            except Refused as refused:
                results.append(refused)
        self._flush()
        return results

    def _write(self, request: Request) -> Appended:
        project = self._projects[request.project]
        if request.key is not None and (known := self._known.get((request.project, request.key))) is not None:
            digest, first, last = known
            if digest != request.digest:
                raise KeyConflict(
                    f"the idempotency key {request.key!r} was used for something else; accepted: a new one per request"
                )
            return Appended(tuple(self._between(project, first, last)), True)
        new = self.written.setdefault(request.project, [])
        seq = project.seq + len(new)
        if request.new:
            made = [
                Entry(seq + i, self._at, entry.answer, entry.left, entry.right, entry.asked, request.who)
                for i, entry in enumerate(request.new, 1)
            ]
        else:
            old = self._to_undo(project, request)
            made = [Entry(seq + 1, self._at, "undo", old.left, old.right, old.asked, request.who, old.seq)]
        new += made
        self._rows += [(project.number, *_values(entry)) for entry in made]
        if request.key is not None:
            first, last = made[0].seq, made[-1].seq
            self._known[request.project, request.key] = request.digest, first, last
            self._keys.append((project.number, request.key, request.digest, first, last))
        return Appended(tuple(made), False)

    def _find_keys(self, requests: Sequence[Request]) -> None:
        """Which of their keys are in the database, by one statement for many."""
        asked: dict[str, list[str]] = {}
        for request in requests:
            if request.key is not None:
                asked.setdefault(request.project, []).append(request.key)
        for project, names in asked.items():
            for start in range(0, len(names), _KEYS_AT_ONCE):
                chosen = select(keys).where(
                    keys.c.project == self._projects[project].number,
                    keys.c.key.in_(names[start : start + _KEYS_AT_ONCE]),
                )
                for row in self._connection.execute(chosen):
                    self._known[project, row.key] = bytes(row.digest), row.first_seq, row.last_seq

    def _to_undo(self, project: ProjectRow, request: Request) -> Entry:
        """The entry that an undo is of."""
        self._flush()  # what came before in this group counts
        mine = _READ.where(table.c.project == project.number)
        later = table.alias()
        undone = select(later.c.seq).where(later.c.project == project.number, later.c.undoes == table.c.seq).exists()
        if request.undoes is None:
            standing = mine.where(table.c.who == request.who, table.c.kind != "undo", ~undone)
            row = self._connection.execute(standing.order_by(table.c.seq.desc()).limit(1)).first()
            if row is None:
                whose = f"{request.who!r} has" if request.who else "who has no name has"
                raise NothingToUndo(f"{whose} no answer that stands in {project.id!r}")
            return Entry(*row)
        row = self._connection.execute(mine.where(table.c.seq == request.undoes).add_columns(undone)).first()
        if row is None:
            last = project.seq + len(self.written[project.id])
            raise UnknownEntry(f"{project.id!r} has no entry {request.undoes}; accepted: 1 to {last}")
        if row.kind == "undo":
            raise AlreadyUndone(f"entry {request.undoes} is an undo, which cannot be undone; answer again instead")
        if row[-1]:
            raise AlreadyUndone(f"entry {request.undoes} was undone before")
        return Entry(*row[:-1])

    def _between(self, project: ProjectRow, first: int, last: int) -> list[Entry]:
        """Entries of this group, or from before it; a request has never some of both."""
        if first > project.seq:
            return self.written[project.id][first - project.seq - 1 : last - project.seq]
        return read_entries(self._connection, project.number, first - 1, last)

    def _flush(self) -> None:
        insert_rows(self._connection, table, self._rows)
        insert_rows(self._connection, keys, self._keys)
        self._rows, self._keys = [], []


def read_entries(connection: Connection, number: int, after: int, last: int) -> list[Entry]:
    """The entries after ``after``, up to ``last``, in their order."""
    rows: Iterable[Any] = connection.execute(
        _READ.where(table.c.project == number, table.c.seq > after, table.c.seq <= last).order_by(table.c.seq)
    )
    return [Entry(*row) for row in rows]
