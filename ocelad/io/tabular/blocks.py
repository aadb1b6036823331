"""From blocks of a file to rows: a block at once where all is well, and row by row where something is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ocelad.io.tabular.errors import BadRowError
from ocelad.io.tabular.points import AsNumber, Points, Record

Ints: TypeAlias = npt.NDArray[np.int64]
# Each value is an array or a list, with one entry per row.
Values: TypeAlias = dict[str, Any]

# A block with a bad row is halved until so few rows are left; those are read one by one.
_FEW = 32


@dataclass(frozen=True)
class Wanted:
    """What is read of each row: points, and columns that are kept as they are."""

    points: tuple[Points, ...]
    kept: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*(name for points in self.points for name in points.columns), *self.kept]))

    @property
    def width(self) -> int:
        """Metadata how many numbers a row has."""
        return sum(points.width for points in self.points) + len(self.kept)


class Block(Protocol):
    """Some records of a file in a row, seen as a table or one by one.

    ``lines`` says where each begins, ``ends`` and ``next_lines`` where the one after it does: a byte, or a row in
    Parquet and Arrow files, and its line. ``bytes_read`` is how far the file was read.
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
        """The records from ``first`` to the one before ``last``."""

    def table(self) -> Any:
        """All records as a pyarrow table, or None where pyarrow does not read each of them as ``record`` does."""

    def record(self, i: int) -> Record:
        """One record; ``BadRowError`` where it is none."""

    def text(self, i: int) -> str:
        """One record as it stands in the file."""


class Schema(Protocol):
    """What rows become."""

    @property
    def wanted(self) -> Wanted:
        """What is read for it."""

    def columns(self, table: Any) -> Values | None:
        """The values of a whole table, or None where one is wrong."""

    def row(self, record: Record, as_number: AsNumber) -> Values:
        """The values of one record; ``BadRowError`` where one is."""

    def stack(self, rows: list[Values]) -> Values:
        """The values of many records."""


class Table(Protocol):
    """A file seen as a table, whatever its format.

    ``unit`` is what rows are counted in: "line" or "row". ``kinds`` says what each column holds: "number", "text",
    "flag", "list", "object" or "other", or "cell" where only the text is known. ``typed``: whether all of a column is
    of that kind. ``as_number`` says which number a cell holds.
    """

    format: str
    unit: str
    typed: bool
    kinds: dict[str, str]

    @property
    def as_number(self) -> AsNumber: ...

    def sample(self, count: int) -> list[tuple[int, Record | BadRowError]]:
        """The first records, at most ``count``, with their lines; they will be read again."""

    def blocks(self, wanted: Wanted, start: Mapping[str, Any] | None) -> Iterator[Any]:
        """Blocks of all records, or of those after a position."""


@dataclass(frozen=True)
class BadRow:
    """A row that was not read: its place among the good rows of its block, and why."""

    before: int
    line: int
    reason: str
    text: str
    end: int
    next_line: int


@dataclass(frozen=True)
class Rows:
    """What was read of a block: the values of its good rows, where each ends, and its bad rows."""

    values: Values
    lines: Ints
    ends: Ints
    next_lines: Ints
    bad: list[BadRow]
    bytes_read: int


def read(block: Block, schema: Schema, as_number: AsNumber) -> Iterator[Rows]:
    """The rows of a block, in order."""
    if not len(block.lines):
        return
    table = block.table()
    values = None if table is None else schema.columns(table)
    if values is not None:
        yield Rows(values, block.lines, block.ends, block.next_lines, [], block.bytes_read)
    elif len(block.lines) <= _FEW:
        yield _one_by_one(block, schema, as_number)
    else:
        half = len(block.lines) // 2
        yield from read(block.part(0, half), schema, as_number)
        yield from read(block.part(half, len(block.lines)), schema, as_number)


def _one_by_one(block: Block, schema: Schema, as_number: AsNumber) -> Rows:
    good: list[int] = []
    rows: list[Values] = []
    bad: list[BadRow] = []
    for i in range(len(block.lines)):
        try:
            rows.append(schema.row(block.record(i), as_number))
            good.append(i)
        except BadRowError as wrong:
            line, end, next_line = int(block.lines[i]), int(block.ends[i]), int(block.next_lines[i])
            bad.append(BadRow(len(good), line, str(wrong), block.text(i), end, next_line))
    at = np.array(good, dtype=np.int64)
    return Rows(schema.stack(rows), block.lines[at], block.ends[at], block.next_lines[at], bad, block.bytes_read)
