"""Points in tables: one column per feature, one column of lists or objects, or a column of item ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from ocelad._typing import Floats
from ocelad.io.tabular import cells
from ocelad.io.tabular.arrow import arrow, combine_chunks, to_float64
from ocelad.io.tabular.file_errors import BadRowError, quote

Record: TypeAlias = Mapping[str, Any]
AsNumber: TypeAlias = Callable[[Any], float | None]
_FINITE = "a finite number is expected"


class PointColumns(Protocol):
    """Reads points from a table of columns, or one point from a record."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""

    @property
    def width(self) -> int:
        """The number of features."""

    def fill(self, table: Any, out: Floats) -> bool:
        """Write the points of a table to the rows of ``out``; return False if one is invalid."""

    def point(self, record: Record, as_number: AsNumber) -> list[float]:
        """Return the point of one record. Raises ``BadRowError`` if it is invalid."""


@dataclass(frozen=True)
class ScalarColumns:
    """One column per feature."""

    columns: tuple[str, ...]

    @property
    def width(self) -> int:
        return len(self.columns)

    def fill(self, table: Any, out: Floats) -> bool:
        for j, column in enumerate(self.columns):
            values = to_float64(table.column(column))
            if values is None:
                return False
            out[:, j] = values
        return True

    def point(self, record: Record, as_number: AsNumber) -> list[float]:
        found = []
        for column in self.columns:
            number = as_number(record.get(column, ""))
            if number is None:
                number = cells.require(column, get_cell(record, column), as_number, _FINITE)  # raises the reason
            found.append(number)
        return found


@dataclass(frozen=True)
class ListColumn:
    """A column of lists of equal length."""

    column: str
    width: int

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def fill(self, table: Any, out: Floats) -> bool:
        lists = combine_chunks(table.column(self.column))
        if lists.null_count:
            return False
        lengths = lists.value_lengths().to_numpy()
        values = to_float64(lists.flatten()) if (lengths == self.width).all() else None
        if values is None:
            return False
        out[:] = values.reshape(len(lists), self.width)
        return True

    def point(self, record: Record, as_number: AsNumber) -> list[float]:
        entries = get_cell(record, self.column)
        if not isinstance(entries, list):
            raise BadRowError(f"column {quote(self.column)} holds {quote(entries)}; a list of numbers is expected")
        if len(entries) != self.width:
            raise BadRowError(f"column {quote(self.column)} holds {len(entries)} numbers; {self.width} are expected")
        name = self.column
        return [cells.require(f"{name}[{i}]", entry, as_number, _FINITE) for i, entry in enumerate(entries)]


@dataclass(frozen=True)
class ObjectColumn:
    """A column of objects or structs with the same keys."""

    column: str
    keys: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def width(self) -> int:
        return len(self.keys)

    def fill(self, table: Any, out: Floats) -> bool:
        objects = combine_chunks(table.column(self.column))
        if objects.null_count:
            return False
        members = dict(zip((field.name for field in objects.type), objects.flatten(), strict=True))
        for j, key in enumerate(self.keys):
            values = to_float64(members[key])
            if values is None:
                return False
            out[:, j] = values
        return True

    def point(self, record: Record, as_number: AsNumber) -> list[float]:
        members = get_cell(record, self.column)
        if not isinstance(members, dict):
            raise BadRowError(f"column {quote(self.column)} holds {quote(members)}; an object of numbers is expected")
        return [
            cells.require(f"{self.column}.{key}", get_cell(members, key, self.column), as_number, _FINITE)
            for key in self.keys
        ]


@dataclass(frozen=True)
class FilledPoints:
    """Points whose missing numbers are replaced: empty cells, null, NaN, and texts such as NA.

    ``values`` has one number per feature; NaN leaves the number missing.
    """

    points: PointColumns
    values: Floats

    def fill(self, table: Any, out: Floats) -> bool:
        """Write the points of a table to the rows of ``out``; return False if one is invalid."""
        if not self.points.fill(_with_nan(table, self.points.columns), out):
            return False
        np.copyto(out, self.values, where=np.isnan(out), casting="same_kind")
        return True

    def point(self, record: Record, as_number: AsNumber) -> list[float]:
        """Return the point of one record. Raises ``BadRowError`` if it is invalid."""
        if isinstance(self.points, ListColumn | ObjectColumn) and record.get(self.points.column) is None:
            return [float(value) for value in self.values]
        if isinstance(self.points, ScalarColumns):  # rows of JSON lines may lack columns
            record = dict.fromkeys(self.points.columns) | dict(record)
        found = self.points.point(record, lambda cell: np.nan if cells.is_missing(cell) else as_number(cell))
        return [float(value) if number != number else number for number, value in zip(found, self.values, strict=True)]


