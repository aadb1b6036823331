"""Pictures in the cells of a table: bytes, base64, or paths relative to the table."""

from __future__ import annotations

import io
import re
from base64 import b64decode
from binascii import Error as Base64Error
from pathlib import Path
from typing import Any

from ocelad.io.tabular.cells import is_missing
from ocelad.io.tabular.column_samples import ColumnSample
from ocelad.io.tabular.file_errors import BadRowError, quote
from ocelad.service.items.pictures import Picture, read_picture
from ocelad.service.items.upload_limits import ItemsError

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")
_EXPECTED = "a picture is expected: the bytes of a PNG, JPEG, GIF, WebP or BMP file, or base64 of them"
_DATA_URL = re.compile(r"data:image/[a-z0-9.+-]+;base64,", re.IGNORECASE)
# The first characters of base64 of PNG, JPEG, GIF, WebP and BMP files.
_BASE64_BEGINS = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR", "Qk")
_MIN_BASE64_LENGTH = 40
#: The largest picture file in a cell.
MAX_PICTURE_FILE_BYTES = 32 << 20


def has_pictures(sample: ColumnSample, reads_paths: bool) -> bool:
    """Return whether the first cell of a column holds a picture; a path is one only if paths are read."""
    if sample.kind == "bytes":
        return True
    value = next(iter(sample.values), None)
    if isinstance(value, dict):
        value = value.get("bytes") or value.get("path")
    if not isinstance(value, str):
        return False
    is_path = len(value) < 1000 and "\n" not in value and "://" not in value and value.lower().endswith(SUFFIXES)
    return _is_base64(value) or (reads_paths and is_path)


def read_cell(column: str, entry: Any, folder: Path | None) -> Picture | None:
    """Return the picture of a cell, or None if the cell is empty; raise BadRowError if it holds no picture.

    Parameters
    ----------
    column : str
    entry : bytes, str, dict or None
        A dict has "bytes", or else "path", as Hugging Face writes it.
    folder : Path or None
        The folder that paths are relative to; None: paths are refused.
    """
    if isinstance(entry, dict):
        entry = entry.get("path") if is_missing(entry.get("bytes")) else entry["bytes"]
    if is_missing(entry) or entry == b"":
        return None
    data = entry if isinstance(entry, bytes) else _from_text(column, entry, folder)
    if len(data) > MAX_PICTURE_FILE_BYTES:
        raise BadRowError(
            f"the picture in column {quote(column)} has {len(data):,} bytes; at most {MAX_PICTURE_FILE_BYTES:,} are "
            "accepted"
        )
    try:
        return read_picture(io.BytesIO(data), f"the picture in column {quote(column)}")
    except ItemsError as error:
        raise BadRowError(str(error)) from None


def _is_base64(text: str) -> bool:
    return _DATA_URL.match(text) is not None or (
        len(text) >= _MIN_BASE64_LENGTH and text.startswith(_BASE64_BEGINS) and " " not in text[:_MIN_BASE64_LENGTH]
    )


def _from_text(column: str, entry: Any, folder: Path | None) -> bytes:
    if not isinstance(entry, str):
        raise BadRowError(f"column {quote(column)} holds {quote(entry)}; {_EXPECTED}")
    if _is_base64(entry):
        try:
            return b64decode(_DATA_URL.sub("", entry, count=1), validate=False)
        except (Base64Error, ValueError):
            raise BadRowError(f"column {quote(column)} holds damaged base64; {_EXPECTED}") from None
    if folder is None:
        raise BadRowError(f"column {quote(column)} holds {quote(entry)}; {_EXPECTED}")
    return _read_file(column, entry, folder)


def _read_file(column: str, name: str, folder: Path) -> bytes:
    """Read a file in the folder of the table or below it; others are refused, so that a table cannot publish them."""
    where = f"column {quote(column)} holds the path {quote(name)}"
    try:
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise BadRowError(f"{where}, which is outside the folder of the table; accepted: paths below it")
        if path.suffix.lower() not in SUFFIXES:
            raise BadRowError(f"{where}; accepted: files with the suffix {', '.join(SUFFIXES)}")
        with open(path, "rb") as file:
            return file.read(MAX_PICTURE_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise BadRowError(f"{where}, which cannot be opened: {getattr(error, 'strerror', None) or error}") from None
