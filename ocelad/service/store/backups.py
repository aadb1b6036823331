"""Backup: all that SQLite keeps in one file, also while a service writes to it; and back from there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ocelad.io.atomic import replace_atomically
from ocelad.service.store.database import FILE, describe_sqlite_error
from ocelad.service.store.durable_files import make_folder
from ocelad.service.store.errors import InvalidRequest, StoreUnavailable
from ocelad.service.store.lock import FILE as LOCK
from ocelad.service.store.lock import folder_lock
from ocelad.service.store.schema import VERSION_TABLE
from ocelad.service.store.store import Store


@dataclass(frozen=True, slots=True)
class BackupSummary:
    """What is in a copy that was just made and checked."""

    n_projects: int
    n_entries: int


def backup(folder: Path, target: Path) -> BackupSummary:
    """Copy what a data folder keeps into one new file; who writes to it meanwhile is not held up.

    The copy holds everything that was acknowledged before this was called. Snapshots are left out: they are computed
    again.
    """
    source = folder / FILE
    if not source.is_file():
        raise StoreUnavailable(
            f"there is no {str(source)!r}; accepted: a data folder with SQLite (PostgreSQL has pg_dump)"
        )
    return _copy(source, target)


def restore(source: Path, folder: Path) -> BackupSummary:
    """Make a new data folder from a backup; one that is not empty is refused."""
    if not source.is_file():
        raise StoreUnavailable(f"there is no file {str(source)!r}; accepted: a file that `ocelad backup` made")
    if folder.exists() and (not folder.is_dir() or any(path.name != LOCK for path in folder.iterdir())):
        raise InvalidRequest(f"{str(folder)!r} is there and not empty; accepted: a new folder")
    make_folder(folder)
    with folder_lock(folder):
        copied = _copy(source, folder / FILE)
    try:
        Store.open(folder).close()  # brings an older one up to date, and refuses a newer one
    except StoreUnavailable:
        (folder / FILE).unlink()
        raise
    return copied


def _copy(source: Path, target: Path) -> BackupSummary:
    """A checked copy, there whole or not at all."""
    if target.exists():
        raise InvalidRequest(f"{str(target)!r} is there already; accepted: the name of a new file")
    if not target.parent.is_dir():
        raise InvalidRequest(f"the folder {str(target.parent)!r} does not exist")
    try:
        with (
            replace_atomically(target, mode=0o600) as part,
            _telling(target),
            closing(sqlite3.connect(part)) as copy,
        ):
            with _telling(source), closing(_opened(source)) as original:
                original.backup(copy)  # in one step, from one state: a writer goes on beside it
            copied = _check(copy, source)
    except OSError as error:
        if isinstance(error, StoreUnavailable):
            raise
        raise StoreUnavailable(f"{str(target)!r} cannot be written ({error.strerror})") from None
    return copied


def _check(copy: sqlite3.Connection, source: Path) -> BackupSummary:
    """What is in a copy; all of its pages are read."""
    copy.execute("PRAGMA journal_mode = DELETE").close()  # one file, with nothing beside it
    if (found := copy.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
        raise StoreUnavailable(f"{str(source)!r} is damaged ({found}); use another backup")
    if not copy.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [VERSION_TABLE]).fetchone():
        raise InvalidRequest(f"{str(source)!r} is no database of ocelad's; accepted: a file that `ocelad backup` made")
    return BackupSummary(*(copy.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("projects", "entries")))


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=10)


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreUnavailable(describe_sqlite_error(repr(str(path)), error)) from error
