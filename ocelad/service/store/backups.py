"""Back up and restore a SQLite database as one file; a service may write to it meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ocelad.io.atomic import replace_atomically
from ocelad.service.store.database import DATABASE_FILE, describe_sqlite_error
from ocelad.service.store.durable_files import make_folder
from ocelad.service.store.errors import InvalidRequest, StoreUnavailable
from ocelad.service.store.lock import LOCK_FILE, folder_lock
from ocelad.service.store.schema import VERSION_TABLE
from ocelad.service.store.store import Store


@dataclass(frozen=True, slots=True)
class BackupSummary:
    """The number of projects and entries in a copy, counted after its integrity check."""

    n_projects: int
    n_entries: int


def backup(folder: Path, target: Path) -> BackupSummary:
    """Copy the database of a data folder into one new file without blocking its writer.

    The copy holds everything that was acknowledged before the call. Snapshots are omitted: they can be recomputed.
    """
    source = folder / DATABASE_FILE
    if not source.is_file():
        raise StoreUnavailable(
            f"{str(source)!r} does not exist; accepted: a data folder with SQLite (use pg_dump for PostgreSQL)"
        )
    return _copy(source, target)


def restore(source: Path, folder: Path) -> BackupSummary:
    """Create a new data folder from a backup; a folder that is not empty is rejected."""
    if not source.is_file():
        raise StoreUnavailable(f"{str(source)!r} does not exist; accepted: a file written by `ocelad backup`")
    if folder.exists() and (not folder.is_dir() or any(path.name != LOCK_FILE for path in folder.iterdir())):
        raise InvalidRequest(f"{str(folder)!r} exists and is not empty; accepted: a new folder")
    make_folder(folder)
    with folder_lock(folder):
        summary = _copy(source, folder / DATABASE_FILE)
    try:
        with Store.open(folder) as store:  # migrates an older schema and rejects a newer one
            store.sessions.clear()
    except StoreUnavailable:
        (folder / DATABASE_FILE).unlink()
        raise
    return summary


def _copy(source: Path, target: Path) -> BackupSummary:
    """Copy a database and check the copy; the target appears complete or not at all."""
    if target.exists():
        raise InvalidRequest(f"{str(target)!r} exists already; accepted: the name of a new file")
    if not target.parent.is_dir():
        raise InvalidRequest(f"the folder {str(target.parent)!r} does not exist")
    try:
        with (
            replace_atomically(target, mode=0o600) as part,
            _translating_errors(target),
            closing(sqlite3.connect(part)) as copy,
        ):
            with _translating_errors(source), closing(_connect(source)) as original:
                original.backup(copy)  # in one step, so from one state; in WAL mode a writer is not blocked
            summary = _check(copy, source)
    except OSError as error:
        if isinstance(error, StoreUnavailable):
            raise
        raise StoreUnavailable(f"cannot write {str(target)!r} ({error.strerror})") from None
    return summary


def _check(copy: sqlite3.Connection, source: Path) -> BackupSummary:
    """Check the integrity of a copy, which reads all of its pages, and count its rows."""
    copy.execute("PRAGMA journal_mode = DELETE").close()  # no -wal and -shm files beside the copy
    if (found := copy.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
        raise StoreUnavailable(f"{str(source)!r} is damaged ({found}); use another backup")
    if not copy.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [VERSION_TABLE]).fetchone():
        raise InvalidRequest(
            f"{str(source)!r} is not a database of ocelad; accepted: a file written by `ocelad backup`"
        )
    n_projects, n_entries = (
        copy.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("projects", "entries")
    )
    return BackupSummary(n_projects, n_entries)


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=10)


@contextmanager
def _translating_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreUnavailable(describe_sqlite_error(repr(str(path)), error)) from error
