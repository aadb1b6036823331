"""Validation of items that are appended to a project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ocelad.service.items.item_scaling import MAX_SCALED_RANGE
from ocelad.service.items.upload_limits import (
    MAX_ABS_SINGLE,
    MAX_ABS_VALUE,
    MAX_FIELD_LENGTH,
    MAX_TEXT_LENGTH,
    MAX_VALUES,
    ItemsError,
    UploadLimits,
    id_problem,
    truncate,
)
from ocelad.service.itemset import FieldValue, ItemSet
from ocelad.service.wire import NewItem

# New items may be this many times as far away as the project's own items; beyond, one answer could undo all learning.
_RANGE_FACTOR = 10


def check_new_items(items: ItemSet, new: Sequence[NewItem]) -> ItemSet:
    """Return only the new items, validated and with the scaling of the project; raise ItemsError if any is invalid."""
    if items.display == "picture":
        raise ItemsError("the items of this project are pictures; items without a picture cannot be added")
    limits = UploadLimits(max_values=MAX_VALUES)
    n_items, n_features = len(items) + len(new), items.features.shape[1]
    limits.check("the project with the new items", n_items, n_features, single=items.is_single)
    known = set(items.ids)
    for i, item in enumerate(new):
        if item.id in known:
            raise ItemsError(f"the id {item.id!r} exists already; ids must be unique", f"items.{i}.id")
        if problem := id_problem(item.id):
            raise ItemsError(f"the id {item.id!r} {problem}", f"items.{i}.id")
        known.add(item.id)
        _check(items, item, i)
    return ItemSet(
        ids=tuple(item.id for item in new),
        features=np.array([item.features for item in new], dtype=items.features.dtype).reshape(len(new), -1),
        feature_names=items.feature_names,
        scaling=items.scaling,
        display=items.display,
        text=None if items.text is None else [truncate(item.text or "", MAX_TEXT_LENGTH) for item in new],
        fields={name: [_field_value(item.fields.get(name)) for item in new] for name in items.fields},
    )


def concatenate(items: ItemSet, more: ItemSet, features: npt.NDArray[Any] | None = None) -> ItemSet:
    """Return the items followed by the result of ``check_new_items``; neither has pictures.

    ``features`` are those of all, if they need not be copied: vectors in float32 are mapped into memory.
    """
    return replace(
        items,
        ids=items.ids + more.ids,
        features=np.concatenate([items.features, more.features]) if features is None else features,
        text=None if items.text is None or more.text is None else [*items.text, *more.text],
        fields={name: [*values, *more.fields[name]] for name, values in items.fields.items()},
    )


def _check(items: ItemSet, new: NewItem, i: int) -> None:
    where = f"items.{i}.features"
    n_features = items.features.shape[1]
    if len(new.features) != n_features:
        raise ItemsError(f"the item {new.id!r} has {len(new.features)} features; {n_features} are expected", where)
    point = np.array(new.features)
    largest = MAX_ABS_SINGLE if items.is_single else MAX_ABS_VALUE
    if not (np.abs(point) <= largest).all():
        raise ItemsError(f"the item {new.id!r} has a feature beyond {largest:g} or not a number", where)
    distances = np.abs(point - items.features[0]) * items.scaling.factors
    if distances.max() > _RANGE_FACTOR * MAX_SCALED_RANGE:
        name = items.feature_names[int(distances.argmax())]
        raise ItemsError(
            f"the item {new.id!r} is too far from the others in {name!r}: more than "
            f"{_RANGE_FACTOR * MAX_SCALED_RANGE:,.0f} times the spread of the project's items; check its unit",
            where,
        )
    if items.text is None and new.text is not None:
        raise ItemsError(f"the item {new.id!r} has a text; the items of this project have none", f"items.{i}.text")
    if items.text is not None and not new.text:
        raise ItemsError(f"the item {new.id!r} has no text; the items of this project have one", f"items.{i}.text")
    for name, value in new.fields.items():
        if name not in items.fields:
            accepted = ", ".join(map(repr, items.fields)) or "none"
            raise ItemsError(f"there is no field {name!r}; accepted: {accepted}", f"items.{i}.fields")
        expected = next((kind for kind in map(_type_name, items.fields[name]) if kind), "")
        if value is not None and expected and _type_name(value) != expected:
            raise ItemsError(f"the field {name!r} is {value!r}; {expected} is expected", f"items.{i}.fields")


def _type_name(value: Any) -> str:
    if value is None or isinstance(value, str):
        return "" if value is None else "text"
    return "true or false" if isinstance(value, bool) else "a number"


def _field_value(value: FieldValue) -> FieldValue:
    if isinstance(value, str):
        return truncate(value, MAX_FIELD_LENGTH)
    return int(value) if isinstance(value, float) and value.is_integer() else value
