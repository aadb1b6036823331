"""Connections to the database, SQLite or PostgreSQL, and the wording of its errors."""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from ocelad.service.store.durable_files import make_file
from ocelad.service.store.errors import DatabaseLost, StoreUnavailable

DATABASE_FILE = "ocelad.sqlite3"
#: Folders beside the database with files that can be computed from it.
CACHE_FOLDERS = ("snapshots", "vectors")
# The application id in the header of the SQLite file, which file(1) and other programs read.
_APPLICATION_ID = int.from_bytes(b"ocel", "big")
# Other holders of SQLite's write lock, the end of a backup or `ocelad token`, need it for milliseconds only.
BUSY_MS = 10_000
# PostgreSQL: no statement of the store takes this long unless something is wrong.
STATEMENT_MS = 60_000
CONNECT_S = 5
# SQLite: macOS writes to the disk only after a full fsync; on other systems that pragma has no effect.
# Deleted content is overwritten, so that erased answers cannot be read from the file.
_PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON", "foreign_keys = ON", "secure_delete = ON")


class Database:
    """SQLite in a data folder, or PostgreSQL.

    Parameters
    ----------
    folder : Path
        The data folder, which must exist.
    url : str or None
        ``postgresql://...``; None: SQLite in the folder.

    Attributes
    ----------
    name : str
        The name of the database in messages; without the password.
    is_postgresql : bool
    writers, readers : Engine
        ``writers`` takes the write lock when a transaction begins; ``readers`` never waits for a writer.
    """

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.is_postgresql = url is not None
        self._path: Path | None = None
        self._files: dict[Path, tuple[int, int]] = {}
        if url is None:
            path = self._path = folder / DATABASE_FILE
            _reject_lost_database(path)
            make_file(path)
            self.name = repr(str(path))
            self.writers, self.readers = _sqlite(path, "BEGIN IMMEDIATE"), _sqlite(path, "BEGIN")
        else:
            parsed = parse_url(url)
            self.name = f"the PostgreSQL database {parsed.database!r} at {parsed.host or 'the local socket'}"
            self.writers, self.readers = _postgresql(parsed, pooled=False), _postgresql(parsed, pooled=True)

    @contextmanager
    def translating_errors(self) -> Iterator[None]:
        """Raise errors of the database within a ``with`` block as StoreUnavailable."""
        try:
            yield
        except SQLAlchemyError as error:
            raise StoreUnavailable(self.describe_error(error)) from error

    @contextmanager
    def read_connection(self) -> Iterator[Connection]:
        """Yield a connection for reading."""
        with self.translating_errors(), self.readers.connect() as connection:
            yield connection

    @contextmanager
    def write_transaction(self) -> Iterator[Connection]:
        """Yield a connection in a write transaction, for writes that bypass the writer thread."""
        with self.translating_errors(), self.writers.begin() as connection:
            yield connection

    def remember_files(self) -> None:
        """Remember which files hold a SQLite database; ``check_files`` compares."""
        if self._path is not None:
            self._files = {path: found for path in _files_of(self._path) if (found := _identify(path)) is not None}

    def forget_log(self) -> None:
        """Forget the write-ahead log, which SQLite deletes when the last connection is closed."""
        self._files = {path: found for path, found in self._files.items() if path == self._path}

    def check_files(self) -> None:
        """Raise DatabaseLost if a file of a SQLite database was deleted or replaced while it was open.

        SQLite continues to write to a deleted file without an error, and everything written is lost at the end.
        """
        for path, remembered in self._files.items():
            found = _identify(path)
            if found != remembered:
                what = "deleted" if found is None else "replaced"
                raise DatabaseLost(
                    f"{str(path)!r} was {what} while the service was running: nothing more is stored; stop the service "
                    "and restore a backup into another folder"
                )

    def truncate_log(self) -> None:
        """Empty SQLite's write-ahead log, in which erased content may remain until it is written over."""
        if not self.is_postgresql:
            with self.translating_errors(), self.writers.connect() as connection:
                driver = connection.connection.driver_connection
                assert driver is not None
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()

    def set_application_id(self, connection: Connection) -> None:
        """Write the application id of a SQLite file; a file that is not writable is thus detected at start."""
        if not self.is_postgresql:
            connection.exec_driver_sql(f"PRAGMA application_id = {_APPLICATION_ID}")

    def dispose(self) -> None:
        """Close all pooled connections."""
        self.writers.dispose()
        self.readers.dispose()

    def describe_error(self, error: SQLAlchemyError) -> str:
        """Return one sentence about an error."""
        cause = error.orig if isinstance(error, DBAPIError) else None
        if isinstance(cause, sqlite3.Error):
            return describe_sqlite_error(self.name, cause)
        reason = " ".join(str(cause if cause is not None else error).split())[:300] or "no reason given"
        return f"cannot use {self.name} ({reason})"


