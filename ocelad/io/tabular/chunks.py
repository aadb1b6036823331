"""What streams of comparisons and of items share: chunks of equal size, bad rows, and positions to go on from."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import numpy as np

from ocelad._validation import check_integer
from ocelad.io.tabular.blocks import BadRow, Ints, Rows, Schema, Table, Values, read
from ocelad.io.tabular.errors import FileError, RowError, shown
from ocelad.io.tabular.prefetch import Prefetch
from ocelad.io.tabular.skipped import SideFile
from ocelad.io.tabular.sources import Source

Piece = TypeVar("Piece")

_POSITION = {"offset": int, "line": int, "rows": int, "skipped": int, "side_bytes": int, "head_bytes": int}


class FileStream(Generic[Piece]):
    """Reads a table in chunks of exactly ``chunk_size`` good rows, all but the last. Iterate over it once.

    Attributes
    ----------
    feature_names : tuple of str
        The features, in the order of the columns of what is read.
    total_bytes : int or None
        The size of the file; None for a pipe.
    bytes_read : int
        How far the file is read by the chunks that were handed out; for a progress bar.
    n_rows, n_skipped : int
        How many rows were handed out, and how many were skipped before them.
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
        self._columns = list(schema.wanted.columns)
        self._chunk_size = check_integer(chunk_size, "chunk_size", at_least=1)
        self._offset, self._line = 0, 1
        self._side_bytes = 0
        if resume is not None:
            self._resume(resume)
        skip = on_error == "skip"
        self._side = SideFile(_side_path(source, skipped), self._side_bytes) if skip else None
        self._resumed = resume
        self._fingerprint = source.fingerprint()
        self._prefetch: Prefetch[Rows] | None = None
        self._position = self._here()
        self._stopped = False
        self._chunks = self._pieces()

    @property
    def position(self) -> dict[str, Any]:
        """Where the last chunk ended; what ``resume=`` takes. After the last chunk it is the end of the file."""
        return dict(self._position)

    @property
    def skipped(self) -> Path | None:
        """Where skipped rows go; None: they are not skipped."""
        return None if self._side is None else self._side.path

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        return next(self._chunks)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def stop(self) -> None:
        """Let the chunk that was handed out last be the last one; a signal handler may call it."""
        self._stopped = True
        if self._prefetch is not None:
            self._prefetch.stop()

    def close(self) -> None:
        """Stop reading, and close the file and the side file. Closing twice is fine."""
        self._chunks.close()
        self._finish()

    @abstractmethod
    def _piece(self, values: Values, lines: Ints, numbers: Ints) -> Piece:
        """A chunk of rows as the caller gets it, with the numbers of its rows from 0, bad ones counted too."""

    def _note(self, values: Values) -> None:
        """Take note of a chunk before its position is written."""

    def _here(self) -> dict[str, Any]:
        """The position after the rows that were taken."""
        count, digest = self._fingerprint
        if self._source.seekable and self._table.unit == "line" and self._offset < count:
            count, digest = self._source.fingerprint(self._offset)  # a row that was not read yet may be mended
        return {
            "format": self._table.format,
            "columns": self._columns,
            "offset": self._offset,
            "line": self._line,
            "rows": self.n_rows,
            "skipped": self.n_skipped,
            "side_bytes": self._side_bytes,
            "head_bytes": count,
            "head_sha256": digest,
        }

    def _pieces(self) -> Generator[Piece, None, None]:
        blocks = self._table.blocks(self._schema.wanted, self._resumed)
        rows = (part for block in blocks for part in read(block, self._schema, self._table.as_number))
        self._prefetch = Prefetch(rows, may_wait=self.total_bytes is None)
        parts: list[Values] = []
        missing = self._chunk_size
        number = self.n_rows + self.n_skipped
        try:
            for block in self._prefetch:
                count = len(block.lines)
                values = block.values | {"lines": block.lines, "numbers": number + _numbers(block)}
                number += count + len(block.bad)
                bad = deque(block.bad)
                at = 0
                while at < count:
                    end = min(count, at + missing)
                    while bad and bad[0].before < end:
                        self._refuse(bad.popleft())
                    parts.append({name: None if value is None else value[at:end] for name, value in values.items()})
                    self._offset, self._line = int(block.ends[end - 1]), int(block.next_lines[end - 1])
                    missing -= end - at
                    at = end
                    if not missing:
                        self.bytes_read = block.bytes_read
                        yield self._handed_out(parts)
                        if self._stopped:
                            return
                        parts, missing = [], self._chunk_size
                for row in bad:
                    self._refuse(row)
                self.bytes_read = block.bytes_read
            if self._stopped:
                return
            if self.total_bytes is not None:
                self.bytes_read = self.total_bytes
            if parts:
                yield self._handed_out(parts)
            elif self._side is not None:
                self._side.sync()
            self._position = self._here()
        finally:
            self._finish()

    def _handed_out(self, parts: list[Values]) -> Piece:
        values = {name: _concatenate([part[name] for part in parts]) for name in parts[0]}
        lines, numbers = values.pop("lines"), values.pop("numbers")
        self.n_rows += len(lines)
        if self._side is not None:
            self._side.sync()
        self._note(values)
        self._position = self._here()
        return self._piece(values, lines, numbers)

    def _refuse(self, row: BadRow) -> None:
        if self._side is None:
            raise RowError(f"{self._source.name}, {self._table.unit} {row.line}: {row.reason}", row.line)
        self._side.write(row.line, row.reason, row.text)
        self._side_bytes = self._side.length
        self.n_skipped += 1
        self._offset, self._line = row.end, row.next_line

    def _resume(self, position: Mapping[str, Any]) -> None:
        name = self._source.name
        sound = isinstance(position, Mapping) and all(
            type(position.get(key)) is kind and position[key] >= 0 for key, kind in _POSITION.items()
        )
        if not sound or not isinstance(position.get("head_sha256"), str):
            raise FileError(f"resume= must be the position of a chunk; got {position!r}")
        if position.get("format") != self._table.format:
            raise FileError(
                f"{name} is read as {self._table.format} and was begun as {position.get('format')}; "
                "it is not the file begun"
            )
        if (before := position.get("columns")) != self._columns:
            columns = (", ".join(map(shown, each or ())) for each in (before, self._columns))
            raise FileError(f"{name} was begun with the columns {next(columns)} and is read with {next(columns)} now")
        if self._source.fingerprint(position["head_bytes"]) != (position["head_bytes"], position["head_sha256"]):
            raise FileError(f"{name} begins with other bytes than the file that was begun; it is not that file")
        self._offset, self._line = position["offset"], position["line"]
        self.n_rows, self.n_skipped = position["rows"], position["skipped"]
        self._side_bytes = position["side_bytes"]

    def _finish(self) -> None:
        if self._prefetch is not None:
            self._prefetch.close()
        self._source.close()
        if self._side is not None:
            self._side.close()


def _side_path(source: Source, skipped: Any) -> Path:
    if skipped is not None:
        path = Path(skipped)
        if source.path is not None and path.exists() and path.samefile(source.path):
            raise FileError(f"skipped= is {path}, the file that is read; skipped rows need a file of their own")
        return path
    if source.path is None:
        raise FileError("rows skipped of standard input need a file: say which with skipped=")
    return source.path.with_name(source.path.name + ".skipped.jsonl")


def _numbers(block: Rows) -> Ints:
    """The numbers of the good rows of a block, when its bad rows count too."""
    good = np.arange(len(block.lines), dtype=np.int64)
    return good + np.searchsorted([row.before for row in block.bad], good, side="right") if block.bad else good


def _concatenate(pieces: list[Any]) -> Any:
    if len(pieces) == 1 or pieces[0] is None:
        return pieces[0]
    if isinstance(pieces[0], list):
        return [entry for piece in pieces for entry in piece]
    return np.concatenate(pieces)
