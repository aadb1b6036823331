"""Text files, read in blocks of whole records with their line numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ocelad.io.tabular import sources
from ocelad.io.tabular.file_errors import BadRowError, FileError
from ocelad.io.tabular.point_columns import AsNumber, Record
from ocelad.io.tabular.record_blocks import Ints, Selection
from ocelad.io.tabular.sources import Source

BOM = b"\xef\xbb\xbf"
_LF, _CR = 10, 13
_UTF16_BYTES = 4  # the number of first bytes that reveal UTF-16


class Grammar(Protocol):
    """The syntax of records in a text format."""

    def ends(self, data: bytes) -> Ints:
        """Return the offset after the line feed of each complete record in ``data``."""

    def table(self, data: bytes, selection: Selection) -> Any:
        """Return a pyarrow table, or None if it would differ from the results of ``record``."""

    def record(self, text: str) -> Record:
        """Parse one record. Raises ``BadRowError`` if it is invalid."""


@dataclass(frozen=True)
class TextBlock:
    """Consecutive records of a text file. Blank lines between them are not records."""

    grammar: Grammar
    selection: Selection
    data: bytes
    offset: int
    starts: Ints
    ends: Ints
    lines: Ints
    next_lines: Ints
    bytes_read: int

    def part(self, first: int, last: int) -> TextBlock:
        start, end = int(self.starts[first]) - self.offset, int(self.ends[last - 1]) - self.offset
        rows = slice(first, last)
        return TextBlock(
            self.grammar,
            self.selection,
            self.data[start:end],
            self.offset + start,
            self.starts[rows],
            self.ends[rows],
            self.lines[rows],
            self.next_lines[rows],
            self.bytes_read,
        )

    def table(self) -> Any:
        # pyarrow ends a line at a single carriage return, and drops a byte order mark at the start of any block.
        if self.data.count(b"\r") != self.data.count(b"\r\n") or self.data.startswith(BOM):
            return None
        table = self.grammar.table(self.data, self.selection)
        return table if table is not None and table.num_rows == len(self.lines) else None

    def record(self, i: int) -> Record:
        return self.grammar.record(self.text(i))

    def text(self, i: int) -> str:
        data = self.data[self.starts[i] - self.offset : self.ends[i] - self.offset]
        return data.removesuffix(b"\n").removesuffix(b"\r").decode()


class TextReader:
    """Reads a text file in blocks that end at the end of a record."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._pending = b""
        self._offset = 0
        self._line = 1
        self._ended = False
        while len(self._pending) < _UTF16_BYTES and self._read_more():
            pass
        _check_not_utf16(source.name, self._pending[:_UTF16_BYTES])
        if self._pending.startswith(BOM):
            self._pending, self._offset = self._pending[len(BOM) :], len(BOM)

    def first_character(self) -> str:
        """Return the first character that is not blank; empty for an empty file."""
        while not self._pending.strip() and self._read_more():
            pass
        return self._pending.lstrip()[:1].decode(errors="replace")

    def peek_line(self) -> str:
        """Return the first line that is not blank, without consuming it."""
        while (
            b"\n" not in self._pending.lstrip() and len(self._pending) <= sources.MAX_LINE_BYTES and self._read_more()
        ):
            pass
        return self._pending.lstrip().partition(b"\n")[0].decode(errors="replace")

    def first_line(self, grammar: Grammar) -> str:
        """Read the first record that is not blank."""
        while (block := self.block(grammar, Selection((), ()))) is not None:
            if len(block.lines):
                self._unread(block.data[block.ends[0] - block.offset :], int(block.ends[0]), int(block.next_lines[0]))
                return block.text(0)
        raise FileError(f"{self.source.name} is empty")

    def sample(self, grammar: Grammar, count: int) -> list[tuple[int, Record | BadRowError]]:
        """Return the next records, at most ``count``, with their lines, without consuming them."""
        offset, line = self._offset, self._line
        data = b""
        found: list[tuple[int, Record | BadRowError]] = []
        try:
            while len(found) < count and len(data) <= sources.MAX_LINE_BYTES:
                block = self.block(grammar, Selection((), ()))
                if block is None:
                    break
                data += block.data
                for i in range(min(len(block.lines), count - len(found))):
                    found.append((int(block.lines[i]), _record_or_error(block, i)))
        except FileError:
            if not found:
                raise
        finally:
            self._unread(data, offset, line)
        return found

    def skip_to(self, offset: int, line: int) -> None:
        """Continue at a byte that is the end of a record."""
        name = self.source.name
        size = self.source.total_bytes
        if self.source.seekable and size is not None:
            if size < offset:
                raise FileError(f"{name} has {size} bytes but was read up to byte {offset}; resume with the same file")
            self.source.seek(offset)
            self._pending, self._ended = b"", False
        else:
            while self._offset + len(self._pending) < offset:
                self._offset += len(self._pending)
                self._pending = b""
                if not self._read_more():
                    raise FileError(
                        f"{name} ends at byte {self._offset} but was read up to {offset}; resume with the same file"
                    )
            self._pending = self._pending[offset - self._offset :]
        self._offset, self._line = offset, line

    def block(self, grammar: Grammar, selection: Selection) -> TextBlock | None:
        """Return the next records, at least one line; None at the end."""
        while True:
            ends = grammar.ends(self._pending)
            if not ends.size and not self._ended and len(self._pending) <= sources.MAX_LINE_BYTES:
                self._read_more()
                continue
            if not ends.size and len(self._pending) > sources.MAX_LINE_BYTES:
                megabytes = sources.MAX_LINE_BYTES / (1 << 20)
                raise FileError(
                    f"{self.source.name}, line {self._line}: the row is longer than {megabytes:g} MB; "
                    "is a quote not closed, or is this not a text file?"
                )
            if not ends.size:
                if not self._pending:
                    return None
                ends = np.array([len(self._pending)])
            return self._take_block(grammar, selection, ends)

    def _take_block(self, grammar: Grammar, selection: Selection, ends: Ints) -> TextBlock:
        data = self._pending[: ends[-1]]
        if not data.isascii() or b"\0" in data:
            ends = self._ends_before_invalid_byte(data, ends)
            data = data[: ends[-1]]
        characters = np.frombuffer(data, dtype=np.uint8)
        newlines = np.flatnonzero(characters == _LF)
        starts = np.concatenate([[0], ends[:-1]])
        blank = (characters[starts] == _LF) | (
            (characters[starts] == _CR)
            & ((ends - starts == 1) | ((ends - starts == 2) & (characters[ends - 1] == _LF)))
        )
        if blank.any():
            starts, record_ends = starts[~blank], ends[~blank]
        else:
            record_ends = ends
        lines = self._line + np.searchsorted(newlines, starts)
        next_lines = self._line + np.searchsorted(newlines, record_ends)
        offset = self._offset
        self._pending = self._pending[len(data) :]
        self._offset += len(data)
        self._line += len(newlines)
        read = self.source.bytes_read if self.source.gzipped else self._offset
        return TextBlock(
            grammar, selection, data, offset, offset + starts, offset + record_ends, lines, next_lines, read
        )

    def _ends_before_invalid_byte(self, data: bytes, ends: Ints) -> Ints:
        """Return the ends of the records before the first byte that is not UTF-8 text; FileError if there are none."""
        invalid = data.find(b"\0")
        try:
            data.decode()
        except UnicodeDecodeError as error:
            invalid = error.start if invalid < 0 else min(invalid, error.start)
        if invalid < 0:
            return ends
        valid = ends[ends <= invalid]
        if not valid.size:
            line = self._line + data.count(b"\n", 0, invalid)
            raise FileError(
                f"{self.source.name}, line {line}: byte 0x{data[invalid]:02x} is not text; accepted: UTF-8 text files"
            )
        return valid

    def _read_more(self) -> bool:
        # An incomplete record is scanned again after every read. Doubling its length each time keeps the work linear.
        data = b"" if self._ended else self.source.read(max(sources.BLOCK_BYTES, len(self._pending)))
        self._ended = not data
        self._pending += data
        return bool(data)

    def _unread(self, data: bytes, offset: int, line: int) -> None:
        self._pending, self._offset, self._line = data + self._pending, offset, line


class TextTable:
    """A text file as a table, with the grammar of its format."""

    unit = "line"
    typed = False
    single_precision: frozenset[str] = frozenset()

    def __init__(
        self, reader: TextReader, grammar: Grammar, format: str, kinds: dict[str, str], as_number: AsNumber
    ) -> None:
        self.reader, self.grammar, self.format, self.kinds, self.as_number = reader, grammar, format, kinds, as_number

    def sample(self, count: int) -> list[tuple[int, Record | BadRowError]]:
        return self.reader.sample(self.grammar, count)

    def blocks(self, selection: Selection, start: Mapping[str, Any] | None) -> Iterator[TextBlock]:
        if start is not None:
            self.reader.skip_to(start["offset"], start["line"])
        while (block := self.reader.block(self.grammar, selection)) is not None:
            yield block


def _check_not_utf16(name: str, head: bytes) -> None:
    zeros = [byte == 0 for byte in head]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or zeros in ([False, True] * 2, [True, False] * 2):
        raise FileError(f"{name} is in UTF-16; accepted: UTF-8 (iconv -f UTF-16 -t UTF-8 converts it)")


def _record_or_error(block: TextBlock, i: int) -> Record | BadRowError:
    try:
        return block.record(i)
    except BadRowError as error:
        return error
