"""FleetStore: the states of a fleet in one SQLite file, with a journal of the answers that the states lack."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from ctypes import py_object, pythonapi
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import uuid4
from weakref import WeakSet
from zlib import crc32

from ocelad.fleet.keyed_pairs import Key
from ocelad.io.atomic import fsync_folder

#: When what is written survives: after each call; after ``commit``; or never, because the file is temporary.
Durability: TypeAlias = Literal["each call", "commit", "temporary"]
#: The version of the file's format. It increases when a name within the file changes its meaning.
FORMAT_VERSION = 1
# The application id in the header of the file, which file(1) and other programs read.
_APPLICATION_ID = int.from_bytes(b"ocfl", "big")
_PAGE_BYTES = 8192
# The write-ahead log is cut to this size after large transactions.
_MAX_LOG_BYTES = 64_000_000
# Seconds to wait for a lock: a process that was killed releases its own at once.
_LOCK_SECONDS = 0.5
# Keys of one query.
_N_KEYS = 500
_SCHEMA = (
    # The columns of keys have no type, so that "1" and 1 are different.
    "CREATE TABLE meta (name TEXT PRIMARY KEY, crc INTEGER NOT NULL, value BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE states (serial INTEGER PRIMARY KEY, key NOT NULL UNIQUE, through INTEGER NOT NULL,"
    " crc INTEGER NOT NULL, state BLOB NOT NULL)",
    "CREATE TABLE journal (first INTEGER PRIMARY KEY, crc INTEGER NOT NULL, answers BLOB NOT NULL)",
)


# The stores of this process.
_stores: WeakSet[FleetStore] = WeakSet()


class FleetInUse(OSError):
    """Another process, or another fleet of this process, has the file open."""


class FleetDamaged(ValueError):
    """The file is no fleet, or it is damaged."""


class StoredState(NamedTuple):
    """The state of a key.

    Attributes
    ----------
    key : str or int
    serial : int
        The position in the stream of the key's first answer, by which keys are ordered.
    through : int
        The state has learned from all answers of the key before this position.
    state : bytes
    """

    key: Key
    serial: int
    through: int
    state: bytes


class StateHead(NamedTuple):
    """The first bytes of the state of a key; see ``StoredState``.

    Attributes
    ----------
    key : str or int
    serial : int
    head : bytes
    n_bytes : int
        The length of the whole state.
    """

    key: Key
    serial: int
    head: bytes
    n_bytes: int


class FleetStore:
    """The file of a fleet, which this process holds alone.

    Parameters
    ----------
    path : path or None
        The file, which is created if it does not exist; None: a temporary one, which ``close`` removes.
    durability : {"each call", "commit", "temporary"}

    Examples
    --------
    >>> store = FleetStore(None, "temporary")
    >>> store.write_states([StoredState("a", 0, 5, b"state of a")], meta={})
    >>> store.read_states(["a", "b"])
    {'a': StoredState(key='a', serial=0, through=5, state=b'state of a')}
    >>> store.close()
    """

    def __init__(self, path: str | os.PathLike[str] | None, durability: Durability) -> None:
        self.durability: Durability = durability
        self.folder: str | None = None
        if path is None:
            self.folder = mkdtemp(prefix="ocelad-fleet-")
            path = Path(self.folder, "states")
        self.path = Path(os.path.realpath(path))
        self.name = repr(str(path))
        #: Bytes written since the last checkpoint, and those of the journal.
        self.uncommitted_bytes = self.journal_bytes = 0
        self.process = os.getpid()
        #: Whether states were lost that had been written since the last checkpoint.
        self.is_broken = False
        self._in_transaction = self._is_writing = self._is_committing = False
        self._connection: sqlite3.Connection | None = None
        _stores.add(self)
        try:
            with self._errors("open"):
                self._connection = self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> sqlite3.Connection:
        if self.durability == "temporary":
            connection = _connect(self.path)
            for pragma in (
                f"page_size = {_PAGE_BYTES}",
                "locking_mode = EXCLUSIVE",
                "journal_mode = TRUNCATE",
                "synchronous = OFF",
            ):
                connection.execute(f"PRAGMA {pragma}")
            for statement in _SCHEMA:
                connection.execute(statement)
            return connection
        if self.path.is_dir():
            raise IsADirectoryError(f"{self.name} is a folder; accepted: the path of a file")
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                f"the folder {str(self.path.parent)!r} does not exist; accepted: an existing folder"
            )
        if not self.path.exists():
            _create(self.path)
        if self.path.stat().st_size == 0:
            raise FleetDamaged(f"{self.name} is empty; accepted: the file of a fleet, or a path without a file")
        connection = _connect(self.path)
        try:
            # Without a lock that other processes see, two of them would learn different things.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            # Before anything is written: the file may belong to another program.
            if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
                raise FleetDamaged(f"{self.name} is another program's file; accepted: the file of a fleet")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > FORMAT_VERSION:
                raise FleetDamaged(
                    f"{self.name} has version {version} of the format, from a newer version of ocelad; this version "
                    f"reads {FORMAT_VERSION}"
                )
            for pragma in (
                "synchronous = FULL",
                "fullfsync = ON",
                f"journal_size_limit = {_MAX_LOG_BYTES}",
                "cache_size = -16000",
            ):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
            for table in ("meta", "states", "journal"):
                connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    # Settings and the shared learner.

    def read_meta(self, name: str) -> bytes | None:
        """Return a named value; None if it was never written."""
        with self._errors("read"):
            row = self._execute("SELECT crc, value FROM meta WHERE name = ?", (name,)).fetchone()
            return None if row is None else self._checked(row[1], row[0], f"the {name}")

    def write_meta(self, values: dict[str, bytes]) -> None:
        """Write named values."""
        with self._writing():
            self._execute_many(
                "INSERT OR REPLACE INTO meta VALUES (?, ?, ?)",
                ((name, crc32(value), value) for name, value in values.items()),
            )

    # States.

    def n_states(self) -> int:
        """Return the number of keys with a state; refuse a file from which states were removed."""
        with self._errors("read"):
            count = int(self._execute("SELECT COUNT(*) FROM states").fetchone()[0])
        if count != (expected := self._n_keys()):
            raise FleetDamaged(
                f"{self.name} is damaged: it has {count} states for {expected} keys; accepted: a backup of the file"
            )
        return count

    def _n_keys(self) -> int:
        """Return the number of keys that have been written."""
        return int(self.read_meta("n_keys") or 0)

    def read_states(self, keys: Sequence[Key]) -> dict[Key, StoredState]:
        """Return the states of those of the keys that have one."""
        found: dict[Key, StoredState] = {}
        with self._errors("read"):
            for at in range(0, len(keys), _N_KEYS):
                some = keys[at : at + _N_KEYS]
                marks = ",".join("?" * len(some))
                query = f"SELECT key, serial, through, state, crc FROM states WHERE key IN ({marks})"
                for *stored, crc in self._execute(query, tuple(some)):
                    found[stored[0]] = self._checked_state(stored, crc)
        return found

    def has_state(self, key: Key) -> bool:
        """Return whether the key has a state."""
        with self._errors("read"):
            return self._execute("SELECT 1 FROM states WHERE key = ?", (key,)).fetchone() is not None

    def serials(self) -> dict[Key, int]:
        """Return the serial of each key that has a state."""
        with self._errors("read"):
            return dict(self._execute("SELECT key, serial FROM states"))

    def states_since(self, serial: int, count: int) -> list[StoredState]:
        """Return the states of the first keys from a serial on, at most ``count``."""
        query = "SELECT key, serial, through, state, crc FROM states WHERE serial >= ? ORDER BY serial LIMIT ?"
        with self._errors("read"):
            return [self._checked_state(stored, crc) for *stored, crc in self._execute(query, (serial, count))]

    def heads(self, n_bytes: int) -> list[StateHead]:
        """Return the first bytes of all states, without reading or checking the rest."""
        with self._errors("read"):
            return [self._head(key, serial, n_bytes) for key, serial in self._execute("SELECT key, serial FROM states")]

    def _head(self, key: Key, serial: int, n_bytes: int) -> StateHead:
        assert self._connection is not None, "the store is closed"
        # A statement with substr would read the whole state.
        with self._connection.blobopen("states", "state", serial, readonly=True) as state:
            return StateHead(key, serial, state.read(n_bytes), len(state))

    def write_states(self, states: Sequence[StoredState], meta: dict[str, bytes]) -> None:
        """Write states of different keys, or replace them, and named values."""
        with self._writing():
            n_new = len(states) - self._n_known([state.key for state in states])
            self.write_meta({**meta, "n_keys": b"%d" % (self._n_keys() + n_new)})
            self._execute_many(
                "INSERT OR REPLACE INTO states (key, serial, through, state, crc) VALUES (?, ?, ?, ?, ?)",
                ((*state, _state_crc(state)) for state in states),
            )
        self.uncommitted_bytes += sum(len(state.state) for state in states)

    def _n_known(self, keys: Sequence[Key]) -> int:
        """Return how many of the keys have a state."""
        count = 0
        for at in range(0, len(keys), _N_KEYS):
            some = keys[at : at + _N_KEYS]
            query = f"SELECT COUNT(*) FROM states WHERE key IN ({','.join('?' * len(some))})"
            count += self._execute(query, tuple(some)).fetchone()[0]
        return count

    # The journal.

    def append(self, calls: Iterable[tuple[int, bytes]], meta: dict[str, bytes]) -> None:
        """Write answers, the first of which are at some positions of the stream, and named values."""
        n_bytes = 0
        with self._writing():
            for first, answers in calls:
                self._execute("INSERT INTO journal VALUES (?, ?, ?)", (first, crc32(answers), answers))
                n_bytes += len(answers)
            if meta:
                self.write_meta(meta)
        self.journal_bytes += n_bytes

    def has_answers(self, first: int) -> bool:
        """Return whether the journal has a call that begins at this position."""
        with self._errors("read"):
            return self._execute("SELECT 1 FROM journal WHERE first = ?", (first,)).fetchone() is not None

    def journal(self) -> Iterator[tuple[int, bytes]]:
        """Return the calls in the journal, the oldest first: the position of the first answer, and the answers."""
        last = -1
        query = "SELECT first, crc, answers FROM journal WHERE first > ? ORDER BY first LIMIT 1"
        while True:  # states are written between two calls
            with self._errors("read"):
                row = self._execute(query, (last,)).fetchone()
                if row is None:
                    return
                answers = self._checked(row[2], row[1], f"the answers from {row[0]} on")
            last = int(row[0])
            self.journal_bytes += len(answers)
            yield last, answers

    # Transactions.

    @contextmanager
    def checkpoint(self) -> Iterator[None]:
        """Write everything in the block, empty the journal, and commit: all of it, or nothing."""
        with self._writing():
            yield
            self._execute("DELETE FROM journal")
            self._commit()
        self.uncommitted_bytes = self.journal_bytes = 0

    def _commit(self) -> None:
        self._execute("RELEASE part")
        self._is_committing = True
        self._execute("COMMIT")
        self._in_transaction = self._is_committing = False

    @property
    def is_open(self) -> bool:
        """Whether the file is open."""
        return self._connection is not None

    @property
    def is_in_transaction(self) -> bool:
        """Whether there are changes that a checkpoint would commit."""
        return self._in_transaction

    def check_intact(self) -> None:
        """Raise OSError if states were lost that had been written since the last checkpoint."""
        if self.is_broken:
            raise OSError(
                f"{self.name} could not be written, and what was learned since it was last saved is lost; open it again"
            )

    def close(self) -> None:
        """Close the file without writing anything more; what was not committed is lost."""
        if self.process != os.getpid():
            return  # a fork: the file belongs to the process that has opened it; see _leak_connections
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(sqlite3.Error):
                if self._in_transaction:
                    connection.execute("ROLLBACK")
            with suppress(sqlite3.Error):
                connection.close()
        if self.folder is not None:
            rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Write everything in the block or nothing; commit at its end, if each call is to be durable."""
        if self._is_writing:
            yield
            return
        with self._errors("write"):
            assert self._connection is not None, "the store is closed"
            if not self._connection.in_transaction:  # an interruption may have come right after BEGIN
                self.is_broken |= self._in_transaction  # an error of a read has ended it
                self._execute("BEGIN IMMEDIATE")
            self._in_transaction = True
            try:
                self._execute("SAVEPOINT part")
                self._is_writing = True
                yield
                if self._in_transaction:  # a checkpoint has ended it
                    if self.durability == "commit":
                        self._execute("RELEASE part")
                    else:
                        self._commit()
            except BaseException as error:
                self._roll_back(error)
                raise
            finally:
                self._is_writing = self._is_committing = False

    def _roll_back(self, error: BaseException) -> None:
        """Undo what was written in an interrupted block."""
        assert self._connection is not None
        is_open = self._connection.in_transaction  # some errors have ended the transaction already
        if self._is_committing and not is_open and not isinstance(error, sqlite3.Error):
            self._in_transaction = False  # the interruption came after the commit
        if not self._in_transaction:
            return
        with suppress(sqlite3.Error):
            if self.durability == "commit" and is_open:
                # What was written before in the long transaction stays.
                self._connection.execute("ROLLBACK TO part")
                self._connection.execute("RELEASE part")
            elif is_open:
                self._connection.execute("ROLLBACK")
        if self.durability != "commit":
            self._in_transaction = False
        elif not is_open:
            self.is_broken = True

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        assert self._connection is not None, "the store is closed"
        self.check_intact()
        return self._connection.execute(statement, values)

    def _execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        assert self._connection is not None, "the store is closed"
        self._connection.executemany(statement, rows)

    def _checked_state(self, stored: list[Any], crc: int) -> StoredState:
        state = StoredState(*stored)
        if not isinstance(state.state, bytes) or _state_crc(state) != crc:
            raise self._damaged(f"the state of the key {state.key!r}")
        return state

    def _checked(self, content: Any, crc: Any, what: str) -> bytes:
        if not isinstance(content, bytes) or crc32(content) != crc:
            raise self._damaged(what)
        return content

    def _damaged(self, what: str) -> FleetDamaged:
        return FleetDamaged(
            f"{self.name} is damaged: {what} does not match its checksum; accepted: a backup of the file"
        )

    @contextmanager
    def _errors(self, verb: str) -> Iterator[None]:
        """Turn exceptions of SQLite into one sentence that names the file."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise FleetInUse(
                    f"{self.name} is in use by another process or another fleet; close that one, or use another path"
                ) from None
            if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
                raise FleetDamaged(
                    f"{self.name} is damaged, or it is not the file of a fleet ({error}); accepted: the file of a fleet"
                ) from None
            raise OSError(
                f"cannot {verb} {self.name} ({error}); accepted: a writable file on a disk with space"
            ) from None


def read_stored(path: str | os.PathLike[str], name: str) -> bytes | None:
    """Return a named value of an existing file; None if it was never written."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"the file {str(path)!r} does not exist; accepted: the file of a fleet")
    store = FleetStore(path, "commit")
    try:
        return store.read_meta(name)
    finally:
        store.close()


