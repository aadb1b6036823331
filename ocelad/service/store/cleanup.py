"""Remove a new data folder again if its creator fails before anything is stored in it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from ocelad.service.store.database import DATABASE_FILE
from ocelad.service.store.errors import StoreError
from ocelad.service.store.lock import LOCK_FILE, folder_lock


@contextmanager
def removed_on_failure(folder: Path) -> Iterator[None]:
    """Remove ``folder`` if the block raises, the folder did not exist before, and it holds no projects or tokens."""
    existed = folder.exists()
    try:
        yield
    except BaseException:
        if not existed and folder.is_dir():
            with suppress(StoreError, OSError, sqlite3.Error):  # then the folder stays
                _remove_unused(folder)
        raise


def _remove_unused(folder: Path) -> None:
    with folder_lock(folder):
        known = all(path.name == LOCK_FILE or path.name.startswith(DATABASE_FILE) for path in folder.iterdir())
        if known and not _has_content(folder):
            shutil.rmtree(folder)


def _has_content(folder: Path) -> bool:
    """Return whether the database of a folder has projects or tokens."""
    if not (folder / DATABASE_FILE).exists():
        return False
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as database:
        return any(database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in ("projects", "tokens"))
