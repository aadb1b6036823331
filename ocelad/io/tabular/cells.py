"""What one cell says: a number, a label, an id, or something to keep as it is.

This is the definition. Columns are read by pyarrow where it accepts the same cells with the same values, and cell by
cell from here where something is wrong with a block.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from math import isfinite
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ocelad.io.tabular.arrow import whole
from ocelad.io.tabular.errors import BadRowError, shown

Meaning = TypeVar("Meaning")

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

LABELS = {
    **dict.fromkeys(("true", "same", "similar", "yes"), 1.0),
    **dict.fromkeys(("false", "different", "dissimilar", "no"), -1.0),
}
ACCEPTED_LABELS = "accepted: 1/-1, 1/0, true/false, same/different, similar/dissimilar, yes/no"


class Twice:
    """Stands for the value of a JSON key that is given twice."""

    def __repr__(self) -> str:
        return "two values"


def number_in_text(cell: Any) -> float | None:
    """The finite number that a cell of text holds, or None.

    >>> number_in_text(" 1.5e3 "), number_in_text("1_000"), number_in_text("nan")
    (1500.0, None, None)
    """
    text = cell.strip(" \t")
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if isfinite(value) else None


def number_in_value(cell: Any) -> float | None:
    """The finite number that a typed cell holds, or None; text and booleans are no numbers.

    >>> number_in_value(2), number_in_value(True), number_in_value("2")
    (2.0, None, None)
    """
    if isinstance(cell, (bool, np.bool_)) or not isinstance(cell, (int, float, Decimal, np.number)):
        return None
    try:
        value = float(cell)
    except (OverflowError, ValueError):
        return None
    return value if isfinite(value) else None


def label(cell: Any) -> float | None:
    """+1.0 for similar and -1.0 for dissimilar, or None.

    >>> label("Same"), label(0), label("1.0"), label("perhaps")
    (1.0, -1.0, 1.0, None)
    """
    if isinstance(cell, (bool, np.bool_)):
        return 1.0 if cell else -1.0
    if isinstance(cell, str):
        word = LABELS.get(cell.strip(" \t").lower())
        if word is not None:
            return word
        number = number_in_text(cell)
    else:
        number = number_in_value(cell)
    return {1.0: 1.0, -1.0: -1.0, 0.0: -1.0}.get(number) if number is not None else None


def identity(cell: Any) -> str | None:
    """The id that a cell holds, as text, so that 17 in one file is "17" in another; or None.

    >>> identity("a"), identity(17), identity(17.0), identity("")
    ('a', '17', '17', None)
    """
    if isinstance(cell, str):
        return cell or None
    number = number_in_value(cell)
    if number is None or number != int(number):
        return None
    return str(int(cell))


def plain(cell: Any) -> str | int | float | bool | None:
    """A cell to keep as it is, text or number, or None where it is empty; a whole number is an int.

    >>> plain("2024-01-01"), plain(3.0), plain("")
    ('2024-01-01', 3, None)
    """
    if cell is None or cell == "" or (isinstance(cell, float) and cell != cell):
        return None
    if isinstance(cell, (str, bool, int)):
        return cell
    number = number_in_value(cell)
    if number is None:
        raise TypeError
    return int(number) if number == int(number) else number


def expect(column: str, cell: Any, meaning: Callable[[Any], Meaning | None], expected: str) -> Meaning:
    """What a cell of a column means; refused with a sentence where it means nothing."""
    value = meaning(cell)
    if value is None:
        holds = "is empty" if cell is None or cell == "" else f"holds {shown(cell)}"
        raise BadRowError(f"column {shown(column)} {holds}; {expected}")
    return value


def keep(column: str, cell: Any) -> str | int | float | bool | None:
    """``plain``, refused with a sentence."""
    try:
        return plain(cell)
    except TypeError:
        raise BadRowError(f"column {shown(column)} holds {shown(cell)}; text or a number is expected") from None


def each_distinct(column: Any, meaning: Callable[[Any], float | None]) -> npt.NDArray[np.float64] | None:
    """``meaning`` of every cell of a column, asked once per distinct value; None where a cell has none."""
    column = whole(column)
    if column.null_count:
        return None
    if not len(column):
        return np.empty(0)
    encoded = column.dictionary_encode()
    meanings = [meaning(value) for value in encoded.dictionary.to_pylist()]
    table = np.array([np.nan if value is None else value for value in meanings])
    values: npt.NDArray[np.float64] = table[encoded.indices.to_numpy(zero_copy_only=False)]
    return None if np.isnan(values).any() else values
