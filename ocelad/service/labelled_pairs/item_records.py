"""Items as records of other programs: the id and the columns by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ocelad.service.itemset import ItemSet

#: Columns of these programs, and of ours: what an export adds to the columns of an item.
ID, SEQ, PERSON = "ocelad_id", "ocelad_seq", "ocelad_person"
#: Columns that hold the id of an item in the files of other programs, the most certain first.
ID_COLUMNS = ("id", "_id", "unique_id", "record_id", "rec_id", "recid", "uid")
_RESERVED = (ID, SEQ, PERSON, "z_cluster", "z_ismatch")
# Features of items with more are not written.
MAX_FEATURES = 100


def column_names(items: ItemSet) -> list[str]:
    """Return the names of the columns of a record besides the id: fields, the text, and features if they are few."""
    features = items.feature_names if len(items.feature_names) <= MAX_FEATURES else ()
    text = text_column(items)
    names = [*items.fields, *([] if text is None else [text]), *features]
    return [name for name in dict.fromkeys(names) if name.casefold() not in _RESERVED]


def id_column(items: ItemSet) -> str:
    """Return the name of the column of ids: that of the items' file or "id", unless another column has this name."""
    name = items.source_columns.get("id", "id")
    taken = [*map(str.casefold, column_names(items)), *_RESERVED]
    return ID if name.casefold() in taken else name


def text_column(items: ItemSet) -> str | None:
    """Return the name of the column of texts: that of the items' file or "text"; None if there are no texts."""
    return None if items.text is None else items.source_columns.get("text", "text")


def column_readers(items: ItemSet) -> dict[str, Callable[[int], Any]]:
    """Return functions of the position of an item, one for each column."""
    features = {name: i for i, name in enumerate(items.feature_names)}
    text = text_column(items)

    def reader(name: str) -> Callable[[int], Any]:
        if name in items.fields:
            return items.fields[name].__getitem__
        if name == text and items.text is not None:
            return items.text.__getitem__
        column = features[name]
        return lambda position: float(items.features[position, column])

    return {name: reader(name) for name in column_names(items)}


def make_record(items: ItemSet, readers: dict[str, Callable[[int], Any]], position: int) -> dict[str, Any]:
    """Return the record of an item: its id and its columns."""
    return {id_column(items): items.ids[position], **{name: read(position) for name, read in readers.items()}}
