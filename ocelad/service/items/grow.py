"""More items for a project that has some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ocelad.service.items.scaling import FARTHEST
from ocelad.service.items.upload_limits import (
    FIELD_CHARACTERS,
    LARGEST_NUMBER,
    MOST_NUMBERS,
    TEXT_CHARACTERS,
    ItemsError,
    Limits,
    cut,
    wrong_with_id,
)
from ocelad.service.itemset import Field, ItemSet
from ocelad.service.wire import NewItem

# So much further than the project's own items new ones may be; beyond, one answer would undo all that was learned.
_FURTHER = 10


def append(items: ItemSet, new: Sequence[NewItem]) -> ItemSet:
    """The new items alone, checked, and scaled as those that are there: all of them, or none."""
    if items.shown == "picture":
        raise ItemsError("the items of this project are pictures; items that are added have none, and are not accepted")
    Limits(numbers=MOST_NUMBERS).check("the project with the new items", len(items) + len(new), items.features.shape[1])
    known = set(items.ids)
    for i, each in enumerate(new):
        if each.id in known:
            raise ItemsError(f"the id {each.id!r} is there already; every item needs an id of its own", f"items.{i}.id")
        if wrong := wrong_with_id(each.id):
            raise ItemsError(f"the id {each.id!r} {wrong}", f"items.{i}.id")
        known.add(each.id)
        _check(items, each, i)
    return ItemSet(
        ids=tuple(each.id for each in new),
        features=np.array([each.features for each in new], dtype=np.float64).reshape(len(new), -1),
        feature_names=items.feature_names,
        scaling=items.scaling,
        shown=items.shown,
        text=None if items.text is None else [cut(each.text or "", TEXT_CHARACTERS) for each in new],
        fields={name: [_field(each.fields.get(name)) for each in new] for name in items.fields},
    )


def joined(items: ItemSet, more: ItemSet) -> ItemSet:
    """The items that are there, then those that ``append`` has made; neither has pictures."""
    return replace(
        items,
        ids=items.ids + more.ids,
        features=np.concatenate([items.features, more.features]),
        text=None if items.text is None or more.text is None else [*items.text, *more.text],
        fields={name: [*values, *more.fields[name]] for name, values in items.fields.items()},
    )


def _check(items: ItemSet, new: NewItem, i: int) -> None:
    where = f"items.{i}.features"
    n_features = items.features.shape[1]
    if len(new.features) != n_features:
        raise ItemsError(f"the item {new.id!r} has {len(new.features)} features; {n_features} are expected", where)
    point = np.array(new.features)
    if not (np.abs(point) <= LARGEST_NUMBER).all():
        raise ItemsError(f"the item {new.id!r} has a feature beyond {LARGEST_NUMBER:g}, or none", where)
    distances = np.abs(point - items.features[0]) * items.scaling.factors
    if distances.max() > _FURTHER * FARTHEST:
        far = items.feature_names[int(distances.argmax())]
        raise ItemsError(
            f"the item {new.id!r} is too far from the others in {far!r}: more than {_FURTHER * FARTHEST:,.0f} times "
            "the spread of the project's items; is it in another unit?",
            where,
        )
    if items.text is None and new.text is not None:
        raise ItemsError(f"the item {new.id!r} has a text; those of this project have none", f"items.{i}.text")
    if items.text is not None and not new.text:
        raise ItemsError(f"the item {new.id!r} has no text; those of this project have one", f"items.{i}.text")
    for name, value in new.fields.items():
        if name not in items.fields:
            there = ", ".join(map(repr, items.fields)) or "none"
            raise ItemsError(f"there is no field {name!r}; there are {there}", f"items.{i}.fields")
        usual = next((kind for kind in map(_type, items.fields[name]) if kind), "")
        if value is not None and usual and _type(value) != usual:
            raise ItemsError(f"the field {name!r} holds {value!r}; {usual} is expected", f"items.{i}.fields")


def _type(value: Any) -> str:
    if value is None or isinstance(value, str):
        return "" if value is None else "text"
    return "true or false" if isinstance(value, bool) else "a number"


def _field(value: Field) -> Field:
    if isinstance(value, str):
        return cut(value, FIELD_CHARACTERS)
    return int(value) if isinstance(value, float) and value.is_integer() else value
