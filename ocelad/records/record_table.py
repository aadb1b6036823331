"""RecordTable: the columns of a table of records, with one notion of a missing value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from ocelad.io import dataframes


@dataclass(frozen=True)
class RecordTable:
    """A table of records.

    Attributes
    ----------
    columns : dict of str to list
        The values of each column, without the ids; None: missing.
    ids : list
        The id of each record; its row number, counted from 0, if the table has no ids.
    has_ids : bool
        Whether the ids came with the table.
    """

    columns: dict[str, list[Any]]
    ids: list[Any]
    has_ids: bool = True

    def __len__(self) -> int:
        return len(self.ids)

    def record(self, row: int) -> dict[str, Any]:
        """Return the values of a row by column."""
        return {name: values[row] for name, values in self.columns.items()}

    def digest(self) -> str:
        """Return the SHA-256 digest of the content, by which a saved state finds that a table has changed."""
        content = sha256(repr(list(self.columns)).encode())
        for values in (self.ids, *self.columns.values()):
            content.update("\x1f".join(map(repr, values)).encode(errors="surrogatepass"))
        return content.hexdigest()


def read_table(value: Any, name: str, id: str | None = None, *, places: Sequence[str] | None = None) -> RecordTable:
    """Return a dataframe, or a mapping from columns to sequences, as a ``RecordTable``.

    Parameters
    ----------
    value : RecordTable, dataframe or mapping
        A dataframe of pandas, polars, Arrow or another library that narwhals supports.
    name : str
        How error messages name the table.
    id : str or None
        The column of ids; None: "id", if there is such a column.
    places : sequence of str or None
        How error messages name each row, such as "line 2"; None: "row 0", "row 1", ...

    Examples
    --------
    >>> table = read_table({"id": ["a", "b"], "name": ["Ann", " "]}, "left")
    >>> table.ids, table.columns
    (['a', 'b'], {'name': ['Ann', None]})
    """
    if isinstance(value, RecordTable):
        return value
    columns = dataframes.to_columns(value)
    if columns is None:
        if not isinstance(value, Mapping) or not all(_is_column(column) for column in value.values()):
            raise TypeError(
                f"{name} has the type {type(value).__name__}; accepted: a dataframe, or a mapping from columns to lists"
            )
        columns = {str(column): list(values) for column, values in value.items()}
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise ValueError(f"{name} has columns of different lengths, {sorted(lengths)}; accepted: equal lengths")
    if not lengths or lengths == {0}:
        raise ValueError(f"{name} has no rows; accepted: a table with at least one record")
    columns = {column: [_to_value(entry) for entry in values] for column, values in columns.items()}
    if id is not None and id not in columns:
        raise ValueError(f"{name} has no column {id!r} of ids; it has {', '.join(map(repr, columns))}")
    ids = columns.pop("id" if id is None else id, None)
    has_ids = ids is not None
    if ids is None:
        ids = list(range(lengths.pop()))
    _check_ids(ids, name, places or [f"row {row}" for row in range(len(ids))])
    if not columns:
        raise ValueError(f"{name} has no column beside its ids; accepted: a table with columns to compare")
    return RecordTable(columns, ids, has_ids)


def _is_column(value: Any) -> bool:
    return (isinstance(value, Sequence) and not isinstance(value, (str, bytes))) or hasattr(value, "__array__")


def _to_value(entry: Any) -> Any:
    """Return an entry of a table; None for empty texts, pandas.NA, and NaN and NaT, which differ from themselves."""
    if isinstance(entry, str):
        return entry if entry.strip() else None
    if entry is None or type(entry).__name__ == "NAType" or entry != entry:
        return None
    value = entry.item() if hasattr(entry, "item") else entry
    # Times in nanoseconds are numbers of them as Python values.
    is_time = isinstance(entry, np.datetime64) and isinstance(value, int)
    return entry.astype("datetime64[us]").item() if is_time else value


def _check_ids(ids: list[Any], name: str, places: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for entry, place in zip(ids, places, strict=True):
        if entry is None:
            raise ValueError(f"{name} has no id in {place}; accepted: an id in every row")
        if str(entry) in seen:
            raise ValueError(
                f"{name} has the id {entry!r} twice, in {seen[str(entry)]} and {place}; accepted: unique ids"
            )
        seen[str(entry)] = place
