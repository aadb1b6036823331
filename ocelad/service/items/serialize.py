"""What is told of items: one of them, a column of all, and how two differ."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import numpy as np

from ocelad.service.items.upload_limits import ItemsError
from ocelad.service.itemset import Field, ItemSet
from ocelad.service.wire import Column, ColumnValues, Difference, Item

#: Of an item that is told of with its features, unless it has more.
MOST_FEATURES_TOLD = 100
# Whole numbers of so few kinds are categories, as classes are.
_FEW_NUMBERS = 20
#: A column of more categories is nothing to colour by.
MOST_CATEGORIES = 200


def item(items: ItemSet, position: int, project: str, with_features: bool = False) -> Item:
    """One item, as it goes over the wire."""
    told = with_features and len(items.feature_names) <= MOST_FEATURES_TOLD
    features = zip(items.feature_names, items.features[position].tolist(), strict=True) if told else ()
    return Item(
        id=items.ids[position],
        position=position,
        text=None if items.text is None else items.text[position],
        picture=None if items.pictures is None else f"/v1/projects/{project}/pictures/{position}",
        features=dict(features),
        fields={name: values[position] for name, values in items.fields.items()},
    )


def columns(items: ItemSet) -> list[Column]:
    """The fields that the page can colour by: numbers, and categories that are not too many."""
    found = []
    for name, values in items.fields.items():
        kind = _kind(values)
        if kind == "number" or 0 < len(_categories(values)) <= MOST_CATEGORIES:
            found.append(Column(name=name, kind=kind))
    return found


def column(items: ItemSet, name: str) -> ColumnValues:
    """A field of all items; one that is not there, or has too many categories, is refused."""
    values = items.fields.get(name)
    if values is None:
        raise ItemsError(f"there is no column {name!r}; there are {', '.join(map(repr, items.fields)) or 'none'}")
    kind = _kind(values)
    if kind == "number":
        numbers = [None if value is None else float(value) for value in values]
        return ColumnValues(name=name, kind=kind, categories=None, values=numbers)
    categories = _categories(values)
    if len(categories) > MOST_CATEGORIES:
        raise ItemsError(
            f"the column {name!r} has {len(categories):,} categories; at most {MOST_CATEGORIES} can be told apart"
        )
    places = {category: float(place) for place, category in enumerate(categories)}
    known = [None if value is None else places[_word(value)] for value in values]
    return ColumnValues(name=name, kind=kind, categories=categories, values=known)


def differences(items: ItemSet, left: int, right: int, most: int = 12) -> list[Difference]:
    """The features in which two items differ most, by the share of the squared difference between the scaled items."""
    u = (items.features[left] - items.features[right]) * items.scaling.factors
    squares = np.square(u)
    total = float(squares.sum())
    shares = squares / total if total else squares
    largest = np.argsort(-shares, kind="stable")[:most]
    return [
        Difference(
            feature=items.feature_names[j],
            left=float(items.features[left, j]),
            right=float(items.features[right, j]),
            share=float(shares[j]),
        )
        for j in largest
        if shares[j] > 0
    ]


def _kind(values: list[Field]) -> Literal["number", "category"]:
    there = {value for value in values if value is not None}
    if not there or any(isinstance(value, (bool, str)) for value in there):
        return "category"
    whole = all(float(value).is_integer() for value in there)
    return "category" if whole and len(there) <= _FEW_NUMBERS else "number"


def _categories(values: list[Field]) -> list[str]:
    """The most frequent first, and those that are equally so by their names."""
    counts = Counter(_word(value) for value in values if value is not None)
    return sorted(counts, key=lambda word: (-counts[word], word))


def _word(value: Field) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
