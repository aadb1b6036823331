"""Items from a table: a row each, in CSV, TSV, JSON lines, Parquet or Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from ocelad._typing import Floats
from ocelad.io.tabular import cells
from ocelad.io.tabular.file_errors import BadRowError, RowError, quote
from ocelad.io.tabular.file_formats import open_table
from ocelad.io.tabular.file_stream import FileStream
from ocelad.io.tabular.point_columns import AsNumber, Record, ScalarColumns, get_cell
from ocelad.io.tabular.record_blocks import Ints, Selection, Values
from ocelad.io.tabular.sources import Source
from ocelad.service.items.roles import Columns, Roles, find_roles
from ocelad.service.items.scaling import scaled
from ocelad.service.items.texts import text_features
from ocelad.service.items.upload_limits import (
    FIELD_CHARACTERS,
    LARGEST_NUMBER,
    TEXT_CHARACTERS,
    ItemsError,
    Limits,
    cut,
    wrong_with_id,
)
from ocelad.service.itemset import FieldValue, ItemSet

# Metadata how many numbers are handed over at a time.
_CHUNK_NUMBERS = 1_000_000
# Before the names of columns, which may be anything, where a stream has names of its own.
_KEPT = "kept "
# How ZIP archives begin, which .xlsx files are, and older files of Excel.
_OFFICE_MAGIC = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
_FLAGS = {"true": True, "false": False}


def read_table(source: Source, format: str | None, limits: Limits, **columns: Unpack[Columns]) -> ItemSet:
    """All items of a table; the source is closed."""
    try:
        if source.head(4) in _OFFICE_MAGIC:
            raise ItemsError(f"{source.name} looks like an Excel file (or another archive); save it as CSV")
        table = open_table(source, format, stop=True)
        roles = find_roles(source.name, table, **columns)
        limits.check(source.name, 0, len(roles.feature_names))
        width = max(1, len(roles.feature_names) + len(roles.fields))
        stream = _RowStream(
            source,
            table,
            _RowSchema(roles),
            roles.feature_names,
            on_error="stop",
            skipped=None,
            chunk_size=max(1, _CHUNK_NUMBERS // width),
            resume=None,
        )
        with stream:
            return _items(source.name, table.unit, roles, stream, limits, table.as_number)
    finally:
        source.close()


@dataclass(frozen=True)
class _Rows:
    """Some rows: features, and the cells of all other columns that are wanted, by name."""

    X: Floats
    kept: dict[str, list[Any]]
    lines: Ints


@dataclass(frozen=True)
class _RowSchema:
    """How a row is read: points, and cells as they are."""

    roles: Roles

    @property
    def selection(self) -> Selection:
        named = (self.roles.id, self.roles.text, self.roles.words, *self.roles.fields)
        points = () if self.roles.points is None else (self.roles.points,)
        return Selection(points, tuple(dict.fromkeys(column for column in named if column is not None)))

    def columns(self, table: Any) -> Values | None:
        X = np.empty((table.num_rows, len(self.roles.feature_names)))
        if self.roles.points is not None and not self.roles.points.fill(table, X):
            return None
        if not (np.abs(X) <= LARGEST_NUMBER).all():
            return None
        values: Values = {"X": X}
        try:
            for column in self.selection.others:
                values[_KEPT + column] = [self._kept(column, entry) for entry in table.column(column).to_pylist()]
        except BadRowError:
            return None
        return values

    def row(self, record: Record, as_number: AsNumber) -> Values:
        values: Values = {"X": []}
        if self.roles.points is not None:
            try:
                values["X"] = self.roles.points.point(record, as_number)
            except BadRowError as wrong:
                out = " in a feature; what is named in fields= is not learned from"
                raise BadRowError(f"{wrong}{out if isinstance(self.roles.points, ScalarColumns) else ''}") from None
            for feature, number in zip(self.roles.feature_names, values["X"], strict=True):
                if abs(number) > LARGEST_NUMBER:
                    raise BadRowError(
                        f"{quote(feature)} is {number:g}; numbers of at most {LARGEST_NUMBER:g} are accepted"
                    )
        for column in self.selection.others:
            entry = get_cell(record, column) if column in record else None
            values[_KEPT + column] = self._kept(column, entry)
        return values

    def stack(self, rows: list[Values]) -> Values:
        X = np.array([row["X"] for row in rows], dtype=np.float64).reshape(len(rows), len(self.roles.feature_names))
        return {"X": X, **{key: [row[key] for row in rows] for key in (_KEPT + name for name in self.selection.others)}}

    def _kept(self, column: str, entry: Any) -> FieldValue:
        if column == self.roles.id:
            key = cells.require(column, entry, cells.normalize_id, "an id is expected: text or a whole number")
            if wrong := wrong_with_id(key):
                raise BadRowError(f"the id {quote(key)} {wrong}")
            return key
        value = cells.require_value(column, entry)
        most = TEXT_CHARACTERS if column in (self.roles.text, self.roles.words) else FIELD_CHARACTERS
        return cut(value, most) if isinstance(value, str) else value


class _RowStream(FileStream[_Rows]):
    def _make_chunk(self, values: Values, lines: Ints, numbers: Ints) -> _Rows:
        kept = {key.removeprefix(_KEPT): cells for key, cells in values.items() if key.startswith(_KEPT)}
        return _Rows(values["X"], kept, lines)


def _items(name: str, unit: str, roles: Roles, stream: _RowStream, limits: Limits, as_number: AsNumber) -> ItemSet:
    parts: list[Floats] = []
    kept: dict[str, list[Any]] = {}
    lines: dict[str, int] = {}
    count = n_characters = 0
    for rows in stream:
        count += len(rows.X)
        limits.check(name, count, len(roles.feature_names))
        n_characters += sum(len(value) for values in rows.kept.values() for value in values if isinstance(value, str))
        limits.check_characters(name, n_characters)
        parts.append(rows.X)
        for column, values in rows.kept.items():
            kept.setdefault(column, []).extend(values)
        if roles.id is not None:
            for key, line in zip(rows.kept[roles.id], rows.lines.tolist(), strict=True):
                if key in lines:
                    at = f"{name}, {unit} {line}"
                    raise RowError(f"{at}: the id {quote(key)} was given in {unit} {lines[key]} already", line)
                lines[key] = line
    if count < 2:
        raise ItemsError(f"{name} has {'no items' if not count else 'one item'}; at least 2 are expected")
    shown_text = None if roles.text is None else [_as_text(value) for value in kept[roles.text]]
    if roles.words is None:
        X, feature_names = np.concatenate(parts), roles.feature_names
    else:
        X, feature_names = text_features(name, [_as_text(value) for value in kept[roles.words]])
        limits.check(name, count, len(feature_names))
    return ItemSet(
        ids=tuple(lines) if roles.id is not None else tuple(map(str, range(count))),
        features=X,
        feature_names=feature_names,
        scaling=scaled(X, roles.scaling),
        display="features" if shown_text is None else "text",
        text=shown_text,
        fields={column: field_values(kept[column], as_number) for column in roles.fields},
    )


def field_values(found: Sequence[FieldValue], as_number: AsNumber) -> list[FieldValue]:
    """A field's values: all numbers, all true or false, or all text, whatever the format says of them.

    >>> field_values(["1", "2.5", None], cells.parse_number), field_values(["True", "false"], cells.parse_number)
    ([1, 2.5, None], [True, False])
    """
    there = [value for value in found if value is not None]
    if all(isinstance(value, bool) or (isinstance(value, str) and value.lower() in _FLAGS) for value in there):
        return [value if value is None else _FLAGS[str(value).lower()] for value in found]
    numbers = {
        value: as_number(value) if isinstance(value, str) else cells.to_number(value) for value in set(there)
    }
    if all(number is not None for number in numbers.values()):
        return [None if value is None else cells.normalize_value(numbers[value]) for value in found]
    return [None if value is None else str(value) for value in found]


def _as_text(value: FieldValue) -> str:
    return "" if value is None else str(value)
