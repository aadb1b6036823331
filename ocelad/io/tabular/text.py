"""Text files, read in blocks of whole records with their line numbers.

Files are in UTF-8. UTF-16 is converted while it is read. A file with bytes that are not UTF-8 is in Windows-1252, which
contains the letters of Latin-1, if all bytes before the first of them are ASCII: otherwise it mixes encodings.
"""

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
UTF_8, WINDOWS_1252 = "utf-8", "cp1252"
_LF, _CR, _FIRST_NOT_ASCII = 10, 13, 128
_UTF16_BYTES = 4  # the number of first bytes that reveal UTF-16


class Grammar(Protocol):
    """The syntax of records in a text format."""

    def ends(self, data: bytes) -> Ints:
        """Return the offset after the line feed of each complete record in ``data``."""

    def table(self, data: bytes, selection: Selection) -> Any:
        """Return a pyarrow table, or None if it would differ from the results of ``record``."""

    def record(self, text: str, selection: Selection) -> Record:
        """Parse one record, of which a selection is read. Raises ``BadRowError`` if it is invalid."""


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
    encoding: str = UTF_8

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
            self.encoding,
        )

    def table(self) -> Any:
        # pyarrow ends a line at a single carriage return, and drops a byte order mark at the start of any block.
        if self.data.count(b"\r") != self.data.count(b"\r\n") or self.data.startswith(BOM):
            return None
        data = self.data if self.encoding == UTF_8 else self.data.decode(self.encoding).encode()
        table = self.grammar.table(data, self.selection)
        return table if table is not None and table.num_rows == len(self.lines) else None

    def record(self, i: int) -> Record:
        return self.grammar.record(self.text(i), self.selection)

    def text(self, i: int) -> str:
        data = self.data[self.starts[i] - self.offset : self.ends[i] - self.offset]
        return data.removesuffix(b"\n").removesuffix(b"\r").decode(self.encoding)


class TextReader:
    """Reads a text file in blocks that end at the end of a record.

    ``encoding`` is None until the first byte that is not ASCII decides it.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.encoding: str | None = None
        self._decided_at = 0  # the first byte that is not ASCII
        self._pending = b""
        self._offset = 0
        self._line = 1
        self._ended = False
        while len(self._pending) < _UTF16_BYTES and self._read_more():
            pass
        if (utf_16 := _utf16_name(self._pending[:_UTF16_BYTES])) is not None:
            source.decode_from(utf_16, self._pending)
            self._pending, self.encoding, self._decided_at = b"", UTF_8, -1
            self._read_more()
        if self._pending.startswith(BOM):
            self._pending, self._offset = self._pending[len(BOM) :], len(BOM)

    def first_character(self) -> str:
        """Return the first character that is not blank; empty for an empty file."""
        while not self._pending.strip() and self._read_more():
            pass
        return self._pending.lstrip()[:1].decode(errors="replace")

    def peek_line(self) -> str:
        """Return the first line that is not blank, without consuming it; empty for an empty file."""
        return next(iter(self.peek_lines(1)), "")

    def peek_lines(self, count: int) -> list[str]:
        """Return the first lines that are not blank, at most ``count``, without consuming them."""
        while (
            self._pending.lstrip().count(b"\n") < count
            and len(self._pending) <= sources.MAX_LINE_BYTES
            and self._read_more()
        ):
            pass
        lines = (line.rstrip(b"\r") for line in self._pending.lstrip().split(b"\n", maxsplit=4 * count))
        return [_decode_line(line) for line in lines if line][:count]

    def encoding_at(self, offset: int) -> str | None:
        """Return the encoding as the bytes before an offset decide it, however far the file has been read."""
        return self.encoding if offset > self._decided_at else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the encoding, as far as the file has been read."""
        if self.encoding != WINDOWS_1252:
            return ()
        return (
            f"{self.source.name} is not in UTF-8; it is read as Windows-1252 (Latin-1), so check its letters, or save "
            "it in UTF-8",
        )

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

    def skip_to(self, offset: int, line: int, encoding: str | None = None) -> None:
        """Continue at a byte that is the end of a record; ``encoding`` is that of the bytes before it, if known."""
        name = self.source.name
        if encoding is not None:
            self.encoding, self._decided_at = encoding, -1
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
        read = self.source.bytes_read if self.source.is_converted else self._offset
        ends = offset + record_ends
        encoding = self.encoding or UTF_8
        return TextBlock(grammar, selection, data, offset, offset + starts, ends, lines, next_lines, read, encoding)

    def _ends_before_invalid_byte(self, data: bytes, ends: Ints) -> Ints:
        """Return the ends of the records before the first byte that is not text; FileError if there are none."""
        nul = data.find(b"\0")
        invalid = _first_invalid_byte(data, self.encoding or UTF_8)
        if self.encoding is None and not data.isascii():
            first = int(np.argmax(np.frombuffer(data, dtype=np.uint8) >= _FIRST_NOT_ASCII))
            self._decided_at = self._offset + first
            self.encoding = WINDOWS_1252 if first == invalid else UTF_8
            if self.encoding == WINDOWS_1252:
                invalid = _first_invalid_byte(data, WINDOWS_1252)
        invalid = min((at for at in (nul, invalid) if at >= 0), default=-1)
        if invalid < 0:
            return ends
        valid = ends[ends <= invalid]
        if not valid.size:
            line = self._line + data.count(b"\n", 0, invalid)
            raise FileError(
                f"{self.source.name}, line {line}: byte 0x{data[invalid]:02x} is not text; accepted: text files in "
                "UTF-8, UTF-16 or Windows-1252 (Latin-1)"
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
        self,
        reader: TextReader,
        grammar: Grammar,
        format: str,
        kinds: dict[str, str],
        as_number: AsNumber,
        number_notes: tuple[str, ...] = (),
    ) -> None:
        self.reader, self.grammar, self.format, self.kinds, self.as_number = reader, grammar, format, kinds, as_number
        self.number_notes = number_notes

    @property
    def notes(self) -> tuple[str, ...]:
        return self.reader.notes

    def encoding_at(self, offset: int) -> str | None:
        return self.reader.encoding_at(offset)

    def sample(self, count: int) -> list[tuple[int, Record | BadRowError]]:
        return self.reader.sample(self.grammar, count)

    def blocks(self, selection: Selection, start: Mapping[str, Any] | None) -> Iterator[TextBlock]:
        if start is not None:
            self.reader.skip_to(start["offset"], start["line"], start.get("encoding"))
        while (block := self.reader.block(self.grammar, selection)) is not None:
            yield block


def _utf16_name(head: bytes) -> str | None:
    """Return the name of the UTF-16 encoding that the first bytes reveal, or None."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"  # its mark says in which order the bytes are
    zeros = [byte == 0 for byte in head]
    if zeros == [False, True] * 2:
        return "utf-16-le"
    return "utf-16-be" if zeros == [True, False] * 2 else None


def _decode_line(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode(WINDOWS_1252, errors="replace")


def _first_invalid_byte(data: bytes, encoding: str) -> int:
    """Return the position of the first byte that is invalid in an encoding, or -1."""
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        return error.start
    return -1


def _record_or_error(block: TextBlock, i: int) -> Record | BadRowError:
    try:
        return block.record(i)
    except BadRowError as error:
        return error
