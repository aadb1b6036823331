"""Reading items from a table with one row per item, in CSV, TSV, JSON lines, Parquet, Arrow or NumPy files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from ocelad._validation import check_choice
from ocelad.io.item_files import MISSING, find_medians
from ocelad.io.tabular import cells
from ocelad.io.tabular.arrow import arrow
from ocelad.io.tabular.file_errors import BadRowError, RowError, quote
from ocelad.io.tabular.file_formats import open_table
from ocelad.io.tabular.file_stream import FileStream
from ocelad.io.tabular.numpy_files import is_npz
from ocelad.io.tabular.point_columns import (
    AsNumber,
    FilledPoints,
    ListColumn,
    PointColumns,
    Record,
    ScalarColumns,
    get_cell,
    read_item_point,
)
from ocelad.io.tabular.record_blocks import Ints, Selection, Values
from ocelad.io.tabular.sources import Source
from ocelad.service.items.column_roles import ColumnOptions, ColumnRoles, assign_roles
from ocelad.service.items.item_scaling import fit_scaling
from ocelad.service.items.picture_cells import read_cell
from ocelad.service.items.picture_folder import bounded_full_pictures, picture_features
from ocelad.service.items.pictures import Picture
from ocelad.service.items.text_features import text_features
from ocelad.service.items.upload_limits import (
    MAX_ABS_SINGLE,
    MAX_ABS_VALUE,
    MAX_FIELD_LENGTH,
    MAX_TEXT_LENGTH,
    ItemsError,
    UploadLimits,
    id_problem,
    truncate,
)
from ocelad.service.itemset import FieldValue, ItemSet, SourceRole

# The approximate number of values per chunk.
_CHUNK_VALUES = 1_000_000
# A prefix that separates the names of columns from the stream's own key "X".
_CELL_PREFIX = "cell "
# The first bytes of ZIP archives, which .xlsx files are, and of older Excel files.
_OFFICE_MAGIC = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
_BOOLEANS = {"true": True, "false": False}
# The rows of pictures that are decoded together, and the assumed size of a picture file in numbers of eight bytes.
_PICTURE_ROWS, _PICTURE_WIDTH = 256, 1 << 13


def read_table(
    source: Source, format: str | None, limits: UploadLimits, missing: str = "stop", **columns: Unpack[ColumnOptions]
) -> ItemSet:
    """Read all items of a table, and close the source."""
    try:
        check_choice(missing, "missing", MISSING)
        if source.head(4) in _OFFICE_MAGIC and format != "npz" and not is_npz(source):
            raise ItemsError(f"{source.name} looks like an Excel file (or another archive); save it as CSV")
        table = open_table(source, format, stop=True)
        folder = None if source.path is None else source.path.parent
        roles = assign_roles(source.name, table, **columns, reads_paths=folder is not None)
        limits.check(source.name, 0, len(roles.feature_names))
        width = max(1, len(roles.feature_names) + len(roles.fields))
        stream = _RowStream(
            source,
            table,
            _RowSchema(roles, may_miss=missing == "median", folder=folder),
            roles.feature_names,
            on_error="stop",
            skipped=None,
            chunk_size=max(1, _CHUNK_VALUES // width if roles.picture is None else _PICTURE_ROWS),
            resume=None,
        )
        with stream:
            items = _read_rows(source.name, table.unit, roles, stream, limits, table.as_number)
            return replace(items, notes=(*table.notes, *table.number_notes, *items.notes))
    finally:
        source.close()


@dataclass(frozen=True)
class _Rows:
    """A chunk of rows: features, and the cells of the other selected columns by name."""

    X: npt.NDArray[Any]
    cells: dict[str, list[Any]]
    lines: Ints


@dataclass(frozen=True)
class _RowSchema:
    """Reads the features and the other selected cells of a row."""

    roles: ColumnRoles
    may_miss: bool = False
    folder: Path | None = None

    @property
    def _points(self) -> PointColumns | FilledPoints | None:
        points = self.roles.points
        return FilledPoints(points, np.full(points.width, np.nan)) if self.may_miss and points is not None else points

    @property
    def selection(self) -> Selection:
        roles = self.roles
        named = (roles.id, roles.text, roles.words, *roles.fields, roles.picture)
        points = () if roles.points is None else (roles.points,)
        others = tuple(dict.fromkeys(column for column in named if column is not None))
        return Selection(points, others, 0 if roles.picture is None else _PICTURE_WIDTH)

    def columns(self, table: Any) -> Values | None:
        X = np.empty((table.num_rows, len(self.roles.feature_names)))
        if self._points is not None and not self._points.fill(table, X):
            return None
        single = self._is_single(table)
        largest = MAX_ABS_SINGLE if single else MAX_ABS_VALUE
        if not ((np.abs(X) <= largest) | (np.isnan(X) & self.may_miss)).all():
            return None
        values: Values = {"X": X.astype(np.float32) if single else X}
        try:
            for column in self.selection.others:
                values[_CELL_PREFIX + column] = [
                    self._cell_value(column, entry) for entry in table.column(column).to_pylist()
                ]
        except BadRowError:
            return None
        return values

    def _is_single(self, table: Any) -> bool:
        """Return whether the points are vectors in single or half precision."""
        points, types = self.roles.points, arrow("types")
        if not isinstance(points, ListColumn):
            return False
        numbers = table.column(points.column).type.value_type
        return bool(types.is_float32(numbers) or types.is_float16(numbers))

    def row(self, record: Record, as_number: AsNumber) -> Values:
        values: Values = {"X": []}
        if self._points is not None:
            try:
                values["X"] = read_item_point(self._points, record, as_number)
            except BadRowError as error:
                hint = " in a feature; columns in fields= are not learned from"
                raise BadRowError(f"{error}{hint if isinstance(self.roles.points, ScalarColumns) else ''}") from None
            for feature, number in zip(self.roles.feature_names, values["X"], strict=True):
                if abs(number) > MAX_ABS_VALUE:
                    raise BadRowError(f"{quote(feature)} is {number:g}; at most {MAX_ABS_VALUE:g} is accepted")
        for column in self.selection.others:
            entry = get_cell(record, column) if column in record else None
            values[_CELL_PREFIX + column] = self._cell_value(column, entry)
        return values

    def stack(self, rows: list[Values]) -> Values:
        X = np.array([row["X"] for row in rows], dtype=np.float64).reshape(len(rows), len(self.roles.feature_names))
        return {
            "X": X,
            **{key: [row[key] for row in rows] for key in (_CELL_PREFIX + name for name in self.selection.others)},
        }

    def _cell_value(self, column: str, entry: Any) -> FieldValue | Picture:
        if column == self.roles.picture:
            return read_cell(column, entry, self.folder)
        if column == self.roles.id:
            key = cells.require(column, entry, cells.normalize_id, "an id is expected: text or a whole number")
            if problem := id_problem(key):
                raise BadRowError(f"the id {quote(key)} {problem}")
            return key
        value = cells.require_value(column, entry)
        max_length = MAX_TEXT_LENGTH if column in (self.roles.text, self.roles.words) else MAX_FIELD_LENGTH
        return truncate(value, max_length) if isinstance(value, str) else value


class _RowStream(FileStream[_Rows]):
    def _make_chunk(self, values: Values, lines: Ints, numbers: Ints) -> _Rows:
        prefix = _CELL_PREFIX
        selected = {key.removeprefix(prefix): column for key, column in values.items() if key.startswith(prefix)}
        return _Rows(values["X"], selected, lines)


def _read_rows(
    name: str, unit: str, roles: ColumnRoles, stream: _RowStream, limits: UploadLimits, as_number: AsNumber
) -> ItemSet:
    parts: list[npt.NDArray[Any]] = []
    selected: dict[str, list[Any]] = {}
    lines: dict[str, int] = {}
    count = n_characters = n_picture_bytes = 0
    for rows in stream:
        count += len(rows.X)
        limits.check(name, count, len(roles.feature_names), single=rows.X.dtype == np.float32)
        n_characters += sum(len(value) for values in rows.cells.values() for value in values if isinstance(value, str))
        limits.check_characters(name, n_characters)
        if roles.picture is not None:
            n_picture_bytes += sum(0 if cell is None else len(cell.png) for cell in rows.cells[roles.picture])
            limits.check_pictures(name, n_picture_bytes)
        parts.append(rows.X)
        for column, values in rows.cells.items():
            selected.setdefault(column, []).extend(values)
        if roles.id is not None:
            for key, line in zip(rows.cells[roles.id], rows.lines.tolist(), strict=True):
                if key in lines:
                    at = f"{name}, {unit} {line}"
                    raise RowError(f"{at}: the id {quote(key)} occurs in {unit} {lines[key]} already", line)
                lines[key] = line
    if count < 2:
        raise ItemsError(f"{name} has {'no items' if not count else 'one item'}; at least 2 are expected")
    displayed_text = None if roles.text is None else [_as_text(value) for value in selected[roles.text]]
    pictures: list[Picture | None] = [] if roles.picture is None else selected.pop(roles.picture)
    if roles.words is not None:
        X, feature_names = text_features(name, [_as_text(value) for value in selected[roles.words]])
    elif roles.points is not None:
        X, feature_names = _fill_medians(name, roles.feature_names, _join(parts)), roles.feature_names
    else:
        X, feature_names = picture_features(_all_present(name, str(roles.picture), pictures))
    limits.check(name, count, len(feature_names), single=X.dtype == np.float32)
    sources: dict[SourceRole, str | None] = {"id": roles.id, "text": roles.text, "picture": roles.picture}
    items = ItemSet(
        ids=tuple(lines) if roles.id is not None else tuple(map(str, range(count))),
        features=X,
        feature_names=feature_names,
        scaling=fit_scaling(X, roles.scaling),
        display="features" if displayed_text is None else "text",
        text=displayed_text,
        fields={column: field_values(selected[column], as_number) for column in roles.fields},
        source_columns={role: column for role, column in sources.items() if column is not None},
    )
    return items if not any(pictures) else _with_pictures(name, items, pictures, limits)


def _with_pictures(name: str, items: ItemSet, pictures: list[Picture | None], limits: UploadLimits) -> ItemSet:
    full_pictures, notes = bounded_full_pictures(name, pictures, limits)
    return replace(
        items,
        display="picture",
        pictures=[b"" if picture is None else picture.png for picture in pictures],
        full_pictures=full_pictures,
        has_picture=None if all(pictures) else np.array([picture is not None for picture in pictures]),
        notes=notes,
    )


def _all_present(name: str, column: str, pictures: list[Picture | None]) -> list[Picture]:
    present = [picture for picture in pictures if picture is not None]
    if len(present) < len(pictures):
        row = pictures.index(None) + 1
        raise ItemsError(
            f"{name}: the column {quote(column)} is empty in item {row}, and the features are computed from the "
            "pictures; remove the row, or name columns of numbers with features="
        )
    return present


def _join(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return the rows of all parts, and empty the list: each part is freed once it is copied."""
    joined = np.empty((sum(map(len, parts)), parts[0].shape[1]), np.result_type(*{part.dtype for part in parts}))
    end = len(joined)
    while parts:
        last = parts.pop()
        joined[end - len(last) : end] = last
        end -= len(last)
    return joined


