"""Which column of a table is what: the id, features, a text, a field, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ocelad.files import columns
from ocelad.files.blocks import Table
from ocelad.files.errors import BadRowError, FileError, listed, shown
from ocelad.files.items import nested_points
from ocelad.files.points import Points, Record, Scalars
from ocelad.service.items.limits import MOST_FIELDS, NAME_CHARACTERS, ItemsError

# So many first rows say what a column holds.
_SAMPLE = 1_000
_ID = "id"
# Numbers in columns of these names are what somebody wants to find out, or names, and not what to find it out from.
_NO_FEATURES = ("id", "label", "class", "target", "y")
# A column of texts is shown rather than a field where they are long, or more than so many and half of them differ.
_LONG_TEXT = 30.0
_FEW_TEXTS = 20

Sample = list[tuple[int, Record | BadRowError]]


@dataclass(frozen=True)
class Roles:
    """What is read of each row.

    ``points`` is where the features are; None where they are made from the column ``words``.
    """

    id: str | None
    points: Points | None
    feature_names: tuple[str, ...]
    words: str | None
    text: str | None
    fields: tuple[str, ...]
    scaling: Literal["features", "all"]


def find_roles(
    name: str,
    table: Table,
    *,
    id: str | None,
    text: str | None,
    features: str | Sequence[str] | None,
    fields: Sequence[str],
) -> Roles:
    """Who says nothing gets: numbers as features, the longest texts as text, all else as fields."""
    sample = table.sample(_SAMPLE)
    if not sample:
        raise ItemsError(f"{name} has no items; at least 2 are expected")
    held = {column: _Held(table, column, sample) for column in table.kinds if column}
    id = columns.find(name, held, id, (_ID,), "id", needed=False)
    for asked, option in ((text, "text"), *((field, "fields") for field in fields)):
        columns.find(name, held, asked, (), option, needed=False)
    named = columns.named(id, text, list(fields))
    free = {column: kind.kind for column, kind in held.items() if column not in named}
    chosen = _chosen(name, free, features, list(held), named)
    if len(chosen) == 1 and held[chosen[0]].kind == "text":
        words: str | None = chosen[0]
        text = text or words
    else:
        words = None
        for column in chosen:
            if features is not None and held[column].kind not in ("number", "list"):
                raise FileError(
                    f"{name}: the column {shown(column)} holds {held[column].example}; numbers are expected in "
                    "features=, or one column of lists of numbers, or of texts"
                )
    left = [column for column in free if column not in chosen and free[column] in ("number", "text", "flag", "list")]
    texts = {column: held[column].mean_length for column in left if held[column].is_text}
    if text is None and texts:
        text = max(texts, key=lambda column: texts[column])
    if not chosen:
        words = text
    if not chosen and words is None:
        raise FileError(
            f"{name} has no columns of features: numbers, a list of numbers, or texts; it has {listed(table.kinds)}"
        )
    other = [column for column in table.kinds if column in fields or (column in left and column != text)]
    told = tuple(column for column in other if held[column].kind != "list")
    if len(told) > MOST_FIELDS:
        raise ItemsError(f"{name} has {len(told)} columns that are no features; at most {MOST_FIELDS} are accepted")
    points, feature_names = (None, ()) if words is not None else _points(name, table, chosen, held, sample)
    for column in (*feature_names, *told):
        if len(column) > NAME_CHARACTERS:
            raise ItemsError(f"{name}: the name {shown(column)} is longer than {NAME_CHARACTERS} characters")
    return Roles(id, points, feature_names, words, text, told, "features" if isinstance(points, Scalars) else "all")


def _chosen(
    name: str, free: dict[str, str], features: str | Sequence[str] | None, every: list[str], named: set[str]
) -> tuple[str, ...]:
    """The columns that features are made of; none where nobody says and there are only texts."""
    if features is not None:
        chosen = columns.find_features(name, every, features, named)
        for column in chosen:
            if column in _NO_FEATURES[:2]:
                raise FileError(
                    f"{name}: a feature cannot be called {shown(column)}, which is another thing in tables of items; "
                    "give the column another name"
                )
        return chosen
    lists = [column for column, kind in free.items() if kind == "list"]
    if len(lists) > 1:
        raise FileError(f"{name} has several columns of lists, {listed(lists)}; say which one with features=")
    if lists:
        return tuple(lists)
    return tuple(column for column, kind in free.items() if kind == "number" and column.lower() not in _NO_FEATURES)


def _points(
    name: str, table: Table, chosen: tuple[str, ...], held: dict[str, _Held], sample: Sample
) -> tuple[Points, tuple[str, ...]]:
    if len(chosen) == 1 and held[chosen[0]].kind == "list":
        return nested_points(name, table, chosen[0], sample, stop=True)
    return Scalars(chosen), chosen


class _Held:
    """What a column holds in its first rows.

    ``kind`` is "number", "text", "flag", "list" (also of objects: numbers with names) or "other".
    """

    def __init__(self, table: Table, column: str, sample: Sample) -> None:
        cells = [row.get(column) for _, row in sample if not isinstance(row, BadRowError)]
        self._cells = [cell for cell in cells if cell is not None and cell != ""]
        self.kind = table.kinds[column] if table.typed else self._found(table)
        if self.kind == "object":
            self.kind = "list"
        self.example = f"{shown(self._cells[0])} in its first row" if self._cells else "nothing"

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
        return "flag" if isinstance(first, bool) else "text"

    @property
    def mean_length(self) -> float:
        return sum(len(str(cell)) for cell in self._cells) / max(1, len(self._cells))

    @property
    def is_text(self) -> bool:
        """Whether it holds texts to be shown, rather than a few words that come again and again."""
        if self.kind != "text" or not self._cells:
            return False
        distinct = len(set(map(str, self._cells)))
        return self.mean_length >= _LONG_TEXT or distinct > max(_FEW_TEXTS, len(self._cells) / 2)
