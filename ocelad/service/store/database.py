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
from ocelad.service.store.errors import StoreUnavailable

DATABASE_FILE = "ocelad.sqlite3"
# The application id in the header of the SQLite file, which file(1) and other programs read.
_APPLICATION_ID = int.from_bytes(b"ocel", "big")
# Other holders of SQLite's write lock, the end of a backup or `ocelad token`, need it for milliseconds only.
BUSY_MS = 10_000
# PostgreSQL: no statement of the store takes this long unless something is wrong.
STATEMENT_MS = 60_000
CONNECT_S = 5
# SQLite: macOS writes to the disk only after a full fsync; on other systems that pragma has no effect.
_PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON", "foreign_keys = ON")


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
        if url is None:
            path = folder / DATABASE_FILE
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
