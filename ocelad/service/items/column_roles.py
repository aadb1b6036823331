"""The roles of a table's columns: id, features, text, picture, field, or none."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from ocelad.io.item_files import excluded_columns, nested_point_column
from ocelad.io.tabular import column_selection
from ocelad.io.tabular.column_samples import ColumnSample, Sample, default_features
from ocelad.io.tabular.file_errors import FileError, quote, quote_all
from ocelad.io.tabular.point_columns import PointColumns, ScalarColumns
from ocelad.io.tabular.record_blocks import Table
from ocelad.service.items.column_names import PICTURES, TITLES, find_named
from ocelad.service.items.picture_cells import has_pictures
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

    ``points`` locates the features; None if they are computed from the texts in the column ``words`` or, without
    words, from the pictures.
    """

    id: str | None
    points: PointColumns | None
    feature_names: tuple[str, ...]
    words: str | None
    text: str | None
    fields: tuple[str, ...]
    scaling: Literal["features", "all"]
    picture: str | None = None


class ColumnOptions(TypedDict, total=False):
    """The roles of columns that the user specifies; see ``load_items``."""

    id: str | None
    title: str | None
    text: str | None
    picture: str | None
    features: str | Sequence[str] | None
    fields: Sequence[str]
    exclude: str | Sequence[str]


def assign_roles(
    name: str,
    table: Table,
    *,
    id: str | None = None,
    title: str | None = None,
    text: str | None = None,
    picture: str | None = None,
    features: str | Sequence[str] | None = None,
    fields: Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    reads_paths: bool = False,
) -> ColumnRoles:
    """Assign roles. Defaults: numbers are features, the longest texts are displayed, all other columns are fields.

    Excluded columns are fields, too: they are not learned from. The column that names an item is a field, whose texts
    are not displayed a second time. With ``reads_paths``, paths of pictures are pictures.
    """
    sample = table.sample(_N_SAMPLED)
    if not sample:
        raise ItemsError(f"{name} has no items; at least 2 are expected")
    samples = {column: ColumnSample(table, column, sample) for column in table.kinds if column}
    ids = (_ID_COLUMN, "ids") if table.format == "npz" else (_ID_COLUMN,)
    id = column_selection.find_column(name, samples, id, ids, "id", required=False)
    chosen_fields = [(field, "fields") for field in fields]
    for column, option in ((title, "title"), (text, "text"), (picture, "picture"), *chosen_fields):
        column_selection.find_column(name, samples, column, (), option, required=False)
    excluded = excluded_columns(name, table.kinds, exclude)
    taken = {*column_selection.explicit_names(id, text, list(fields)), *excluded}
    picture = _picture_column(name, samples, picture, taken, reads_paths)
    named = taken if picture is None else {*taken, picture}
    free = [column for column in samples if column not in named]
    chosen = (
        _default_features(name, samples, free) if features is None else _given_features(name, samples, free, features)
    )
    left = [column for column in free if column not in chosen]
    words = chosen[0] if [samples[column].kind for column in chosen] == ["text"] else None
    if text is None and words is None:
        min_length = _MIN_TEXT_LENGTH if chosen else 1
        names_items = title or find_named(TITLES, (column for column in left if samples[column].kind == "text"))
        text = _longest_texts(samples, [column for column in left if column != names_items], min_length)
        if text is None and not chosen and names_items in left:  # the only texts, whose words are the features
            text = names_items
    text = text or words
    words = words or (None if chosen or picture is not None else text)
    if not chosen and words is None and picture is None:
        raise FileError(
            f"{name} has no columns of features: numbers, a list of numbers, texts or pictures; it has "
            f"{quote_all(table.kinds)}"
        )
    others = [
        column
        for column in (*left, *excluded)
        if column not in (id, text, picture) and samples[column].kind in ("number", "text", "boolean")
    ]
    field_names = [column for column in samples if column in others or column in fields]
    if len(field_names) > MAX_FIELDS:
        raise ItemsError(f"{name} has {len(field_names)} columns besides features; at most {MAX_FIELDS} are accepted")
    points, feature_names = (
        (None, ()) if words is not None or not chosen else _points(name, table, chosen, samples, sample)
    )
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
        if column in (".", ".."):
            raise ItemsError(f"{name}: a column cannot be named {quote(column)}, which has another meaning in URLs")
    kind: Literal["features", "all"] = "features" if isinstance(points, ScalarColumns) else "all"
    return ColumnRoles(id, points, feature_names, words, text, tuple(field_names), kind, picture)


def _picture_column(
    name: str, samples: dict[str, ColumnSample], picture: str | None, taken: Collection[str], reads_paths: bool
) -> str | None:
    """Return the column of pictures: the given one, or the first one that has pictures and a name that says so."""
    if picture is not None:
        if not has_pictures(samples[picture], reads_paths):
            raise FileError(
                f"{name}: the column {quote(picture)} contains {samples[picture].example}; picture= accepts the bytes "
                "of a PNG, JPEG, GIF, WebP or BMP file, or base64 of them"
                + (", or paths relative to the table" if reads_paths else "")
            )
        return picture
    found = [column for column, sample in samples.items() if column not in taken and has_pictures(sample, reads_paths)]
    # Bytes are nothing else; texts may be, so that their name decides.
    return find_named(PICTURES, found) or next((column for column in found if samples[column].kind == "bytes"), None)


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
