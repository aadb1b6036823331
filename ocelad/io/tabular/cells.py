"""Conversion of one cell to a number, a label or an id.

These functions define which cells are valid. pyarrow reads whole columns where it gives the same values; a block with
an invalid cell is read cell by cell with these functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from math import isfinite
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ocelad.io.tabular.arrow import combine_chunks
from ocelad.io.tabular.file_errors import BadRowError, quote

Converted = TypeVar("Converted")

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

LABELS = {
    **dict.fromkeys(("true", "same", "similar", "yes"), 1.0),
    **dict.fromkeys(("false", "different", "dissimilar", "no"), -1.0),
}
_MISSING = ("", "na", "n/a", "nan", "null", "none")
ACCEPTED_LABELS = "accepted: 1/-1, 1/0, true/false, same/different, similar/dissimilar, yes/no"


class DuplicateKey:
    """Placeholder for the value of a JSON key that occurs twice in one object."""

    def __repr__(self) -> str:
        return "two values"


def parse_number(cell: Any) -> float | None:
    """Parse the finite number in a cell of text; None if the cell holds no such number.

    >>> parse_number(" 1.5e3 "), parse_number("1_000"), parse_number("nan")
    (1500.0, None, None)
    """
    text = cell.strip(" \t")
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if isfinite(value) else None


def to_number(cell: Any) -> float | None:
    """Convert a typed cell to a finite float; None for other cells, including text and booleans.

    >>> to_number(2), to_number(True), to_number("2")
    (2.0, None, None)
    """
    if isinstance(cell, (bool, np.bool_)) or not isinstance(cell, (int, float, Decimal, np.number)):
        return None
    try:
        value = float(cell)
    except (OverflowError, ValueError):
        return None
    return value if isfinite(value) else None


def parse_label(cell: Any) -> float | None:
    """Return +1.0 for similar and -1.0 for dissimilar; None if the cell holds no label.

    >>> parse_label("Same"), parse_label(0), parse_label("1.0"), parse_label("perhaps")
    (1.0, -1.0, 1.0, None)
    """
    if isinstance(cell, (bool, np.bool_)):
        return 1.0 if cell else -1.0
    if isinstance(cell, str):
        value = LABELS.get(cell.strip(" \t").lower())
        if value is not None:
            return value
        number = parse_number(cell)
    else:
        number = to_number(cell)
    return {1.0: 1.0, -1.0: -1.0, 0.0: -1.0}.get(number) if number is not None else None


def normalize_id(cell: Any) -> str | None:
    """Return an id as text, so that the number 17 and the text "17" are the same id; None if the cell holds no id.

    >>> normalize_id("a"), normalize_id(17), normalize_id(17.0), normalize_id("")
    ('a', '17', '17', None)
    """
    if isinstance(cell, str):
        return cell or None
    number = to_number(cell)
    if number is None or number != int(number):
        return None
    return str(int(cell))


def is_missing(cell: Any) -> bool:
    """Return whether a cell of a feature has no value: empty, null, NaN, or a text that says so.

    >>> is_missing(""), is_missing(float("nan")), is_missing(" NA "), is_missing("0")
    (True, True, True, False)
    """
    if isinstance(cell, str):
        return cell.strip(" \t").lower() in _MISSING
    return cell is None or (isinstance(cell, (float, np.floating)) and bool(cell != cell))


def normalize_value(cell: Any) -> str | int | float | bool | None:
    """Return the text or number of a cell, whole numbers as int, and None for an empty cell; otherwise TypeError.

    >>> normalize_value("2024-01-01"), normalize_value(3.0), normalize_value("")
    ('2024-01-01', 3, None)
    """
    if cell is None or cell == "" or (isinstance(cell, float) and cell != cell):
        return None
    if isinstance(cell, (str, bool, int)):
        return cell
    number = to_number(cell)
    if number is None:
        raise TypeError
    return int(number) if number == int(number) else number


def require(column: str, cell: Any, convert: Callable[[Any], Converted | None], expected: str) -> Converted:
    """Convert a cell, or raise ``BadRowError`` with the message ``expected`` if ``convert`` returns None."""
    value = convert(cell)
    if value is None:
        holds = "is empty" if cell is None or cell == "" else f"holds {quote(cell)}"
        raise BadRowError(f"column {quote(column)} {holds}; {expected}")
    return value


def require_value(column: str, cell: Any) -> str | int | float | bool | None:
    """Apply ``normalize_value``, or raise ``BadRowError``."""
    try:
        return normalize_value(cell)
    except TypeError:
        raise BadRowError(f"column {quote(column)} holds {quote(cell)}; text or a number is expected") from None


def map_distinct(column: Any, convert: Callable[[Any], float | None]) -> npt.NDArray[np.float64] | None:
    """Convert all cells of a column, with one call per distinct value; None if a cell cannot be converted."""
    column = combine_chunks(column)
    if column.null_count:
        return None
    if not len(column):
        return np.empty(0)
    encoded = column.dictionary_encode()
    converted = [convert(value) for value in encoded.dictionary.to_pylist()]
    lookup = np.array([np.nan if value is None else value for value in converted])
    values: npt.NDArray[np.float64] = lookup[encoded.indices.to_numpy(zero_copy_only=False)]
    return None if np.isnan(values).any() else values
