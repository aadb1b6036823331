"""Tables of records from files: all columns as texts, numbers and dates, as a whole."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from ocelad.io.tabular import cells
from ocelad.io.tabular.file_errors import BadRowError, FileError, RowError, quote_all
from ocelad.io.tabular.file_formats import open_table
from ocelad.io.tabular.record_blocks import Selection
from ocelad.io.tabular.sources import Source


class PlacedRecords(NamedTuple):
    """The columns of a file of records.

    Attributes
    ----------
    columns : dict of str to list
        The values of each column; None: missing.
    places : list of str
        Where each record is, such as "line 2" or, in Parquet, "row 1".
    skipped : list of str
        Columns of lists, objects or bytes, which are not read.
    """

    columns: dict[str, list[Any]]
    places: list[str]
    skipped: list[str]


def read_records(path: str | os.PathLike[str], format: str | None = None) -> dict[str, list[Any]]:
    """Read the columns of a file (CSV, TSV, JSON lines, Parquet or Arrow); an empty cell is None.

    Columns of lists, objects or bytes are left out.

    >>> from tempfile import TemporaryDirectory
    >>> from pathlib import Path
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "people.csv").write_text("id,name\\na1,Ann\\na2,\\n")
    ...     read_records(f"{folder}/people.csv")
    {'id': ['a1', 'a2'], 'name': ['Ann', None]}
    """
    return read_placed_records(path, format).columns


def read_placed_records(path: str | os.PathLike[str], format: str | None = None) -> PlacedRecords:
    """Read the columns of a file, and where each record is."""
    source = Source(path)
    places: list[str] = []
    try:
        table = open_table(source, format, stop=True)
        columns = [name for name, kind in table.kinds.items() if kind not in ("list", "object", "bytes")]
        if not columns:
            raise FileError(f"{source.name} has no columns of texts or numbers; it has {quote_all(table.kinds)}")
        if "" in columns:
            raise FileError(f"{source.name} has a column without a name; name it in its first line")
        found: dict[str, list[Any]] = {name: [] for name in columns}
        for block in table.blocks(Selection((), tuple(columns)), None):
            arrow_table = block.table()
            if arrow_table is not None:
                parts = {name: arrow_table.column(name).to_pylist() for name in columns}
            else:
                records = [_read_record(source.name, table.unit, block, i) for i in range(len(block.lines))]
                parts = {name: [record.get(name) for record in records] for name in columns}
            places += [f"{table.unit} {line}" for line in block.lines.tolist()]
            for name, values in parts.items():
                found[name] += [None if cells.is_missing(value) else value for value in values]
    finally:
        source.close()
    if not found[columns[0]]:
        raise FileError(
            f"{source.name} has no rows; accepted: a table with at least one row below its names of columns (CSV, TSV, "
            "JSON lines, Parquet or Arrow)"
        )
    return PlacedRecords(found, places, [name for name in table.kinds if name not in columns])


def _read_record(name: str, unit: str, block: Any, i: int) -> Any:
    try:
        return block.record(i)
    except BadRowError as error:
        line = int(block.lines[i])
        raise RowError(f"{name}, {unit} {line}: {error}", line) from None