def read_item_point(points: PointColumns | FilledPoints, record: Record, as_number: AsNumber) -> list[float]:
    """Return the point of an item. The error about a cell without a number says how to fill in missing numbers."""
    try:
        return points.point(record, as_number)
    except BadRowError as error:
        fills = "missing='median' fills in the median"
        if not isinstance(points, FilledPoints) and _is_incomplete(points, record, as_number):
            raise BadRowError(f"{error}; {fills}") from None
        if str(error).endswith(_FINITE) and " is empty; " not in str(error):
            further = "" if isinstance(points, FilledPoints) else f", and {fills}"
            raise BadRowError(f"{error}; if it means a missing number, empty the cell{further}") from None
        raise


def _is_incomplete(points: PointColumns, record: Record, as_number: AsNumber) -> bool:
    """Return whether a point is valid except for missing numbers."""
    try:
        FilledPoints(points, np.full(points.width, np.nan)).point(record, as_number)
    except BadRowError:
        return False
    return True


def _with_nan(table: Any, columns: tuple[str, ...]) -> Any:
    """Return a table with NaN for null in columns of numbers."""
    pa = arrow()
    with_null = [name for name in columns if table.column(name).null_count and _is_number(table.column(name).type)]
    if not with_null:
        return table
    found = {name: table.column(name) for name in dict.fromkeys(columns)}
    return pa.table(found | {name: found[name].cast(pa.float64()).fill_null(np.nan) for name in with_null})


def _is_number(type: Any) -> bool:
    types = arrow("types")
    return bool(types.is_integer(type) or types.is_floating(type))


@dataclass(frozen=True)
class ItemTable:
    """Items: the points ``X``, in memory or mapped into it, and the row of each id in it.

    ``column`` is the column of vectors that holds the points; None if each feature has its column.
    """

    rows: dict[str, int]
    X: Any
    name: str
    column: str | None = None


@dataclass(frozen=True)
class IdColumn:
    """A column of ids of items; an ``ItemTable`` holds their points."""

    column: str
    items: ItemTable

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def width(self) -> int:
        return int(self.items.X.shape[1])

    def fill(self, table: Any, out: Floats) -> bool:
        rows = cells.map_distinct(table.column(self.column), self._row)
        if rows is None:
            return False
        out[:] = self.items.X[rows.astype(np.int64)]
        return True

    def keys(self, table: Any) -> list[str | None]:
        """Return the ids of a column, as text."""
        return [cells.normalize_id(entry) for entry in table.column(self.column).to_pylist()]

    def key(self, record: Record) -> str:
        """Return the id of a row, as text."""
        entry = get_cell(record, self.column)
        key: str = cells.require(self.column, entry, cells.normalize_id, "an id is expected")
        if key not in self.items.rows:
            raise BadRowError(
                f"column {quote(self.column)} holds the id {quote(entry)}; {self.items.name} has no such item"
            )
        return key

    def point(self, record: Record, as_number: AsNumber) -> list[float]:
        point: list[float] = self.items.X[self.items.rows[self.key(record)]].tolist()
        return point

    def _row(self, entry: Any) -> int | None:
        key = cells.normalize_id(entry)
        return None if key is None else self.items.rows.get(key)


def get_cell(record: Record, column: str, parent: str = "") -> Any:
    """Return the cell of a column. Raises ``BadRowError`` if the record lacks the column or has it twice."""
    where = f"{parent}.{column}" if parent else column
    if column not in record:
        raise BadRowError(f"{quote(where)} is missing")
    value = record[column]
    if isinstance(value, cells.DuplicateKey):
        raise BadRowError(f"{quote(where)} occurs twice")
    return value
