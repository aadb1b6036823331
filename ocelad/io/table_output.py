"""Tables written in parts: CSV, JSON lines, Parquet or Arrow files, or CSV on standard output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from ocelad.io.atomic import open_atomically
from ocelad.io.tabular.arrow import arrow, pyarrow_exceptions

#: The content of a column: floats, integers, or mixed values such as ids and labels, including None. A column of mixed
#: values is written as integers if the first part holds only integers, and otherwise as text. JSON lines keep the type
#: of each value.
ColumnKind: TypeAlias = Literal["float", "integer", "value"]


class TableWriter(Protocol):
    """Writes a table in parts, which all have the same columns."""

    def write(self, columns: Mapping[str, Any]) -> None:
        """Append rows, given as columns by name."""
        ...


@contextmanager
def open_output(path: str | os.PathLike[str] | None, columns: Mapping[str, ColumnKind]) -> Iterator[TableWriter]:
    """Open a table for writing. The format follows from the suffix of the path.

    The file is written atomically: it appears when the ``with`` block ends without an exception. If ``path`` is None,
    the table is written to standard output as CSV.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with open_output(f"{folder}/points.csv", {"id": "value", "height": "float"}) as out:
    ...         out.write({"id": ["a", None], "height": np.array([1.5, 2.0])})
    ...     Path(f"{folder}/points.csv").read_text()
    '"id","height"\\n"a",1.5\\n,2\\n'
    """
    if path is None:
        with _closed(_Arrow(sys.stdout.buffer, ".csv", columns)) as out:
            yield out
        return
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in OUTPUT_SUFFIXES:
        raise ValueError(f"{str(path)!r} does not end in {', '.join(OUTPUT_SUFFIXES)}")
    with (
        open_atomically(path) as file,
        _closed(_JsonLines(file) if suffix == ".jsonl" else _Arrow(file, suffix, columns)) as out,
    ):
        yield out


@contextmanager
def _closed(out: Any) -> Iterator[Any]:
    try:
        yield out
    except BaseException:
        with suppress(Exception):  # the first exception is the one to report
            out.close()
        raise
    out.close()


class _JsonLines:
    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, columns: Mapping[str, Any]) -> None:
        names = list(columns)
        for row in zip(*(_to_list(column) for column in columns.values()), strict=True):
            self._file.write((json.dumps(dict(zip(names, row, strict=True))) + "\n").encode())

    def close(self) -> None:
        pass


class _Arrow:
    """Writes with pyarrow. The first part determines the types of the columns."""

    def __init__(self, file: Any, suffix: str, columns: Mapping[str, ColumnKind]) -> None:
        self._file = file
        self._suffix = suffix
        self._kinds = dict(columns)
        self._writer: Any = None
        self._types: dict[str, Any] = {}

    def write(self, columns: Mapping[str, Any]) -> None:
        if self._writer is None:
            self._begin(columns)
        table = {name: self._column(name, columns[name]) for name in self._kinds}
        self._writer.write_table(arrow().table(table))

    def close(self) -> None:
        if self._writer is None:
            self._begin({name: [] for name in self._kinds})
        self._writer.close()

    def _begin(self, columns: Mapping[str, Any]) -> None:
        pa = arrow()
        types = {"float": pa.float64(), "integer": pa.int64()}
        for name, kind in self._kinds.items():
            is_int = [type(value) is int for value in columns[name] if value is not None] if kind == "value" else []
            self._types[name] = types.get(kind) or (pa.int64() if is_int and all(is_int) else pa.string())
        self._writer = _WRITERS[self._suffix](self._file, pa.schema(list(self._types.items())))

    def _column(self, name: str, values: Any) -> Any:
        kind, column_type = self._kinds[name], self._types[name]
        if kind != "value":
            return arrow().array(np.asarray(values), column_type)
        if column_type == arrow().string():
            return arrow().array([None if value is None else str(value) for value in values], column_type)
        for value in values:
            if value is not None and type(value) is not int:
                raise ValueError(
                    f"the column {name!r} holds {value!r}, but its first rows hold only integers; accepted: a .jsonl "
                    "file, or a column with one type"
                )
        try:
            return arrow().array(values, column_type)
        except pyarrow_exceptions():
            raise ValueError(f"the column {name!r} holds an integer that does not fit in 64 bits") from None


def _csv(file: Any, schema: Any) -> Any:
    csv = arrow("csv")
    return csv.CSVWriter(file, schema, write_options=csv.WriteOptions(quoting_style="needed"))


def _parquet(file: Any, schema: Any) -> Any:
    return arrow("parquet").ParquetWriter(file, schema)


def _ipc(file: Any, schema: Any) -> Any:
    return arrow("ipc").new_file(file, schema)


_WRITERS = {".csv": _csv, ".parquet": _parquet, ".arrow": _ipc}
#: The suffixes of the files that ``open_output`` writes.
OUTPUT_SUFFIXES = (".csv", ".jsonl", ".parquet", ".arrow")


def _to_list(column: Any) -> list[Any]:
    return column.tolist() if isinstance(column, np.ndarray) else list(column)
