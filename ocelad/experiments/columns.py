"""Tables from rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows, all with the same names, as columns.

    >>> columns([{"pairs": 0, "error": 2.5}, {"pairs": 100, "error": 2.0}])
    {'pairs': [0, 100], 'error': [2.5, 2.0]}
    """
    table: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            table.setdefault(name, []).append(value)
    return table
