"""Streams of comparisons from files: one row per comparison, with its points or with the ids of two items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_choice, check_integer
from ocelad.io.item_files import ItemStream, open_items, read_items
from ocelad.io.tabular import cells, columns
from ocelad.io.tabular.blocks import Ints, Table, Values, Wanted
from ocelad.io.tabular.chunks import FileStream
from ocelad.io.tabular.errors import BadRowError, FileError, RowError, shown
from ocelad.io.tabular.open_table import open_table
from ocelad.io.tabular.points import AsNumber, Members, Points, Record, References, Scalars, Vector, cell
from ocelad.io.tabular.sources import Source

ON_ERROR = ("stop", "skip")
_SAMPLE = 100


@dataclass(frozen=True)
class Chunk:
    """Some comparisons in a row.

    Attributes
    ----------
    pairs : array of shape (m, 2, n_features)
        The points x and z of each comparison.
    y : array of shape (m,), or None
        +1 similar, -1 dissimilar; None when no labels are read.
    lines : int64 array of shape (m,)
        The line of each row (the header is line 1), or its row number in Parquet and Arrow files, counted from 1.
    times : list, or None
        The timestamps as they are in the file, None where one is empty; None when there is no such column.
    position : dict
        What ``resume=`` takes to go on right after this chunk; it can be written as JSON.
    """

    pairs: Floats
    y: Floats | None
    lines: Ints
    times: list[Any] | None
    position: dict[str, Any]


@dataclass(frozen=True)
class ComparisonSchema:
    """How a row becomes a comparison."""

    x: Points
    z: Points
    label: str | None
    time: str | None

    @property
    def wanted(self) -> Wanted:
        return Wanted((self.x, self.z), tuple(name for name in (self.label, self.time) if name is not None))

    def columns(self, table: Any) -> Values | None:
        pairs = np.empty((table.num_rows, 2, self.x.width))
        if not self.x.fill(table, pairs[:, 0]) or not self.z.fill(table, pairs[:, 1]):
            return None
        if not np.isfinite(pairs).all() or not _within_reach(pairs).all():
            return None
        y = None
        if self.label is not None:
            y = cells.each_distinct(table.column(self.label), cells.label)
            if y is None:
                return None
        times = None
        if self.time is not None:
            try:
                times = [cells.plain(entry) for entry in table.column(self.time).to_pylist()]
            except TypeError:
                return None
        return {"pairs": pairs, "y": y, "times": times}

    def row(self, record: Record, as_number: AsNumber) -> Values:
        pair = np.array([self.x.point(record, as_number), self.z.point(record, as_number)])
        if not _within_reach(pair[None]).all():
            raise BadRowError(
                "x and z are too far apart: their squared distance overflows; differences up to 1e150 are accepted"
            )
        label = time = None
        if self.label is not None:
            label = cells.expect(self.label, cell(record, self.label), cells.label, cells.ACCEPTED_LABELS)
        if self.time is not None:
            time = cells.keep(self.time, cell(record, self.time))
        return {"pairs": pair, "y": label, "times": time}

    def stack(self, rows: list[Values]) -> Values:
        pairs = np.array([row["pairs"] for row in rows], dtype=np.float64).reshape(-1, 2, self.x.width)
        y = None if self.label is None else np.array([row["y"] for row in rows], dtype=np.float64)
        times = None if self.time is None else [row["times"] for row in rows]
        return {"pairs": pairs, "y": y, "times": times}


class ComparisonStream(FileStream[Chunk]):
    """The comparisons of a file, in chunks; made by ``open_comparisons``.

    ``n_out_of_order`` counts the rows whose time is earlier than that of the row before.
    """

    n_out_of_order: int = 0
    _last_time: Any = None

    def _here(self) -> dict[str, Any]:
        return {**super()._here(), "out_of_order": self.n_out_of_order, "last_time": self._last_time}

    def _resume(self, position: Mapping[str, Any]) -> None:
        super()._resume(position)
        self.n_out_of_order = check_integer(position.get("out_of_order", 0), "out_of_order", at_least=0)
        self._last_time = position.get("last_time")

    def _note(self, values: Values) -> None:
        for time in values["times"] or ():
            if time is not None:
                self.n_out_of_order += _earlier(time, self._last_time)
                self._last_time = time

    def _piece(self, values: Values, lines: Ints, numbers: Ints) -> Chunk:
        return Chunk(values["pairs"], values["y"], lines, values["times"], self.position)


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
    on_error: str = "stop",
    skipped: Any = None,
    chunk_size: int = 1024,
    resume: Mapping[str, Any] | None = None,
) -> ComparisonStream:
    """Read comparisons from a file in chunks, in the order of the file, with little memory.

    Parameters
    ----------
    source : path, or "-" for standard input
        CSV, TSV, JSON lines (each may be gzipped), Parquet or Arrow IPC. A header, or names in the file, are needed.
    items : path or ItemStream, optional
        A table of items, held in memory; the rows of ``source`` then hold the ids of two of them. A bad row in it
        stops; to skip it, give ``open_items(..., on_error="skip")``.
    format : {"csv", "tsv", "jsonl", "parquet", "arrow"}, optional
        Default: by the suffix, or by the first bytes.
    x, z : str or sequence of str, optional
        The columns of the two points: names, or a pattern such as ``"left_*"``. Features are matched by what is left of
        the name; two sequences by their order. Default: ``x_*`` and ``z_*``, ``x.*`` and ``z.*``, ``*_x`` and ``*_z``,
        ``x0``, ``x1``, ... and ``z0``, ``z1``, ..., or columns ``x`` and ``z`` of lists or objects.
    label : str or False, optional
        The column of labels; False: none are read. Default: ``similar``, ``same``, ``label`` or ``y``. Accepted labels:
        1/-1, 1/0, true/false, same/different, similar/dissimilar, yes/no.
    id : str, default "id"
        The column of ids in ``items``.
    id_a, id_b : str, default "id_a" and "id_b"
        The columns of ids in ``source``.
    time : str or False, optional
        The column of timestamps. Default: ``timestamp`` or ``time``, if there is one.
    on_error : {"stop", "skip"}, default "stop"
        What a bad row does: stop with a ``RowError``, or be counted and written to the side file.
    skipped : path, optional
        The side file. Default: the name of the file with ".skipped.jsonl" added.
    chunk_size : int, default 1024
        Rows per chunk.
    resume : dict, optional
        The ``position`` of a chunk of this file; reading goes on right after it.

    Returns
    -------
    ComparisonStream
        To be iterated over once, in a ``with`` block; yields a ``Chunk`` at a time.

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
    begun = resume.get("head_bytes") if isinstance(resume, Mapping) else None
    opened = Source(source, begun if isinstance(begun, int) else 0)
    try:
        table = open_table(opened, format, stop=on_error == "stop")
        name = opened.name
        named = columns.named(x, z, *((id_a, id_b) if items is not None else ()))
        label_column = columns.find(name, table.kinds, label, columns.LABELS, "label", needed=True, taken=named)
        time_column = columns.find(name, table.kinds, time, columns.TIMES, "time", needed=False, taken=named)
        taken = [column for column in (label_column, time_column) if column is not None]
        if items is not None:
            sides, features = _references(name, table, items, id, (id_a, id_b))
        else:
            sides, features = _sides(name, table, x, z, taken, stop=on_error == "stop")
        _refuse_kinds(name, table, sides, taken)
        schema = ComparisonSchema(*sides, label_column, time_column)
        return ComparisonStream(
            opened, table, schema, features, on_error=on_error, skipped=skipped, chunk_size=chunk_size, resume=resume
        )
    except BaseException:
        opened.close()
        raise


