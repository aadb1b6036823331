"""Text files in blocks of whole records, with the line of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ocelad.io.tabular import sources
from ocelad.io.tabular.blocks import Ints, Wanted
from ocelad.io.tabular.errors import BadRowError, FileError
from ocelad.io.tabular.points import AsNumber, Record
from ocelad.io.tabular.sources import Source

BOM = b"\xef\xbb\xbf"
_LF, _CR = 10, 13
_MARK = 4  # so many bytes say whether a text is in UTF-16


class Grammar(Protocol):
    """How a text format writes records."""

    def ends(self, data: bytes) -> Ints:
        """Where the records of ``data`` end, each after its line feed; one that is not complete has no end."""

    def table(self, data: bytes, wanted: Wanted) -> Any:
        """The records as a pyarrow table; None where they are not all read exactly as by ``record``."""

    def record(self, text: str) -> Record:
        """One record; ``BadRowError`` where it is none."""


@dataclass(frozen=True)
class TextBlock:
    """Some whole records of a text file; blank lines between them are none."""

    grammar: Grammar
    wanted: Wanted
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
            self.wanted,
            self.data[start:end],
            self.offset + start,
            self.starts[rows],
            self.ends[rows],
            self.lines[rows],
            self.next_lines[rows],
            self.bytes_read,
        )

    def table(self) -> Any:
        # pyarrow ends a line at a carriage return of its own, and drops a mark of byte order wherever a block has one.
        if self.data.count(b"\r") != self.data.count(b"\r\n") or self.data.startswith(BOM):
            return None
        table = self.grammar.table(self.data, self.wanted)
        return table if table is not None and table.num_rows == len(self.lines) else None

    def record(self, i: int) -> Record:
        return self.grammar.record(self.text(i))

    def text(self, i: int) -> str:
        data = self.data[self.starts[i] - self.offset : self.ends[i] - self.offset]
        return data.removesuffix(b"\n").removesuffix(b"\r").decode()


class TextReader:
    """Reads a text file block by block; each ends where a record does."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._pending = b""
        self._offset = 0
        self._line = 1
        self._ended = False
        while len(self._pending) < _MARK and self._more():
            pass
        _refuse_utf16(source.name, self._pending[:_MARK])
        if self._pending.startswith(BOM):
            self._pending, self._offset = self._pending[len(BOM) :], len(BOM)

    def first_character(self) -> str:
        """The first character that is not blank, or none in an empty file."""
        while not self._pending.strip() and self._more():
            pass
        return self._pending.lstrip()[:1].decode(errors="replace")

    def peek_line(self) -> str:
        """The first line that is not blank, without reading on."""
        while b"\n" not in self._pending.lstrip() and len(self._pending) <= sources.LINE_BYTES and self._more():
            pass
        return self._pending.lstrip().partition(b"\n")[0].decode(errors="replace")

    def first_line(self, grammar: Grammar) -> str:
        """Read one record that is not blank, and no further."""
        while (block := self.block(grammar, Wanted((), ()))) is not None:
            if len(block.lines):
                self._return(block.data[block.ends[0] - block.offset :], int(block.ends[0]), int(block.next_lines[0]))
                return block.text(0)
        raise FileError(f"{self.source.name} is empty")

    def sample(self, grammar: Grammar, count: int) -> list[tuple[int, Record | BadRowError]]:
        """The next records, at most ``count``, with their lines; they will be read again."""
        offset, line = self._offset, self._line
        data = b""
        found: list[tuple[int, Record | BadRowError]] = []
        try:
            while len(found) < count and len(data) <= sources.LINE_BYTES:
                block = self.block(grammar, Wanted((), ()))
                if block is None:
                    break
                data += block.data
                for i in range(min(len(block.lines), count - len(found))):
                    found.append((int(block.lines[i]), _attempt(block, i)))
        except FileError:
            if not found:
                raise
        finally:
            self._return(data, offset, line)
        return found

    def skip_to(self, offset: int, line: int) -> None:
        """Go on at a byte that was handed out as the end of a record."""
        name = self.source.name
        size = self.source.total_bytes
        if self.source.seekable and size is not None:
            if size < offset:
                raise FileError(f"{name} has {size} bytes and was read up to byte {offset}; it is not the file begun")
            self.source.seek(offset)
            self._pending, self._ended = b"", False
        else:
            while self._offset + len(self._pending) < offset:
                self._offset += len(self._pending)
                self._pending = b""
                if not self._more():
                    raise FileError(
                        f"{name} ends at byte {self._offset} and was read up to {offset}; it is not the file begun"
                    )
            self._pending = self._pending[offset - self._offset :]
        self._offset, self._line = offset, line

    def block(self, grammar: Grammar, wanted: Wanted) -> TextBlock | None:
        """The next records, at least one line; None at the end."""
        while True:
            ends = grammar.ends(self._pending)
            if not ends.size and not self._ended and len(self._pending) <= sources.LINE_BYTES:
                self._more()
                continue
            if not ends.size and len(self._pending) > sources.LINE_BYTES:
                megabytes = sources.LINE_BYTES / (1 << 20)
                raise FileError(
                    f"{self.source.name}, line {self._line}: the row is longer than {megabytes:g} MB; "
                    "is a quote not closed, or is it no text file?"
                )
            if not ends.size:
                if not self._pending:
                    return None
                ends = np.array([len(self._pending)])
            return self._cut(grammar, wanted, ends)

    def _cut(self, grammar: Grammar, wanted: Wanted, ends: Ints) -> TextBlock:
        data = self._pending[: ends[-1]]
        if not data.isascii() or b"\0" in data:
            ends = self._up_to_wrong_byte(data, ends)
            data = data[: ends[-1]]
        characters = np.frombuffer(data, dtype=np.uint8)
        newlines = np.flatnonzero(characters == _LF)
        starts = np.concatenate([[0], ends[:-1]])
        blank = (characters[starts] == _LF) | (
            (characters[starts] == _CR)
            & ((ends - starts == 1) | ((ends - starts == 2) & (characters[ends - 1] == _LF)))
        )
        if blank.any():
            starts, kept_ends = starts[~blank], ends[~blank]
        else:
            kept_ends = ends
        lines = self._line + np.searchsorted(newlines, starts)
        next_lines = self._line + np.searchsorted(newlines, kept_ends)
        offset = self._offset
        self._pending = self._pending[len(data) :]
        self._offset += len(data)
        self._line += len(newlines)
        at = self.source.bytes_read if self.source.gzipped else self._offset
        return TextBlock(grammar, wanted, data, offset, offset + starts, offset + kept_ends, lines, next_lines, at)

    def _up_to_wrong_byte(self, data: bytes, ends: Ints) -> Ints:
        """The records before the first that is not text in UTF-8; refused when that is the first one."""
        wrong = data.find(b"\0")
        try:
            data.decode()
        except UnicodeDecodeError as error:
            wrong = error.start if wrong < 0 else min(wrong, error.start)
        if wrong < 0:
            return ends
        good = ends[ends <= wrong]
        if not good.size:
            line = self._line + data.count(b"\n", 0, wrong)
            raise FileError(
                f"{self.source.name}, line {line}: byte 0x{data[wrong]:02x} is not text; accepted: text files in UTF-8"
            )
        return good

    def _more(self) -> bool:
        # A record that is not complete is looked at again with every piece: pieces of its own size keep that linear.
        piece = b"" if self._ended else self.source.read(max(sources.BLOCK_BYTES, len(self._pending)))
        self._ended = not piece
        self._pending += piece
        return bool(piece)

    def _return(self, data: bytes, offset: int, line: int) -> None:
        self._pending, self._offset, self._line = data + self._pending, offset, line


class TextTable:
    """A text file as a table: what formats of text share."""

    unit = "line"
    typed = False

    def __init__(
        self, reader: TextReader, grammar: Grammar, format: str, kinds: dict[str, str], as_number: AsNumber
    ) -> None:
        self.reader, self.grammar, self.format, self.kinds, self.as_number = reader, grammar, format, kinds, as_number

    def sample(self, count: int) -> list[tuple[int, Record | BadRowError]]:
        return self.reader.sample(self.grammar, count)

    def blocks(self, wanted: Wanted, start: Mapping[str, Any] | None) -> Iterator[TextBlock]:
        if start is not None:
            self.reader.skip_to(start["offset"], start["line"])
        while (block := self.reader.block(self.grammar, wanted)) is not None:
            yield block


def _refuse_utf16(name: str, head: bytes) -> None:
    zeros = [byte == 0 for byte in head]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or zeros in ([False, True] * 2, [True, False] * 2):
        raise FileError(f"{name} is in UTF-16; accepted: UTF-8 (iconv -f UTF-16 -t UTF-8 makes it so)")


def _attempt(block: TextBlock, i: int) -> Record | BadRowError:
    try:
        return block.record(i)
    except BadRowError as wrong:
        return wrong
