"""The log of entries: write a batch of requests in one transaction, and read entries."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import Connection, delete, select, true

from ocelad.service.entries import Entry, Kind, NewEntry, NewName, NewUndo, PairSource
from ocelad.service.store.bulk_insert import bulk_insert
from ocelad.service.store.errors import (
    AlreadyUndone,
    InvalidRequest,
    KeyConflict,
    NothingToUndo,
    ProjectArchived,
    UnknownEntry,
    UnknownItem,
    UnknownProject,
)
from ocelad.service.store.log_chain import entry_digest, new_salt, next_chain
from ocelad.service.store.project_table import ProjectRecord
from ocelad.service.store.tables import entries as table
from ocelad.service.store.tables import keys, people

#: Selects entries: the columns after the project's number are the attributes of Entry, in the same order.
SELECT_ENTRY = select(*list(table.c)[1:])
entry_values = attrgetter(*Entry.__slots__)
# The kinds of entries that can be undone.
_UNDOABLE = ("same", "different", "skip", "name")
#: The largest number of entries that are undone together.
MAX_BUNDLE_SIZE = 10_000
# The largest number of keys in one statement.
_MAX_KEYS = 500
#: The number of entries that are copied in one commit.
COPY_BATCH = 20_000
#: Milliseconds for which a repeated request is recognized by its key.
KEY_LIFETIME_MS = 7 * 24 * 3_600_000
#: Has the keys of imports, which do not expire: a file is imported once. Names of people have no control characters.
IMPORTER = "\timport"

# The sources that clients could name before there were tickets; None: those of the entries.
_EARLIER_SOURCES: tuple[PairSource | None, ...] = (None, "active", "random", "link", "check", "settle", "given")

#: What can be appended to a log.
NewLogEntry: TypeAlias = NewEntry | NewName | NewUndo
#: Salts by the project's number and the person.
Salts: TypeAlias = dict[tuple[int, str], bytes]


@dataclass(frozen=True, slots=True)
class AppendResult:
    """The durable entries of a request; ``repeated`` if an earlier request with the same key had written them."""

    entries: tuple[Entry, ...]
    repeated: bool


class AskedPair(NamedTuple):
    """What an entry says about a pair of items; see ``Entry``."""

    seq: int
    kind: Kind
    left: int
    right: int
    undoes: int | None


@dataclass(slots=True, eq=False)
class AppendRequest:
    """A request to append entries or, if ``new`` is empty, to undo one.

    An undo is of the entry ``undoes`` or, if that is None, of the last answer of ``person``; if the entry is of a
    bundle, of all entries of the bundle. If ``origin`` is given, the new entries are a bundle, and the JSON value
    ``origin`` identifies the request in their place: they may differ when it is repeated.
    """

    project: str
    new: Sequence[NewLogEntry]
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
        return self._hash(self.origin or [_content(entry) for entry in self.new] or ["undo", self.undoes])

    def is_repetition_of(self, digest: bytes) -> bool:
        """Return whether a digest is that of this request, also one from when the content had the sources, too.

        Clients named the sources then, and one request has named one source, as a rule.
        """
        if digest == self.digest:
            return True
        if self.origin is not None or not self.new:
            return False
        new = [entry for entry in self.new if isinstance(entry, NewEntry)]
        contents = ([[*_content(entry), source or entry.source] for entry in new] for source in _EARLIER_SOURCES)
        return len(new) == len(self.new) and any(digest == self._hash(content) for content in contents)

    def _hash(self, content: Any) -> bytes:
        return hashlib.sha256(json.dumps([self.person, content]).encode()).digest()


def _content(entry: NewLogEntry) -> list[Any]:
    """Return what a client has sent. The source of a pair is not: it may differ when the request is repeated."""
    if isinstance(entry, NewName):
        return ["name", entry.item, entry.name]
    if isinstance(entry, NewUndo):
        return ["undo", entry.seq, entry.source]
    answer = [entry.left, entry.right, entry.answer]
    return answer if entry.person is None else [*answer, entry.person]


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
    salts : Salts
        Salts that are known to be in the database.

    Attributes
    ----------
    written : dict of str to list of Entry
        The new entries by project, in order.
    found_salts : Salts
        Further salts that are in the database after the commit.
    """

    def __init__(
        self,
        connection: Connection,
        projects: Mapping[str, ProjectRecord],
        at: int,
        salts: Mapping[tuple[int, str], bytes],
    ) -> None:
        self._connection = connection
        self._projects = projects
        self._at = at
        self._salts = salts
        self._entry_rows: list[tuple[Any, ...]] = []
        self._key_rows: list[tuple[Any, ...]] = []
        self._salt_rows: list[tuple[Any, ...]] = []
        self._known_keys: dict[tuple[str, str, str], tuple[bytes, int, int]] = {}
        self.written: dict[str, list[Entry]] = {}
        self.found_salts: Salts = {}

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
        project = self._projects.get(request.project)
        if project is None:  # it was deleted after the request was queued
            raise UnknownProject(f"there is no project {request.project!r}")
        if request.key is not None:
            known = self._known_keys.get((request.project, request.person, request.key))
            if known is not None:
                digest, first, last = known
                _check_digest(request, digest)
                return AppendResult(tuple(self._entries_between(project, first, last)), True)
        if project.archived_at is not None:  # it was archived after the request was queued
            raise ProjectArchived(f"{request.project!r} is archived: it can be read, but not changed")
        written = self.written.setdefault(request.project, [])
        seq = project.seq + len(written)
        if request.new:
            bundle = None if request.origin is None else seq + 1
            entries = [self._entry(project, seq + i, new, request, bundle) for i, new in enumerate(request.new, 1)]
            _check_undone_once(entries)
        else:
            entries = [
                Entry(seq + i, self._at, "undo", old.left, old.right, old.source, request.person, old.seq)
                for i, old in enumerate(self._entries_to_undo(project, request), 1)
            ]
        entries = self._chained(project, written[-1].chain if written else project.chain, entries)
        written += entries
        self._entry_rows += [(project.number, *entry_values(entry)) for entry in entries]
        if request.key is not None:
            first, last = entries[0].seq, entries[-1].seq
            self._known_keys[request.project, request.person, request.key] = request.digest, first, last
            self._key_rows.append((project.number, request.person, request.key, request.digest, first, last, self._at))
        return AppendResult(tuple(entries), False)

    def _entry(
        self, project: ProjectRecord, seq: int, new: NewLogEntry, request: AppendRequest, bundle: int | None
    ) -> Entry:
        person = request.person
        if isinstance(new, NewUndo):
            old = self._entry_to_undo(project, new.seq, person)
            source = new.source or old.source
            return Entry(seq, self._at, "undo", old.left, old.right, source, person, old.seq, bundle=bundle)
        if isinstance(new, NewName):
            return Entry(seq, self._at, "name", new.item, new.item, "given", person, name=new.name)
        if max(new.left, new.right) >= project.n_items:  # the database may have been replaced by an earlier one
            raise UnknownItem(f"{project.id!r} has {project.n_items} items, and no item {max(new.left, new.right)}")
        person = person if new.person is None else new.person
        return Entry(seq, self._at, new.answer, new.left, new.right, new.source, person, bundle=bundle)

    def _chained(self, project: ProjectRecord, chain: bytes, entries: list[Entry]) -> list[Entry]:
        """Return the entries with their chain, which continues the given one."""
        chained = []
        for entry in entries:
            chain = next_chain(chain, entry_digest(entry, self._salt(project.number, entry.person)))
            chained.append(replace(entry, chain=chain))
        return chained

    def _salt(self, number: int, person: str) -> bytes:
        """Return the salt of a person, which is made for their first entry."""
        salt = self._salts.get((number, person)) or self.found_salts.get((number, person))
        if salt is None:
            query = select(people.c.salt).where(people.c.project == number, people.c.who == person)
            salt = self._connection.scalar(query)
            if salt is None:
                salt = new_salt()
                self._salt_rows.append((number, person, salt))
            self.found_salts[number, person] = salt = bytes(salt)
        return salt

    def _load_keys(self, requests: Sequence[AppendRequest]) -> None:
        """Look up which keys of the requests are in the database, many per statement."""
        wanted: dict[str, list[str]] = {}
        for request in requests:
            if request.key is not None and request.project in self._projects:
                wanted.setdefault(request.project, []).append(request.key)
        for project, names in wanted.items():
            people_of = {request.person for request in requests if request.project == project}
            for start in range(0, len(names), _MAX_KEYS):
                query = select(keys).where(
                    keys.c.project == self._projects[project].number,
                    keys.c.who.in_(people_of) if len(people_of) <= _MAX_KEYS else true(),
                    keys.c.key.in_(names[start : start + _MAX_KEYS]),
                )
                for row in self._connection.execute(query):
                    self._known_keys[project, row.who, row.key] = bytes(row.digest), row.first_seq, row.last_seq

    def _entries_to_undo(self, project: ProjectRecord, request: AppendRequest) -> list[Entry]:
        """Return the entry that an undo request refers to, or all entries of its bundle."""
        entry = self._entry_to_undo(project, request.undoes, request.person)
        if entry.bundle is None:
            return [entry]
        first, end = entry.bundle, entry.bundle + MAX_BUNDLE_SIZE
        query = SELECT_ENTRY.where(table.c.project == project.number, table.c.seq >= first, table.c.seq < end)
        rows = self._connection.execute(query.where(table.c.bundle == first).order_by(table.c.seq))
        # An undo in a bundle stands: an undo cannot be undone. Nor can an entry that was undone or erased since.
        return [
            entry for entry in map(_to_entry, rows) if entry.kind in _UNDOABLE and not self._is_undone(project, entry)
        ]

    def _is_undone(self, project: ProjectRecord, entry: Entry) -> bool:
        query = select(table.c.seq).where(table.c.project == project.number, table.c.undoes == entry.seq)
        return self._connection.scalar(query) is not None

    def _entry_to_undo(self, project: ProjectRecord, seq: int | None, person: str) -> Entry:
        """Return the entry with a number, or the last entry of a person, if it can be undone."""
        self._flush()  # the query must see the earlier requests of this batch
        in_project = SELECT_ENTRY.where(table.c.project == project.number)
        later = table.alias()
        undone = select(later.c.seq).where(later.c.project == project.number, later.c.undoes == table.c.seq).exists()
        if seq is None:
            standing = in_project.where(table.c.who == person, table.c.kind.in_(_UNDOABLE), ~undone)
            row = self._connection.execute(standing.order_by(table.c.seq.desc()).limit(1)).first()
            if row is None:
                whose = repr(person) if person else "the anonymous person"
                raise NothingToUndo(f"{whose} has no answer left to undo in {project.id!r}")
            return _to_entry(row)
        row = self._connection.execute(in_project.where(table.c.seq == seq).add_columns(undone)).first()
        if row is None:
            last = project.seq + len(self.written[project.id])
            raise UnknownEntry.of(project.id, seq, last)
        if row.kind == "undo":
            raise AlreadyUndone(f"entry {seq} is an undo and cannot be undone; answer again instead")
        if row.kind not in _UNDOABLE:
            raise AlreadyUndone(f"entry {seq} was erased")
        if row[-1]:
            raise AlreadyUndone(f"entry {seq} was undone before")
        return _to_entry(row[:-1])

    def _entries_between(self, project: ProjectRecord, first: int, last: int) -> list[Entry]:
        """Return the entries of an earlier request, which are either all in this batch or all in the database."""
        if first > project.seq:
            return self.written[project.id][first - project.seq - 1 : last - project.seq]
        return load_entries(self._connection, project.number, first - 1, last)

    def _flush(self) -> None:
        bulk_insert(self._connection, people, self._salt_rows)
        bulk_insert(self._connection, table, self._entry_rows)
        bulk_insert(self._connection, keys, self._key_rows)
        self._salt_rows, self._entry_rows, self._key_rows = [], [], []


