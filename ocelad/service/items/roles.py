"""Which column of a table is what: the id, features, a text, a field, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from ocelad.io.item_files import nested_point_column
from ocelad.io.tabular import column_selection
from ocelad.io.tabular.file_errors import BadRowError, FileError, quote, quote_all
from ocelad.io.tabular.point_columns import PointColumns, Record, ScalarColumns
from ocelad.io.tabular.record_blocks import Table
from ocelad.service.items.upload_limits import MOST_FIELDS, NAME_CHARACTERS, ItemsError, is_plain

# So many first rows say what a column holds.
_SAMPLE = 1_000
_ID = "id"
# Numbers in columns of these names are what somebody wants to find out, or names, and not what to find it out from.
_NO_FEATURES = ("id", "label", "class", "target", "y")
# What ``open_items`` takes columns of these names for.
_NAMES_TAKEN = ("id", "label")
# Beside features, a column of texts is shown where they have so many characters on average; shorter ones are a field.
_LONG_TEXT = 30.0

Sample = list[tuple[int, Record | BadRowError]]


@dataclass(frozen=True)
class Roles:
    """What is read of each row.

    ``points`` is where the features are; None where they are made from the column ``words``.
    """

    id: str | None
    points: PointColumns | None
    feature_names: tuple[str, ...]
    words: str | None
    text: str | None
    fields: tuple[str, ...]
    scaling: Literal["features", "all"]


class Columns(TypedDict, total=False):
    """Which column is what, as far as somebody says it; in the words of ``read_items``."""

    id: str | None
    text: str | None
    features: str | Sequence[str] | None
    fields: Sequence[str]


def find_roles(
    name: str,
    table: Table,
    *,
    id: str | None = None,
    text: str | None = None,
    features: str | Sequence[str] | None = None,
    fields: Sequence[str] = (),
) -> Roles:
    """Who says nothing gets: numbers as features, the longest texts as text, all else as fields."""
    sample = table.sample(_SAMPLE)
    if not sample:
        raise ItemsError(f"{name} has no items; at least 2 are expected")
    held = {column: _Held(table, column, sample) for column in table.kinds if column}
    id = column_selection.find_column(name, held, id, (_ID,), "id", required=False)
    for asked, option in ((text, "text"), *((field, "fields") for field in fields)):
        column_selection.find_column(name, held, asked, (), option, required=False)
    free = [column for column in held if column not in column_selection.explicit_names(id, text, list(fields))]
    chosen = _features(name, held, free) if features is None else _asked_features(name, held, free, features)
    left = [column for column in free if column not in chosen]
    words = chosen[0] if [held[column].kind for column in chosen] == ["text"] else None
    text = text or words or _longest(held, left, _LONG_TEXT if chosen else 1)
    words = words or (None if chosen else text)
    if not chosen and words is None:
        raise FileError(
            f"{name} has no columns of features: numbers, a list of numbers, or texts; it has {quote_all(table.kinds)}"
        )
    told = [column for column in left if column != text and held[column].kind in ("number", "text", "boolean")]
    told = [column for column in held if column in told or column in fields]
    if len(told) > MOST_FIELDS:
        raise ItemsError(f"{name} has {len(told)} columns that are no features; at most {MOST_FIELDS} are accepted")
    points, feature_names = (None, ()) if words is not None else _points(name, table, chosen, held, sample)
    if taken := [feature for feature in feature_names if feature in _NAMES_TAKEN]:
        raise FileError(
            f"{name}: a feature cannot be called {quote(taken[0])}, which is another thing in tables of items; "
            "give it another name"
        )
    for column in (*feature_names, *told):
        if len(column) > NAME_CHARACTERS:
            raise ItemsError(f"{name}: the name {quote(column)} is longer than {NAME_CHARACTERS} characters")
        if not is_plain(column):
            raise ItemsError(f"{name}: the name {quote(column)} holds a character that is none in UTF-8, or a zero")
    kind: Literal["features", "all"] = "features" if isinstance(points, ScalarColumns) else "all"
    return Roles(id, points, feature_names, words, text, tuple(told), kind)


def _features(name: str, held: dict[str, _Held], free: list[str]) -> tuple[str, ...]:
    """The columns that features are made of where nobody says; none where there are only texts."""
    lists = [column for column in free if held[column].kind == "list"]
    if len(lists) > 1:
        raise FileError(f"{name} has several columns of lists, {quote_all(lists)}; say which one with features=")
    no_features = set(_NO_FEATURES)
    if "x" in map(str.lower, held):  # then y is where something lies
        no_features.remove("y")
    numbers = [column for column in free if held[column].kind == "number" and column.lower() not in no_features]
    return tuple(lists or numbers)


def _asked_features(
    name: str, held: dict[str, _Held], free: list[str], features: str | Sequence[str]
) -> tuple[str, ...]:
    if isinstance(features, str) and features not in held:
        features = [entry.strip() for entry in features.split(",")]
    chosen = column_selection.find_feature_columns(name, held, features, set(held) - set(free))
    for column in chosen:
        if held[column].kind not in ("number", "list") and not (len(chosen) == 1 and held[column].kind == "text"):
            raise FileError(
                f"{name}: the column {quote(column)} holds {held[column].example}; numbers are expected in features=, "
                "or one column of lists of numbers, or of texts"
            )
    return chosen


def _longest(held: dict[str, _Held], left: list[str], at_least: float) -> str | None:
    """The column with the longest texts, where they are long enough."""
    longest = max(left, key=lambda column: held[column].mean_length, default=None)
    return longest if longest is not None and held[longest].mean_length >= at_least else None


def _points(
    name: str, table: Table, chosen: tuple[str, ...], held: dict[str, _Held], sample: Sample
) -> tuple[PointColumns, tuple[str, ...]]:
    if len(chosen) == 1 and held[chosen[0]].kind == "list":
        return nested_point_column(name, table, chosen[0], sample, stop=True)
    return ScalarColumns(chosen), chosen


class _Held:
    """What a column holds in its first rows.

    ``kind`` is "number", "text", "boolean", "list" (also of objects: numbers with names) or "other".
    """

    def __init__(self, table: Table, column: str, sample: Sample) -> None:
        cells = [row.get(column) for _, row in sample if not isinstance(row, BadRowError)]
        self._cells = [cell for cell in cells if cell is not None and cell != ""]
        self.kind = table.kinds[column] if table.typed else self._found(table)
        if self.kind == "object":
            self.kind = "list"
        self.example = f"{quote(self._cells[0])} in its first row" if self._cells else "nothing"

    def _found(self, table: Table) -> str:
        """By the cells: where half of them are numbers, others are mistakes, which are told of when they are read."""
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
        """Of texts; 0 of all else."""
        texts = [len(str(cell)) for cell in self._cells] if self.kind == "text" else []
        return sum(texts) / max(1, len(texts))
