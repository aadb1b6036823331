"""Where the numbers of a point are: in columns of their own, in a list, in an object, or in a table of items."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from ocelad._typing import Floats
from ocelad.io.tabular import cells
from ocelad.io.tabular.arrow import floats, whole
from ocelad.io.tabular.errors import BadRowError, shown

Record: TypeAlias = Mapping[str, Any]
AsNumber: TypeAlias = Callable[[Any], float | None]
_FINITE = "a finite number is expected"


class Points(Protocol):
    """The points of one side, read from a block of columns at once or from one record."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""

    @property
    def width(self) -> int:
        """How many numbers a point has."""

    def fill(self, table: Any, out: Floats) -> bool:
        """Write all points of a table to the rows of ``out``; False where one is wrong."""

    def point(self, record: Record, as_number: AsNumber) -> list[float]:
        """The point of one record."""


@dataclass(frozen=True)
class Scalars:
    """Every number has a column of its own."""

    columns: tuple[str, ...]

    @property
    def width(self) -> int:
        return len(self.columns)

    def fill(self, table: Any, out: Floats) -> bool:
        for j, column in enumerate(self.columns):
            values = floats(table.column(column))
            if values is None:
                return False
            out[:, j] = values
        return True

    def point(self, record: Record, as_number: AsNumber) -> list[float]:
        found = []
        for column in self.columns:
            number = as_number(record.get(column, ""))
            if number is None:
                number = cells.expect(column, cell(record, column), as_number, _FINITE)  # says what is wrong
            found.append(number)
        return found


@dataclass(frozen=True)
class Vector:
    """A column of lists, all of the same length."""

    column: str
    width: int

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def fill(self, table: Any, out: Floats) -> bool:
        lists = whole(table.column(self.column))
        if lists.null_count:
            return False
        lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
        values = floats(lists.flatten()) if (lengths == self.width).all() else None
        if values is None:
            return False
        out[:] = values.reshape(len(lists), self.width)
        return True

    def point(self, record: Record, as_number: AsNumber) -> list[float]:
        entries = cell(record, self.column)
        if not isinstance(entries, list):
            raise BadRowError(f"column {shown(self.column)} holds {shown(entries)}; a list of numbers is expected")
        if len(entries) != self.width:
            raise BadRowError(f"column {shown(self.column)} holds {len(entries)} numbers; {self.width} are expected")
        name = self.column
        return [cells.expect(f"{name}[{i}]", entry, as_number, _FINITE) for i, entry in enumerate(entries)]


@dataclass(frozen=True)
class Members:
    """A column of objects, or structs, with the same keys."""

    column: str
    keys: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def width(self) -> int:
        return len(self.keys)

    def fill(self, table: Any, out: Floats) -> bool:
        objects = whole(table.column(self.column))
        if objects.null_count:
            return False
        members = dict(zip((field.name for field in objects.type), objects.flatten(), strict=True))
        for j, key in enumerate(self.keys):
            values = floats(members[key])
            if values is None:
                return False
            out[:, j] = values
        return True

    def point(self, record: Record, as_number: AsNumber) -> list[float]:
        members = cell(record, self.column)
        if not isinstance(members, dict):
            raise BadRowError(f"column {shown(self.column)} holds {shown(members)}; an object of numbers is expected")
        return [
            cells.expect(f"{self.column}.{key}", cell(members, key, self.column), as_number, _FINITE)
            for key in self.keys
        ]


@dataclass(frozen=True)
class ItemTable:
    """Items in memory: which row an id has, and the rows."""

    rows: dict[str, int]
    X: Floats
    name: str


@dataclass(frozen=True)
class References:
    """A column of ids, whose points are in a table of items."""

    column: str
    items: ItemTable

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def width(self) -> int:
        return int(self.items.X.shape[1])

    def fill(self, table: Any, out: Floats) -> bool:
        rows = cells.each_distinct(table.column(self.column), self._row)
        if rows is None:
            return False
        out[:] = self.items.X[rows.astype(np.int64)]
        return True

    def point(self, record: Record, as_number: AsNumber) -> list[float]:
        entry = cell(record, self.column)
        key = cells.expect(self.column, entry, cells.identity, "an id is expected")
        if key not in self.items.rows:
            raise BadRowError(
                f"column {shown(self.column)} holds the id {shown(entry)}; {self.items.name} has no such item"
            )
        point: list[float] = self.items.X[self.items.rows[key]].tolist()
        return point

    def _row(self, entry: Any) -> int | None:
        key = cells.identity(entry)
        return None if key is None else self.items.rows.get(key)


def cell(record: Record, column: str, of: str = "") -> Any:
    """The cell of a column, or a sentence where the record lacks it or has it twice."""
    where = f"{of}.{column}" if of else column
    if column not in record:
        raise BadRowError(f"{shown(where)} is missing")
    value = record[column]
    if isinstance(value, cells.Twice):
        raise BadRowError(f"{shown(where)} is given twice")
    return value
