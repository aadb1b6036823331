"""Further columns of items, which are not learned from and which the map can be coloured by."""

from __future__ import annotations

from collections import Counter
from typing import Literal, NamedTuple

from ocelad.service.items.upload_limits import ItemsError
from ocelad.service.itemset import FieldValue, ItemSet

# Whole numbers with at most this many distinct values are categories, like class labels.
_MAX_NUMERIC_CATEGORIES = 20
#: A column with more categories cannot colour the map.
MAX_CATEGORIES = 200
ColumnKind = Literal["number", "category"]


class Column(NamedTuple):
    """The name and the kind of a column."""

    name: str
    kind: ColumnKind


class ColumnValues(NamedTuple):
    """A column with one value per item; see ``ocelad.service.wire.ColumnValues``."""

    name: str
    kind: ColumnKind
    categories: list[str] | None
    values: list[float | None]


def list_columns(items: ItemSet) -> list[Column]:
    """Return the columns that the map can be coloured by: numbers, and categories if there are not too many."""
    found = []
    for name, values in items.fields.items():
        kind = _kind(values)
        if kind == "number" or 0 < len(_categories(values)) <= MAX_CATEGORIES:
            found.append(Column(name, kind))
    return found


def column_values(items: ItemSet, name: str) -> ColumnValues:
    """Return a column; raise ItemsError if it does not exist or has too many categories."""
    values = items.fields.get(name)
    if values is None:
        raise ItemsError(f"there is no column {name!r}; accepted: {', '.join(map(repr, items.fields)) or 'none'}")
    kind = _kind(values)
    if kind == "number":
        return ColumnValues(name, kind, None, [None if value is None else float(value) for value in values])
    categories = _categories(values)
    if len(categories) > MAX_CATEGORIES:
        raise ItemsError(
            f"the column {name!r} has {len(categories):,} categories; at most {MAX_CATEGORIES} are accepted"
        )
    indices = {category: float(index) for index, category in enumerate(categories)}
    return ColumnValues(
        name, kind, categories, [None if value is None else indices[_category(value)] for value in values]
    )


def _kind(values: list[FieldValue]) -> ColumnKind:
    distinct = {value for value in values if value is not None}
    if not distinct or any(isinstance(value, (bool, str)) for value in distinct):
        return "category"
    whole = all(float(value).is_integer() for value in distinct)
    return "category" if whole and len(distinct) <= _MAX_NUMERIC_CATEGORIES else "number"


def _categories(values: list[FieldValue]) -> list[str]:
    """Return the categories, the most frequent first; ties are in alphabetical order."""
    counts = Counter(_category(value) for value in values if value is not None)
    return sorted(counts, key=lambda category: (-counts[category], category))


def _category(value: FieldValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
