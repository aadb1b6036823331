"""The first values of columns, and which columns are features by default."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from ocelad.io.tabular.file_errors import BadRowError, FileError, quote, quote_all
from ocelad.io.tabular.point_columns import Record
from ocelad.io.tabular.record_blocks import Table

#: The first rows of a table with their lines.
Sample: TypeAlias = list[tuple[int, Record | BadRowError]]


class ColumnSample:
    """The first values of a column.

    ``kind`` is "number", "text", "boolean", "list" (including objects: named numbers), "bytes" or "other". ``values``
    are the cells that are not empty.
    """

    def __init__(self, table: Table, column: str, sample: Sample) -> None:
        cells = [row.get(column) for _, row in sample if not isinstance(row, BadRowError)]
        self.values = [cell for cell in cells if cell is not None and cell != ""]
        self.kind = table.kinds[column] if table.typed else self._infer_kind(table)
        if self.kind == "object":
            self.kind = "list"
        self.example = f"{quote(self.values[0])} in its first row" if self.values else "nothing"

    def _infer_kind(self, table: Table) -> str:
        """Infer the kind from the cells; if half of them are numbers, the others are errors that reading reports."""
        if not self.values:
            return "text"
        numbers = sum(table.as_number(cell) is not None for cell in self.values)
        if 2 * numbers >= len(self.values):
            return "number"
        first = self.values[0]
        if isinstance(first, (list, dict)):
            entries = first if isinstance(first, list) else list(first.values())
            return "list" if all(table.as_number(entry) is not None for entry in entries) else "other"
        return "boolean" if isinstance(first, bool) else "text"

    @property
    def mean_length(self) -> float:
        """The mean length of texts; 0 for other kinds."""
        lengths = [len(str(cell)) for cell in self.values] if self.kind == "text" else []
        return sum(lengths) / max(1, len(lengths))


def default_features(
    name: str, samples: Mapping[str, ColumnSample], free: Iterable[str], not_features: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the default columns of features: the column of lists, otherwise those of numbers; none if there are none.

    Columns of numbers whose names in small letters are in ``not_features`` are left out.
    """
    free = list(free)
    lists = [column for column in free if samples[column].kind == "list"]
    if len(lists) > 1:
        raise FileError(f"{name} has several columns of lists, {quote_all(lists)}; select one with features=")
    numbers = [column for column in free if samples[column].kind == "number" and column.lower() not in not_features]
    return tuple(lists or numbers)
