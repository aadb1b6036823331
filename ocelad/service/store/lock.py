"""The writer's lock: one program writes to a data folder and its database, and who comes second hears who is first."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from sqlalchemy import Connection, text

from ocelad.service.store.errors import StoreInUse, StoreUnavailable

FILE = "ocelad.lock"
# PostgreSQL's advisory locks are numbers, one space of them per database.
_NUMBER = int.from_bytes(b"ocelad", "big")
# How long the server may take to notice that a writer was killed.
_PATIENCE_S = 3.0
_HOLDER = text(
    "SELECT activity.application_name FROM pg_locks JOIN pg_stat_activity AS activity USING (pid)"
    " WHERE locktype = 'advisory' AND granted AND classid = :high AND objid = :low AND objsubid = 1"
    " AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


class FolderLock:
    """A lock on a file in a folder; it is gone with the process, however that ends."""

    def __init__(self, folder: Path) -> None:
        path = folder / FILE
        try:
            self._file: IO[str] = open(path, "a+", encoding="utf-8")  # noqa: SIM115  it is held until release()
        except OSError as error:
            raise StoreUnavailable(
                f"{str(path)!r} cannot be written to ({error.strerror}); accepted: a folder that can be written to"
            ) from None
        if not _locked(self._file):
            self._file.seek(0)
            holder = self._file.read(200).strip() or "another program"
            self._file.close()
            raise StoreInUse(f"{str(folder)!r} is in use by {holder}; stop that one, or name another folder")
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}")
        self._file.flush()

    def release(self) -> None:
        self._file.close()


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """The lock of a folder, for a while."""
    lock = FolderLock(folder)
    try:
        yield
    finally:
        lock.release()


def lock_database(connection: Connection, name: str) -> None:
    """Take PostgreSQL's lock by the very connection that writes: when that is lost, so is the lock.

    It is taken only after whatever the one before has sent has been kept or not, as the server lets it go last.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while not connection.scalar(text("SELECT pg_try_advisory_lock(:number)"), {"number": _NUMBER}):
        if time.monotonic() > deadline:
            holder = connection.scalar(_HOLDER, {"high": _NUMBER >> 32, "low": _NUMBER & 0xFFFFFFFF})
            raise StoreInUse(f"{name} is in use by {holder or 'another program'}; stop that one, or name another one")
        time.sleep(0.02)
    connection.rollback()  # ends the transaction that asking began; the lock stays with the connection


def _locked(file: IO[str]) -> bool:
    """Whether the lock could be taken; where the system has none, nobody is kept out."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
