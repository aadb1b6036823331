"""Items in the database: one row each, with the very bits of its features; pictures apart."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np
from sqlalchemy import Connection, select

from ocelad.service.itemset import Field, ItemSet, Scaling
from ocelad.service.store.bulk import insert_rows
from ocelad.service.store.errors import DuplicateItem, Refused
from ocelad.service.store.rows import ProjectRow, storable
from ocelad.service.store.tables import items as table
from ocelad.service.store.tables import pictures

# Rows are made and ids looked up this many at a time, to bound memory and the length of a statement.
_AT_ONCE = 500


def check_items(items: ItemSet) -> None:
    """Refuse what could not be read back: ids that are there twice, columns that are too long or too short."""
    for i, id in enumerate(items.ids):
        storable(id, f"the id of item {i}", at_least=1)
    for id, count in Counter(items.ids).most_common(1):
        if count > 1:
            raise DuplicateItem(f"the id {id!r} is there {count} times; accepted: each once")
    shape = len(items.ids), len(items.feature_names)
    if items.features.shape != shape or not np.isfinite(items.features).all():
        raise Refused(f"features have shape {items.features.shape}; accepted: finite numbers of shape {shape}")
    if items.shown != "features" and (items.text if items.shown == "text" else items.pictures) is None:
        raise Refused(f"a {items.shown} is shown of each item, and there are none")
    for name, column in [("text", items.text), ("pictures", items.pictures), *items.fields.items()]:
        if column is not None and len(column) != len(items.ids):
            raise Refused(f"{name!r} has {len(column)} values for {len(items.ids)} items; accepted: one each")


def insert_items(connection: Connection, project: ProjectRow, items: ItemSet) -> int:
    """Append checked items to those of a project; how many they are then."""
    _check_alike(project, items)
    number, n_before = project.number, project.n_items
    texts = items.text if items.text is not None else [None] * len(items)
    columns = [items.fields.get(name, [None] * len(items)) for name in project.about["fields"]]
    for start in range(0, len(items), _AT_ONCE):
        chosen = range(start, min(start + _AT_ONCE, len(items)))
        ids = [items.ids[i] for i in chosen]
        known = select(table.c.id).where(table.c.project == number, table.c.id.in_(ids)).limit(1)
        if n_before and (there := connection.scalar(known)) is not None:
            raise DuplicateItem(f"there is an item {there!r} in {project.id!r} already; accepted: new ids")
        rows = [
            (
                number,
                n_before + i,
                items.ids[i],
                np.asarray(items.features[i], "<f8").tobytes(),
                json.dumps([texts[i], *(column[i] for column in columns)]),
            )
            for i in chosen
        ]
        insert_rows(connection, table, rows)
        if items.pictures is not None:
            insert_rows(connection, pictures, [(number, n_before + i, items.pictures[i]) for i in chosen])
    return n_before + len(items)


def read_items(connection: Connection, project: ProjectRow, picture: Callable[[int], bytes | None]) -> ItemSet:
    """All items of a project; pictures are read when they are asked for."""
    about = project.about
    chosen = select(table.c.id, table.c.features, table.c.shown).where(table.c.project == project.number)
    rows = connection.execute(chosen.order_by(table.c.position)).all()
    names = tuple(about["feature_names"])
    features = np.frombuffer(b"".join(row.features for row in rows), "<f8").reshape(len(rows), len(names))
    shown = [json.loads(row.shown) for row in rows]
    fields: dict[str, list[Field]] = {
        name: [values[i] for values in shown] for i, name in enumerate(about["fields"], 1)
    }
    return ItemSet(
        ids=tuple(row.id for row in rows),
        features=features.astype(np.float64),
        feature_names=names,
        scaling=Scaling(about["scaling"]["kind"], np.array(about["scaling"]["factors"], float)),
        shown=about["shown"],
        text=[values[0] for values in shown] if about["shown"] == "text" else None,
        pictures=_Pictures(len(rows), picture) if about["shown"] == "picture" else None,
        fields=fields,
    )


def read_picture(connection: Connection, number: int, position: int) -> bytes | None:
    """The PNG of an item, or None where there is none."""
    png = connection.scalar(select(pictures.c.png).where(pictures.c.project == number, pictures.c.position == position))
    return None if png is None else bytes(png)


class _Pictures(Sequence[bytes]):
    """Pictures that stay in the database until one is asked for."""

    def __init__(self, n: int, read: Callable[[int], bytes | None]) -> None:
        self._n = n
        self._read = read

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, position: int) -> bytes: ...
    @overload
    def __getitem__(self, position: slice) -> list[bytes]: ...
    def __getitem__(self, position: int | slice) -> bytes | list[bytes]:
        if isinstance(position, slice):
            return [self[i] for i in range(*position.indices(self._n))]
        if not -self._n <= position < self._n:
            raise IndexError(f"no picture {position}; there are {self._n}")
        return self._read(position % self._n) or b""

    def __iter__(self) -> Iterator[bytes]:
        return (self[i] for i in range(self._n))


def _check_alike(project: ProjectRow, items: ItemSet) -> None:
    """Refuse items that the project's others could not be compared with."""
    known: dict[str, Any] = project.about
    if list(items.feature_names) != known["feature_names"]:
        raise Refused(
            f"the items have {len(items.feature_names)} features that are not those of {project.id!r}; "
            f"accepted: its {len(known['feature_names'])}, in their order"
        )
    if items.shown != known["shown"]:
        raise Refused(f"a {items.shown} is shown of the items; of those of {project.id!r} it is {known['shown']}")
    if new := [name for name in items.fields if name not in known["fields"]]:
        raise Refused(f"{project.id!r} has no column {new[0]!r}; accepted: {known['fields']}")
