"""Counts of rows that are left out of an import, by reason."""

from __future__ import annotations

from collections import Counter


class LeftOut:
    """How many rows were left out, and why.

    >>> left_out = LeftOut()
    >>> left_out.add("undone answers")
    >>> left_out.total, left_out.notes()
    (1, ['Left out: undone answers (1).'])
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, reason: str) -> None:
        """Count a row."""
        self._counts[reason] += 1

    @property
    def total(self) -> int:
        """The number of all rows that were left out."""
        return self._counts.total()

    def notes(self) -> list[str]:
        """Return a sentence for each reason."""
        return [f"Left out: {reason} ({count:,})." for reason, count in self._counts.items()]
