"""Streams of items from files: each row holds an id and a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_choice
from ocelad.io.tabular import cells
from ocelad.io.tabular.column_selection import find_column, find_feature_columns
from ocelad.io.tabular.file_errors import BadRowError, FileError, RowError, quote, quote_all
from ocelad.io.tabular.file_formats import open_table
from ocelad.io.tabular.file_stream import FileStream
from ocelad.io.tabular.point_columns import (
    AsNumber,
    ItemTable,
    ListColumn,
    ObjectColumn,
    PointColumns,
    Record,
    ScalarColumns,
    get_cell,
)
from ocelad.io.tabular.record_blocks import Ints, Selection, Table, Values
from ocelad.io.tabular.sources import Source

_DEFAULT_ID = "id"
# The number of first rows that determine whether a column holds numbers, and the features of a nested column.
_N_SAMPLE_ROWS = 100


@dataclass(frozen=True)
class ItemChunk:
    """Consecutive items of a file.

    Attributes
    ----------
    ids : list
        The ids as in the file; numbers from 0 if the file has no column of ids.
    X : array of shape (m, n_features)
        The points.
    labels : list, or None
        The labels as in the file; None without a column of labels.
    lines : int64 array of shape (m,)
        The line of each row, or its row number in Parquet and Arrow files, counted from 1.
    """

    ids: list[Any]
    X: Floats
    labels: list[Any] | None
    lines: Ints


@dataclass(frozen=True)
class ItemSchema:
    """The conversion of rows to items."""

    points: PointColumns
    id: str | None
    label: str | None

    @property
    def selection(self) -> Selection:
        return Selection((self.points,), tuple(name for name in (self.id, self.label) if name is not None))

    def columns(self, table: Any) -> Values | None:
        X = np.empty((table.num_rows, self.points.width))
        if not self.points.fill(table, X) or not np.isfinite(X).all():
            return None
        ids = labels = None
        try:
            if self.id is not None:
                ids = [cells.normalize_value(entry) for entry in table.column(self.id).to_pylist()]
                if any(cells.normalize_id(entry) is None for entry in ids):
                    return None
            if self.label is not None:
                labels = [cells.normalize_value(entry) for entry in table.column(self.label).to_pylist()]
        except TypeError:
            return None
        return {"X": X, "ids": ids, "labels": labels}

    def row(self, record: Record, as_number: AsNumber) -> Values:
        values: Values = {"X": self.points.point(record, as_number), "ids": None, "labels": None}
        if self.id is not None:
            entry = get_cell(record, self.id)
            cells.require(self.id, entry, cells.normalize_id, "an id is expected: text or a whole number")
            values["ids"] = cells.normalize_value(entry)
        if self.label is not None:
            values["labels"] = cells.require_value(self.label, get_cell(record, self.label))
        return values

    def stack(self, rows: list[Values]) -> Values:
        return {
            "X": np.array([row["X"] for row in rows], dtype=np.float64).reshape(len(rows), self.points.width),
            "ids": None if self.id is None else [row["ids"] for row in rows],
            "labels": None if self.label is None else [row["labels"] for row in rows],
        }


class ItemStream(FileStream[ItemChunk]):
    """The items of a file, in chunks; returned by ``open_items``."""

    @property
    def name(self) -> str:
        """The name of the file in messages."""
        return self._source.name

    @property
    def unit(self) -> str:
        """The unit that ``lines`` counts: "line" or "row"."""
        return self._table.unit

    def _make_chunk(self, values: Values, lines: Ints, numbers: Ints) -> ItemChunk:
        ids = numbers.tolist() if values["ids"] is None else values["ids"]
        return ItemChunk(ids, values["X"], values["labels"], lines)


def open_items(
    source: Any,
    *,
    format: str | None = None,
    id: str = _DEFAULT_ID,
    label: str | bool | None = None,
    features: str | Sequence[str] | None = None,
    on_error: str = "stop",
    skipped: Any = None,
    chunk_size: int = 8192,
) -> ItemStream:
    """Read a table of items from a file in chunks.

    Parameters
    ----------
    source : path, or "-" for standard input
        CSV, TSV, JSON lines (each may be gzipped), Parquet or Arrow IPC.
    format : {"csv", "tsv", "jsonl", "parquet", "arrow"}, optional
        Default: detected from the suffix, or from the first bytes.
    id : str, default "id"
        The column of ids. If the file has no column ``id``, the items are numbered from 0.
    label : str or False, optional
        The column of labels; False: read no labels. Default: ``label``, if the file has it.
    features : str or sequence of str, optional
        The columns of the features, as names or patterns, or one column of lists or objects. Default: all other
        columns.
    on_error, skipped, chunk_size
        As in ``open_comparisons``.

    Returns
    -------
    ItemStream
        An iterator over ``ItemChunk`` objects and a context manager. It can be iterated over once.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "items.csv")
    >>> _ = path.write_text("id,height,width\\na,1,2\\nb,3,4\\n")
    >>> with open_items(path) as stream:
    ...     [(items.ids, items.X.tolist()) for items in stream]
    [(['a', 'b'], [[1.0, 2.0], [3.0, 4.0]])]
    """
    check_choice(on_error, "on_error", ("stop", "skip"))
    opened = Source(source)
    try:
        stop = on_error == "stop"
        table = open_table(opened, format, stop)
        requested = None if id == _DEFAULT_ID else id
        id_column = find_column(opened.name, table.kinds, requested, (_DEFAULT_ID,), "id", required=False)
        label_column = find_column(opened.name, table.kinds, label, ("label",), "label", required=False)
        used = [column for column in (id_column, label_column) if column is not None]
        points, names = _point_columns(opened.name, table, features, used, stop)
        schema = ItemSchema(points, id_column, label_column)
        return ItemStream(
            opened, table, schema, names, on_error=on_error, skipped=skipped, chunk_size=chunk_size, resume=None
        )
    except BaseException:
        opened.close()
        raise


def load_item_table(stream: ItemStream) -> ItemTable:
    """Read all items of a stream into memory. Raises RowError if an id occurs twice."""
    rows: dict[str, int] = {}
    lines: list[int] = []
    parts = []
    for items in stream:
        for line, entry in zip(items.lines.tolist(), items.ids, strict=True):
            key = cells.normalize_id(entry)
            assert key is not None
            if key in rows:
                first = lines[rows[key]]
                where = f"{stream.name}, {stream.unit} {line}"
                raise RowError(f"{where}: the id {quote(entry)} occurs already in {stream.unit} {first}", line)
            rows[key] = len(rows)
            lines.append(line)
        parts.append(items.X)
    if not parts:
        raise FileError(f"{stream.name} has no items")
    return ItemTable(rows, np.concatenate(parts), stream.name)


def _point_columns(
    name: str, table: Table, features: Any, used: list[str], stop: bool
) -> tuple[PointColumns, tuple[str, ...]]:
    unused = [column for column in table.kinds if column not in used]
    chosen = tuple(unused) if features is None else find_feature_columns(name, table.kinds, features, used)
    if not chosen:
        raise FileError(f"{name} has no columns of features; it has {quote_all(table.kinds)}")
    if features is None and "" in chosen:
        raise FileError(
            f"{name} has a column without a name, perhaps an index; name it, or select columns with features="
        )
    found = table.sample(_N_SAMPLE_ROWS)
    if len(chosen) == 1 and table.kinds[chosen[0]] in ("list", "object"):
        return nested_point_column(name, table, chosen[0], found, stop)
    for column in chosen:
        entries = [record[column] for _, record in found if not isinstance(record, BadRowError) and column in record]
        numeric = any(table.as_number(entry) is not None for entry in entries)
        if (table.kinds[column] != "number" and table.typed) or (entries and not numeric):
            what = f"{quote(entries[0])} in its first row" if entries else f"values of the kind {table.kinds[column]!r}"
            raise FileError(
                f"{name}: the column {quote(column)} holds {what}; numbers are expected; features= selects columns"
            )
    return ScalarColumns(chosen), chosen


def nested_point_column(
    name: str, table: Table, column: str, found: list[tuple[int, Record | BadRowError]], stop: bool
) -> tuple[PointColumns, tuple[str, ...]]:
    """Return the reader of a column of lists or objects, and its feature names, from the first rows ``found``."""
    for line, record in found:
        value = record if isinstance(record, BadRowError) else record.get(column)
        if isinstance(value, list) and value:
            return ListColumn(column, len(value)), tuple(map(str, range(len(value))))
        if isinstance(value, dict) and value:
            return ObjectColumn(column, tuple(value)), tuple(value)
        if stop:
            raise RowError(f"{name}, {table.unit} {line}: the column {quote(column)} holds no numbers", line)
    raise FileError(f"{name}: none of the first rows holds numbers in the column {quote(column)}")
