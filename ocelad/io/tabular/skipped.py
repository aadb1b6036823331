"""The side file: every row that was skipped, with its line and the reason."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ocelad.io.tabular.errors import FileError


class SideFile:
    """Bad rows, one JSON object each: ``line``, ``reason`` and ``row``, the row's own text.

    The file is made with the first bad row. What is there from an earlier run is dropped: all of it, or what lies
    beyond ``length``, the length that a position recorded.
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
                    f"{path} has {size} bytes and had {length} when the position was recorded; skipped rows are lost"
                )
            if size and not length and not _is_side_file(path):
                raise FileError(f"{path} is there and holds something else; skipped rows need a file of their own")
            if size > length:
                os.truncate(path, length)
            folder = path.parent
            if not os.access(path if path.exists() else folder, os.W_OK):
                raise FileError(f"{path} cannot be written; say where skipped rows go with skipped=")
        except OSError as error:
            raise FileError(f"{path} cannot be written: {error.strerror or error}") from None

    def write(self, line: int, reason: str, text: str) -> None:
        """Add a row."""
        entry = json.dumps({"line": line, "reason": reason, "row": text}) + "\n"
        try:
            if self._file is None:
                self._file = open(self.path, "ab")  # noqa: SIM115 - closed by close()
            self.length += self._file.write(entry.encode())
        except OSError as error:
            raise FileError(f"{self.path} cannot be written: {error.strerror or error}") from None
        self._synced = False

    def sync(self) -> None:
        """Everything written so far is on the disk when this returns."""
        if self._synced:
            return
        try:
            self._file.flush()
            if self.path.is_file():  # a device such as /dev/null has no disk to reach
                os.fsync(self._file.fileno())
        except OSError as error:
            raise FileError(f"{self.path} cannot be written: {error.strerror or error}") from None
        self._synced = True

    def close(self) -> None:
        if self._file is not None:
            self.sync()
            self._file.close()
            self._file = None


def _is_side_file(path: Path) -> bool:
    """Whether the first line is one that ``SideFile.write`` writes."""
    with open(path, "rb") as file:
        try:
            return set(json.loads(file.readline())) == {"line", "reason", "row"}
        except (ValueError, TypeError):
            return False
