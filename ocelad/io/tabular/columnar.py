"""Parquet and Arrow files: typed columns, read in batches of rows. Rows are counted from 1."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ocelad.io.tabular import cells, sources
from ocelad.io.tabular.arrow import arrow, pyarrow_exceptions
from ocelad.io.tabular.file_errors import BadRowError, FileError, quote
from ocelad.io.tabular.point_columns import Record
from ocelad.io.tabular.record_blocks import Ints, Selection
from ocelad.io.tabular.sources import Source

PARQUET_MAGIC, ARROW_MAGIC = b"PAR1", b"ARROW1"
_BUFFER_BYTES = 1 << 16  # per column of a Parquet file


@dataclass(frozen=True)
class ColumnarBlock:
    """Consecutive rows of a Parquet or Arrow file."""

    batch: Any
    first_row: int
    bytes_read: int
    ends: Ints = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ends", self.first_row + np.arange(self.batch.num_rows, dtype=np.int64))

    @property
    def lines(self) -> Ints:
        return self.ends

    @property
    def next_lines(self) -> Ints:
        return self.ends + 1

    def part(self, first: int, last: int) -> ColumnarBlock:
        return ColumnarBlock(self.batch.slice(first, last - first), self.first_row + first, self.bytes_read)

    def table(self) -> Any:
        return self.batch

    def record(self, i: int) -> Record:
        record: Record = self.batch.slice(i, 1).to_pylist()[0]
        return record

    def text(self, i: int) -> str:
        return json.dumps(self.record(i), ensure_ascii=False, default=str)


# Triples of a batch, the index of its first row (from 0), and the number of bytes of the file read with it.
Batches = Iterator[tuple[Any, int, int]]


class ColumnarTable:
    """A Parquet or Arrow file as a table.

    ``batches(columns, rows, start)`` reads the file from the row ``start`` in batches of about ``rows`` rows. Files in
    the Arrow format determine the size of their batches themselves. ``arrays`` are the columns of NumPy files.
    """

    unit = "row"
    typed = True
    notes: tuple[str, ...] = ()
    as_number = staticmethod(cells.to_number)
    number_notes: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        format: str,
        schema: Any,
        batches: Callable[[list[str], int, int], Batches],
        arrays: Mapping[str, Any] | None = None,
    ) -> None:
        self.name, self.format, self._batches = name, format, batches
        self.arrays = dict(arrays or {})
        for column in schema.names:
            if schema.names.count(column) > 1:
                raise FileError(f"{name} has the column {quote(column)} twice; accepted: columns with different names")
        if not schema.names:
            raise FileError(f"{name} is empty: it has no columns")
        self.kinds = {field.name: _kind(field.type) for field in schema}
        self.single_precision = frozenset(field.name for field in schema if _is_single_precision(field.type))

    def encoding_at(self, offset: int) -> str | None:
        return None

    def sample(self, count: int) -> list[tuple[int, Record | BadRowError]]:
        found: list[tuple[int, Record | BadRowError]] = []
        # Bytes, such as pictures, are large, and their kind says everything.
        columns = [name for name, kind in self.kinds.items() if kind != "bytes"] or list(self.kinds)
        with _pyarrow_errors(self.name):
            for batch, first, _ in self._batches(columns, count, 0):
                rows = _decode(batch.slice(0, count - len(found)), columns).to_pylist()
                found += [(first + i + 1, row) for i, row in enumerate(rows)]
                if len(found) >= count:
                    break
        return found

    def blocks(self, selection: Selection, start: Mapping[str, Any] | None) -> Iterator[ColumnarBlock]:
        columns = list(selection.columns)
        rows = max(1, sources.BLOCK_BYTES // (8 * selection.width))
        begin = 0 if start is None else int(start["offset"])
        with _pyarrow_errors(self.name):
            for batch, first, bytes_read in self._batches(columns, rows, begin):
                for at in range(max(0, begin - first), batch.num_rows, rows):
                    yield ColumnarBlock(_decode(batch.slice(at, rows), columns), first + at + 1, bytes_read)


def open_parquet(source: Source, format: str) -> ColumnarTable:
    """Open a Parquet file."""
    parquet = arrow("parquet")
    if not source.head(4).startswith(PARQUET_MAGIC):
        raise FileError(
            f"{source.name} is not a Parquet file: its first bytes are {source.head(4)!r}, not {PARQUET_MAGIC!r}"
        )
    with _pyarrow_errors(source.name):
        # pre_buffer would read whole row groups; without it memory does not grow with their size.
        file = parquet.ParquetFile(source.to_arrow(), pre_buffer=False, buffer_size=_BUFFER_BYTES)
        groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        schema = file.schema_arrow
    total = sum(groups)
    size = source.total_bytes or 0

    def batches(columns: list[str], rows: int, start: int) -> Batches:
        _check_n_rows(source.name, total, start)
        ends = np.cumsum(groups, dtype=np.int64)
        group = int(np.searchsorted(ends, start, side="right"))
        first = int(ends[group - 1]) if group else 0
        for batch in file.iter_batches(rows, row_groups=range(group, len(groups)), columns=columns, use_threads=False):
            yield batch, first, size * (first + batch.num_rows) // total
            first += batch.num_rows

    return ColumnarTable(source.name, format, schema, batches)


def open_arrow(source: Source, format: str) -> ColumnarTable:
    """Open an Arrow IPC file, or a file with a stream of Arrow IPC messages."""
    pa, ipc = arrow(), arrow("ipc")
    size = source.total_bytes or 0
    # One batch may be as large as the file. With a memory map only the pages in use occupy memory.
    with _pyarrow_errors(source.name):
        mapped = source.to_arrow() if source.path is None else pa.memory_map(source.name)
        if source.head(6).startswith(ARROW_MAGIC):
            file = ipc.open_file(mapped)

            def batches(columns: list[str], rows: int, start: int) -> Batches:
                first = 0
                for i in range(file.num_record_batches):
                    batch = file.get_batch(i)
                    if first + batch.num_rows > start:
                        yield batch, first, size * (i + 1) // file.num_record_batches
                    first += batch.num_rows
                _check_n_rows(source.name, first, start)

            return ColumnarTable(source.name, format, file.schema, batches)

        schema = ipc.open_stream(mapped).schema

    def stream_batches(columns: list[str], rows: int, start: int) -> Batches:
        mapped.seek(0)
        first = 0
        for batch in ipc.open_stream(mapped):
            if first + batch.num_rows > start:
                yield batch, first, mapped.tell()
            first += batch.num_rows
        _check_n_rows(source.name, first, start)

    return ColumnarTable(source.name, format, schema, stream_batches)


def _check_n_rows(name: str, rows: int, start: int) -> None:
    if rows < start:
        raise FileError(f"{name} has {rows} rows but was read up to row {start}; resume with the same file")


@contextmanager
def _pyarrow_errors(name: str) -> Iterator[None]:
    """Convert the exceptions of pyarrow to a FileError."""
    try:
        yield
    except (FileError, GeneratorExit):
        raise
    except MemoryError:
        raise FileError(f"{name} does not fit in memory; are its texts very long, or is it damaged?") from None
    except pyarrow_exceptions() as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise FileError(f"{name} is truncated, damaged or in another format: {lines[0][:200]}") from None


def _decode(batch: Any, columns: list[str]) -> Any:
    """Return the columns of a batch, validated, without dictionaries, and with times as text."""
    pa, types = arrow(), arrow("types")
    arrays = []
    for name in columns:
        column = batch.column(name)
        column.validate(full=True)
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if types.is_temporal(column.type) or _is_text(column.type):
            column = column.cast(pa.string())
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, names=columns)


def _kind(type: Any) -> str:
    types = arrow("types")
    if types.is_dictionary(type):
        return _kind(type.value_type)
    if types.is_boolean(type):
        return "boolean"
    if types.is_integer(type) or types.is_floating(type) or types.is_decimal(type):
        return "number"
    if _is_text(type) or types.is_temporal(type):
        return "text"
    if types.is_list(type) or types.is_large_list(type) or types.is_fixed_size_list(type):
        return "list" if _kind(type.value_type) == "number" else "other"
    if _is_bytes(type):
        return "bytes"
    if types.is_struct(type):
        # Hugging Face stores a picture as an object of its bytes and its path.
        if "bytes" in [member.name for member in type] and _is_bytes(type.field("bytes").type):
            return "bytes"
        return "object" if all(_kind(member.type) == "number" for member in type) else "other"
    return "other"


def _is_bytes(type: Any) -> bool:
    types = arrow("types")
    return bool(types.is_binary(type) or types.is_large_binary(type) or types.is_fixed_size_binary(type))


def _is_single_precision(type: Any) -> bool:
    """Return whether float32 holds all numbers of a column, or of its lists."""
    types = arrow("types")
    if types.is_list(type) or types.is_large_list(type) or types.is_fixed_size_list(type):
        return _is_single_precision(type.value_type)
    return bool(types.is_float16(type) or types.is_float32(type))


def _is_text(type: Any) -> bool:
    types = arrow("types")
    return bool(types.is_string(type) or types.is_large_string(type) or types.is_string_view(type))