def _fill_medians(name: str, feature_names: Sequence[str], X: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the features with the median of each where it is missing."""
    rows = max(1, _CHUNK_VALUES // X.shape[1])
    medians = find_medians(name, feature_names, lambda: (X[i : i + rows] for i in range(0, len(X), rows)))
    return np.where(np.isnan(X), medians.astype(X.dtype), X) if np.isfinite(medians).any() else X


def field_values(found: Sequence[FieldValue], as_number: AsNumber) -> list[FieldValue]:
    """Convert the values of a field to one type: numbers, booleans or texts, independently of the file format.

    Texts of digits that would change as numbers, such as 0123, stay texts.

    >>> field_values(["1", "2.5", None], cells.parse_number), field_values(["True", "false"], cells.parse_number)
    ([1, 2.5, None], [True, False])
    >>> field_values(["0123", "7"], cells.parse_number)
    ['0123', '7']
    """
    present = [value for value in found if value is not None]
    if all(isinstance(value, bool) or (isinstance(value, str) and value.lower() in _BOOLEANS) for value in present):
        return [value if value is None else _BOOLEANS[str(value).lower()] for value in found]
    numbers = {value: as_number(value) if isinstance(value, str) else cells.to_number(value) for value in set(present)}
    if all(number is not None and not _is_code(value, number) for value, number in numbers.items()):
        return [None if value is None else cells.normalize_value(numbers[value]) for value in found]
    return [None if value is None else str(value) for value in found]


def _is_code(value: FieldValue, number: float) -> bool:
    """Return whether a text of digits would change as a number, like a telephone number or a long article number."""
    return isinstance(value, str) and value.isdecimal() and (str(int(value)) != value or int(number) != int(value))


def _as_text(value: FieldValue) -> str:
    return "" if value is None else str(value)
