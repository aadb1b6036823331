"""Exports of answers, of the log and of items as files that ``ocelad track`` reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, Literal

from ocelad.service import items as item_sets
from ocelad.service import serialize
from ocelad.service.entries import Entry
from ocelad.service.served_project import ServedProject

ExportContent = Literal["comparisons", "log", "items"]
ExportFormat = Literal["parquet", "jsonl"]
MEDIA_TYPES: dict[str, str] = {"parquet": "application/vnd.apache.parquet", "jsonl": "application/x-ndjson"}
_PAGE, _CHUNK_BYTES = 5000, 2**18


def export_chunks(project: ServedProject, content: ExportContent, format: ExportFormat) -> Iterator[bytes]:
    """Yield the bytes of an export of the project's present state."""
    if content == "items":
        return _export_items(project, format)
    tables = _entry_tables(project, content)
    return _to_parquet(tables) if format == "parquet" else _to_json_lines(tables)


def _export_items(project: ServedProject, format: ExportFormat) -> Iterator[bytes]:
    with TemporaryDirectory() as folder:
        path = Path(folder, f"items.{format}")
        item_sets.write_items(project.items, path)
        with open(path, "rb") as file:
            yield from iter(partial(file.read, _CHUNK_BYTES), b"")


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
        "time": datetime.fromtimestamp(serialized.at / 1000, UTC),
        "person": serialized.person,
        "source": serialized.source,
        "seq": serialized.seq,
        "undoes": serialized.undoes,
        "undone": serialized.undone,
    }


def _to_parquet(tables: Iterator[Any]) -> Iterator[bytes]:
    import pyarrow.parquet as pq

    first = next(tables)
    with TemporaryFile() as file:  # the index of a Parquet file is at its end: it is sent once it is complete
        with pq.ParquetWriter(file, first.schema) as writer:
            for table in chain([first], tables):
                writer.write_table(table)
        file.seek(0)
        yield from iter(partial(file.read, _CHUNK_BYTES), b"")


def _to_json_lines(tables: Iterator[Any]) -> Iterator[bytes]:
    for table in tables:
        rows = table.to_pylist()
        yield "".join(json.dumps(row, default=datetime.isoformat, ensure_ascii=False) + "\n" for row in rows).encode()
