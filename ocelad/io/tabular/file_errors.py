"""The exceptions of the file readers, and how they quote values."""

from __future__ import annotations

from typing import Any


class FileError(ValueError):
    """A problem with a whole file: it is missing, empty, damaged, in another format, or lacks a column."""


class RowError(ValueError):
    """A row that cannot be read; ``line`` is its line, or its row number in Parquet and Arrow files."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class BadRowError(Exception):
    """The reason why a row is invalid. Internal: the stream skips the row, or raises a ``RowError``."""


def quote(value: Any, max_length: int = 60) -> str:
    """Return the repr of a value for a message, shortened.

    >>> quote("abc")
    "'abc'"
    """
    text = repr(value[: max_length + 1] if isinstance(value, str) else value)
    return text if len(text) <= max_length else text[: max_length - 3] + "..."


def quote_all(names: Any, max_names: int = 20) -> str:
    """Return column names for a message, at most ``max_names``.

    >>> quote_all(["a", "b"])
    "'a', 'b'"
    """
    names = list(names)
    more = f", ... ({len(names)} in all)" if len(names) > max_names else ""
    return ", ".join(quote(name) for name in names[:max_names]) + more
