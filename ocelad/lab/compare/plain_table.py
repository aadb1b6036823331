"""Tables in plain text, for ``print`` of a result."""

from __future__ import annotations

from collections.abc import Sequence


def plain_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a title and a table whose columns are aligned to the left.

    >>> print(plain_table("error in %", ["method", "all"], [["rice", "2.18 ± 0.20"], ["saol", "17.82 ± 0.15"]]))
    error in %
    method  all
    rice    2.18 ± 0.20
    saol    17.82 ± 0.15
    """
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in (columns, *rows)]
    return "\n".join([title, *lines])