def _references(
    name: str, table: Table, items: Any, id: str, ids: tuple[str, str]
) -> tuple[tuple[Points, Points], tuple[str, ...]]:
    for option, column in zip(("id_a", "id_b"), ids, strict=True):
        columns.find(name, table.kinds, column, (), option, needed=True)
    stream = items if isinstance(items, ItemStream) else open_items(items, id=id)
    with stream:
        held = read_items(stream)
    return (References(ids[0], held), References(ids[1], held)), stream.feature_names


def _sides(
    name: str, table: Table, x: Any, z: Any, taken: list[str], stop: bool
) -> tuple[tuple[Points, Points], tuple[str, ...]]:
    x_columns, z_columns, features = columns.find_sides(name, table.kinds, x, z, taken)
    kinds = [table.kinds[column] for column in (*x_columns, *z_columns)]
    if not {"list", "object"} & set(kinds):
        return (Scalars(x_columns), Scalars(z_columns)), features
    if len(kinds) > 2:
        raise FileError(f"{name}: columns of lists or objects are accepted only as one for x and one for z")
    # Which features there are is fixed by the first row in which both sides have the same.
    for count in (1, _SAMPLE):
        found = table.sample(count)
        for line, record in found:
            wrong: BadRowError
            try:
                if isinstance(record, BadRowError):
                    raise record
                return _nested(record, x_columns[0], z_columns[0])
            except BadRowError as error:
                wrong = error
            if stop:
                raise RowError(f"{name}, {table.unit} {line}: {wrong}", line)
    if not found:
        raise FileError(f"{name} is empty: it has no rows, which would say how many features there are")
    raise FileError(f"{name}: in none of the first {len(found)} rows x and z have the same features")


