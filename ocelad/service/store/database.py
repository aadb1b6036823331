"""Database: how to reach the one that keeps everything, and in which words to tell what is wrong with it."""

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

from ocelad.service.store.disk import make_file
from ocelad.service.store.errors import StoreUnavailable

FILE = "ocelad.sqlite3"
# What programs such as file(1) know SQLite's files by.
_APPLICATION = int.from_bytes(b"ocel", "big")
# Who else may hold SQLite's write lock, a backup's end or `ocelad token`, holds it for milliseconds.
BUSY_MS = 10_000
# PostgreSQL: nothing that is asked for takes longer than this, unless something is wrong.
STATEMENT_MS = 60_000
CONNECT_S = 5
# SQLite: macOS has data on the disk only after a full fsync; elsewhere that one changes nothing.
_PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON", "foreign_keys = ON")


class Database:
    """SQLite in a data folder, or PostgreSQL.

    Parameters
    ----------
    folder : Path
        The data folder, which must be there.
    url : str or None
        ``postgresql://...``; None: SQLite in the folder.

    Attributes
    ----------
    name : str
        What sentences call it; it holds no password.
    is_postgresql : bool
    writers, readers : Engine
        Who writes begins a transaction with the right to do so; who reads waits for nobody.
    """

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.is_postgresql = url is not None
        if url is None:
            path = folder / FILE
            make_file(path)
            self.name = repr(str(path))
            self.writers, self.readers = _sqlite(path, "BEGIN IMMEDIATE"), _sqlite(path, "BEGIN")
        else:
            parsed = parse(url)
            self.name = f"the PostgreSQL database {parsed.database!r} at {parsed.host or 'the local socket'}"
            self.writers, self.readers = _postgresql(parsed, pooled=False), _postgresql(parsed, pooled=True)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Around what uses the database: what goes wrong there is told as StoreUnavailable."""
        try:
            yield
        except SQLAlchemyError as error:
            raise StoreUnavailable(self.sentence(error)) from error

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to read by."""
        with self.telling(), self.readers.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction of its own, for what needs no order among the entries."""
        with self.telling(), self.writers.begin() as connection:
            yield connection

    def mark(self, connection: Connection) -> None:
        """Write what SQLite's file is: where nothing can be written, it is not the first answer that finds out."""
        if not self.is_postgresql:
            connection.exec_driver_sql(f"PRAGMA application_id = {_APPLICATION}")

    def dispose(self) -> None:
        self.writers.dispose()
        self.readers.dispose()

    def sentence(self, error: SQLAlchemyError) -> str:
        """What went wrong, in one sentence."""
        cause = error.orig if isinstance(error, DBAPIError) else None
        if isinstance(cause, sqlite3.Error):
            return sqlite_sentence(self.name, cause)
        reason = " ".join(str(cause if cause is not None else error).split())[:300] or "no reason was given"
        return f"{self.name} cannot be used ({reason})"


#: By SQLite's primary result code.
_SQLITE = {
    sqlite3.SQLITE_BUSY: "{} is locked by another program; stop that one",
    sqlite3.SQLITE_CANTOPEN: "{} cannot be opened ({}); accepted: a folder that can be written to",
    sqlite3.SQLITE_READONLY: "{} cannot be written to ({}); accepted: a folder that can be written to",
    sqlite3.SQLITE_FULL: "there is no room left on the disk for {}",
    sqlite3.SQLITE_IOERR: "the disk of {} fails or is full ({})",
    sqlite3.SQLITE_CORRUPT: "{} is damaged ({}); restore a backup into another folder",
    sqlite3.SQLITE_NOTADB: "{} is no SQLite database, or is damaged; restore a backup into another folder",
}


def sqlite_sentence(name: str, error: sqlite3.Error) -> str:
    """What SQLite says is wrong with a database, in one sentence."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return _SQLITE.get(code, "{} cannot be used ({})").format(name, error)


def parse(url: str) -> URL:
    """The URL of a PostgreSQL database, for the driver that is used; what is refused is not repeated, as it may hold a
    password.

    >>> parse("mysql://me:secret@there/it")
    Traceback (most recent call last):
        ...
    ValueError: the URL of the database is not accepted; accepted: postgresql://USER:PASSWORD@HOST:PORT/DATABASE
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        parsed = None
    if parsed is None or parsed.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise ValueError(
            "the URL of the database is not accepted; accepted: postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        ) from None
    return parsed.set(drivername="postgresql+psycopg")


def _sqlite(path: Path, begin: str) -> Engine:
    pool: dict[str, Any] = {"poolclass": NullPool} if begin == "BEGIN IMMEDIATE" else {}
    url = URL.create("sqlite", database=str(path))
    engine = create_engine(url, hide_parameters=True, connect_args={"timeout": BUSY_MS / 1000}, **pool)

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # transactions begin as ``begin`` says, not as the driver guesses
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
        # A server that went away without a word is noticed, so that the lock is not waited for in vain.
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
    }
    pool: dict[str, Any] = {"pool_pre_ping": True} if pooled else {"poolclass": NullPool}
    return create_engine(url, hide_parameters=True, connect_args=connect_args, **pool)
