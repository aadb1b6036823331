"""The one door to pyarrow, which is an extra and is imported when first needed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad.io.tabular.errors import FileError


@cache
def arrow(module: str = "") -> Any:
    """``pyarrow``, or one of its modules."""
    try:
        return import_module(f"pyarrow.{module}" if module else "pyarrow")
    except ImportError:
        raise FileError("files need pyarrow; install it with: pip install 'ocelad[files]'") from None


@cache
def arrow_errors() -> tuple[type[Exception], ...]:
    """What pyarrow raises about a damaged file."""
    return (arrow().ArrowException, OSError, ValueError, KeyError, IndexError, TypeError, MemoryError, OverflowError)


def whole(column: Any) -> Any:
    """A column as one array, whatever number of pieces it came in."""
    if not hasattr(column, "num_chunks"):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def floats(column: Any) -> Floats | None:
    """A column of numbers as float64, or None where one is missing."""
    column = whole(column)
    if column.null_count:
        return None
    if arrow("types").is_decimal(column.type):  # Python rounds decimals correctly, pyarrow need not
        return np.array([float(value) for value in column.to_pylist()], dtype=np.float64)
    values: Floats = column.to_numpy(zero_copy_only=False)
    return values.astype(np.float64, copy=False)
