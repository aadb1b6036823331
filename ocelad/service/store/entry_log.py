"""The log of entries: write a batch of requests in one transaction, and read entries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, select

from ocelad.service.entries import Entry, NewEntry, NewName
from ocelad.service.store.bulk_insert import bulk_insert
from ocelad.service.store.errors import (
    AlreadyUndone,
    InvalidRequest,
    KeyConflict,
    NothingToUndo,
    UnknownEntry,
)
from ocelad.service.store.project_table import ProjectRecord
from ocelad.service.store.tables import entries as table
from ocelad.service.store.tables import keys

# The columns after the project's number are the attributes of Entry, in the same order.
_SELECT_ENTRY = select(*list(table.c)[1:])
_entry_values = attrgetter(*Entry.__slots__)
#: The largest number of entries that are undone together.
MAX_BUNDLE_SIZE = 10_000
# The largest number of keys in one statement.
_MAX_KEYS = 500


@dataclass(frozen=True, slots=True)
class AppendResult:
    """The durable entries of a request; ``repeated`` if an earlier request with the same key had written them."""

    entries: tuple[Entry, ...]
    repeated: bool


@dataclass(slots=True, eq=False)
class AppendRequest:
    """A request to append entries or, if ``new`` is empty, to undo one.

    An undo is of the entry ``undoes`` or, if that is None, of the last answer of ``person``; if the entry is of a
    bundle, of all entries of the bundle. If ``origin`` is given, the new entries are a bundle, and the JSON value
    ``origin`` identifies the request in their place: they may differ when it is repeated.
    """

    project: str
    new: Sequence[NewEntry | NewName]
    person: str
    key: str | None = None
    undoes: int | None = None
    origin: Any = None
    future: Future[AppendResult] = field(default_factory=Future)
    digest: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.digest = b"" if self.key is None else self._compute_digest()

    def _compute_digest(self) -> bytes:
        """Hash the content and the person: two people who use the same key by chance have given two answers."""
        content: Any = self.origin or [_content(entry) for entry in self.new] or ["undo", self.undoes]
        return hashlib.sha256(json.dumps([self.person, content]).encode()).digest()


def _content(entry: NewEntry | NewName) -> list[Any]:
    if isinstance(entry, NewName):
        return ["name", entry.item, entry.name]
    return [entry.left, entry.right, entry.answer, entry.source]


class WriteBatch:
    """Requests that are written in one transaction.

    A rejected request leaves no trace; the others are written.

    Parameters
    ----------
    connection : Connection
        In a transaction.
    projects : mapping of str to ProjectRecord
    at : int
        The time of the entries, in milliseconds since 1970.

    Attributes
    ----------
    written : dict of str to list of Entry
        The new entries by project, in order.
    """

    def __init__(self, connection: Connection, projects: Mapping[str, ProjectRecord], at: int) -> None:
        self._connection = connection
        self._projects = projects
        self._at = at
        self._entry_rows: list[tuple[Any, ...]] = []
        self._key_rows: list[tuple[Any, ...]] = []
        self._known_keys: dict[tuple[str, str], tuple[bytes, int, int]] = {}
        self.written: dict[str, list[Entry]] = {}

    def write(self, requests: Sequence[AppendRequest]) -> list[AppendResult | InvalidRequest]:
        """Write the requests in order and return the result or the error of each."""
        self._load_keys(requests)
        results: list[AppendResult | InvalidRequest] = []
        for request in requests:
            try:
                results.append(self._write(request))
            except InvalidRequest as error:
                results.append(error)
        self._flush()
        return results

    def _write(self, request: AppendRequest) -> AppendResult:
        project = self._projects[request.project]
        if request.key is not None and (known := self._known_keys.get((request.project, request.key))) is not None:
            digest, first, last = known
            _check_digest(request, digest)
            return AppendResult(tuple(self._entries_between(project, first, last)), True)
        written = self.written.setdefault(request.project, [])
        seq = project.seq + len(written)
        if request.new:
            bundle = None if request.origin is None else seq + 1
            entries = [self._entry(seq + i, entry, request.person, bundle) for i, entry in enumerate(request.new, 1)]
        else:
            entries = [
                Entry(seq + i, self._at, "undo", old.left, old.right, old.source, request.person, old.seq)
                for i, old in enumerate(self._entries_to_undo(project, request), 1)
            ]
        written += entries
        self._entry_rows += [(project.number, *_entry_values(entry)) for entry in entries]
        if request.key is not None:
            first, last = entries[0].seq, entries[-1].seq
            self._known_keys[request.project, request.key] = request.digest, first, last
            self._key_rows.append((project.number, request.key, request.digest, first, last))
        return AppendResult(tuple(entries), False)

    def _entry(self, seq: int, new: NewEntry | NewName, person: str, bundle: int | None) -> Entry:
        if isinstance(new, NewName):
            return Entry(seq, self._at, "name", new.item, new.item, "given", person, name=new.name)
        return Entry(seq, self._at, new.answer, new.left, new.right, new.source, person, bundle=bundle)

    def _load_keys(self, requests: Sequence[AppendRequest]) -> None:
        """Look up which keys of the requests are in the database, many per statement."""
        wanted: dict[str, list[str]] = {}
        for request in requests:
            if request.key is not None:
                wanted.setdefault(request.project, []).append(request.key)
        for project, names in wanted.items():
            for start in range(0, len(names), _MAX_KEYS):
                query = select(keys).where(
                    keys.c.project == self._projects[project].number,
                    keys.c.key.in_(names[start : start + _MAX_KEYS]),
                )
                for row in self._connection.execute(query):
                    self._known_keys[project, row.key] = bytes(row.digest), row.first_seq, row.last_seq

    def _entries_to_undo(self, project: ProjectRecord, request: AppendRequest) -> list[Entry]:
        """Return the entry that an undo request refers to, or all entries of its bundle."""
        entry = self._entry_to_undo(project, request)
        if entry.bundle is None:
            return [entry]
        first, end = entry.bundle, entry.bundle + MAX_BUNDLE_SIZE
        query = _SELECT_ENTRY.where(table.c.project == project.number, table.c.seq >= first, table.c.seq < end)
        rows = self._connection.execute(query.where(table.c.bundle == first).order_by(table.c.seq))
        return [Entry(*row) for row in rows]

    def _entry_to_undo(self, project: ProjectRecord, request: AppendRequest) -> Entry:
        """Return the entry that an undo request names."""
        self._flush()  # the query must see the earlier requests of this batch
        in_project = _SELECT_ENTRY.where(table.c.project == project.number)
        later = table.alias()
        undone = select(later.c.seq).where(later.c.project == project.number, later.c.undoes == table.c.seq).exists()
        if request.undoes is None:
            standing = in_project.where(table.c.who == request.person, table.c.kind != "undo", ~undone)
            row = self._connection.execute(standing.order_by(table.c.seq.desc()).limit(1)).first()
            if row is None:
                person = repr(request.person) if request.person else "the anonymous person"
                raise NothingToUndo(f"{person} has no answer left to undo in {project.id!r}")
            return Entry(*row)
        row = self._connection.execute(in_project.where(table.c.seq == request.undoes).add_columns(undone)).first()
        if row is None:
            last = project.seq + len(self.written[project.id])
            raise UnknownEntry(f"{project.id!r} has no entry {request.undoes}; accepted: 1 to {last}")
        if row.kind == "undo":
            raise AlreadyUndone(f"entry {request.undoes} is an undo and cannot be undone; answer again instead")
        if row[-1]:
            raise AlreadyUndone(f"entry {request.undoes} was undone before")
        return Entry(*row[:-1])

    def _entries_between(self, project: ProjectRecord, first: int, last: int) -> list[Entry]:
        """Return the entries of an earlier request, which are either all in this batch or all in the database."""
        if first > project.seq:
            return self.written[project.id][first - project.seq - 1 : last - project.seq]
        return load_entries(self._connection, project.number, first - 1, last)

    def _flush(self) -> None:
        bulk_insert(self._connection, table, self._entry_rows)
        bulk_insert(self._connection, keys, self._key_rows)
        self._entry_rows, self._key_rows = [], []


def _check_digest(request: AppendRequest, digest: bytes) -> None:
    """Check that a key was used for this request before, and not for another one."""
    if digest != request.digest:
        raise KeyConflict(
            f"the idempotency key {request.key!r} was used for another request; accepted: a new key per request"
        )


def load_repeated(connection: Connection, number: int, request: AppendRequest) -> AppendResult | None:
    """Return the entries that an earlier request with the same key has written; None if there was none."""
    known = connection.execute(select(keys).where(keys.c.project == number, keys.c.key == request.key)).first()
    if known is None:
        return None
    _check_digest(request, bytes(known.digest))
    return AppendResult(tuple(load_entries(connection, number, known.first_seq - 1, known.last_seq)), True)


def load_entries(connection: Connection, number: int, after: int, last: int) -> list[Entry]:
    """Return the entries after ``after`` up to ``last``, in order."""
    rows: Iterable[Any] = connection.execute(
        _SELECT_ENTRY.where(table.c.project == number, table.c.seq > after, table.c.seq <= last).order_by(table.c.seq)
    )
    return [Entry(*row) for row in rows]
