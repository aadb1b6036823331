"""A data folder in which nothing was kept: what has made it takes it away again where it fails."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from ocelad.service.store.database import FILE
from ocelad.service.store.errors import StoreError
from ocelad.service.store.lock import FILE as LOCK
from ocelad.service.store.lock import folder_lock


@contextmanager
def without_leftovers(folder: Path) -> Iterator[None]:
    """Around what makes a data folder and may fail: a new one is gone then, unless there is anything in it."""
    was_there = folder.exists()
    try:
        yield
    except BaseException:
        if not was_there and folder.is_dir():
            with suppress(StoreError, OSError, sqlite3.Error):  # then it stays
                _remove_unused(folder)
        raise


def _remove_unused(folder: Path) -> None:
    with folder_lock(folder):
        if all(path.name == LOCK or path.name.startswith(FILE) for path in folder.iterdir()) and not _holds(folder):
            shutil.rmtree(folder)


def _holds(folder: Path) -> bool:
    """Whether there are projects or tokens."""
    if not (folder / FILE).exists():
        return False
    with closing(sqlite3.connect(folder / FILE)) as database:
        return any(database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in ("projects", "tokens"))
