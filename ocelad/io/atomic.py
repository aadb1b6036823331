"""Atomic replacement of files: readers see the old content or the new content, never a part of it.

The content goes to a temporary file in the same folder, is flushed to the disk, and is renamed to the target. The
folder is flushed, too, so that the new file survives a power failure after the call has returned.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     path = Path(folder, "greeting.txt")
...     write_atomically(path, b"hello")
...     path.read_bytes()
b'hello'
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from stat import S_IMODE
from typing import BinaryIO
from uuid import uuid4


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write ``content`` to a file, which is created or replaced as a whole."""
    with open_atomically(path) as file:
        file.write(content)


def check_folder_of(path: Path) -> None:
    """Raise FileNotFoundError if the folder of a file that will be written does not exist."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {str(path.parent)!r} does not exist")


@contextmanager
def open_atomically(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing bytes. It appears at ``path`` when the ``with`` block ends without an exception."""
    with replace_atomically(path) as temporary, open(temporary, "wb") as file:
        yield file


@contextmanager
def replace_atomically(path: str | os.PathLike[str], *, mode: int = 0o666) -> Iterator[Path]:
    """Create an empty temporary file beside ``path`` and move it to ``path`` when the ``with`` block ends.

    Use this where something else writes the file, such as SQLite. The file must be closed when the block ends. If the
    block raises an exception, the temporary file is removed and ``path`` keeps its content.

    Parameters
    ----------
    path : path
        The file to create or replace. A symbolic link is followed: the file that it points to is replaced.
    mode : int
        Permissions of a new file, before the umask is applied. A file that is replaced keeps its permissions.

    Yields
    ------
    Path
        The temporary file.
    """
    path = Path(os.path.realpath(path))
    temporary = path.with_name(f".{_shorten(path.name)}.{uuid4().hex}.part")
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        yield temporary
        _fsync(temporary, os.O_RDWR)  # Windows flushes only files that are open for writing
        if path.exists():
            os.chmod(temporary, S_IMODE(path.stat().st_mode))
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)


def fsync_folder(folder: str | os.PathLike[str]) -> None:
    """Flush the entries of a folder to the disk, where the operating system and the file system support it."""
    if os.name != "posix":
        return  # a folder cannot be opened
    try:
        _fsync(folder, os.O_RDONLY)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files that killed processes left beside ``path``.

    Call it only while no other process writes the same file: its temporary file would be removed, too.
    """
    path = Path(os.path.realpath(path))
    for leftover in path.parent.glob(f".{escape(_shorten(path.name))}.{'[0-9a-f]' * 32}.part"):
        leftover.unlink(missing_ok=True)


def _shorten(name: str) -> str:
    """Return the start of a file name, so that the temporary name has at most 255 bytes in UTF-8."""
    return name[:50]


def _fsync(path: str | os.PathLike[str], flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
