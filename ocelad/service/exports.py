"""Exports: answers, the log and the items, piece by piece, as files that ``ocelad track`` reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, Literal

from ocelad.service import items as reading
from ocelad.service.entries import Entry
from ocelad.service.served_project import ServedProject

What = Literal["comparisons", "log", "items"]
Format = Literal["parquet", "jsonl"]
TYPES: dict[str, str] = {"parquet": "application/vnd.apache.parquet", "jsonl": "application/x-ndjson"}
_PAGE, _BYTES = 5000, 2**18


def chunks(live: ServedProject, what: What, format: Format) -> Iterator[bytes]:
    """The file, in pieces; as the project is when it is asked for."""
    if what == "items":
        return _items(live, format)
    tables = _entries(live, what)
    return _parquet(tables) if format == "parquet" else _json_lines(tables)


def _items(live: ServedProject, format: Format) -> Iterator[bytes]:
    with TemporaryDirectory() as folder:
        path = Path(folder, f"items.{format}")
        reading.write_items(live.items, path)
        with open(path, "rb") as file:
            yield from iter(partial(file.read, _BYTES), b"")


def _entries(live: ServedProject, what: What) -> Iterator[Any]:
    """Tables of entries up to the one that is the last now, as of that one: what is undone later is not yet."""
    import pyarrow as pa

    schema = pa.schema(
        [("id_a", pa.string()), ("id_b", pa.string()), ("similar", pa.string())]
        + [("time", pa.timestamp("ms", tz="UTC")), ("who", pa.string()), ("asked", pa.string()), ("seq", pa.int64())]
        + ([("undoes", pa.int64()), ("undone", pa.bool_())] if what == "log" else [])
    )
    place, last = 0, live.seq
    yield pa.Table.from_pylist([], schema=schema)  # the columns are there without a row, too
    while place < last and (page := live.entries(place, min(_PAGE, last - place))):
        place = page[-1].seq
        rows = [_row(live, entry, last) for entry in page]
        if what == "comparisons":
            rows = [row for row in rows if row["similar"] in ("same", "different") and not row["undone"]]
        yield pa.Table.from_pylist(rows, schema=schema)


def _row(live: ServedProject, entry: Entry, last: int) -> dict[str, Any]:
    told = live.told(entry, last)
    return {
        "id_a": told.left,
        "id_b": told.right,
        "similar": told.kind,
        "time": datetime.fromtimestamp(told.at / 1000, UTC),
        "who": told.who,
        "asked": told.asked,
        "seq": told.seq,
        "undoes": told.undoes,
        "undone": told.undone,
    }


def _parquet(tables: Iterator[Any]) -> Iterator[bytes]:
    import pyarrow.parquet as pq

    first = next(tables)
    with TemporaryFile() as file:  # its end tells where the parts are: it is not sent before it is whole
        with pq.ParquetWriter(file, first.schema) as writer:
            for table in chain([first], tables):
                writer.write_table(table)
        file.seek(0)
        yield from iter(partial(file.read, _BYTES), b"")


def _json_lines(tables: Iterator[Any]) -> Iterator[bytes]:
    for table in tables:
        rows = table.to_pylist()
        yield "".join(json.dumps(row, default=datetime.isoformat, ensure_ascii=False) + "\n" for row in rows).encode()