def _files_of(path: Path) -> tuple[Path, Path]:
    """Return the files that a commit writes to: the database and its write-ahead log."""
    return path, path.with_name(f"{path.name}-wal")


def _identify(path: Path) -> tuple[int, int] | None:
    """Return what identifies a file whatever its name is; None if it does not exist."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _reject_lost_database(path: Path) -> None:
    """Reject a missing or empty database beside snapshots, which show that there were projects.

    A new database in its place would look as if every answer had been given up.
    """
    try:
        if path.exists() and path.stat().st_size > 0:
            return
        folders = [path.parent / name for name in CACHE_FOLDERS]
        caches = [each for folder in folders if folder.is_dir() for each in folder.iterdir()]
    except OSError as error:
        raise StoreUnavailable(f"cannot read {str(path)!r} ({error.strerror}); accepted: a writable folder") from None
    if caches:
        state = "is empty" if path.exists() else "does not exist"
        raise StoreUnavailable(
            f"{str(path)!r} {state}, but {str(caches[0])!r} shows that there were projects; restore a backup into "
            "another folder, or remove the caches to begin again without the answers"
        )


#: Messages by SQLite's primary result code.
_SQLITE_MESSAGES = {
    sqlite3.SQLITE_BUSY: "{} is locked by another process; stop that process",
    sqlite3.SQLITE_CANTOPEN: "cannot open {} ({}); accepted: a writable folder",
    sqlite3.SQLITE_READONLY: "cannot write to {} ({}); accepted: a writable folder",
    sqlite3.SQLITE_FULL: "no space left on the disk of {}",
    sqlite3.SQLITE_IOERR: "the disk of {} failed or is full ({})",
    sqlite3.SQLITE_CORRUPT: "{} is damaged ({}); restore a backup into another folder",
    sqlite3.SQLITE_NOTADB: "{} is not a SQLite database or is damaged; restore a backup into another folder",
}


def describe_sqlite_error(name: str, error: sqlite3.Error) -> str:
    """Return one sentence about an error of SQLite."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return _SQLITE_MESSAGES.get(code, "cannot use {} ({})").format(name, error)


def parse_url(url: str) -> URL:
    """Return the URL of a PostgreSQL database for psycopg. The error does not repeat the URL: it may hold a password.

    >>> parse_url("mysql://me:secret@there/it")
    Traceback (most recent call last):
        ...
    ValueError: invalid URL of the database; accepted: postgresql://USER:PASSWORD@HOST:PORT/DATABASE
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = None
    if parsed is None or parsed.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise ValueError(
            "invalid URL of the database; accepted: postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        ) from None
    return parsed.set(drivername="postgresql+psycopg")


def _sqlite(path: Path, begin: str) -> Engine:
    pool: dict[str, Any] = {"poolclass": NullPool} if begin == "BEGIN IMMEDIATE" else {}
    url = URL.create("sqlite", database=str(path))
    engine = create_engine(url, hide_parameters=True, connect_args={"timeout": BUSY_MS / 1000}, **pool)

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # the driver must not begin transactions itself
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}").close()
        if begin == "BEGIN":
            connection.execute("PRAGMA query_only = ON").close()

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _postgresql(url: URL, *, pooled: bool) -> Engine:
    given = url.query.get("options", "")
    settings = {"statement_timeout": STATEMENT_MS, "lock_timeout": BUSY_MS, "synchronous_commit": "on"}
    options = " ".join(
        [given if isinstance(given, str) else " ".join(given), *(f"-c {k}={v}" for k, v in settings.items())]
    )
    connect_args = {
        "options": options.strip(),
        "application_name": f"ocelad on {socket.gethostname()}, process {os.getpid()}"[:63],
        "connect_timeout": CONNECT_S,
        # Notice a server that disappeared without closing the connection.
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
    }
    pool: dict[str, Any] = {"pool_pre_ping": True} if pooled else {"poolclass": NullPool}
    return create_engine(url, hide_parameters=True, connect_args=connect_args, **pool)
