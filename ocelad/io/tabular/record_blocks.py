"""Blocks of records, and their conversion to rows: all at once if every record is valid, otherwise one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ocelad.io.tabular.file_errors import BadRowError
from ocelad.io.tabular.point_columns import AsNumber, PointColumns, Record

Ints: TypeAlias = npt.NDArray[np.int64]
# Columns by name; each is an array or a list with one entry per row, or None.
Values: TypeAlias = dict[str, Any]

# A block with an invalid row is halved until it has at most this many rows, which are then read one by one.
_MAX_ROWS_ONE_BY_ONE = 32


@dataclass(frozen=True)
class Selection:
    """The columns to read: those of points, and others."""

    points: tuple[PointColumns, ...]
    others: tuple[str, ...]
    #: The approximate size of cells that are larger than a number, such as pictures, in numbers.
    extra_width: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*(name for points in self.points for name in points.columns), *self.others]))

    @property
    def width(self) -> int:
        """The approximate number of values in a row."""
        return sum(points.width for points in self.points) + len(self.others) + self.extra_width


class Block(Protocol):
    """Consecutive records of a file, which can be read as a table or one by one.

    ``lines`` holds the line of each record. ``ends`` and ``next_lines`` hold the position of the next record: its byte
    (its row in Parquet and Arrow files) and its line. ``bytes_read`` is the number of bytes of the file read so far.
    """

    @property
    def lines(self) -> Ints: ...

    @property
    def ends(self) -> Ints: ...

    @property
    def next_lines(self) -> Ints: ...

    @property
    def bytes_read(self) -> int: ...

    def part(self, first: int, last: int) -> Block:
        """Return the records first, ..., last - 1."""

    def table(self) -> Any:
        """Return a pyarrow table, or None if pyarrow reads a record differently than ``record``."""

    def record(self, i: int) -> Record:
        """Return one record. Raises ``BadRowError`` if it is invalid."""

    def text(self, i: int) -> str:
        """Return the text of one record in the file."""


class Schema(Protocol):
    """The conversion of records to values."""

    @property
    def selection(self) -> Selection:
        """The columns that it needs."""

    def columns(self, table: Any) -> Values | None:
        """Convert a whole table; None if a value is invalid."""

    def row(self, record: Record, as_number: AsNumber) -> Values:
        """Convert one record. Raises ``BadRowError`` if a value is invalid."""

    def stack(self, rows: list[Values]) -> Values:
        """Combine the values of converted records."""


class Table(Protocol):
    """A file of any format as a table.

    ``unit`` is the unit in which positions are counted: "line" or "row". ``kinds`` maps each column to the kind of its
    values: "number", "text", "boolean", "list", "object", "bytes" or "other", or "cell" if only text is known.
    ``typed`` is True if the format guarantees that all values of a column have that kind. ``single_precision`` has the
    columns whose numbers are float32. ``as_number`` converts a cell to a number. ``number_notes`` are sentences about
    numbers that could also be read in another way.
    """

    format: str
    unit: str
    typed: bool
    kinds: dict[str, str]
    single_precision: frozenset[str]
    number_notes: tuple[str, ...]

    @property
    def as_number(self) -> AsNumber: ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about the file, as far as it has been read."""

    def encoding_at(self, offset: int) -> str | None:
        """Return the encoding of a text file, if a byte before the offset, which is not ASCII, decides it."""

    def sample(self, count: int) -> list[tuple[int, Record | BadRowError]]:
        """Return the first records, at most ``count``, with their lines, without consuming them."""

    def blocks(self, selection: Selection, start: Mapping[str, Any] | None) -> Iterator[Any]:
        """Iterate over blocks of all records, or of those after the position ``start``."""


@dataclass(frozen=True)
class BadRow:
    """An invalid row, with the reason; ``n_valid_before`` counts the valid rows before it in its block."""

    n_valid_before: int
    line: int
    reason: str
    text: str
    end: int
    next_line: int


@dataclass(frozen=True)
class ParsedRows:
    """The content of a block: the values and positions of its valid rows, and its invalid rows."""

    values: Values
    lines: Ints
    ends: Ints
    next_lines: Ints
    bad: list[BadRow]
    bytes_read: int


def read_rows(block: Block, schema: Schema, as_number: AsNumber) -> Iterator[ParsedRows]:
    """Read the rows of a block, in order."""
    if not len(block.lines):
        return
    table = block.table()
    values = None if table is None else schema.columns(table)
    if values is not None:
        yield ParsedRows(values, block.lines, block.ends, block.next_lines, [], block.bytes_read)
    elif len(block.lines) <= _MAX_ROWS_ONE_BY_ONE:
        yield _one_by_one(block, schema, as_number)
    else:
        half = len(block.lines) // 2
        yield from read_rows(block.part(0, half), schema, as_number)
        yield from read_rows(block.part(half, len(block.lines)), schema, as_number)


def _one_by_one(block: Block, schema: Schema, as_number: AsNumber) -> ParsedRows:
    valid: list[int] = []
    rows: list[Values] = []
    bad: list[BadRow] = []
    for i in range(len(block.lines)):
        try:
            rows.append(schema.row(block.record(i), as_number))
            valid.append(i)
        except BadRowError as error:
            line, end, next_line = int(block.lines[i]), int(block.ends[i]), int(block.next_lines[i])
            bad.append(BadRow(len(valid), line, str(error), block.text(i), end, next_line))
    at = np.array(valid, dtype=np.int64)
    return ParsedRows(schema.stack(rows), block.lines[at], block.ends[at], block.next_lines[at], bad, block.bytes_read)
