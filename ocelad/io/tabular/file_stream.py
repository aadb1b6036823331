"""The base class of the file streams: chunks of equal size, invalid rows, and positions to resume from."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import numpy as np

from ocelad._validation import check_integer
from ocelad.io.tabular.file_errors import FileError, RowError, quote
from ocelad.io.tabular.prefetch import Prefetch
from ocelad.io.tabular.record_blocks import BadRow, Ints, ParsedRows, Schema, Table, Values, read_rows
from ocelad.io.tabular.skipped_rows import SkippedRowsFile
from ocelad.io.tabular.sources import Source

Chunk = TypeVar("Chunk")

# The integer entries of a position. Positions are saved in files, so that these names are fixed.
_POSITION_ENTRIES = {"offset": int, "line": int, "rows": int, "skipped": int, "side_bytes": int, "head_bytes": int}


class FileStream(Generic[Chunk]):
    """An iterator over the chunks of a table, each with exactly ``chunk_size`` valid rows except the last.

    Attributes
    ----------
    feature_names : tuple of str
        The names of the features, in the order of the columns of the points.
    total_bytes : int or None
        The size of the file; None for a pipe.
    bytes_read : int
        The number of bytes of the file up to the last chunk, for a progress bar.
    n_rows, n_skipped : int
        The number of rows in the chunks so far, and of the rows skipped before their end.
    """

    def __init__(
        self,
        source: Source,
        table: Table,
        schema: Schema,
        feature_names: tuple[str, ...],
        *,
        on_error: str,
        skipped: Any,
        chunk_size: int,
        resume: Mapping[str, Any] | None,
    ) -> None:
        self.feature_names = feature_names
        self.total_bytes = source.total_bytes
        self.bytes_read = 0
        self.n_rows = self.n_skipped = 0
        self._source, self._table, self._schema = source, table, schema
        self._columns = list(schema.selection.columns)
        self._chunk_size = check_integer(chunk_size, "chunk_size", at_least=1)
        self._offset, self._line = 0, 1
        self._skipped_bytes = 0
        if resume is not None:
            self._restore(resume)
        skip = on_error == "skip"
        self._skipped = SkippedRowsFile(_skipped_path(source, skipped), self._skipped_bytes) if skip else None
        self._resumed = resume
        self._fingerprint = source.fingerprint()
        self._prefetch: Prefetch[ParsedRows] | None = None
        self._position = self._current_position()
        self._stopped = False
        self.is_exhausted = False
        self._chunks = self._iterate()

    @property
    def position(self) -> dict[str, Any]:
        """The position after the last chunk, for ``resume=``; the end of the file when the stream is exhausted."""
        return dict(self._position)

    @property
    def number_notes(self) -> tuple[str, ...]:
        """Sentences about numbers of the file that could also be read in another way."""
        return self._table.number_notes

    @property
    def encoding_notes(self) -> tuple[str, ...]:
        """What a user should know about the encoding of the file, as far as it has been read."""
        return self._table.notes

    @property
    def skipped(self) -> Path | None:
        """The file of skipped rows; None if invalid rows raise an exception."""
        return None if self._skipped is None else self._skipped.path

    def __iter__(self) -> Iterator[Chunk]:
        return self

    def __next__(self) -> Chunk:
        return next(self._chunks)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def stop(self) -> None:
        """End the iteration after the current chunk. A signal handler may call this."""
        self._stopped = True
        if self._prefetch is not None:
            self._prefetch.stop()

    def close(self) -> None:
        """Stop reading, and close the files. Closing twice has no effect."""
        self._chunks.close()
        self._release()

    @abstractmethod
    def _make_chunk(self, values: Values, lines: Ints, numbers: Ints) -> Chunk:
        """Return a chunk. ``numbers`` are the indices of its rows from 0, with invalid rows counted."""

    def _observe(self, values: Values) -> None:
        """Process the values of a chunk before its position is recorded."""

    def _current_position(self) -> dict[str, Any]:
        """Return the position after the last row that was used."""
        count, digest = self._fingerprint
        if self._source.seekable and self._table.unit == "line" and self._offset < count:
            # Rows after the position may be corrected before the stream is resumed.
            count, digest = self._source.fingerprint(self._offset)
        encoding = self._table.encoding_at(self._offset)
        return {
            **({} if encoding is None else {"encoding": encoding}),
            "format": self._table.format,
            "columns": self._columns,
            "offset": self._offset,
            "line": self._line,
            "rows": self.n_rows,
            "skipped": self.n_skipped,
            "side_bytes": self._skipped_bytes,
            "head_bytes": count,
            "head_sha256": digest,
        }

    def _iterate(self) -> Generator[Chunk, None, None]:
        number = self.n_rows + self.n_skipped
        # A position before the first row is that of the header.
        blocks = self._table.blocks(self._schema.selection, self._resumed if number else None)
        rows = (part for block in blocks for part in read_rows(block, self._schema, self._table.as_number))
        self._prefetch = Prefetch(rows, may_block=self.total_bytes is None)
        parts: list[Values] = []
        missing = self._chunk_size
        try:
            for block in self._prefetch:
                count = len(block.lines)
                values = block.values | {"lines": block.lines, "numbers": number + _numbers(block)}
                number += count + len(block.bad)
                bad = deque(block.bad)
                at = 0
                while at < count:
                    end = min(count, at + missing)
                    while bad and bad[0].n_valid_before < end:
                        self._reject(bad.popleft())
                    parts.append({name: None if value is None else value[at:end] for name, value in values.items()})
                    self._offset, self._line = int(block.ends[end - 1]), int(block.next_lines[end - 1])
                    missing -= end - at
                    at = end
                    if not missing:
                        self.bytes_read = block.bytes_read
                        yield self._emit(parts)
                        if self._stopped:
                            return
                        parts, missing = [], self._chunk_size
                for row in bad:
                    self._reject(row)
                self.bytes_read = block.bytes_read
            if self._stopped:
                return
            if self.total_bytes is not None:
                self.bytes_read = self.total_bytes
            self.is_exhausted = True
            if parts:
                yield self._emit(parts)
            elif self._skipped is not None:
                self._skipped.sync()
            self._position = self._current_position()
        finally:
            self._release()

    def _emit(self, parts: list[Values]) -> Chunk:
        values = {name: _concatenate([part[name] for part in parts]) for name in parts[0]}
        lines, numbers = values.pop("lines"), values.pop("numbers")
        self.n_rows += len(lines)
        if self._skipped is not None:
            self._skipped.sync()
        self._observe(values)
        self._position = self._current_position()
        return self._make_chunk(values, lines, numbers)

    def _reject(self, row: BadRow) -> None:
        if self._skipped is None:
            raise RowError(f"{self._source.name}, {self._table.unit} {row.line}: {row.reason}", row.line)
        self._skipped.write(row.line, row.reason, row.text)
        self._skipped_bytes = self._skipped.length
        self.n_skipped += 1
        self._offset, self._line = row.end, row.next_line

    def _restore(self, position: Mapping[str, Any]) -> None:
        name = self._source.name
        valid = isinstance(position, Mapping) and all(
            type(position.get(key)) is kind and position[key] >= 0 for key, kind in _POSITION_ENTRIES.items()
        )
        if not valid or not isinstance(position.get("head_sha256"), str):
            raise FileError(f"resume= must be the position of a chunk; got {position!r}")
        if position.get("format") != self._table.format:
            raise FileError(
                f"{name} is read as {self._table.format}, but the position is of a {position.get('format')} file; "
                "resume with the same file"
            )
        if (earlier := position.get("columns")) != self._columns:
            columns = (", ".join(map(quote, each or ())) for each in (earlier, self._columns))
            raise FileError(f"{name} was read with the columns {next(columns)} and is now read with {next(columns)}")
        if self._source.fingerprint(position["head_bytes"]) != (position["head_bytes"], position["head_sha256"]):
            raise FileError(f"{name} begins with other bytes than the file of the position; resume with the same file")
        self._offset, self._line = position["offset"], position["line"]
        self.n_rows, self.n_skipped = position["rows"], position["skipped"]
        self._skipped_bytes = position["side_bytes"]

    def _release(self) -> None:
        if self._prefetch is not None:
            self._prefetch.close()
        self._source.close()
        if self._skipped is not None:
            self._skipped.close()


def _skipped_path(source: Source, skipped: Any) -> Path:
    if skipped is not None:
        path = Path(skipped)
        if source.path is not None and path.exists() and path.samefile(source.path):
            raise FileError(f"skipped= is {path}, the file that is read; accepted: another file")
        return path
    if source.path is None:
        raise FileError("skipped rows of standard input need a file: name it with skipped=")
    return source.path.with_name(source.path.name + ".skipped.jsonl")


def _numbers(block: ParsedRows) -> Ints:
    """Return the index of each valid row among all rows of a block."""
    valid = np.arange(len(block.lines), dtype=np.int64)
    return (
        valid + np.searchsorted([row.n_valid_before for row in block.bad], valid, side="right") if block.bad else valid
    )


def _concatenate(parts: list[Any]) -> Any:
    if len(parts) == 1 or parts[0] is None:
        return parts[0]
    if isinstance(parts[0], list):
        return [entry for part in parts for entry in part]
    return np.concatenate(parts)
