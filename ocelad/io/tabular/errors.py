"""What can be wrong with a file: the file, or one of its rows."""

from __future__ import annotations

from typing import Any


class FileError(ValueError):
    """What concerns a whole file: it is missing, empty, damaged, in another format, or lacks a column."""


class RowError(ValueError):
    """A row that cannot be read; ``line`` is its line, or its row number in Parquet and Arrow files."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class BadRowError(Exception):
    """Why a row is bad. It stays inside this package: the stream skips the row, or stops with a ``RowError``."""


def shown(value: Any, most: int = 60) -> str:
    """A value as it stands in a message, shortened.

    >>> shown("abc")
    "'abc'"
    """
    text = repr(value[: most + 1] if isinstance(value, str) else value)
    return text if len(text) <= most else text[: most - 3] + "..."


def listed(names: Any, most: int = 20) -> str:
    """Column names as they stand in a message.

    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    names = list(names)
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(shown(name) for name in names[:most]) + more