def _nested(record: Record, x: str, z: str) -> tuple[tuple[Points, Points], tuple[str, ...]]:
    one, other = cell(record, x), cell(record, z)
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other) or not one:
            raise BadRowError(f"x has {len(one)} numbers and z has {len(other)}; accepted: as many, at least one")
        return (Vector(x, len(one)), Vector(z, len(one))), tuple(map(str, range(len(one))))
    if isinstance(one, dict) and isinstance(other, dict):
        if set(one) != set(other) or not one:
            only = sorted(set(one) ^ set(other))
            raise BadRowError(f"{shown(only[0])} is given for x or z only" if only else "x and z are empty")
        keys = tuple(one)
        return (Members(x, keys), Members(z, keys)), keys
    raise BadRowError(f"x holds {shown(one)} and z {shown(other)}; two lists of numbers are expected, or two objects")


def _refuse_kinds(name: str, table: Table, sides: tuple[Points, Points], kept: list[str]) -> None:
    """Columns whose type says that no row can be good."""
    if not table.typed:
        return
    for points in sides:
        for column in points.columns:
            kind = table.kinds[column]
            accepted = {Scalars: ("number",), References: ("number", "text")}.get(type(points), ("list", "object"))
            if kind not in accepted:
                raise FileError(
                    f"{name}: the column {shown(column)} holds no {accepted[0]}s; {accepted[0]}s are expected"
                )
    for column in kept:
        if table.kinds[column] not in ("number", "text", "flag"):
            raise FileError(f"{name}: the column {shown(column)} holds neither text nor numbers nor booleans")


def _within_reach(pairs: Floats) -> Any:
    """Where the squared distance of x and z is a number; a tracker refuses others."""
    with np.errstate(over="ignore"):
        u = pairs[:, 0] - pairs[:, 1]
        return np.isfinite(np.einsum("ij,ij->i", u, u))


def _earlier(time: Any, before: Any) -> bool:
    """Whether a time is earlier than another: as numbers where both are, else as text."""
    if before is None:
        return False
    one, other = _as_number(time), _as_number(before)
    if one is None or other is None:
        return str(time) < str(before)
    return one < other


def _as_number(time: Any) -> int | float | None:
    if isinstance(time, str):
        return cells.number_in_text(time)
    return time if isinstance(time, (int, float)) else None
