"""The positions of items that a file names by id, or by the values of their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from ocelad.io.tabular import cells
from ocelad.service.itemset import ItemSet
from ocelad.service.labelled_pairs.item_records import ID, ID_COLUMNS, column_readers, text_column
from ocelad.service.labelled_pairs.labelled_pair import ItemReference

# Splink joins the name of a table and an id by this to an id that is unique in all tables.
_DATASET_JOINER = "-__-"
# The largest number of sets of columns that records may have: each has an index of all items.
_MAX_INDEXES = 8


class ItemLookup:
    """Finds items.

    An item is found by its id. A record without a known id is compared with the columns of the items that both have:
    exactly one item must agree in all of them. Texts are compared without case and spaces around them, because other
    programs remove these before they compare records.

    Parameters
    ----------
    items : ItemSet
    id_column : str or None
        The column of a record that holds the id; None: that of the items' file, or one of the usual names.
    """

    def __init__(self, items: ItemSet, id_column: str | None = None) -> None:
        self._items, self._id_column = items, id_column
        self._positions = {id: position for position, id in enumerate(items.ids)}
        self._indexes: dict[tuple[str, ...], dict[tuple[Any, ...], list[int]]] = {}

    def find(self, reference: ItemReference) -> int | None:
        """Return the position of an item; None if it is unknown, or if several items agree with the record."""
        if reference.id is not None:
            if reference.dataset is not None:
                joined = self._positions.get(f"{reference.dataset}{_DATASET_JOINER}{reference.id}")
                if joined is not None:
                    return joined
            return self._positions.get(reference.id)
        record = reference.record or {}
        by_id = self._find_by_id(record)
        return self._find_by_columns(record) if by_id is None and self._id_column is None else by_id

    def _find_by_id(self, record: Mapping[str, Any]) -> int | None:
        usual = (ID, self._items.source_columns.get("id", ID), *ID_COLUMNS)
        names = usual if self._id_column is None else (self._id_column,)
        lower = {name.casefold(): name for name in record}
        for name in names:
            column = name if name in record else lower.get(name.casefold())
            id = None if column is None else cells.normalize_id(record[column])
            position = None if id is None else self._positions.get(id)
            if position is not None and (name in (ID, self._id_column) or self._agrees(record, position)):
                return position
        return None

    def _agrees(self, record: Mapping[str, Any], position: int) -> bool:
        """Return whether a record and an item agree in a column, if they share one.

        If not, the column of ids is another one: numbers of rows, for example, are ids of many tables.
        """
        shared = [(read(position), record[name]) for name, read in self._readers.items() if name in record]
        return not shared or any(_normalize(own) == _normalize(given) for own, given in shared)

    def _find_by_columns(self, record: Mapping[str, Any]) -> int | None:
        shared = tuple(name for name in self._readers if name in record)
        found: Iterable[int]
        text = text_column(self._items)
        if text is not None and text not in shared:  # the file may have another name for the column of texts
            values = {_normalize(value) for name, value in record.items() if name not in shared}
            found = {position for value in values for position in self._by_text.get(value, ())}
            readers = [(self._readers[name], _normalize(record[name])) for name in shared]
            found = [p for p in found if all(_normalize(read(p)) == value for read, value in readers)]
        elif shared:
            found = self._index(shared).get(tuple(_normalize(record[name]) for name in shared), ())
        else:
            return None
        first, *more = (*found, None)
        return first if len(more) <= 1 else None

    @cached_property
    def _readers(self) -> dict[str, Callable[[int], Any]]:
        return column_readers(self._items)

    @cached_property
    def _by_text(self) -> dict[Any, list[int]]:
        index: dict[Any, list[int]] = {}
        for position, text in enumerate(self._items.text or ()):
            index.setdefault(_normalize(text), []).append(position)
        index.pop(None, None)
        return index

    def _index(self, names: tuple[str, ...]) -> dict[tuple[Any, ...], list[int]]:
        if names not in self._indexes:
            if len(self._indexes) == _MAX_INDEXES:
                return {}
            index: dict[tuple[Any, ...], list[int]] = {}
            readers = [self._readers[name] for name in names]
            for position in range(len(self._items)):
                index.setdefault(tuple(_normalize(read(position)) for read in readers), []).append(position)
            self._indexes[names] = index
        return self._indexes[names]


def _normalize(value: Any) -> Any:
    """Return a value for comparison: numbers as numbers, texts without case and outer spaces, empty ones as None.

    >>> [_normalize(value) for value in (" Bob ", "", "1.0", 1, True, None)]
    ['bob', None, 1.0, 1.0, True, None]
    """
    if isinstance(value, str):
        text = value.strip().casefold()
        number = cells.parse_number(text)
        return (text or None) if number is None else number
    if value is None or isinstance(value, bool):
        return value
    number = cells.to_number(value)
    return repr(value) if number is None else number
