"""Folders and files that outlive a power cut, and that only their owner can look into."""

from __future__ import annotations

import os
from pathlib import Path

from ocelad.service.store.errors import StoreUnavailable


def make_folder(folder: Path) -> None:
    """Make a data folder if it is not there."""
    try:
        missing = [level for level in (folder, *folder.parents) if not level.is_dir()]
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for level in missing:
            flush(level.parent)
    except OSError as error:
        raise StoreUnavailable(
            f"{str(folder)!r} cannot be made ({error.strerror}); accepted: a folder that can be written to"
        ) from None


def make_file(path: Path) -> None:
    """Make an empty file if it is not there. One that is there is not opened: closing it would undo SQLite's locks."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreUnavailable(
            f"{str(path)!r} cannot be made ({error.strerror}); accepted: a folder that can be written to"
        ) from None


def flush(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    if path.is_dir() and os.name != "posix":
        return  # a folder cannot be opened there
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
