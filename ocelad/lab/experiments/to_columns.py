"""Convert rows to columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def to_columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the columns of a table, given its rows; all rows have the same names.

    >>> to_columns([{"trial": 0, "loss": 1.5}, {"trial": 1, "loss": 0.5}])
    {'trial': [0, 1], 'loss': [1.5, 0.5]}
    """
    table: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            table.setdefault(name, []).append(value)
    return table
