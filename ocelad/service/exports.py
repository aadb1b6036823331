"""Exports of answers, of the log and of items as files that ``ocelad track`` reads, and of groups."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, Literal

from ocelad.service import items as item_sets
from ocelad.service import serialize
from ocelad.service.entries import Entry
from ocelad.service.served_project import ServedProject

ExportContent = Literal["comparisons", "log", "items", "groups"]
ExportFormat = Literal["parquet", "jsonl", "csv"]
MEDIA_TYPES: dict[str, str] = {
    "parquet": "application/vnd.apache.parquet",
    "jsonl": "application/x-ndjson",
    "csv": "text/csv",
}
_PAGE, _CHUNK_BYTES = 5000, 2**18


def export_chunks(project: ServedProject, content: ExportContent, format: ExportFormat) -> Iterator[bytes]:
    """Yield the bytes of an export of the project's present state."""
    if content == "items":
        return _export_items(project, format)
    tables = _group_tables(project) if content == "groups" else _entry_tables(project, content)
    return _WRITERS[format](tables)


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
        "time": datetime.fromtimestamp(serialized.at / 1000, UTC),
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


def _to_csv(tables: Iterator[Any]) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    options = pa_csv.WriteOptions(include_header=False)
    first = next(tables)
    yield (",".join(first.schema.names) + "\n").encode()
    for table in chain([first], tables):
        with pa.BufferOutputStream() as out:
            pa_csv.write_csv(table, out, options)
            yield out.getvalue().to_pybytes()


_WRITERS = {"parquet": _to_parquet, "jsonl": _to_json_lines, "csv": _to_csv}
