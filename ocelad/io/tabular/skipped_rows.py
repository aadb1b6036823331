"""The file of skipped rows, each with its line and the reason."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ocelad.io.tabular.file_errors import FileError


class SkippedRowsFile:
    """Skipped rows as JSON lines with the keys ``line``, ``reason`` and ``row``, the text of the row.

    The file is created with the first skipped row. An existing file of an earlier run is truncated to ``length`` bytes:
    0 for a new run, and otherwise the length recorded in the position that is resumed.
    """

    def __init__(self, path: Path, length: int) -> None:
        self.path = path
        self.length = length
        self._file: Any = None
        self._synced = True
        try:
            size = path.stat().st_size if path.exists() else 0
            if size < length:
                raise FileError(
                    f"{path} has {size} bytes, but had {length} when the position was recorded; skipped rows are lost"
                )
            if size and not length and not _holds_skipped_rows(path):
                raise FileError(f"{path} exists and does not hold skipped rows; name another file with skipped=")
            if size > length:
                os.truncate(path, length)
            folder = path.parent
            if not os.access(path if path.exists() else folder, os.W_OK):
                raise FileError(f"{path} cannot be written; name the file for skipped rows with skipped=")
        except OSError as error:
            raise FileError(f"{path} cannot be written: {error.strerror or error}") from None

    def write(self, line: int, reason: str, text: str) -> None:
        """Append a row."""
        entry = json.dumps({"line": line, "reason": reason, "row": text}) + "\n"
        try:
            if self._file is None:
                self._file = open(self.path, "ab")  # noqa: SIM115 - closed by close()
            self.length += self._file.write(entry.encode())
        except OSError as error:
            raise FileError(f"{self.path} cannot be written: {error.strerror or error}") from None
        self._synced = False

    def sync(self) -> None:
        """Flush all written rows to the disk."""
        if self._synced:
            return
        try:
            self._file.flush()
            if self.path.is_file():  # devices such as /dev/null cannot be flushed
                os.fsync(self._file.fileno())
        except OSError as error:
            raise FileError(f"{self.path} cannot be written: {error.strerror or error}") from None
        self._synced = True

    def close(self) -> None:
        if self._file is not None:
            self.sync()
            self._file.close()
            self._file = None


def _holds_skipped_rows(path: Path) -> bool:
    """Return whether the first line has the form that ``SkippedRowsFile.write`` writes."""
    with open(path, "rb") as file:
        try:
            return set(json.loads(file.readline())) == {"line", "reason", "row"}
        except (ValueError, TypeError):
            return False
