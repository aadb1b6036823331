"""The roles of a table's columns: id, features, text, field, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from ocelad.io.item_files import excluded_columns, nested_point_column
from ocelad.io.tabular import column_selection
from ocelad.io.tabular.column_samples import ColumnSample, Sample, default_features
from ocelad.io.tabular.file_errors import FileError, quote, quote_all
from ocelad.io.tabular.point_columns import PointColumns, ScalarColumns
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
    exclude: str | Sequence[str]


def assign_roles(
    name: str,
    table: Table,
    *,
    id: str | None = None,
    text: str | None = None,
    features: str | Sequence[str] | None = None,
    fields: Sequence[str] = (),
    exclude: str | Sequence[str] = (),
) -> ColumnRoles:
    """Assign roles. Defaults: numbers are features, the longest texts are displayed, all other columns are fields.

    Excluded columns are fields, too: they are not learned from.
    """
    sample = table.sample(_N_SAMPLED)
    if not sample:
        raise ItemsError(f"{name} has no items; at least 2 are expected")
    samples = {column: ColumnSample(table, column, sample) for column in table.kinds if column}
    ids = (_ID_COLUMN, "ids") if table.format == "npz" else (_ID_COLUMN,)
    id = column_selection.find_column(name, samples, id, ids, "id", required=False)
    for column, option in ((text, "text"), *((field, "fields") for field in fields)):
        column_selection.find_column(name, samples, column, (), option, required=False)
    excluded = excluded_columns(name, table.kinds, exclude)
    named = {*column_selection.explicit_names(id, text, list(fields)), *excluded}
    free = [column for column in samples if column not in named]
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
    others = [
        column
        for column in (*left, *excluded)
        if column not in (id, text) and samples[column].kind in ("number", "text", "boolean")
    ]
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


def _default_features(name: str, samples: dict[str, ColumnSample], free: list[str]) -> tuple[str, ...]:
    """Return the default columns of features; none if all columns are texts."""
    excluded = set(_NOT_FEATURES)
    if "x" in map(str.lower, samples):  # then y is a coordinate
        excluded.remove("y")
    return default_features(name, samples, free, excluded)


def _given_features(
    name: str, samples: dict[str, ColumnSample], free: list[str], features: str | Sequence[str]
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


def _longest_texts(samples: dict[str, ColumnSample], left: list[str], min_length: float) -> str | None:
    """Return the column with the longest texts, if their mean length is at least ``min_length``."""
    longest = max(left, key=lambda column: samples[column].mean_length, default=None)
    return longest if longest is not None and samples[longest].mean_length >= min_length else None


def _points(
    name: str, table: Table, chosen: tuple[str, ...], samples: dict[str, ColumnSample], sample: Sample
) -> tuple[PointColumns, tuple[str, ...]]:
    if len(chosen) == 1 and samples[chosen[0]].kind == "list":
        return nested_point_column(name, table, chosen[0], sample, stop=True)
    return ScalarColumns(chosen), chosen
