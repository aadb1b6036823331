"""Items in the database: one row each, with the very bits of its features; pictures apart."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from sqlalchemy import Connection, delete, select, update

from ocelad.service.itemset import Field, ItemSet, Scaling
from ocelad.service.store.bulk import insert_rows
from ocelad.service.store.errors import DuplicateItem, Refused
from ocelad.service.store.project_rows import ProjectRow, storable
from ocelad.service.store.tables import items as table
from ocelad.service.store.tables import pictures, projects

# So much is written by one commit at most, so that answers need not wait for all items of a large project.
PIECE_ROWS, PIECE_BYTES = 2000, 8 << 20
# A statement names so many ids at most.
_IDS_AT_ONCE = 500


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


def check_alike(project: ProjectRow, items: ItemSet) -> None:
    """Refuse items that the project's others could not be compared with."""
    known: dict[str, Any] = project.metadata
    if list(items.feature_names) != known["feature_names"]:
        raise Refused(
            f"the items have {len(items.feature_names)} features that are not those of {project.id!r}; "
            f"accepted: its {len(known['feature_names'])}, in their order"
        )
    if items.shown != known["shown"]:
        raise Refused(f"a {items.shown} is shown of the items; of those of {project.id!r} it is {known['shown']}")
    if new := [name for name in items.fields if name not in known["fields"]]:
        raise Refused(f"{project.id!r} has no column {new[0]!r}; accepted: {known['fields']}")


@dataclass(frozen=True)
class Piece:
    """Some of the items that are added: rows of both tables, and how many items the project has with them."""

    number: int
    rows: list[tuple[Any, ...]]
    pictures: list[tuple[Any, ...]]
    n_items: int

    def insert(self, connection: Connection) -> None:
        """Keep them, unseen: they are beyond the items that the project says it has."""
        ids = [row[2] for row in self.rows]
        for start in range(0, len(ids), _IDS_AT_ONCE):
            among = table.c.id.in_(ids[start : start + _IDS_AT_ONCE])
            there = connection.scalar(select(table.c.id).where(table.c.project == self.number, among).limit(1))
            if there is not None:
                raise DuplicateItem(f"there is an item {there!r} in the project already; accepted: new ids")
        insert_rows(connection, table, self.rows)
        insert_rows(connection, pictures, self.pictures)

    def insert_last(self, connection: Connection) -> None:
        """Keep them, and have all be seen."""
        self.insert(connection)
        connection.execute(update(projects).where(projects.c.number == self.number).values(n_items=self.n_items))


def pieces(number: int, names: Sequence[str], n_before: int, items: ItemSet) -> Iterator[Piece]:
    """Checked items, to be appended to those of the project of a number, with fields of these names; at least one."""
    texts = items.text if items.text is not None else [None] * len(items)
    columns = [items.fields.get(name, [None] * len(items)) for name in names]
    rows: list[tuple[Any, ...]] = []
    shown: list[tuple[Any, ...]] = []
    size = 0
    for i, id in enumerate(items.ids):
        features = np.asarray(items.features[i], "<f8").tobytes()
        told = json.dumps([texts[i], *(column[i] for column in columns)])
        picture = b"" if items.pictures is None else items.pictures[i]
        more = len(features) + len(told) + len(picture)
        if rows and (len(rows) == PIECE_ROWS or size + more > PIECE_BYTES):
            yield Piece(number, rows, shown, n_before + i)
            rows, shown, size = [], [], 0
        rows.append((number, n_before + i, id, features, told))
        if items.pictures is not None:
            shown.append((number, n_before + i, picture))
        size += more
    yield Piece(number, rows, shown, n_before + len(items))


def remove_leftovers(connection: Connection) -> None:
    """Remove what was added in part, by somebody who did not come to the end."""
    for number, n_items in connection.execute(select(projects.c.number, projects.c.n_items)).all():
        for each in (table, pictures):
            connection.execute(delete(each).where(each.c.project == number, each.c.position >= n_items))
    connection.execute(delete(projects).where(projects.c.n_items == 0))


def read_items(connection: Connection, project: ProjectRow, picture: Callable[[int], bytes | None]) -> ItemSet:
    """All items of a project; pictures are read when they are asked for."""
    metadata = project.metadata
    chosen = select(table.c.id, table.c.features, table.c.shown).where(table.c.project == project.number)
    chosen = chosen.where(table.c.position < project.n_items)
    rows = connection.execute(chosen.order_by(table.c.position)).all()
    names = tuple(metadata["feature_names"])
    features = np.frombuffer(b"".join(row.features for row in rows), "<f8").reshape(len(rows), len(names))
    shown = [json.loads(row.shown) for row in rows]
    fields: dict[str, list[Field]] = {
        name: [values[i] for values in shown] for i, name in enumerate(metadata["fields"], 1)
    }
    return ItemSet(
        ids=tuple(row.id for row in rows),
        features=features.astype(np.float64),
        feature_names=names,
        scaling=Scaling(metadata["scaling"]["kind"], np.array(metadata["scaling"]["factors"], float)),
        shown=metadata["shown"],
        text=[values[0] for values in shown] if metadata["shown"] == "text" else None,
        pictures=_Pictures(len(rows), picture) if metadata["shown"] == "picture" else None,
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
