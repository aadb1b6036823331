"""Detection of the format of a file."""

from __future__ import annotations

from pathlib import Path

from ocelad._validation import check_choice
from ocelad.io.tabular.arrow import arrow
from ocelad.io.tabular.columnar import ARROW_MAGIC, PARQUET_MAGIC, open_arrow, open_parquet
from ocelad.io.tabular.delimited import open_delimited
from ocelad.io.tabular.file_errors import FileError
from ocelad.io.tabular.json_lines import open_json_lines
from ocelad.io.tabular.numpy_files import NPY_MAGIC, is_npz, open_npy, open_npz
from ocelad.io.tabular.record_blocks import Table
from ocelad.io.tabular.sources import Source
from ocelad.io.tabular.text import TextReader

FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow", "npy", "npz")
_SUFFIXES = {
    "csv": "csv",
    "tsv": "tsv",
    "tab": "tsv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "jsonl",
    "parquet": "parquet",
    "pq": "parquet",
    "arrow": "arrow",
    "arrows": "arrow",
    "ipc": "arrow",
    "feather": "arrow",
    "npy": "npy",
    "npz": "npz",
}
_NAMES = {"parquet": "a Parquet file", "arrow": "an Arrow file", "npy": "a NumPy file", "npz": "a NumPy archive"}
_OPEN = {"parquet": open_parquet, "arrow": open_arrow, "npy": open_npy, "npz": open_npz}
# A stream of Arrow IPC messages begins with these bytes and the length of its schema.
_ARROW_STREAM_MAGIC = b"\xff\xff\xff\xff"


def open_table(source: Source, format: str | None, stop: bool) -> Table:
    """Open a source as a table. ``stop`` determines whether an invalid first row raises an exception."""
    arrow()  # a missing pyarrow is reported before problems of the file
    if format is not None:
        check_choice(format, "format", FORMATS)
    if not source.head(1):
        raise FileError(f"{source.name} is empty")
    binary = _detect_binary(source)
    format = format or _detect_from_suffix(source.path) or binary
    if format in _NAMES:
        if source.total_bytes is None:
            raise FileError(
                f"{source.name} holds {_NAMES[format]}, which cannot be read from a pipe; accepted: CSV, JSON lines"
            )
        if source.gzipped:
            raise FileError(f"{source.name} is gzipped; unzip it: only text files are read gzipped")
        return _OPEN[format](source, format)
    if binary is not None:
        raise FileError(f"{source.name} is {_NAMES[binary]} by its first bytes; pass format={binary!r}")
    reader = TextReader(source)
    format = format or _detect_text(reader)
    if format == "jsonl":
        return open_json_lines(reader, format, stop)
    return open_delimited(reader, format)


def _detect_from_suffix(path: Path | None) -> str | None:
    suffixes = [] if path is None else [suffix.lower().lstrip(".") for suffix in path.suffixes]
    if suffixes and suffixes[-1] == "gz":
        suffixes.pop()
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None


def _detect_binary(source: Source) -> str | None:
    head = source.head(8)
    if head.startswith(PARQUET_MAGIC):
        return "parquet"
    if head.startswith(NPY_MAGIC):
        return "npy"
    if is_npz(source):
        return "npz"
    return "arrow" if head.startswith((ARROW_MAGIC, _ARROW_STREAM_MAGIC)) else None


def _detect_text(reader: TextReader) -> str:
    if reader.first_character() in ("{", "["):
        return "jsonl"
    line = reader.peek_line()
    return "tsv" if "\t" in line and "," not in line else "csv"
