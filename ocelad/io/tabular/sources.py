"""Sources of bytes: files, plain or gzipped, standard input, and memory."""

from __future__ import annotations

import codecs
import hashlib
import io
import os
import stat
import sys
import zlib
from pathlib import Path
from typing import Any

from ocelad.io.tabular.arrow import arrow
from ocelad.io.tabular.file_errors import FileError

# The approximate number of bytes that are read and parsed at a time; large enough to hide pyarrow's overhead per call.
BLOCK_BYTES = 1 << 20
# The maximal length of a line. A longer line indicates a binary file or a quote that is never closed.
MAX_LINE_BYTES = 64 << 20
# The number of first bytes that identify a file when reading is resumed.
HEAD_BYTES = 64 << 10
_MAGIC_BYTES = 8

STDIN = "-"


class Source:
    """The decompressed bytes of a file, of standard input, or of an ``io.BytesIO``.

    The first bytes can be inspected before they are read. A source with more than ``max_bytes`` decompressed bytes
    raises a FileError.

    Attributes
    ----------
    name : str
        The name in messages: the path, "standard input", or "the upload" for an ``io.BytesIO``.
    path : Path or None
        None for standard input and for bytes in memory.
    total_bytes : int or None
        The size of the file; None for a pipe.
    max_bytes : int or None
    gzipped : bool
        Whether the bytes are decompressed while they are read.
    """

    def __init__(self, source: Any, head_bytes: int = 0, max_bytes: int | None = None) -> None:
        if isinstance(source, io.BytesIO):
            self.name, self.path = "the upload", None
            self._file: Any = source
            self.total_bytes: int | None = len(source.getbuffer())
        elif source == STDIN:
            self.name, self.path = "standard input", None
            self._file = _standard_input()
            self.total_bytes = None
        else:
            self.path = _to_path(source)
            self.name = str(self.path)
            self._file, self.total_bytes = _open(self.path)
        self._head = b""
        self.max_bytes, self._n_returned = max_bytes, 0
        self._n_head_returned = 0
        self._raw_position = 0
        # A read from a pipe may return few bytes. The format and a fingerprint of ``head_bytes`` bytes need this many.
        n_needed = max(_MAGIC_BYTES, min(head_bytes, HEAD_BYTES)) if self.total_bytes is None else HEAD_BYTES
        while len(self._head) < n_needed and (more := self._raw(HEAD_BYTES - len(self._head))):
            self._head += more
        self.gzipped = self._head.startswith(b"\x1f\x8b")
        self._gzip = _GzipReader() if self.gzipped else None
        self._decoder: Any = None
        self._undecoded = b""

    @property
    def is_converted(self) -> bool:
        """Whether the bytes are not those of the file: they are decompressed, or converted to UTF-8."""
        return self.gzipped or self._decoder is not None

    @property
    def seekable(self) -> bool:
        """Whether ``seek`` is possible, which holds for plain files in UTF-8."""
        return self.total_bytes is not None and not self.is_converted

    def decode_from(self, encoding: str, unread: bytes) -> None:
        """Convert text from an encoding to UTF-8 from now on; ``unread`` are bytes that were read already."""
        self._decoder, self._undecoded = codecs.getincrementaldecoder(encoding)(), unread

    @property
    def bytes_read(self) -> int:
        """The number of bytes of the file read so far, before decompression."""
        return self._raw_position

    def head(self, count: int) -> bytes:
        """Return the first bytes of the file, at most ``count``, before decompression."""
        return self._head[:count]

    def fingerprint(self, count: int = HEAD_BYTES) -> tuple[int, str]:
        """Return the number of first bytes, at most ``count``, and their SHA-256 digest."""
        head = self.head(count)
        return len(head), hashlib.sha256(head).hexdigest()

    def read(self, count: int) -> bytes:
        """Return the next bytes, at most ``count``, and no bytes at the end."""
        data = self._unconverted(count) if self._decoder is None else self._convert(count)
        self._n_returned += len(data)
        if self.max_bytes is not None and self._n_returned > self.max_bytes:
            raise FileError(
                f"{self.name} holds more than {self.max_bytes >> 20} MiB when unzipped, which is the maximum"
            )
        return data

    def _unconverted(self, count: int) -> bytes:
        return self._next(count) if self._gzip is None else self._decompress(self._gzip, count)

    def _convert(self, count: int) -> bytes:
        """Return the next text in UTF-8, of at least one character unless the text has ended."""
        while True:
            data, self._undecoded = self._undecoded or self._unconverted(count), b""
            try:
                text: str = self._decoder.decode(data, final=not data)
                converted = text.encode()
            except UnicodeError:
                raise FileError(f"{self.name} is damaged: its text is not valid UTF-16") from None
            if converted or not data:
                return converted

    def seek(self, offset: int) -> None:
        """Continue at a byte of a plain file."""
        self._file.seek(offset)
        self._n_head_returned = len(self._head)
        self._raw_position = offset

    def to_arrow(self) -> Any:
        """Return the file as a random-access file of pyarrow."""
        if isinstance(self._file, io.BytesIO):
            return arrow().BufferReader(self._file.getvalue())
        return arrow().OSFile(self.name)

    def to_file(self) -> Any:
        """Return the path of a file, or a new file of the bytes in memory."""
        return io.BytesIO(self._file.getvalue()) if self.path is None else self.path

    def close(self) -> None:
        if self.path is not None:
            self._file.close()

    def _decompress(self, gzip: _GzipReader, count: int) -> bytes:
        while True:
            try:
                data = gzip.read(self._next, count)
            except EOFError:
                raise FileError(f"{self.name} is truncated: the gzipped data end too early") from None
            except zlib.error as error:
                raise FileError(f"{self.name} is damaged: the gzipped data cannot be read ({error})") from None
            if data is None:
                return b""
            if data:
                return data

    def _next(self, count: int) -> bytes:
        if self._n_head_returned < len(self._head):
            data = self._head[self._n_head_returned : self._n_head_returned + count]
            self._n_head_returned += len(data)
        else:
            data = self._raw(count)
        self._raw_position += len(data)
        return data

    def _raw(self, count: int) -> bytes:
        try:
            return bytes(self._file.read1(count) if hasattr(self._file, "read1") else self._file.read(count) or b"")
        except OSError as error:
            raise FileError(f"{self.name} cannot be read: {error.strerror or error}") from None


