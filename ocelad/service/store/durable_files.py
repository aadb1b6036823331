"""Create folders and files that survive a power cut and that only their owner can read."""

from __future__ import annotations

import os
from pathlib import Path

from ocelad.io.atomic import fsync_folder
from ocelad.service.store.errors import StoreUnavailable


def make_folder(folder: Path) -> None:
    """Create a data folder if it does not exist."""
    try:
        missing = [level for level in (folder, *folder.parents) if not level.is_dir()]
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for level in missing:
            fsync_folder(level.parent)
    except OSError as error:
        raise StoreUnavailable(
            f"cannot create {str(folder)!r} ({error.strerror}); accepted: a writable folder"
        ) from None


def make_file(path: Path) -> None:
    """Create an empty file if it does not exist.

    An existing file is not opened: closing it would drop SQLite's locks.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreUnavailable(f"cannot create {str(path)!r} ({error.strerror}); accepted: a writable folder") from None
