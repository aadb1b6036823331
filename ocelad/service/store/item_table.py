"""Items in the database: one row per item with the exact bits of its features; pictures are in a separate table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from sqlalchemy import Column, Connection, delete, select, update

from ocelad.service.itemset import FieldValue, ItemSet, Scaling
from ocelad.service.store.bulk_insert import bulk_insert
from ocelad.service.store.errors import DuplicateItem, InvalidRequest
from ocelad.service.store.project_table import ProjectRecord, check_text
from ocelad.service.store.tables import items as table
from ocelad.service.store.tables import pictures, projects
from ocelad.service.store.vector_files import KIND, StoredVectors, map_vectors, vector_path

# One commit writes at most this much, so that answers need not wait for all items of a large project.
MAX_BATCH_ROWS, MAX_BATCH_BYTES = 2000, 8 << 20
# The largest number of ids in one statement.
_MAX_IDS = 500


def check_items(items: ItemSet) -> None:
    """Reject items that cannot be stored: duplicate ids, features or columns of the wrong length."""
    for i, id in enumerate(items.ids):
        check_text(id, f"the id of item {i}", min_length=1)
    for id, count in Counter(items.ids).most_common(1):
        if count > 1:
            raise DuplicateItem(f"the id {id!r} occurs {count} times; accepted: unique ids")
    shape = len(items.ids), len(items.feature_names)
    if items.features.shape != shape or not _are_finite(items.features):
        raise InvalidRequest(f"features have shape {items.features.shape}; accepted: finite numbers of shape {shape}")
    if items.display != "features" and (items.text if items.display == "text" else items.pictures) is None:
        raise InvalidRequest(f"the items are displayed as {items.display!r}, but have no {items.display}")
    pictures = [("pictures", items.pictures), ("full_pictures", items.full_pictures)]
    for name, column in [("text", items.text), *pictures, *items.fields.items()]:
        if column is not None and len(column) != len(items.ids):
            raise InvalidRequest(f"{name!r} has {len(column)} values for {len(items.ids)} items; accepted: one each")


def _are_finite(features: npt.NDArray[Any]) -> bool:
    """Return whether all numbers are finite, without an array of as many truth values."""
    return all(
        bool(np.isfinite(features[i : i + MAX_BATCH_ROWS]).all()) for i in range(0, len(features), MAX_BATCH_ROWS)
    )


def check_compatible(project: ProjectRecord, items: ItemSet) -> None:
    """Reject new items whose features, display or fields differ from those of the project."""
    known: dict[str, Any] = project.metadata
    if list(items.feature_names) != known["feature_names"]:
        raise InvalidRequest(
            f"the items have {len(items.feature_names)} features that are not those of {project.id!r}; "
            f"accepted: its {len(known['feature_names'])} features, in their order"
        )
    if items.display != known["shown"] or (items.text is None) == has_text(known):
        raise InvalidRequest(
            f"the items are displayed as {items.display!r}; accepted: {known['shown']!r}, as in {project.id!r}"
        )
    if new := [name for name in items.fields if name not in known["fields"]]:
        raise InvalidRequest(f"{project.id!r} has no column {new[0]!r}; accepted: {known['fields']}")


@dataclass(frozen=True)
class ItemBatch:
    """Some new items: rows of both tables, and the number of items of the project with this batch."""

    project_number: int
    rows: list[tuple[Any, ...]]
    picture_rows: list[tuple[Any, ...]]
    n_items: int

    def insert(self, connection: Connection) -> None:
        """Insert the items. They stay invisible: their positions are not below the project's ``n_items``."""
        ids = [row[2] for row in self.rows]
        for start in range(0, len(ids), _MAX_IDS):
            among = table.c.id.in_(ids[start : start + _MAX_IDS])
            known = connection.scalar(select(table.c.id).where(table.c.project == self.project_number, among).limit(1))
            if known is not None:
                raise DuplicateItem(f"the project has an item {known!r} already; accepted: new ids")
        bulk_insert(connection, table, self.rows)
        bulk_insert(connection, pictures, self.picture_rows)

    def insert_last(self, connection: Connection) -> None:
        """Insert the items of the last batch and make all batches visible."""
        self.insert(connection)
        connection.execute(
            update(projects).where(projects.c.number == self.project_number).values(n_items=self.n_items)
        )


def split_items(number: int, metadata: Mapping[str, Any], n_before: int, items: ItemSet) -> Iterator[ItemBatch]:
    """Yield checked items in batches, at least one.

    Parameters
    ----------
    number : int
        The primary key of the project.
    metadata : mapping
        ``ItemSet.metadata()`` of the project: its fields, in their order, and the type of its features.
    n_before : int
        The number of items that the project has.
    items : ItemSet
        The new items.
    """
    texts = items.text if items.text is not None else [None] * len(items)
    columns = [items.fields.get(name, [None] * len(items)) for name in metadata["fields"]]
    kind = _feature_type(metadata)
    rows: list[tuple[Any, ...]] = []
    picture_rows: list[tuple[Any, ...]] = []
    size = 0
    for i, id in enumerate(items.ids):
        features = np.asarray(items.features[i], kind).tobytes()
        text_and_fields = json.dumps([texts[i], *(column[i] for column in columns)])
        picture = b"" if items.pictures is None else items.pictures[i]
        full = b"" if items.full_pictures is None else items.full_pictures[i]
        row_size = len(features) + len(text_and_fields) + len(picture) + len(full)
        if rows and (len(rows) == MAX_BATCH_ROWS or size + row_size > MAX_BATCH_BYTES):
            yield ItemBatch(number, rows, picture_rows, n_before + i)
            rows, picture_rows, size = [], [], 0
        rows.append((number, n_before + i, id, features, text_and_fields))
        if items.pictures is not None:
            picture_rows.append((number, n_before + i, picture, full or None))
        size += row_size
    yield ItemBatch(number, rows, picture_rows, n_before + len(items))


