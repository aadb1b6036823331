"""The writer's lock: only one process writes to a data folder and its database; the error of a second one names it."""

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

LOCK_FILE = "ocelad.lock"
# The key of PostgreSQL's advisory lock; keys are separate for each database.
_LOCK_KEY = int.from_bytes(b"ocelad", "big")
# PostgreSQL may take this long to notice that a writer was killed.
_LOCK_TIMEOUT_S = 3.0
_HOLDER = text(
    "SELECT activity.application_name FROM pg_locks JOIN pg_stat_activity AS activity USING (pid)"
    " WHERE locktype = 'advisory' AND granted AND classid = :high AND objid = :low AND objsubid = 1"
    " AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


class FolderLock:
    """An exclusive lock on a file in a folder; the operating system releases it when the process ends."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK_FILE
        try:
            self._file: IO[str] = open(path, "a+", encoding="utf-8")  # noqa: SIM115  open until release()
        except OSError as error:
            raise StoreUnavailable(
                f"cannot write to {str(path)!r} ({error.strerror}); accepted: a writable folder"
            ) from None
        if not _try_lock(self._file):
            self._file.seek(0)
            holder = self._file.read(200).strip() or "another process"
            self._file.close()
            raise StoreInUse(f"{str(folder)!r} is in use by {holder}; stop that process or use another folder")
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}")
        self._file.flush()

    def release(self) -> None:
        """Release the lock."""
        self._file.close()


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder within a ``with`` block."""
    lock = FolderLock(folder)
    try:
        yield
    finally:
        lock.release()


def lock_database(connection: Connection, name: str) -> None:
    """Take PostgreSQL's advisory lock on the connection that writes: a lost connection loses the lock, too.

    The server releases a session's lock after it has committed or rolled back what the session sent. So no write of
    the previous holder can follow.
    """
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while not connection.scalar(text("SELECT pg_try_advisory_lock(:number)"), {"number": _LOCK_KEY}):
        if time.monotonic() > deadline:
            holder = connection.scalar(_HOLDER, {"high": _LOCK_KEY >> 32, "low": _LOCK_KEY & 0xFFFFFFFF})
            raise StoreInUse(
                f"{name} is in use by {holder or 'another process'}; stop that process or use another database"
            )
        time.sleep(0.02)
    connection.rollback()  # ends the transaction of the query; the lock belongs to the session and stays


def _try_lock(file: IO[str]) -> bool:
    """Try to lock a file and return whether it worked; always True on systems without ``fcntl``."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
