"""Exports of answers, of the log and of items as files that ``ocelad track`` reads, and of groups.

They are sent while they are written: they need neither temporary files nor memory for the whole.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from typing import Any, Literal

import numpy as np

from ocelad.service import serialize
from ocelad.service.api_error import ApiError
from ocelad.service.entries import Entry
from ocelad.service.labelled_pairs import WRITERS, WrittenAnswer
from ocelad.service.served_project import ServedProject

ExportContent = Literal["comparisons", "log", "items", "groups"]
ExportFormat = Literal["parquet", "jsonl", "csv", "dedupe", "splink", "zingg"]
MEDIA_TYPES: dict[str, str] = {
    "parquet": "application/vnd.apache.parquet",
    "jsonl": "application/x-ndjson",
    "csv": "text/csv",
    "dedupe": "application/json",
    "splink": "text/csv",
    "zingg": "text/csv",
}
#: The suffix of a file of each format.
SUFFIXES: dict[str, str] = {"dedupe": "dedupe.json", "splink": "splink.csv", "zingg": "zingg.csv"}
# The rows, and the values of items, that are in memory at a time.
_PAGE, _PAGE_VALUES = 5000, 1_000_000


def export_chunks(project: ServedProject, content: ExportContent, format: ExportFormat) -> Iterator[bytes]:
    """Yield the bytes of an export of the project's present state."""
    if format == "dedupe" or format == "splink" or format == "zingg":
        if content != "comparisons":
            accepted = "accepted: parquet, jsonl and csv"
            raise ApiError(422, f"{content} cannot be written for {format}; {accepted}", where="query.format")
        return _pages(WRITERS[format](partial(_answers, project, project.seq), project.items))
    if content == "items":
        tables = _item_tables(project)
    else:
        tables = _group_tables(project) if content == "groups" else _entry_tables(project, content)
    return _WRITERS[format](tables)


def _answers(project: ServedProject, last: int) -> Iterator[WrittenAnswer]:
    """Yield the answers up to an entry that were not undone until then."""
    position = 0
    while position < last and (page := project.entries(position, min(_PAGE, last - position))):
        position = page[-1].seq
        for entry in page:
            if entry.kind in ("same", "different") and not project.is_undone(entry, last):
                yield WrittenAnswer(entry.left, entry.right, entry.kind == "same", entry.person, entry.seq)


def _pages(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines in larger chunks."""
    while page := list(islice(lines, 1000)):
        yield b"".join(page)


def _item_tables(project: ServedProject) -> Iterator[Any]:
    """Yield tables of the ids and the features, as ``ocelad track --items`` and ``ocelad embed`` read them."""
    import pyarrow as pa

    items = project.items
    names = items.feature_names
    schema = pa.schema([("id", pa.string()), *((name, pa.float64()) for name in names)])
    rows = max(1, _PAGE_VALUES // len(names))
    for begin in range(0, len(items), rows):
        part = slice(begin, begin + rows)
        features = items.features[part].astype(np.float64)
        columns = [pa.array(items.ids[part], pa.string()), *(pa.array(column) for column in features.T.copy())]
        yield pa.Table.from_arrays(columns, schema=schema)


def _entry_tables(project: ServedProject, content: ExportContent) -> Iterator[Any]:
    """Yield tables of the entries up to the present last one; later undos are ignored."""
    import pyarrow as pa

    schema = pa.schema(
        [
            ("id_a", pa.string()),
            ("id_b", pa.string()),
            ("similar", pa.string()),
            ("time", pa.timestamp("ms", tz="UTC")),
            ("person", pa.string()),
            ("source", pa.string()),
            ("seq", pa.int64()),
        ]
        + ([("undoes", pa.int64()), ("undone", pa.bool_())] if content == "log" else [])
        + ([("name", pa.string()), ("bundle", pa.int64())] if content == "log" else [])
    )
    position, last = 0, project.seq
    yield pa.Table.from_pylist([], schema=schema)  # an export without rows has columns, too
    while position < last and (page := project.entries(position, min(_PAGE, last - position))):
        position = page[-1].seq
        rows = [_row(project, entry, last) for entry in page]
        if content == "comparisons":
            rows = [row for row in rows if row["similar"] in ("same", "different") and not row["undone"]]
        yield pa.Table.from_pylist(rows, schema=schema)


def _row(project: ServedProject, entry: Entry, last: int) -> dict[str, Any]:
    serialized = serialize.log_entry(project, entry, last)
    return {
        "id_a": serialized.left,
        "id_b": serialized.right,
        "similar": serialized.kind,
        "time": datetime.fromtimestamp(serialized.at / 1000, UTC) if serialized.at else None,  # None: erased
        "person": serialized.person,
        "source": serialized.source,
        "seq": serialized.seq,
        "undoes": serialized.undoes,
        "undone": serialized.undone,
        "name": serialized.name,
        "bundle": serialized.bundle,
    }


def _group_tables(project: ServedProject) -> Iterator[Any]:
    """Yield tables of all items with the id and the name of their group."""
    import pyarrow as pa

    ids, groups = project.items.ids, project.view.groups
    assert groups is not None
    schema = pa.schema([("id", pa.string()), ("group", pa.string()), ("name", pa.string())])
    rows = (
        {"id": id, "group": ids[first], "name": name}
        for id, (first, name) in zip(ids, groups.entities(len(ids)), strict=True)
    )
    while page := list(islice(rows, _PAGE)):
        yield pa.Table.from_pylist(page, schema=schema)


class _WrittenBytes(io.RawIOBase):
    """A file for writing whose bytes are taken while it is written, so that they are neither in memory nor on disk."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._n_bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        self._n_bytes += len(self._parts[-1])
        return len(self._parts[-1])

    def tell(self) -> int:
        return self._n_bytes

    def take(self) -> bytes:
        """Return what was written since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


def _to_parquet(tables: Iterator[Any]) -> Iterator[bytes]:
    """Yield a Parquet file, one group of rows at a time: its index is at its end."""
    import pyarrow.parquet as pq

    file, first = _WrittenBytes(), next(tables)
    with pq.ParquetWriter(file, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
            yield file.take()
    yield file.take()


def _to_json_lines(tables: Iterator[Any]) -> Iterator[bytes]:
    for table in tables:
        rows = table.to_pylist()
        yield "".join(json.dumps(row, default=datetime.isoformat, ensure_ascii=False) + "\n" for row in rows).encode()


def _to_csv(tables: Iterator[Any]) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    options = pa_csv.WriteOptions(include_header=False)
    first = next(tables)
    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(first.schema.names)
    yield header.getvalue().encode()
    for table in chain([first], tables):
        with pa.BufferOutputStream() as out:
            pa_csv.write_csv(table, out, options)
            yield out.getvalue().to_pybytes()


_WRITERS = {"parquet": _to_parquet, "jsonl": _to_json_lines, "csv": _to_csv}
