"""Rows become columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """A table of rows that all have the same names.

    >>> columns([{"trial": 0, "loss": 1.5}, {"trial": 1, "loss": 0.5}])
    {'trial': [0, 1], 'loss': [1.5, 0.5]}
    """
    table: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            table.setdefault(name, []).append(value)
    return table
