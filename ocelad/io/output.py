"""Tables that are written piece by piece: CSV, JSON lines, Parquet, Arrow, or CSV onto standard output."""

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
from ocelad.io.tabular.arrow import arrow, arrow_errors

#: What a column holds: floats, whole numbers, or values as they come (ids, labels; some may be None). The latter are
#: whole numbers where the first piece has nothing else, and text otherwise; JSON lines keep each as it is.
ColumnKind: TypeAlias = Literal["float", "whole", "value"]


class Output(Protocol):
    """Where pieces of a table go; all with the same columns."""

    def write(self, columns: Mapping[str, Any]) -> None:
        """Some more rows, column by column."""
        ...


@contextmanager
def open_output(path: str | os.PathLike[str] | None, columns: Mapping[str, ColumnKind]) -> Iterator[Output]:
    """A table to be written: to the file, which appears whole or not at all; None: as CSV onto standard output.

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
    if suffix not in OUTPUTS:
        raise ValueError(f"{str(path)!r} does not end in {', '.join(OUTPUTS)}")
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
        with suppress(Exception):  # what went wrong before is what matters
            out.close()
        raise
    out.close()


class _JsonLines:
    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, columns: Mapping[str, Any]) -> None:
        names = list(columns)
        for row in zip(*(_listed(column) for column in columns.values()), strict=True):
            self._file.write((json.dumps(dict(zip(names, row, strict=True))) + "\n").encode())

    def close(self) -> None:
        pass


class _Arrow:
    """What pyarrow writes. The types of its columns are fixed with the first piece."""

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
        plain = {"float": pa.float64(), "whole": pa.int64()}
        for name, kind in self._kinds.items():
            whole = [type(value) is int for value in columns[name] if value is not None] if kind == "value" else []
            self._types[name] = plain.get(kind) or (pa.int64() if whole and all(whole) else pa.string())
        self._writer = _WRITERS[self._suffix](self._file, pa.schema(list(self._types.items())))

    def _column(self, name: str, values: Any) -> Any:
        kind, wanted = self._kinds[name], self._types[name]
        if kind != "value":
            return arrow().array(np.asarray(values), wanted)
        if wanted == arrow().string():
            return arrow().array([None if value is None else str(value) for value in values], wanted)
        for value in values:
            if value is not None and type(value) is not int:
                raise ValueError(
                    f"the column {name!r} holds {value!r} after thousands of whole numbers only; a table has one type "
                    "for a column; accepted: a .jsonl file, or all of them as text"
                )
        try:
            return arrow().array(values, wanted)
        except arrow_errors():
            raise ValueError(f"the column {name!r} holds a number that is too large for 64 bits") from None


def _csv(file: Any, schema: Any) -> Any:
    csv = arrow("csv")
    return csv.CSVWriter(file, schema, write_options=csv.WriteOptions(quoting_style="needed"))


def _parquet(file: Any, schema: Any) -> Any:
    return arrow("parquet").ParquetWriter(file, schema)


def _ipc(file: Any, schema: Any) -> Any:
    return arrow("ipc").new_file(file, schema)


_WRITERS = {".csv": _csv, ".parquet": _parquet, ".arrow": _ipc}
#: The endings of files that can be written.
OUTPUTS = (".csv", ".jsonl", ".parquet", ".arrow")


def _listed(column: Any) -> list[Any]:
    return column.tolist() if isinstance(column, np.ndarray) else list(column)
