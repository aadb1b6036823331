"""Where bytes come from: a file, plain or gzipped, standard input, or memory."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import sys
import zlib
from pathlib import Path
from typing import Any

from ocelad.io.tabular.arrow import arrow
from ocelad.io.tabular.errors import FileError

# Metadata how many bytes are read and parsed at a time; large enough for pyarrow's overhead per call to vanish.
BLOCK_BYTES = 1 << 20
# A longer line is taken for a file without lines, or for a quote that is never closed.
LINE_BYTES = 64 << 20
# So many of a file's first bytes say whether it is the one that was begun.
HEAD_BYTES = 64 << 10
_MAGIC_BYTES = 8

STDIN = "-"


class Source:
    """The bytes of a file, of standard input or in memory, unzipped; the first can be looked at before they are read.

    ``most_bytes`` is how many are read at most, counted when they are unzipped; what holds more is refused.

    Attributes
    ----------
    name : str
        What messages call it; the path, "standard input", or "the upload" for an ``io.BytesIO``.
    path : Path or None
        None for standard input and for bytes in memory.
    total_bytes : int or None
        The size of the file; None for a pipe.
    gzipped : bool
        Whether it is unzipped on the way.
    """

    def __init__(self, source: Any, head_bytes: int = 0, most_bytes: int | None = None) -> None:
        if isinstance(source, io.BytesIO):
            self.name, self.path = "the upload", None
            self._file: Any = source
            self.total_bytes: int | None = len(source.getbuffer())
        elif source == STDIN:
            self.name, self.path = "standard input", None
            self._file = _standard_input()
            self.total_bytes = None
        else:
            self.path = _path(source)
            self.name = str(self.path)
            self._file, self.total_bytes = _opened(self.path)
        self._head = b""
        self._most_bytes, self._given = most_bytes, 0
        self._served = 0
        self._raw_position = 0
        # A pipe gives what it has: at least what says the format, and ``head_bytes``, which were looked at before.
        enough = max(_MAGIC_BYTES, min(head_bytes, HEAD_BYTES)) if self.total_bytes is None else HEAD_BYTES
        while len(self._head) < enough and (more := self._raw(HEAD_BYTES - len(self._head))):
            self._head += more
        self.gzipped = self._head.startswith(b"\x1f\x8b")
        self._unzip = _Unzip() if self.gzipped else None

    @property
    def seekable(self) -> bool:
        """Whether any place can be read at once: plain files."""
        return self.total_bytes is not None and not self.gzipped

    @property
    def bytes_read(self) -> int:
        """How far the file itself is read."""
        return self._raw_position

    def head(self, count: int) -> bytes:
        """The first bytes as they are in the file, at most ``count``."""
        return self._head[:count]

    def fingerprint(self, count: int = HEAD_BYTES) -> tuple[int, str]:
        """How many first bytes were looked at, and their hash."""
        head = self.head(count)
        return len(head), hashlib.sha256(head).hexdigest()

    def read(self, count: int) -> bytes:
        """The next bytes, at most ``count`` and at least one unless it is the end."""
        piece = self._next(count) if self._unzip is None else self._unzipped(self._unzip, count)
        self._given += len(piece)
        if self._most_bytes is not None and self._given > self._most_bytes:
            raise FileError(
                f"{self.name} holds more than {self._most_bytes >> 20} MiB when unzipped, which is the most"
            )
        return piece

    def seek(self, offset: int) -> None:
        """Go on at a byte of a plain file."""
        self._file.seek(offset)
        self._served = len(self._head)
        self._raw_position = offset

    def for_arrow(self) -> Any:
        """All bytes as they are in the file, as pyarrow reads them at any place."""
        if isinstance(self._file, io.BytesIO):
            return arrow().BufferReader(self._file.getvalue())
        return arrow().OSFile(self.name)

    def close(self) -> None:
        if self.path is not None:
            self._file.close()

    def _unzipped(self, unzip: _Unzip, count: int) -> bytes:
        while True:
            try:
                piece = unzip.piece(self._next, count)
            except EOFError:
                raise FileError(f"{self.name} is truncated: the gzipped data end too early") from None
            except zlib.error as error:
                raise FileError(f"{self.name} is damaged: the gzipped data cannot be read ({error})") from None
            if piece is None:
                return b""
            if piece:
                return piece

    def _next(self, count: int) -> bytes:
        if self._served < len(self._head):
            piece = self._head[self._served : self._served + count]
            self._served += len(piece)
        else:
            piece = self._raw(count)
        self._raw_position += len(piece)
        return piece

    def _raw(self, count: int) -> bytes:
        try:
            return bytes(self._file.read1(count) if hasattr(self._file, "read1") else self._file.read(count) or b"")
        except OSError as error:
            raise FileError(f"{self.name} cannot be read: {error.strerror or error}") from None


class _Unzip:
    """Gzipped members, one after another."""

    def __init__(self) -> None:
        self._member: Any = None
        self._left = b""

    def piece(self, read: Any, count: int) -> bytes | None:
        """Some unzipped bytes, perhaps none yet, or None at the end; raises EOFError and zlib.error."""
        zipped = self._left or read(BLOCK_BYTES // 2 or 1)
        self._left = b""
        if self._member is None:
            if not zipped.strip(b"\0"):  # the end, or what tapes and disks are filled up with
                return b"" if zipped else None
            self._member = zlib.decompressobj(wbits=31)
        elif not zipped:
            raise EOFError
        piece: bytes = self._member.decompress(zipped, count)
        if self._member.eof:
            self._left = self._member.unused_data.lstrip(b"\0")
            self._member = None
        else:
            self._left = self._member.unconsumed_tail
        return piece


def _path(source: Any) -> Path:
    try:
        return Path(os.fsdecode(source))
    except TypeError:
        kind = type(source).__name__
        raise FileError(f"a file is given by its path, or as '-' for standard input; got a {kind}") from None


def _opened(path: Path) -> tuple[Any, int | None]:
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115 - the source closes it
    except FileNotFoundError:
        raise FileError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise FileError(f"{path} is a folder; a file is expected") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be opened: {getattr(error, 'strerror', None) or error}") from None
    facts = os.fstat(file.fileno())
    return file, facts.st_size if stat.S_ISREG(facts.st_mode) else None


def _standard_input() -> Any:
    """Standard input without its buffer: a thread that waits in a buffered read cannot be left at exit."""
    if sys.stdin is None:
        raise FileError("there is no standard input")
    stream = getattr(sys.stdin, "buffer", sys.stdin)
    return getattr(stream, "raw", stream)
