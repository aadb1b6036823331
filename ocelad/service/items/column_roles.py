"""The roles of a table's columns: id, features, text, field, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from ocelad.io.item_files import nested_point_column
from ocelad.io.tabular import column_selection
from ocelad.io.tabular.file_errors import BadRowError, FileError, quote, quote_all
from ocelad.io.tabular.point_columns import PointColumns, Record, ScalarColumns
from ocelad.io.tabular.record_blocks import Table
from ocelad.service.items.upload_limits import MAX_FIELDS, MAX_NAME_LENGTH, ItemsError, is_storable

# The number of rows that determine the kinds of columns.
_N_SAMPLED = 1_000
_ID_COLUMN = "id"
# Columns of these names are targets or identifiers, not features.
_NOT_FEATURES = ("id", "label", "class", "target", "y")
# These names have a meaning in ``open_items``.
_RESERVED_NAMES = ("id", "label")
# If other columns are features, texts of at least this mean length are displayed; shorter ones are a field.
_MIN_TEXT_LENGTH = 30.0

Sample = list[tuple[int, Record | BadRowError]]


@dataclass(frozen=True)
class ColumnRoles:
    """The columns that are read from each row.

    ``points`` locates the features; None if they are computed from the texts in the column ``words``.
    """

    id: str | None
    points: PointColumns | None
    feature_names: tuple[str, ...]
    words: str | None
    text: str | None
    fields: tuple[str, ...]
    scaling: Literal["features", "all"]


class ColumnOptions(TypedDict, total=False):
    """The roles of columns that the user specifies; see ``load_items``."""

    id: str | None
    text: str | None
    features: str | Sequence[str] | None
    fields: Sequence[str]


def assign_roles(
    name: str,
    table: Table,
    *,
    id: str | None = None,
    text: str | None = None,
    features: str | Sequence[str] | None = None,
    fields: Sequence[str] = (),
) -> ColumnRoles:
    """Assign roles. Defaults: numbers are features, the longest texts are displayed, all other columns are fields."""
    sample = table.sample(_N_SAMPLED)
    if not sample:
        raise ItemsError(f"{name} has no items; at least 2 are expected")
    samples = {column: _ColumnSample(table, column, sample) for column in table.kinds if column}
    id = column_selection.find_column(name, samples, id, (_ID_COLUMN,), "id", required=False)
    for column, option in ((text, "text"), *((field, "fields") for field in fields)):
        column_selection.find_column(name, samples, column, (), option, required=False)
    free = [column for column in samples if column not in column_selection.explicit_names(id, text, list(fields))]
    chosen = (
        _default_features(name, samples, free) if features is None else _given_features(name, samples, free, features)
    )
    left = [column for column in free if column not in chosen]
    words = chosen[0] if [samples[column].kind for column in chosen] == ["text"] else None
    text = text or words or _longest_texts(samples, left, _MIN_TEXT_LENGTH if chosen else 1)
    words = words or (None if chosen else text)
    if not chosen and words is None:
        raise FileError(
            f"{name} has no columns of features: numbers, a list of numbers, or texts; it has {quote_all(table.kinds)}"
        )
    others = [column for column in left if column != text and samples[column].kind in ("number", "text", "boolean")]
    field_names = [column for column in samples if column in others or column in fields]
    if len(field_names) > MAX_FIELDS:
        raise ItemsError(f"{name} has {len(field_names)} columns besides features; at most {MAX_FIELDS} are accepted")
    points, feature_names = (None, ()) if words is not None else _points(name, table, chosen, samples, sample)
    if reserved := [feature for feature in feature_names if feature in _RESERVED_NAMES]:
        raise FileError(
            f"{name}: a feature cannot be named {quote(reserved[0])}, which has another meaning in tables of items; "
            "rename it"
        )
    for column in (*feature_names, *field_names):
        if len(column) > MAX_NAME_LENGTH:
            raise ItemsError(f"{name}: the name {quote(column)} is longer than {MAX_NAME_LENGTH} characters")
        if not is_storable(column):
            raise ItemsError(f"{name}: the name {quote(column)} contains NUL or a character that is invalid in UTF-8")
    kind: Literal["features", "all"] = "features" if isinstance(points, ScalarColumns) else "all"
    return ColumnRoles(id, points, feature_names, words, text, tuple(field_names), kind)


def _default_features(name: str, samples: dict[str, _ColumnSample], free: list[str]) -> tuple[str, ...]:
    """Return the default columns of features; none if all columns are texts."""
    lists = [column for column in free if samples[column].kind == "list"]
    if len(lists) > 1:
        raise FileError(f"{name} has several columns of lists, {quote_all(lists)}; select one with features=")
    excluded = set(_NOT_FEATURES)
    if "x" in map(str.lower, samples):  # then y is a coordinate
        excluded.remove("y")
    numbers = [column for column in free if samples[column].kind == "number" and column.lower() not in excluded]
    return tuple(lists or numbers)


def _given_features(
    name: str, samples: dict[str, _ColumnSample], free: list[str], features: str | Sequence[str]
) -> tuple[str, ...]:
    if isinstance(features, str) and features not in samples:
        features = [entry.strip() for entry in features.split(",")]
    chosen = column_selection.find_feature_columns(name, samples, features, set(samples) - set(free))
    for column in chosen:
        if samples[column].kind not in ("number", "list") and not (len(chosen) == 1 and samples[column].kind == "text"):
            raise FileError(
                f"{name}: the column {quote(column)} contains {samples[column].example}; features= accepts columns of "
                "numbers, or one column of lists of numbers or of texts"
            )
    return chosen


def _longest_texts(samples: dict[str, _ColumnSample], left: list[str], min_length: float) -> str | None:
    """Return the column with the longest texts, if their mean length is at least ``min_length``."""
    longest = max(left, key=lambda column: samples[column].mean_length, default=None)
    return longest if longest is not None and samples[longest].mean_length >= min_length else None


def _points(
    name: str, table: Table, chosen: tuple[str, ...], samples: dict[str, _ColumnSample], sample: Sample
) -> tuple[PointColumns, tuple[str, ...]]:
    if len(chosen) == 1 and samples[chosen[0]].kind == "list":
        return nested_point_column(name, table, chosen[0], sample, stop=True)
    return ScalarColumns(chosen), chosen


class _ColumnSample:
    """The first values of a column.

    ``kind`` is "number", "text", "boolean", "list" (including objects: named numbers) or "other".
    """

    def __init__(self, table: Table, column: str, sample: Sample) -> None:
        cells = [row.get(column) for _, row in sample if not isinstance(row, BadRowError)]
        self._cells = [cell for cell in cells if cell is not None and cell != ""]
        self.kind = table.kinds[column] if table.typed else self._infer_kind(table)
        if self.kind == "object":
            self.kind = "list"
        self.example = f"{quote(self._cells[0])} in its first row" if self._cells else "nothing"

    def _infer_kind(self, table: Table) -> str:
        """Infer the kind from the cells; if half of them are numbers, the others are errors that reading reports."""
        if not self._cells:
            return "text"
        numbers = sum(table.as_number(cell) is not None for cell in self._cells)
        if 2 * numbers >= len(self._cells):
            return "number"
        first = self._cells[0]
        if isinstance(first, (list, dict)):
            entries = first if isinstance(first, list) else list(first.values())
            return "list" if entries and all(table.as_number(entry) is not None for entry in entries) else "other"
        return "boolean" if isinstance(first, bool) else "text"

    @property
    def mean_length(self) -> float:
        """The mean length of texts; 0 for other kinds."""
        lengths = [len(str(cell)) for cell in self._cells] if self.kind == "text" else []
        return sum(lengths) / max(1, len(lengths))
