"""Which format a file has, and the file opened as a table."""

from __future__ import annotations

from pathlib import Path

from ocelad._validation import check_choice
from ocelad.io.tabular.arrow import arrow
from ocelad.io.tabular.blocks import Table
from ocelad.io.tabular.columnar import ARROW_MAGIC, PARQUET_MAGIC, open_arrow, open_parquet
from ocelad.io.tabular.delimited import open_delimited
from ocelad.io.tabular.errors import FileError
from ocelad.io.tabular.json_lines import open_json_lines
from ocelad.io.tabular.sources import Source
from ocelad.io.tabular.text import TextReader

FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow")
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
}
_NAMES = {"parquet": "a Parquet file", "arrow": "an Arrow file"}
# A stream of Arrow IPC messages begins with this mark and the length of its schema.
_STREAM_MARK = b"\xff\xff\xff\xff"


def open_table(source: Source, format: str | None, stop: bool) -> Table:
    """A source as a table; ``stop`` says whether a bad first row is an error."""
    arrow()  # say that it is missing before anything else is wrong
    if format is not None:
        check_choice(format, "format", FORMATS)
    if source.total_bytes == 0 or not source.head(1):
        raise FileError(f"{source.name} is empty")
    seen = _magic(source.head(8))
    known = format or _by_suffix(source.path) or seen
    if known in _NAMES:
        if source.total_bytes is None:
            raise FileError(
                f"{source.name} holds {_NAMES[known]}, which cannot come from a pipe; accepted there: CSV, JSON lines"
            )
        if source.gzipped:
            raise FileError(f"{source.name} is gzipped; unzip it: Parquet and Arrow files are compressed inside")
        return open_parquet(source, known) if known == "parquet" else open_arrow(source, known)
    if seen is not None:
        raise FileError(f"{source.name} is {_NAMES[seen]} by its first bytes; say so with format={seen!r}")
    reader = TextReader(source)
    known = known or _by_text(reader)
    if known == "jsonl":
        return open_json_lines(reader, known, stop)
    return open_delimited(reader, known)


def _by_suffix(path: Path | None) -> str | None:
    suffixes = [] if path is None else [suffix.lower().lstrip(".") for suffix in path.suffixes]
    if suffixes and suffixes[-1] == "gz":
        suffixes.pop()
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None


def _magic(head: bytes) -> str | None:
    if head.startswith(PARQUET_MAGIC):
        return "parquet"
    return "arrow" if head.startswith((ARROW_MAGIC, _STREAM_MARK)) else None


def _by_text(reader: TextReader) -> str:
    if reader.first_character() in ("{", "["):
        return "jsonl"
    line = reader.peek_line()
    return "tsv" if "\t" in line and "," not in line else "csv"