def _check_undone_once(entries: Sequence[Entry]) -> None:
    """Check that the undos of one request name different entries."""
    undone = set[int]()
    for entry in entries:
        if entry.undoes in undone:
            raise InvalidRequest(f"entry {entry.undoes} is undone twice by one request; accepted: once")
        if entry.undoes is not None:
            undone.add(entry.undoes)


def _check_digest(request: AppendRequest, digest: bytes) -> None:
    """Check that a key was used for this request before, and not for another one."""
    if not request.is_repetition_of(digest):
        raise KeyConflict(
            f"the idempotency key {request.key!r} was used for another request; accepted: a new key per request"
        )


def load_repeated(connection: Connection, number: int, request: AppendRequest) -> AppendResult | None:
    """Return the entries that an earlier request with the same key has written; None if there was none."""
    is_known = keys.c.project == number, keys.c.who == request.person, keys.c.key == request.key
    known = connection.execute(select(keys).where(*is_known)).first()
    if known is None:
        return None
    _check_digest(request, bytes(known.digest))
    return AppendResult(tuple(load_entries(connection, number, known.first_seq - 1, known.last_seq)), True)


def load_entries(connection: Connection, number: int, after: int, last: int) -> list[Entry]:
    """Return the entries after ``after`` up to ``last``, in order."""
    rows: Iterable[Any] = connection.execute(
        SELECT_ENTRY.where(table.c.project == number, table.c.seq > after, table.c.seq <= last).order_by(table.c.seq)
    )
    return [_to_entry(row) for row in rows]


