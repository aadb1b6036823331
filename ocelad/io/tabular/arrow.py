"""Access to pyarrow, an optional dependency that is imported on first use."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad.io.tabular.file_errors import FileError


@cache
def arrow(module: str = "") -> Any:
    """Import ``pyarrow`` or one of its modules."""
    try:
        return import_module(f"pyarrow.{module}" if module else "pyarrow")
    except ImportError:
        raise FileError("files need pyarrow; install it with: pip install 'ocelad[files]'") from None


@cache
def pyarrow_exceptions() -> tuple[type[Exception], ...]:
    """Return the exceptions that pyarrow raises for a damaged file."""
    return (arrow().ArrowException, OSError, ValueError, KeyError, IndexError, TypeError, MemoryError, OverflowError)


def combine_chunks(column: Any) -> Any:
    """Return a column, chunked or not, as one array."""
    if not hasattr(column, "num_chunks"):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def to_float64(column: Any) -> Floats | None:
    """Return a column of numbers as float64, or None if a value is missing."""
    column = combine_chunks(column)
    if column.null_count:
        return None
    if arrow("types").is_decimal(column.type):  # Python rounds decimals correctly; pyarrow does not guarantee it
        return np.array([float(value) for value in column.to_pylist()], dtype=np.float64)
    values: Floats = column.to_numpy(zero_copy_only=False)
    return values.astype(np.float64, copy=False)