class _GzipReader:
    """Decompresses the concatenated members of a gzip file."""

    def __init__(self) -> None:
        self._member: Any = None
        self._pending = b""

    def read(self, read_compressed: Any, count: int) -> bytes | None:
        """Return decompressed bytes, possibly none, or None at the end. Raises EOFError and zlib.error."""
        compressed = self._pending or read_compressed(BLOCK_BYTES // 2 or 1)
        self._pending = b""
        if self._member is None:
            if not compressed.strip(b"\0"):  # the end of the file, or padding with zeros
                return b"" if compressed else None
            self._member = zlib.decompressobj(wbits=31)
        elif not compressed:
            raise EOFError
        data: bytes = self._member.decompress(compressed, count)
        if self._member.eof:
            self._pending = self._member.unused_data.lstrip(b"\0")
            self._member = None
        else:
            self._pending = self._member.unconsumed_tail
        return data


def _to_path(source: Any) -> Path:
    try:
        return Path(os.fsdecode(source))
    except TypeError:
        kind = type(source).__name__
        raise FileError(f"source must be a path, or '-' for standard input; got a {kind}") from None


def _open(path: Path) -> tuple[Any, int | None]:
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115 - the source closes it
    except FileNotFoundError:
        raise FileError(f"the file {path} does not exist") from None
    except IsADirectoryError:
        raise FileError(f"{path} is a folder; a file is expected") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be opened: {getattr(error, 'strerror', None) or error}") from None
    facts = os.fstat(file.fileno())
    return file, facts.st_size if stat.S_ISREG(facts.st_mode) else None


def _standard_input() -> Any:
    """Return standard input without its buffer: a thread blocked in a buffered read would block the exit."""
    if sys.stdin is None:
        raise FileError("standard input is closed")
    stream = getattr(sys.stdin, "buffer", sys.stdin)
    return getattr(stream, "raw", stream)
