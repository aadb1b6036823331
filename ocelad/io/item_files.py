"""Tables of items from files: an id and numbers per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_choice
from ocelad.io.tabular import cells, columns
from ocelad.io.tabular.blocks import Ints, Table, Values, Wanted
from ocelad.io.tabular.chunks import FileStream
from ocelad.io.tabular.errors import BadRowError, FileError, RowError, listed, shown
from ocelad.io.tabular.open_table import open_table
from ocelad.io.tabular.points import AsNumber, ItemTable, Members, Points, Record, Scalars, Vector, cell
from ocelad.io.tabular.sources import Source

_USUAL_ID = "id"
_SAMPLE = 100


@dataclass(frozen=True)
class Items:
    """Some items in a row.

    Attributes
    ----------
    ids : list
        Their ids, as in the file; numbers from 0 when there is no such column.
    X : array of shape (m, n_features)
        Their points.
    labels : list, or None
        Their labels, as in the file.
    lines : int64 array of shape (m,)
        The line of each row, or its row number in Parquet and Arrow files, counted from 1.
    """

    ids: list[Any]
    X: Floats
    labels: list[Any] | None
    lines: Ints


@dataclass(frozen=True)
class ItemSchema:
    """How a row becomes an item."""

    points: Points
    id: str | None
    label: str | None

    @property
    def wanted(self) -> Wanted:
        return Wanted((self.points,), tuple(name for name in (self.id, self.label) if name is not None))

    def columns(self, table: Any) -> Values | None:
        X = np.empty((table.num_rows, self.points.width))
        if not self.points.fill(table, X) or not np.isfinite(X).all():
            return None
        ids = labels = None
        try:
            if self.id is not None:
                ids = [cells.plain(entry) for entry in table.column(self.id).to_pylist()]
                if any(cells.identity(entry) is None for entry in ids):
                    return None
            if self.label is not None:
                labels = [cells.plain(entry) for entry in table.column(self.label).to_pylist()]
        except TypeError:
            return None
        return {"X": X, "ids": ids, "labels": labels}

    def row(self, record: Record, as_number: AsNumber) -> Values:
        values: Values = {"X": self.points.point(record, as_number), "ids": None, "labels": None}
        if self.id is not None:
            entry = cell(record, self.id)
            cells.expect(self.id, entry, cells.identity, "an id is expected: text or a whole number")
            values["ids"] = cells.plain(entry)
        if self.label is not None:
            values["labels"] = cells.keep(self.label, cell(record, self.label))
        return values

    def stack(self, rows: list[Values]) -> Values:
        return {
            "X": np.array([row["X"] for row in rows], dtype=np.float64).reshape(-1, self.points.width),
            "ids": None if self.id is None else [row["ids"] for row in rows],
            "labels": None if self.label is None else [row["labels"] for row in rows],
        }


class ItemStream(FileStream[Items]):
    """The items of a file, in chunks; made by ``open_items``."""

    @property
    def name(self) -> str:
        """What messages call the file."""
        return self._source.name

    @property
    def unit(self) -> str:
        """What ``lines`` counts: "line" or "row"."""
        return self._table.unit

    def _piece(self, values: Values, lines: Ints, numbers: Ints) -> Items:
        ids = numbers.tolist() if values["ids"] is None else values["ids"]
        return Items(ids, values["X"], values["labels"], lines)


def open_items(
    source: Any,
    *,
    format: str | None = None,
    id: str = _USUAL_ID,
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
        Default: by the suffix, or by the first bytes.
    id : str, default "id"
        The column of ids. Without a column ``id`` the items are numbered from 0.
    label : str or False, optional
        The column of labels, kept as they are. Default: ``label``, if there is one.
    features : str or sequence of str, optional
        The columns of the features, as names or patterns; or one column of lists or objects. Default: all others.
    on_error, skipped, chunk_size
        As in ``open_comparisons``.

    Returns
    -------
    ItemStream
        To be iterated over once, in a ``with`` block; yields ``Items``.

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
        asked = None if id == _USUAL_ID else id
        id_column = columns.find(opened.name, table.kinds, asked, (_USUAL_ID,), "id", needed=False)
        label_column = columns.find(opened.name, table.kinds, label, ("label",), "label", needed=False)
        taken = [column for column in (id_column, label_column) if column is not None]
        points, names = _points(opened.name, table, features, taken, stop)
        schema = ItemSchema(points, id_column, label_column)
        return ItemStream(
            opened, table, schema, names, on_error=on_error, skipped=skipped, chunk_size=chunk_size, resume=None
        )
    except BaseException:
        opened.close()
        raise


def read_items(stream: ItemStream) -> ItemTable:
    """All items of a stream, in memory, each id once."""
    rows: dict[str, int] = {}
    lines: list[int] = []
    parts = []
    for items in stream:
        for line, entry in zip(items.lines.tolist(), items.ids, strict=True):
            key = cells.identity(entry)
            assert key is not None
            if key in rows:
                before = lines[rows[key]]
                where = f"{stream.name}, {stream.unit} {line}"
                raise RowError(f"{where}: the id {shown(entry)} was given in {stream.unit} {before} already", line)
            rows[key] = len(rows)
            lines.append(line)
        parts.append(items.X)
    if not parts:
        raise FileError(f"{stream.name} has no items")
    return ItemTable(rows, np.concatenate(parts), stream.name)


def _points(name: str, table: Table, features: Any, taken: list[str], stop: bool) -> tuple[Points, tuple[str, ...]]:
    free = [column for column in table.kinds if column not in taken]
    chosen = tuple(free) if features is None else columns.find_features(name, table.kinds, features, taken)
    if not chosen:
        raise FileError(f"{name} has no columns of features; it has {listed(table.kinds)}")
    if features is None and "" in chosen:
        raise FileError(
            f"{name} has a column without a name, perhaps an index; name it, or choose columns with features="
        )
    found = table.sample(_SAMPLE)
    if len(chosen) == 1 and table.kinds[chosen[0]] in ("list", "object"):
        return nested_points(name, table, chosen[0], found, stop)
    for column in chosen:
        held = [record[column] for _, record in found if not isinstance(record, BadRowError) and column in record]
        numeric = any(table.as_number(entry) is not None for entry in held)
        if (table.kinds[column] != "number" and table.typed) or (held and not numeric):
            what = f"{shown(held[0])} in its first row" if held else f"values of the kind {table.kinds[column]!r}"
            raise FileError(
                f"{name}: the column {shown(column)} holds {what}; numbers are expected; features= chooses columns"
            )
    return Scalars(chosen), chosen


def nested_points(
    name: str, table: Table, column: str, found: list[tuple[int, Record | BadRowError]], stop: bool
) -> tuple[Points, tuple[str, ...]]:
    """The points in a column of lists or objects and the names of their features, by the first rows, ``found``."""
    for line, record in found:
        value = record if isinstance(record, BadRowError) else record.get(column)
        if isinstance(value, list) and value:
            return Vector(column, len(value)), tuple(map(str, range(len(value))))
        if isinstance(value, dict) and value:
            return Members(column, tuple(value)), tuple(value)
        if stop:
            raise RowError(f"{name}, {table.unit} {line}: the column {shown(column)} holds no numbers", line)
    raise FileError(f"{name} has no rows that would say how many features the column {shown(column)} has")
