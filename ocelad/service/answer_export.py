"""Write the answers in a store to a file, without a running service."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from ocelad.io.atomic import open_atomically
from ocelad.io.table_output import ColumnKind, open_output
from ocelad.service.entries import Entry
from ocelad.service.labelled_pairs import WRITERS, WrittenAnswer
from ocelad.service.store import Store
from ocelad.service.wire import ImportFormat

_PAGE = 5_000
_COLUMNS = ("id_a", "id_b", "similar", "time", "person", "source", "seq")


def standing_answers(store: Store, project_id: str) -> Iterator[Entry]:
    """Yield the answers "same" and "different" of a log that are not undone, in order."""
    undone = store.undone(project_id)
    position = 0
    while page := store.entries(project_id, position, _PAGE):
        position = page[-1].seq
        yield from (entry for entry in page if entry.kind in ("same", "different") and entry.seq not in undone)


def write_answers(store: Store, project_id: str, target: Path, format: ImportFormat) -> None:
    """Write the answers of a project to a file, atomically; the suffix of a table is that of its format."""
    items = store.items(project_id)
    if format == "dedupe" or format == "splink" or format == "zingg":
        with open_atomically(target) as file:
            for line in WRITERS[format](lambda: map(_written, standing_answers(store, project_id)), items):
                file.write(line)
        return
    columns: dict[str, ColumnKind] = {name: "integer" if name == "seq" else "value" for name in _COLUMNS}
    with open_output(target, columns) as out:
        answers = standing_answers(store, project_id)
        while page := list(islice(answers, _PAGE)):
            rows = [_row(entry, items.ids) for entry in page]
            out.write({name: list(column) for name, column in zip(_COLUMNS, zip(*rows, strict=True), strict=True)})


def _row(entry: Entry, ids: tuple[str, ...]) -> tuple[Any, ...]:
    at = datetime.fromtimestamp(entry.at / 1000, UTC).isoformat(timespec="milliseconds")
    return ids[entry.left], ids[entry.right], entry.kind, at, entry.person, entry.source, entry.seq


def _written(entry: Entry) -> WrittenAnswer:
    return WrittenAnswer(entry.left, entry.right, entry.kind == "same", entry.person, entry.seq)