def delete_incomplete(connection: Connection) -> None:
    """Delete the batches of items whose last batch was never inserted."""
    for number, n_items in connection.execute(select(projects.c.number, projects.c.n_items)).all():
        for each in (table, pictures):
            connection.execute(delete(each).where(each.c.project == number, each.c.position >= n_items))
    connection.execute(delete(projects).where(projects.c.n_items == 0))


def load_items(
    connection: Connection,
    project: ProjectRecord,
    folder: Path,
    load_one: Callable[[int], bytes | None],
    load_full: Callable[[int], bytes | None],
) -> ItemSet:
    """Return all items of a project.

    Parameters
    ----------
    connection : Connection
    project : ProjectRecord
    folder : Path
        The data folder. The vectors of a project with float32 features are in a file there, which is written when it
        does not exist, and are mapped into memory.
    load_one, load_full : callable
        Load a picture, and one in its own size if it is larger, when it is first used.
    """
    metadata = project.metadata
    names, kind = tuple(metadata["feature_names"]), _feature_type(metadata)
    if kind == KIND:
        features: npt.NDArray[Any] = load_vectors(connection, project, folder)
    else:
        rows = b"".join(_load_features(connection, project))
        features = np.frombuffer(rows, kind).reshape(-1, len(names)).astype(np.float64)
    ids: list[str] = []
    texts_and_fields: list[list[Any]] = []
    has_texts = has_text(metadata)
    has_values = bool(metadata["fields"]) or has_texts
    for part in _load_columns(connection, project, table.c.id, *([table.c.shown] if has_values else [])):
        ids += [row[0] for row in part]
        texts_and_fields += [json.loads(row[1]) for row in part] if has_values else []
    fields: dict[str, list[FieldValue]] = {
        name: [values[i] for values in texts_and_fields] for i, name in enumerate(metadata["fields"], 1)
    }
    return ItemSet(
        ids=tuple(ids),
        features=features,
        feature_names=names,
        scaling=Scaling(metadata["scaling"]["kind"], np.array(metadata["scaling"]["factors"], float)),
        display=metadata["shown"],
        text=[values[0] for values in texts_and_fields] if has_texts else None,
        pictures=_LazyPictures(len(ids), load_one) if metadata["shown"] == "picture" else None,
        full_pictures=_LazyPictures(len(ids), load_full) if metadata["shown"] == "picture" else None,
        fields=fields,
        source_columns=dict(metadata.get("columns", {})),
        has_picture=ItemSet.unpack_has_picture(metadata, len(ids)),
    )


def has_text(metadata: Mapping[str, Any]) -> bool:
    """Return whether items have texts, by their metadata."""
    return bool(metadata.get("has_text", metadata["shown"] == "text"))


def load_vectors(connection: Connection, project: ProjectRecord, folder: Path) -> npt.NDArray[np.float32]:
    """Return the features of a project with float32 features, mapped into memory from a file in the data folder."""
    stored = StoredVectors(partial(_load_features, connection, project), partial(_load_one, connection, project))
    n_features = len(project.metadata["feature_names"])
    return map_vectors(vector_path(folder, project), project.n_items, n_features, stored)


def _feature_type(metadata: Mapping[str, Any]) -> np.dtype[Any]:
    """Return the type of the stored features; projects that do not name it have float64."""
    return KIND if metadata.get("dtype") == "float32" else np.dtype("<f8")


def _load_columns(
    connection: Connection, project: ProjectRecord, *columns: Column[Any], first: int = 0
) -> Iterator[Sequence[Any]]:
    """Yield columns of the items from a position on, many rows at once."""
    query = select(*columns).where(table.c.project == project.number)
    query = query.where(table.c.position >= first, table.c.position < project.n_items).order_by(table.c.position)
    yield from connection.execute(query, execution_options={"yield_per": MAX_BATCH_ROWS}).partitions()


def _load_features(connection: Connection, project: ProjectRecord, first: int = 0) -> Iterator[bytes]:
    for part in _load_columns(connection, project, table.c.features, first=first):
        yield b"".join(row[0] for row in part)


def _load_one(connection: Connection, project: ProjectRecord, position: int) -> bytes:
    here = (table.c.project == project.number) & (table.c.position == position)
    return bytes(connection.scalar(select(table.c.features).where(here)) or b"")


def load_picture(connection: Connection, number: int, position: int, full: bool = False) -> bytes | None:
    """Return the PNG of an item, or None if it has no picture; ``full``: in its own size, None if that is the same."""
    column = pictures.c.full_size if full else pictures.c.png
    found = connection.scalar(select(column).where(pictures.c.project == number, pictures.c.position == position))
    return None if found is None else bytes(found)


class _LazyPictures(Sequence[bytes]):
    """A sequence of pictures that are read from the database on access."""

    def __init__(self, n: int, load_one: Callable[[int], bytes | None]) -> None:
        self._n = n
        self._load_one = load_one

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
            raise IndexError(f"picture {position} is out of range; the project has {self._n}")
        return self._load_one(position % self._n) or b""

    def __iter__(self) -> Iterator[bytes]:
        return (self[i] for i in range(self._n))