def load_chain(connection: Connection, number: int, seq: int) -> bytes | None:
    """Return the chain of a log up to an entry; None if there is no such entry."""
    chain = connection.scalar(select(table.c.chain).where(table.c.project == number, table.c.seq == seq))
    return None if chain is None else bytes(chain)


def load_pairs(connection: Connection, number: int, after: int, last: int) -> list[AskedPair]:
    """Return what entries after ``after`` up to ``last`` say about pairs of items, in order."""
    columns = table.c.seq, table.c.kind, table.c.left_item, table.c.right_item, table.c.undoes
    query = select(*columns).where(table.c.project == number, table.c.seq > after, table.c.seq <= last)
    return [AskedPair(*row) for row in connection.execute(query.order_by(table.c.seq))]


def load_undone(connection: Connection, number: int, last: int) -> dict[int, int]:
    """Return the numbers of the entries that are undone up to entry ``last``, each with the number of its undo."""
    undos = select(table.c.undoes, table.c.seq).where(table.c.project == number, table.c.undoes.is_not(None))
    return {row.undoes: row.seq for row in connection.execute(undos.where(table.c.seq <= last))}


def copy_entries(connection: Connection, number: int, chain: bytes, entries: Sequence[Entry]) -> bytes:
    """Append entries of another log, which continue this one, with the same numbers, times and people.

    Returns
    -------
    chain : bytes
        That after them; the given one is that before them.
    """
    salts = {row.who: bytes(row.salt) for row in connection.execute(select(people).where(people.c.project == number))}
    new = {entry.person for entry in entries} - set(salts)
    salts |= {person: new_salt() for person in new}
    bulk_insert(connection, people, [(number, person, salts[person]) for person in new])
    rows = []
    for entry in entries:
        chain = next_chain(chain, entry_digest(entry, salts[entry.person]))
        rows.append((number, *entry_values(replace(entry, chain=chain))))
    bulk_insert(connection, table, rows)
    return chain


def delete_old_keys(connection: Connection, now: int) -> None:
    """Delete the idempotency keys that have expired; ``now`` is in milliseconds since 1970."""
    connection.execute(delete(keys).where(keys.c.at < now - KEY_LIFETIME_MS, keys.c.who != IMPORTER))


def _to_entry(row: Any) -> Entry:
    return Entry(*row)