def remove_fleet(path: str | os.PathLike[str]) -> None:
    """Remove the file of a fleet that no process has open, also a damaged one."""
    with suppress(FleetDamaged):
        FleetStore(path, "commit").close()
    file = Path(os.path.realpath(path))
    for end in ("-wal", "-shm", "-journal", ""):  # the file last: without it, its log belongs to no fleet
        file.with_name(file.name + end).unlink(missing_ok=True)


def _state_crc(state: StoredState) -> int:
    """Return the checksum of everything that is stored for a key."""
    return crc32(state.state, crc32(repr((state.key, state.serial, state.through)).encode()))


def _leak_connections() -> None:
    """Let a forked process never close the connections of the process that it comes from, not even when it ends.

    Closing one would remove the write-ahead log into which the other process still writes.
    """
    for store in list(_stores):
        if store._connection is not None:
            pythonapi.Py_IncRef(py_object(store._connection))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leak_connections)


def _connect(path: Path) -> sqlite3.Connection:
    # Several threads share the connection one after the other: the fleet has a lock.
    return sqlite3.connect(path, timeout=_LOCK_SECONDS, isolation_level=None, check_same_thread=False)


def _create(path: Path) -> None:
    """Create an empty file. It appears with all its tables, so that a process that is killed leaves none or all."""
    temporary = path.with_name(f".{path.name[:50]}.{uuid4().hex}.part")
    try:
        connection = _connect(temporary)
        try:
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
            connection.execute("COMMIT")
        finally:
            connection.close()
        try:
            os.link(temporary, path)  # unlike a rename, it fails if another process was faster
        except FileExistsError:
            pass
        except OSError:
            os.rename(temporary, path)  # not all file systems have hard links
    finally:
        for leftover in (temporary, *(temporary.with_name(temporary.name + end) for end in ("-wal", "-journal"))):
            leftover.unlink(missing_ok=True)
    fsync_folder(path.parent)
