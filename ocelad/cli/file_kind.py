"""Say what a file is that a command cannot use, and what the command expects instead."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

# The first bytes of files that are often confused with tables, and what such files are.
_MAGIC = (
    (b"\x89PNG\r\n", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"II*\x00", "a picture"),
    (b"MM\x00*", "a picture"),
    (b"%PDF", "a PDF file"),
    (b"SQLite format 3", "an SQLite database"),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"\xff\xff\xff\xff", "an Arrow file"),  # a stream
    (b"\x93NUMPY", "a NumPy file"),
    (b"\x1f\x8b", "a gzipped file"),
    (b"\x80\x04\x95", "a pickle"),
    (b"\x80\x05\x95", "a pickle"),
)
# A ZIP archive begins with a member, or, if it is empty, with its end.
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
# What can be read as a table, also under a wrong name.
_TABLES = {
    "a CSV file",
    "a TSV file",
    "a JSON file",
    "a text file",
    "a Parquet file",
    "an Arrow file",
    "a NumPy file",
    "a NumPy archive",
    "a gzipped file",
}
_EXCEL = "an Excel workbook, which can be saved as CSV"
_EXCEL_SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".xls")
# The first bytes of Excel files before 2007, and of other files of that time.
_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
_N_HEAD = 4096
# The application id in the header of an SQLite file, and that of a fleet.
_APPLICATION_ID, _FLEET_ID = slice(68, 72), b"ocfl"
# The commands for what a fleet and a tracker have in common.
_OF_BOTH = ("track", "inspect", "embed")
TRACKER = "a tracker, saved by `ocelad track`"
FLEET = "a fleet, saved by `ocelad fleet track`"
PAIRS = "pairs: rows with two points (x_..., z_...), or with two ids (id_a, id_b) and --items"
ITEMS = "items: one row per item, with its features"
RECORDS = "a table of records (CSV, TSV, JSON lines, Parquet or Arrow)"
RECORD_ANSWERS = "answers: a table with the columns id_left, id_right and same"


def describe_file(path: Path) -> str:
    """Say in a few words what a file is, from its first bytes.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "items.csv")
    ...     _ = path.write_text("id,height\\na,1.5\\n")
    ...     describe_file(path), describe_file(path.parent)
    ('a CSV file', 'a folder')
    """
    if path.is_dir():
        return "a folder"
    with open(path, "rb") as file:
        head = file.read(_N_HEAD)
    if not head:
        return "an empty file"
    if head.startswith(b"SQLite format 3") and head[_APPLICATION_ID] == _FLEET_ID:
        return "a fleet"
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    # The texts "RIFF" and "BM" may also begin a table; four bytes of a BMP file are reserved and 0.
    if (head[:4], head[8:12]) == (b"RIFF", b"WEBP") or (head[:2], head[6:10]) == (b"BM", bytes(4)):
        return "a picture"
    # Also a damaged one, or one with a password, which is no ZIP archive.
    if head.startswith((*_ZIP, _OLD_OFFICE)) and path.suffix.lower() in _EXCEL_SUFFIXES:
        return _EXCEL
    if head.startswith(_ZIP):
        return _describe_archive(path)
    if _is_state(head):
        return _describe_state(path)
    return _describe_text(path, head)


def _describe_archive(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        return "a damaged ZIP archive"
    if names and all(name.endswith(".npy") for name in names):
        return "a NumPy archive"
    if any(name.startswith("xl/") for name in names):
        return _EXCEL
    return "a ZIP archive"


def _is_state(head: bytes) -> bool:
    """Return whether a file begins like those of safetensors: with the length of a JSON object, and the object."""
    return len(head) > 8 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 32


def _describe_state(path: Path) -> str:
    from ocelad.io import state_files

    kinds = {
        "tracker": "a tracker",
        "metric": "a metric",
        "curved-metric": "a metric",
        "linker": "a file of answers, saved by `ocelad records`",
    }
    return kinds.get(state_files.read_kind(path), "a damaged tracker, or a safetensors file of another program")


def _describe_text(path: Path, head: bytes) -> str:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):  # the marks of UTF-16, which a file may lack
        head = head.decode("utf-16", errors="ignore").encode()
    elif len(head) > 3 and 0 in (head[0] | head[2], head[1] | head[3]):
        head = head.decode("utf-16-le" if head[1] == 0 else "utf-16-be", errors="ignore").encode()
    if b"\x00" in head:
        return "a binary file"
    if sum(byte < 9 or 13 < byte < 32 for byte in head) > len(head) // 50:
        return "a binary file"
    if head.lstrip()[:1] in (b"{", b"["):
        return "a JSON file"
    first_line = head.split(b"\n", 1)[0]
    if path.suffix.lower() in (".tsv", ".tab") or (b"\t" in first_line and b"," not in first_line):
        return "a TSV file"
    return "a CSV file" if path.suffix.lower() == ".csv" or b"," in first_line else "a text file"


def refuse(path: str | Path, kind: str, expected: str) -> click.ClickException:
    """Return the error that says what a file is and what the current command expects.

    >>> with click.Context(click.Command("inspect"), info_name="inspect"):
    ...     refuse("items.csv", "a CSV file", TRACKER).message
    'items.csv is a CSV file; `ocelad inspect` expects a tracker, saved by `ocelad track`'
    """
    command = command_name()
    return click.ClickException(f"{path} is {kind}; `ocelad {command}` expects {expected}{_other_command(kind)}")


def command_name() -> str:
    """Return the current command, with its group if it has one.

    >>> with click.Context(click.Group("ocelad"), info_name="ocelad") as root, click.Context(
    ...     click.Command("inspect"), root, "inspect"
    ... ):
    ...     command_name()
    'inspect'
    """
    context = click.get_current_context()
    return context.command_path.removeprefix(f"{context.find_root().command_path} ")


def _other_command(kind: str) -> str:
    """Return the hint at the command for a tracker or a fleet, where the current one is for the other."""
    group, _, name = command_name().rpartition(" ")
    if name not in _OF_BOTH:
        return ""
    if kind == "a fleet" and group == "":
        return f"; for a fleet: `ocelad fleet {name}`"
    return f"; for a tracker: `ocelad {name}`" if kind == "a tracker" and group == "fleet" else ""


def check_tracker(path: Path) -> Path:
    """Return the path of a tracker or metric; raise ``ClickException`` if it is another file, or missing."""
    if not path.exists():
        raise click.ClickException(f"the file {path} does not exist; `ocelad {command_name()}` expects {TRACKER}")
    kind = describe_file(path)
    if kind not in ("a tracker", "a metric") and "safetensors" not in kind:
        raise refuse(path, kind, TRACKER)
    return path


def check_fleet(path: Path) -> Path:
    """Return the path of a fleet; raise ``ClickException`` if it is another file, or missing."""
    if not path.exists():
        raise click.ClickException(f"the file {path} does not exist; `ocelad {command_name()}` expects {FLEET}")
    kind = describe_file(path)
    if kind != "a fleet":
        raise refuse(path, kind, FLEET)
    return path


def check_table(file: str, expected: str) -> None:
    """Raise ``ClickException`` if a file exists and cannot be a table; ``-`` is standard input."""
    path = Path(file)
    if file != "-" and path.exists() and (path.is_file() or path.is_dir()):
        kind = describe_file(path)
        if kind not in _TABLES:
            raise refuse(file, kind, expected)


@contextmanager
def expect_table(file: str, expected: str, format_: str | None = None) -> Iterator[None]:
    """Raise ``ClickException`` if a file is no table, or if it lacks columns because it is a table of another kind.

    Parameters
    ----------
    file : str
        Its name, or "-" for standard input.
    expected : str
        ``PAIRS`` or ``ITEMS``.
    format_ : str or None
        The format that the user gave.
    """
    from ocelad.io import FileError

    path = Path(file)
    check_table(file, expected)
    try:
        yield
    except FileError as error:
        found = None if file == "-" or not path.is_file() else _describe_table(path, format_)
        if found is None or found[0] == expected or file not in str(error):
            raise
        raise refuse(file, found[1], expected) from error


def _describe_table(path: Path, format_: str | None) -> tuple[str, str] | None:
    """Return what a table holds, ``PAIRS``, ``ITEMS`` or nothing of both, and a description; None if it is unclear."""
    from ocelad.io import FileError
    from ocelad.io.tabular.column_selection import find_pair_columns
    from ocelad.io.tabular.file_errors import RowError, quote_all
    from ocelad.io.tabular.file_formats import open_table
    from ocelad.io.tabular.sources import Source

    try:
        source = Source(str(path))
        try:
            kinds: dict[str, Any] = open_table(source, format_, stop=False).kinds
        finally:
            source.close()
    except (FileError, RowError, OSError):
        return None
    if {"id_a", "id_b"} <= set(kinds):
        return PAIRS, "a file of pairs of ids (id_a, id_b)"
    if len(kinds) == 1 and describe_file(path) == "a text file":
        return "", "a text file without columns"
    try:
        find_pair_columns(str(path), kinds, None, None, [])
    except FileError:
        if "id" in kinds or "vector" in kinds:
            return ITEMS, f"a table of items (columns {quote_all(kinds, 4)})"
        return None
    return PAIRS, "a file of pairs (x_..., z_...)"
