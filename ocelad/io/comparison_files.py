"""Streams of comparisons from files: each row holds two points, or the ids of two items."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import MAX_SAMPLE_WEIGHT, check_choice, check_integer
from ocelad.io.item_files import ItemStream, load_item_table, open_items
from ocelad.io.tabular import cells
from ocelad.io.tabular.column_selection import (
    LABEL_COLUMNS,
    TIME_COLUMNS,
    explicit_names,
    find_column,
    find_pair_columns,
)
from ocelad.io.tabular.file_errors import BadRowError, FileError, RowError, quote
from ocelad.io.tabular.file_formats import open_table
from ocelad.io.tabular.file_stream import FileStream
from ocelad.io.tabular.key_column import KeyColumn
from ocelad.io.tabular.point_columns import (
    AsNumber,
    IdColumn,
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

ON_ERROR = ("stop", "skip")
# The start of the names of values that are copied, which no other values have.
_KEPT = "kept "
# The largest number of rows, and about the largest number of values, of a chunk whose size is not given.
_CHUNK_ROWS, _CHUNK_VALUES = 32768, 1 << 22
# The number of first rows that are searched for the features of nested columns.
_N_SAMPLE_ROWS = 100


@dataclass(frozen=True)
class ComparisonChunk:
    """Consecutive comparisons of a file.

    Attributes
    ----------
    pairs : array of shape (m, 2, n_features)
        The points x and z of each comparison.
    y : array of shape (m,), or None
        +1 similar, -1 dissimilar; None when no labels are read.
    lines : int64 array of shape (m,)
        The line of each row (the header is line 1), or its row number in Parquet and Arrow files, counted from 1.
    times : list, or None
        The timestamps as in the file, None for an empty cell; None without a time column.
    position : dict
        The position after this chunk, for ``resume=``. It can be written as JSON.
    weights : array of shape (m,), or None
        The weight of each comparison; None when no weights are read.
    ids : list of (str, str), or None
        The ids of the two items of each comparison, as text; None if rows hold points.
    kept : dict of str to list
        The further columns that were asked for, as in the file; None for an empty cell, and for a list or an object.
    keys : list of str, or None
        The key of each comparison, as text; None when no keys are read.
    """

    pairs: Floats
    y: Floats | None
    lines: Ints
    times: list[Any] | None
    position: dict[str, Any]
    weights: Floats | None = None
    ids: list[tuple[str, str]] | None = None
    kept: dict[str, list[Any]] = field(default_factory=dict)
    keys: list[str] | None = None


@dataclass(frozen=True)
class ComparisonSchema:
    """The conversion of rows to comparisons."""

    x: PointColumns
    z: PointColumns
    label: str | None
    time: str | None
    weight: ScalarColumns | None = None
    max_difference: float = inf
    kept: tuple[str, ...] = ()
    key: KeyColumn | None = None

    @property
    def selection(self) -> Selection:
        numbers = (self.x, self.z) if self.weight is None else (self.x, self.z, self.weight)
        key = None if self.key is None else self.key.column
        return Selection(numbers, tuple(name for name in (self.label, self.time, *self.kept, key) if name is not None))

    def columns(self, table: Any) -> Values | None:
        pairs = np.empty((table.num_rows, 2, self.x.width))
        if not self.x.fill(table, pairs[:, 0]) or not self.z.fill(table, pairs[:, 1]):
            return None
        if not np.isfinite(pairs).all() or not _has_finite_distance(pairs).all():
            return None
        if self.max_difference < inf and np.abs(pairs[:, 0] - pairs[:, 1]).max(initial=0.0) > self.max_difference:
            return None
        y = weights = None
        if self.label is not None:
            y = cells.map_distinct(table.column(self.label), cells.parse_label)
            if y is None:
                return None
        if self.weight is not None:
            weights = np.empty((table.num_rows, 1))
            if not self.weight.fill(table, weights) or not _is_weight(weights).all():
                return None
            weights = weights[:, 0]
        keys = None
        if self.key is not None:
            keys = self.key.keys(table)
            if keys is None:
                return None
        times = None
        if self.time is not None:
            try:
                times = [cells.normalize_value(entry) for entry in table.column(self.time).to_pylist()]
            except TypeError:
                return None
        ids = None
        if isinstance(self.x, IdColumn) and isinstance(self.z, IdColumn):
            ids = list(zip(self.x.keys(table), self.z.keys(table), strict=True))
        kept = {_KEPT + name: [_plain(entry) for entry in table.column(name).to_pylist()] for name in self.kept}
        return {"pairs": pairs, "y": y, "times": times, "weights": weights, "ids": ids, "keys": keys, **kept}

    def row(self, record: Record, as_number: AsNumber) -> Values:
        pair = np.array([self.x.point(record, as_number), self.z.point(record, as_number)])
        if not _has_finite_distance(pair[None]).all():
            raise BadRowError(
                "x and z are too far apart: their squared distance overflows; differences up to 1e150 are accepted"
            )
        difference = np.abs(pair[0] - pair[1]).max()
        if difference > self.max_difference:
            raise BadRowError(
                f"x and z are too far apart: they differ by {difference:.3g}; differences up to "
                f"{self.max_difference:g} are accepted"
            )
        label = time = weight = None
        if self.label is not None:
            label = cells.require(self.label, get_cell(record, self.label), cells.parse_label, cells.ACCEPTED_LABELS)
        if self.weight is not None:
            weight = self.weight.point(record, as_number)[0]
            if not _is_weight(weight):
                (column,) = self.weight.columns
                raise BadRowError(
                    f"column {quote(column)} holds {weight:g}; accepted: weights from 0 to {MAX_SAMPLE_WEIGHT:g}"
                )
        if self.time is not None:
            time = cells.require_value(self.time, get_cell(record, self.time))
        ids = None
        if isinstance(self.x, IdColumn) and isinstance(self.z, IdColumn):
            ids = self.x.key(record), self.z.key(record)
        key = None if self.key is None else self.key.key(record)
        kept = {_KEPT + name: _plain(record.get(name)) for name in self.kept}
        return {"pairs": pair, "y": label, "times": time, "weights": weight, "ids": ids, "keys": key, **kept}

    def stack(self, rows: list[Values]) -> Values:
        pairs = np.array([row["pairs"] for row in rows], dtype=np.float64).reshape(len(rows), 2, self.x.width)
        y = None if self.label is None else np.array([row["y"] for row in rows], dtype=np.float64)
        times = None if self.time is None else [row["times"] for row in rows]
        weights = None if self.weight is None else np.array([row["weights"] for row in rows], dtype=np.float64)
        ids = [row["ids"] for row in rows] if isinstance(self.x, IdColumn) else None
        keys = None if self.key is None else [row["keys"] for row in rows]
        kept = {_KEPT + name: [row[_KEPT + name] for row in rows] for name in self.kept}
        return {"pairs": pairs, "y": y, "times": times, "weights": weights, "ids": ids, "keys": keys, **kept}


class ComparisonStream(FileStream[ComparisonChunk]):
    """The comparisons of a file, in chunks; returned by ``open_comparisons``.

    ``n_out_of_order`` counts the rows whose time is earlier than the time of the row before.
    """

    n_out_of_order: int = 0
    _last_time: Any = None

    @property
    def items(self) -> ItemTable | None:
        """All items with their ids as text, if rows hold ids; None if rows hold points."""
        schema = self._schema
        return schema.x.items if isinstance(schema, ComparisonSchema) and isinstance(schema.x, IdColumn) else None

    @property
    def kept_columns(self) -> tuple[str, ...]:
        """The further columns that each chunk has."""
        return self._schema.kept if isinstance(self._schema, ComparisonSchema) else ()

    def _current_position(self) -> dict[str, Any]:
        return {**super()._current_position(), "out_of_order": self.n_out_of_order, "last_time": self._last_time}

    def _restore(self, position: Mapping[str, Any]) -> None:
        super()._restore(position)
        self.n_out_of_order = check_integer(position.get("out_of_order", 0), "out_of_order", at_least=0)
        self._last_time = position.get("last_time")

    def _observe(self, values: Values) -> None:
        for time in values["times"] or ():
            if time is not None:
                self.n_out_of_order += _is_earlier(time, self._last_time)
                self._last_time = time

    def _make_chunk(self, values: Values, lines: Ints, numbers: Ints) -> ComparisonChunk:
        kept = {name: values[_KEPT + name] for name in self.kept_columns}
        return ComparisonChunk(
            values["pairs"],
            values["y"],
            lines,
            values["times"],
            self.position,
            values["weights"],
            values["ids"],
            kept,
            values["keys"],
        )


def open_comparisons(
    source: Any,
    *,
    items: Any = None,
    format: str | None = None,
    x: str | Sequence[str] | None = None,
    z: str | Sequence[str] | None = None,
    label: str | bool | None = None,
    id: str = "id",
    id_a: str = "id_a",
    id_b: str = "id_b",
    time: str | bool | None = None,
    weight: str | None = None,
    key: str | None = None,
    keep: bool = False,
    max_difference: float = inf,
    on_error: str = "stop",
    skipped: Any = None,
    chunk_size: int | None = 1024,
    resume: Mapping[str, Any] | None = None,
) -> ComparisonStream:
    """Read comparisons from a file in chunks, in the order of the file, with little memory.

    Parameters
    ----------
    source : path, or "-" for standard input
        CSV, TSV, JSON lines (each may be gzipped), Parquet or Arrow IPC. CSV and TSV files need a header.
    items : path or ItemStream, optional
        A table of items, which is loaded into memory. The rows of ``source`` then hold the ids of two items. An invalid
        row of the table raises an exception; to skip such rows, pass ``open_items(..., on_error="skip")``.
    format : {"csv", "tsv", "jsonl", "parquet", "arrow"}, optional
        Default: detected from the suffix, or from the first bytes.
    x, z : str or sequence of str, optional
        The columns of the two points: names, or a pattern such as ``"left_*"``. With patterns, columns of x and z match
        if the parts of their names under the wildcard are equal; two sequences match by their order. Default: ``x_*``
        and ``z_*``, ``x.*`` and ``z.*``, ``*_x`` and ``*_z``, ``x0``, ``x1``, ... and ``z0``, ``z1``, ..., or columns
        ``x`` and ``z`` of lists or objects.
    label : str or False, optional
        The column of labels; False: read no labels. Default: ``similar``, ``same``, ``label`` or ``y``. Accepted
        labels: 1/-1, 1/0, true/false, same/different, similar/dissimilar, yes/no.
    id : str, default "id"
        The column of ids in ``items``.
    id_a, id_b : str, default "id_a" and "id_b"
        The columns of ids in ``source``.
    time : str or False, optional
        The column of timestamps; False: read no timestamps. Default: ``timestamp`` or ``time``, if the file has one.
    weight : str, optional
        The column of weights, numbers from 0 to 10. Default: no weights.
    key : str, optional
        The column of keys, texts or whole numbers, such as the users who gave the answers. Default: no keys.
    keep : bool
        Whether to read all further columns of text and numbers, too, also those of ids; see ``ComparisonChunk.kept``.
    max_difference : float, optional
        Rows in which a feature of x and z differs more are invalid. Default: any difference up to about 1e150 is
        accepted.
    on_error : {"stop", "skip"}, default "stop"
        "stop" raises a ``RowError`` for an invalid row; "skip" counts the row and writes it to the file ``skipped``.
    skipped : path, optional
        The file of skipped rows. Default: the name of the file with ".skipped.jsonl" appended.
    chunk_size : int or None, default 1024
        Rows per chunk; None: 32768, or fewer if rows are long.
    resume : dict, optional
        The ``position`` of a chunk of this file. Reading continues right after that chunk.

    Returns
    -------
    ComparisonStream
        An iterator over ``ComparisonChunk`` objects and a context manager. It can be iterated over once.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "pairs.csv")
    >>> _ = path.write_text("x_a,x_b,z_a,z_b,similar\\n1,2,1,3,yes\\n0,0,5,5,no\\n")
    >>> with open_comparisons(path) as stream:
    ...     [(chunk.pairs.shape, chunk.y.tolist()) for chunk in stream]
    [((2, 2, 2), [1.0, -1.0])]
    """
    check_choice(on_error, "on_error", ON_ERROR)
    head_bytes = resume.get("head_bytes") if isinstance(resume, Mapping) else None
    opened = Source(source, head_bytes if isinstance(head_bytes, int) else 0)
    try:
        table = open_table(opened, format, stop=on_error == "stop")
        name = opened.name
        named = explicit_names(x, z, weight, key, *((id_a, id_b) if items is not None else ()))
        label_column = find_column(name, table.kinds, label, LABEL_COLUMNS, "label", required=True, used=named)
        time_column = find_column(name, table.kinds, time, TIME_COLUMNS, "time", required=False, used=named)
        weight_column = find_column(name, table.kinds, weight, (), "weight", required=False)
        key_column = find_column(name, table.kinds, key, (), "key", required=False)
        used = [column for column in (label_column, time_column, weight_column, key_column) if column is not None]
        if items is not None:
            sides, features = _id_columns(name, table, items, id, (id_a, id_b))
        else:
            sides, features = _pair_columns(name, table, x, z, used, stop=on_error == "stop")
        points = [column for side in sides for column in side.columns]
        _check_only_role(name, "weight", weight_column, [label_column, time_column, key_column, *points])
        # A pair may belong to one of its items, whose id is then the key, too.
        _check_only_role(name, "key", key_column, [label_column, time_column, *(() if items is not None else points)])
        weights = None if weight_column is None else ScalarColumns((weight_column,))
        _check_column_kinds(name, table, sides if weights is None else (*sides, weights), used)
        kept = _further_columns(table, sides, used) if keep else ()
        keys = None if key_column is None else KeyColumn(key_column)
        schema = ComparisonSchema(*sides, label_column, time_column, weights, max_difference, kept, keys)
        if chunk_size is None:
            chunk_size = max(1, min(_CHUNK_ROWS, _CHUNK_VALUES // (2 * schema.x.width)))
        return ComparisonStream(
            opened, table, schema, features, on_error=on_error, skipped=skipped, chunk_size=chunk_size, resume=resume
        )
    except BaseException:
        opened.close()
        raise


def _id_columns(
    name: str, table: Table, items: Any, id: str, ids: tuple[str, str]
) -> tuple[tuple[PointColumns, PointColumns], tuple[str, ...]]:
    for option, column in zip(("id_a", "id_b"), ids, strict=True):
        find_column(name, table.kinds, column, (), option, required=True)
    stream = items if isinstance(items, ItemStream) else open_items(items, id=id)
    with stream:
        if stream.numbering:
            _check_numbers(name, table, ids, stream.numbering)
        item_table = load_item_table(stream)
    return (IdColumn(ids[0], item_table), IdColumn(ids[1], item_table)), stream.feature_names


def _check_numbers(name: str, table: Table, ids: tuple[str, str], numbering: str) -> None:
    """Raise FileError if all ids of the first rows are texts, although the items are numbered."""
    texts = []
    for _, record in table.sample(_N_SAMPLE_ROWS):
        for column in ids:
            entry = None if isinstance(record, BadRowError) else cells.normalize_id(record.get(column))
            if entry is not None and entry.isdecimal():
                return
            if entry is not None:
                texts.append((column, entry))
    if texts:
        column, entry = texts[0]
        raise FileError(f"{name}: column {quote(column)} holds the id {quote(entry)}, but {numbering}")


def _pair_columns(
    name: str, table: Table, x: Any, z: Any, used: list[str], stop: bool
) -> tuple[tuple[PointColumns, PointColumns], tuple[str, ...]]:
    x_columns, z_columns, features = find_pair_columns(name, table.kinds, x, z, used)
    kinds = [table.kinds[column] for column in (*x_columns, *z_columns)]
    if not {"list", "object"} & set(kinds):
        return (ScalarColumns(x_columns), ScalarColumns(z_columns)), features
    if len(kinds) > 2:
        raise FileError(f"{name}: columns of lists or objects are accepted only as one for x and one for z")
    # The first row in which x and z have the same features defines the features of the file.
    for count in (1, _N_SAMPLE_ROWS):
        found = table.sample(count)
        for line, record in found:
            reason: BadRowError
            try:
                if isinstance(record, BadRowError):
                    raise record
                return _nested_columns(record, x_columns[0], z_columns[0])
            except BadRowError as error:
                reason = error
            if stop:
                raise RowError(f"{name}, {table.unit} {line}: {reason}", line)
    if not found:
        raise FileError(f"{name} has no rows, so the number of features is unknown; accepted: at least one row")
    raise FileError(f"{name}: x and z have different features in each of the first {len(found)} rows")


def _nested_columns(record: Record, x: str, z: str) -> tuple[tuple[PointColumns, PointColumns], tuple[str, ...]]:
    one, other = get_cell(record, x), get_cell(record, z)
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other) or not one:
            raise BadRowError(f"x has {len(one)} numbers and z has {len(other)}; accepted: equally many, at least one")
        return (ListColumn(x, len(one)), ListColumn(z, len(one))), tuple(map(str, range(len(one))))
    if isinstance(one, dict) and isinstance(other, dict):
        if set(one) != set(other) or not one:
            only = sorted(set(one) ^ set(other))
            raise BadRowError(f"{quote(only[0])} occurs in only one of x and z" if only else "x and z are empty")
        keys = tuple(one)
        return (ObjectColumn(x, keys), ObjectColumn(z, keys)), keys
    raise BadRowError(f"x holds {quote(one)} and z {quote(other)}; two lists of numbers are expected, or two objects")


def _further_columns(table: Table, sides: tuple[PointColumns, PointColumns], used: list[str]) -> tuple[str, ...]:
    """Return the columns of ids, and those of text and numbers that have no other role, in the order of the file."""
    taken = {*used, *(name for side in sides if not isinstance(side, IdColumn) for name in side.columns)}
    # In JSON lines the kind of a column is that of its first cell, which may be null: "other".
    kinds = {"number", "text", "boolean"} if table.typed else {"number", "text", "boolean", "cell", "other"}
    return tuple(name for name, kind in table.kinds.items() if name not in taken and kind in kinds)


def _plain(cell: Any) -> Any:
    """Return the text or number of a cell that is copied, a time as text, and None for anything else."""
    if isinstance(cell, datetime.date | datetime.time):  # a datetime is a date
        return cell.isoformat()
    try:
        return cells.normalize_value(cell)
    except TypeError:
        return None


def _check_only_role(name: str, role: str, column: str | None, others: Sequence[str | None]) -> None:
    """Raise FileError if the column of a role has another one, too."""
    if column is not None and column in others:
        raise FileError(f"{name}: the column {quote(column)} ({role}=) has another role, too; accepted: another column")


def _check_column_kinds(name: str, table: Table, sides: tuple[PointColumns, ...], other_columns: list[str]) -> None:
    """Raise FileError for a typed column whose type makes every row invalid."""
    if not table.typed:
        return
    for points in sides:
        for column in points.columns:
            kind = table.kinds[column]
            accepted = {ScalarColumns: ("number",), IdColumn: ("number", "text")}.get(type(points), ("list", "object"))
            if kind not in accepted:
                raise FileError(
                    f"{name}: the column {quote(column)} holds no {accepted[0]}s; {accepted[0]}s are expected"
                )
    for column in other_columns:
        if table.kinds[column] not in ("number", "text", "boolean"):
            raise FileError(f"{name}: the column {quote(column)} holds neither text nor numbers nor booleans")


def _is_weight(weights: Any) -> Any:
    """Return for each number whether it is a weight that trackers accept."""
    return (weights >= 0.0) & (weights <= MAX_SAMPLE_WEIGHT)


def _has_finite_distance(pairs: Floats) -> Any:
    """Return for each pair whether its squared distance is finite. Trackers raise an exception for other pairs."""
    with np.errstate(over="ignore"):
        u = pairs[:, 0] - pairs[:, 1]
        return np.isfinite(np.einsum("ij,ij->i", u, u))


def _is_earlier(time: Any, previous: Any) -> bool:
    """Compare two times as numbers if both are numbers, otherwise as text."""
    if previous is None:
        return False
    one, other = _as_number(time), _as_number(previous)
    if one is None or other is None:
        return str(time) < str(previous)
    return one < other


def _as_number(time: Any) -> int | float | None:
    if isinstance(time, str):
        return cells.parse_number(time)
    return time if isinstance(time, (int, float)) else None
