"""NumPy files as tables: .npy has one column of vectors, .npz one column per array. Rows are counted from 1."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ocelad.io.tabular.arrow import arrow
from ocelad.io.tabular.columnar import Batches, ColumnarTable
from ocelad.io.tabular.file_errors import FileError, quote, quote_all
from ocelad.io.tabular.sources import Source

NPY_MAGIC, ZIP_MAGIC = b"\x93NUMPY", b"PK\x03\x04"
#: The column of the vectors of a .npy file.
VECTOR_COLUMN = "vector"
_SUFFIX = ".npy"
_SHAPES = "accepted: vectors as rows of a 2-D array of numbers"


def is_npz(source: Source) -> bool:
    """Return whether a source is a ZIP archive of NumPy arrays."""
    if not source.head(4).startswith(ZIP_MAGIC) or source.total_bytes is None:
        return False
    try:
        with zipfile.ZipFile(source.to_file()) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        return False
    return bool(names) and all(name.endswith(_SUFFIX) for name in names)


def open_npy(source: Source, format: str) -> ColumnarTable:
    """Open a .npy file of vectors. The file is mapped into memory, so that only the rows in use occupy memory."""
    if not source.head(6).startswith(NPY_MAGIC):
        raise FileError(f"{source.name} is not a NumPy file: its first bytes are {source.head(6)!r}, not {NPY_MAGIC!r}")
    with _numpy_errors(source.name):
        if source.path is None:
            array = np.load(source.to_file(), allow_pickle=False)
        else:
            array = np.load(source.path, mmap_mode="r", allow_pickle=False)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise FileError(f"{source.name} holds an array of {array.dtype} with shape {array.shape}; {_SHAPES}")
    return _open_arrays(source, format, {VECTOR_COLUMN: array})


def open_npz(source: Source, format: str) -> ColumnarTable:
    """Open a .npz file. 2-D arrays are columns of vectors, and 1-D arrays are columns of numbers or texts."""
    arrays: dict[str, Any] = {}
    with _numpy_errors(source.name), zipfile.ZipFile(source.to_file()) as archive:
        entries = archive.infolist()
        size = sum(entry.file_size for entry in entries)
        if source.max_bytes is not None and size > source.max_bytes:
            raise FileError(
                f"{source.name} holds more than {source.max_bytes >> 20} MiB when unzipped, which is the maximum"
            )
        for entry in entries:
            name = entry.filename.removesuffix(_SUFFIX)
            try:
                with archive.open(entry) as file:
                    array = np.lib.format.read_array(file, allow_pickle=False)
            except ValueError as error:
                if "allow_pickle" not in str(error):
                    raise
                raise FileError(
                    f"{source.name}: the array {quote(name)} holds Python objects; accepted: arrays of numbers or of "
                    "text, such as ids.astype(str)"
                ) from None
            if array.dtype.kind == "S":
                array = np.char.decode(array, "utf-8")
            if array.ndim:  # single values, such as the name of a model, are not columns
                arrays[name] = array
    if not arrays:
        raise FileError(f"{source.name} has no arrays; accepted: an array of vectors, and one of ids")
    for name, array in arrays.items():
        kinds = "fiubU" if array.ndim == 1 else "fiu"
        if array.ndim > 2 or array.dtype.kind not in kinds:
            raise FileError(
                f"{source.name}: the array {quote(name)} holds {array.dtype} with shape {array.shape}; {_SHAPES}, and "
                "1-D arrays of ids, labels or numbers"
            )
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{quote(name)} has {length}" for name, length in lengths.items())
        raise FileError(f"{source.name} has arrays of different lengths: {found}; accepted: one row per item in each")
    return _open_arrays(source, format, arrays)


def _open_arrays(source: Source, format: str, arrays: dict[str, Any]) -> ColumnarTable:
    pa = arrow()
    for name, array in arrays.items():
        if array.ndim == 2 and array.shape[1] == 0:
            raise FileError(f"{source.name}: the array {quote(name)} holds vectors of length 0; {_SHAPES}")
    total = len(next(iter(arrays.values())))
    if not total:
        raise FileError(f"{source.name} has no rows in {quote_all(arrays)}; accepted: at least one row")
    size = source.total_bytes or 0
    schema = pa.schema([(name, _to_arrow(array[:1]).type) for name, array in arrays.items()])

    def batches(columns: list[str], rows: int, start: int) -> Batches:
        if start > total:
            raise FileError(f"{source.name} has {total} rows but was read up to row {start}; resume with the same file")
        for first in range(start, total, rows):
            parts = [_to_arrow(arrays[name][first : first + rows]) for name in columns]
            batch = pa.RecordBatch.from_arrays(parts, names=columns)
            yield batch, first, size * (first + batch.num_rows) // total

    return ColumnarTable(source.name, format, schema, batches, arrays)


def _to_arrow(part: Any) -> Any:
    """Return rows of an array as a column: numbers in the byte order of this machine, half precision as single."""
    pa = arrow()
    values = np.ascontiguousarray(part).ravel()
    if values.dtype.kind == "f":
        values = values.astype(np.float32 if values.dtype.itemsize <= 4 else np.float64, copy=False)
    elif values.dtype.kind in "iu":
        values = values.astype(values.dtype.newbyteorder("="), copy=False)
    column = pa.array(values.tolist(), pa.string()) if values.dtype.kind == "U" else pa.array(values)
    return column if part.ndim == 1 else pa.FixedSizeListArray.from_arrays(column, part.shape[1])


@contextmanager
def _numpy_errors(name: str) -> Iterator[None]:
    """Convert the exceptions of NumPy and of ZIP archives to a FileError."""
    try:
        yield
    except FileError:
        raise
    except MemoryError:
        raise FileError(f"{name} does not fit in memory; is it damaged?") from None
    except (ValueError, OSError, EOFError, KeyError, SyntaxError, NotImplementedError, zipfile.BadZipFile) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        if "allow_pickle" in lines[0] or "Python objects" in lines[0]:
            raise FileError(f"{name} holds Python objects; accepted: an array of numbers") from None
        reason = lines[0][:200]
        raise FileError(f"{name} is truncated, damaged or in another format: {reason}") from None
    except (RuntimeError, io.UnsupportedOperation) as error:
        raise FileError(f"{name} cannot be read: {error}") from None
