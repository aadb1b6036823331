"""Tables of any text format or of Parquet or Arrow, as rows of cells by column name."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO, StringIO
from typing import Any, Literal

from ocelad.service.labelled_pairs.pairs_error import PairsError

PARQUET_MAGIC, ARROW_MAGIC = b"PAR1", b"ARROW1"
_OFFICE_MAGIC = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
_DELIMITERS = (",", ";", "\t", "|")
_ARROW_BATCH = 10_000
_ACCEPTED = "accepted: CSV, TSV, JSON lines, a JSON list of objects, Parquet or Arrow"


@dataclass
class RecordTable:
    """A table that is being read.

    Attributes
    ----------
    columns : tuple of str
    unit : {"line", "row", "object"}
        What the numbers of rows count.
    notes : list of str
        Sentences about the file for people, such as the encoding if it was guessed.
    """

    columns: tuple[str, ...]
    unit: Literal["line", "row", "object"]
    _rows: Iterator[tuple[int, dict[str, Any]]]
    notes: list[str] = field(default_factory=list)
    #: The first line, if the table is text without a header; see ``without_header``.
    _records: Iterator[tuple[int, list[str]]] | None = None

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the number and the cells of each row, once."""
        return self._rows

    def without_header(self) -> Iterator[tuple[int, list[str]]] | None:
        """Yield all lines of delimited text with the first one, which is not a header then; None for other tables."""
        return self._records


def decode_text(data: bytes) -> tuple[str, list[str]]:
    """Return the text of a file and notes about its encoding: UTF-8, UTF-16 with a mark, or else Latin-1.

    >>> decode_text("größe".encode("latin-1"))
    ('größe', ['The file is not UTF-8 and was read as Latin-1.'])
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return data.decode("utf-16"), []
        except UnicodeDecodeError:
            raise PairsError(f"the file begins like UTF-16, but is not; {_ACCEPTED}, in UTF-8") from None
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace"), ["The file is not UTF-8 and was read as Latin-1."]


def read_table(data: bytes) -> RecordTable:
    """Open the table in the bytes of a file; its format follows from its content."""
    if data.startswith(_OFFICE_MAGIC):
        raise PairsError("the file looks like an Excel file (or another archive); save it as CSV")
    if data.startswith((PARQUET_MAGIC, ARROW_MAGIC)):
        return _read_arrow(data)
    text, notes = decode_text(data)
    start = text.lstrip()[:1]
    if not start:
        raise PairsError(f"the file is empty; {_ACCEPTED}")
    table = _read_json(text) if start in "[{" else _read_delimited(text)
    table.notes.extend(notes)
    return table


def parse_json(text: str) -> Any:
    """Parse JSON; raise PairsError with the place of the fault."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise PairsError(f"the file is not valid JSON: {error.msg} in line {error.lineno}") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or deep lists
        raise PairsError(
            "the JSON of the file is nested too deeply or has too long numbers; accepted: lists of records"
        ) from None


def _read_arrow(data: bytes) -> RecordTable:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if data.startswith(PARQUET_MAGIC):
            file = pq.ParquetFile(BytesIO(data))
            columns, batches = tuple(file.schema_arrow.names), file.iter_batches(_ARROW_BATCH)
        else:
            reader = pa.ipc.open_file(BytesIO(data))
            columns = tuple(reader.schema.names)
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
    except pa.ArrowException as error:
        raise PairsError(f"the file is damaged: {_one_line(error)}") from None

    def rows() -> Iterator[tuple[int, dict[str, Any]]]:
        number = 0
        try:
            for batch in batches:
                for record in batch.to_pylist():
                    number += 1
                    yield number, record
        except (pa.ArrowException, OSError) as error:
            raise PairsError(f"the file is damaged after row {number}: {_one_line(error)}") from None

    return RecordTable(columns, "row", rows())


def _read_json(text: str) -> RecordTable:
    if text.lstrip().startswith("["):
        return _json_objects("object", enumerate(parse_json(text), 1))
    return _json_objects("line", _json_lines(text))


def _json_lines(text: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(StringIO(text), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError):
                raise PairsError(f"line {number} is not a JSON object; {_ACCEPTED}") from None


def _json_objects(unit: Literal["line", "object"], entries: Iterator[tuple[int, Any]]) -> RecordTable:
    def rows() -> Iterator[tuple[int, dict[str, Any]]]:
        for number, record in entries:
            if not isinstance(record, dict):
                raise PairsError(f"{unit} {number} is not a JSON object; {_ACCEPTED}")
            yield number, record

    checked = rows()
    first = next(checked, None)
    if first is None:
        raise PairsError(f"the file has no rows; {_ACCEPTED}")

    def all_rows() -> Iterator[tuple[int, dict[str, Any]]]:
        yield first
        yield from checked

    return RecordTable(tuple(first[1]), unit, all_rows())


def _read_delimited(text: str) -> RecordTable:
    if text[:4].lower() == "sep=" and text[5:6] in "\r\n":  # Excel's own way to name the delimiter
        text = "\n" + text.partition("\n")[2]
    delimiter = _find_delimiter(text)
    header_line, header = next(_records(text, delimiter), (1, []))
    columns = tuple(name.strip() for name in header)

    def rows() -> Iterator[tuple[int, dict[str, Any]]]:
        records = _records(text, delimiter)
        next(records, None)
        for line, cells in records:
            if len(cells) != len(columns):
                raise PairsError(
                    f"line {line} has {len(cells)} cells, and the header in line {header_line} has {len(columns)}; "
                    "accepted: as many"
                )
            yield line, dict(zip(columns, cells, strict=True))

    return RecordTable(columns, "line", rows(), _records=_records(text, delimiter))


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each record with its first line; lines without a cell are skipped."""
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise PairsError(f"line {line} cannot be read as CSV: {error}") from None
        if cells:
            yield line, cells


def _find_delimiter(text: str) -> str:
    """Return the delimiter that splits the first record into the most cells; the comma if none does."""

    def n_cells(delimiter: str) -> int:
        try:
            return len(next(_records(text, delimiter), (1, []))[1])
        except PairsError:
            return 0

    return max(_DELIMITERS, key=n_cells)


def find_column(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the column with the first of these names that exists, in any case; None if no column has one.

    >>> find_column(["ID_A", "same"], ["left", "id_a"])
    'ID_A'
    """
    by_name = {column.strip().casefold(): column for column in reversed(columns)}
    return next((by_name[name] for name in names if name in by_name), None)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
