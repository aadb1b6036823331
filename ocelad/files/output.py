"""Tables that are written piece by piece: CSV, JSON lines, Parquet, Arrow, or CSV onto standard output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import numpy as np


class Output(Protocol):
    """Where pieces of a table go; all with the same columns."""

    def write(self, columns: Mapping[str, Any]) -> None:
        """Some more rows, column by column."""
        ...


@contextmanager
def open_output(path: str | os.PathLike[str] | None) -> Iterator[Output]:
    """A table to be written: to the file, which appears whole or not at all; None: as CSV onto standard output.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with open_output(f"{folder}/points.csv") as out:
    ...         out.write({"id": ["a", "b"], "height": np.array([1.5, 2.0])})
    ...     Path(f"{folder}/points.csv").read_text()
    '"id","height"\\n"a",1.5\\n"b",2\\n'
    """
    if path is None:
        with _closing(_Arrow(sys.stdout.buffer, ".csv")) as out:
            yield out
        return
    path = Path(path)
    temporary = path.with_name(f".{uuid4().hex}.part")
    suffix = path.suffix.lower()
    if suffix not in OUTPUTS:
        raise ValueError(f"{str(path)!r} does not end in {', '.join(OUTPUTS)}")
    try:
        with open(temporary, "xb") as file:
            with _closing(_JsonLines(file) if suffix == ".jsonl" else _Arrow(file, suffix)) as out:
                yield out
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def _closing(out: Any) -> Iterator[Any]:
    yield out
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
    """What pyarrow writes; the first piece decides about the columns' types."""

    def __init__(self, file: Any, suffix: str) -> None:
        self._file = file
        self._suffix = suffix
        self._writer: Any = None
        self._schema: Any = None

    def write(self, columns: Mapping[str, Any]) -> None:
        import pyarrow as pa

        if self._writer is None:
            table = pa.table({name: _column(column) for name, column in columns.items()})
            self._schema = table.schema
            self._writer = _WRITERS[self._suffix](self._file, table.schema)
        else:
            types = zip(columns.items(), self._schema, strict=True)
            table = pa.table({name: pa.array(_column(column), field.type) for (name, column), field in types})
        self._writer.write_table(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _csv(file: Any, schema: Any) -> Any:
    from pyarrow import csv

    return csv.CSVWriter(file, schema, write_options=csv.WriteOptions(quoting_style="needed"))


def _parquet(file: Any, schema: Any) -> Any:
    from pyarrow import parquet

    return parquet.ParquetWriter(file, schema)


def _ipc(file: Any, schema: Any) -> Any:
    from pyarrow import ipc

    return ipc.new_file(file, schema)


_WRITERS = {".csv": _csv, ".parquet": _parquet, ".arrow": _ipc}
#: The endings of files that can be written.
OUTPUTS = (".csv", ".jsonl", ".parquet", ".arrow")


def _column(column: Any) -> Any:
    """Values of different kinds in one column, such as ids, are text."""
    if isinstance(column, np.ndarray) and column.dtype.kind != "O":
        return column
    values = list(column)
    return values if len({type(value) for value in values}) == 1 else [str(value) for value in values]


def _listed(column: Any) -> list[Any]:
    return column.tolist() if isinstance(column, np.ndarray) else list(column)
