"""Files of vectors that are mapped into memory: a cache of the float32 features of items, which the database stores."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ocelad.io.atomic import replace_atomically
from ocelad.service.store.durable_files import make_folder
from ocelad.service.store.errors import StoreUnavailable
from ocelad.service.store.project_table import ProjectRecord

FOLDER = "vectors"
KIND = np.dtype("<f4")
# Text, the number of features, and the number of vectors that were written completely.
_HEADER = struct.Struct("<48sqq")
_MAGIC = b"ocelad vectors 1".ljust(48, b"\0")
# The number of vectors that are compared with the database before a file is used.
_N_COMPARED = 64


class StoredVectors(NamedTuple):
    """How to read vectors from the database, as bytes.

    Attributes
    ----------
    rows : callable (first) -> iterator of bytes
        All vectors from a position on, one or more at once.
    row : callable (position) -> bytes
    """

    rows: Callable[[int], Iterator[bytes]]
    row: Callable[[int], bytes]


def vector_path(folder: Path, project: ProjectRecord) -> Path:
    """Return the file of a project's vectors in a data folder; a project of another database has another one."""
    parts = [project.id, project.created_at, project.digest]
    return folder / FOLDER / f"{sha256(repr(parts).encode()).hexdigest()[:32]}.f32"


def map_vectors(path: Path, n_items: int, n_features: int, stored: StoredVectors) -> npt.NDArray[np.float32]:
    """Return the vectors of a project, mapped into memory; the file is written, or extended, if it is necessary.

    Vectors never change, and new ones follow the others. So arrays that were mapped before agree with a longer file.
    A file that is damaged, or that differs from the database in one of 64 vectors, is written again.
    """
    make_folder(path.parent)
    try:
        n_written = _count(path, n_items, n_features)
        if n_written and not _agrees(_map(path, n_written, n_features), stored):
            n_written = 0
        if not n_written:
            with replace_atomically(path, mode=0o600) as part:
                _append(part, 0, n_items, n_features, stored)
        elif n_written < n_items:
            _append(path, n_written, n_items, n_features, stored)
        return _map(path, n_items, n_features)
    except OSError as error:
        if isinstance(error, StoreUnavailable):
            raise
        raise StoreUnavailable(
            f"cannot write the vectors of a project to {str(path)!r} ({error.strerror}); accepted: a writable folder "
            f"with {n_items * n_features * KIND.itemsize:,} free bytes"
        ) from None


def _count(path: Path, n_items: int, n_features: int) -> int:
    """Return how many of the vectors a file holds; 0 if it cannot be used."""
    try:
        with open(path, "rb") as file:
            head = file.read(_HEADER.size)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return 0
    if len(head) < _HEADER.size:
        return 0
    magic, width, count = _HEADER.unpack(head)
    is_complete = size >= _HEADER.size + count * n_features * KIND.itemsize
    return min(count, n_items) if magic == _MAGIC and width == n_features and is_complete else 0


def _agrees(vectors: npt.NDArray[Any], stored: StoredVectors) -> bool:
    """Return whether some vectors, the first and the last among them, are those of the database."""
    positions = np.unique(np.linspace(0, len(vectors) - 1, _N_COMPARED).astype(int)).tolist()
    return all(vectors[position].tobytes() == stored.row(position) for position in positions)


def _append(path: Path, n_written: int, n_items: int, n_features: int, stored: StoredVectors) -> None:
    """Write vectors after the first ones; the header counts them once they are on the disk."""
    row_size = n_features * KIND.itemsize
    with open(path, "r+b") as file:
        file.seek(_HEADER.size + n_written * row_size)
        for rows in stored.rows(n_written):
            file.write(rows)
        if file.tell() != _HEADER.size + n_items * row_size:
            raise StoreUnavailable(f"the database has not all vectors of a project of {n_items:,} items")
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        file.write(_HEADER.pack(_MAGIC, n_features, n_items))
        file.flush()
        os.fsync(file.fileno())


def _map(path: Path, n_items: int, n_features: int) -> npt.NDArray[np.float32]:
    mapped = np.memmap(path, dtype=KIND, mode="r", offset=_HEADER.size, shape=(n_items, n_features))
    return np.asarray(mapped)  # a plain array on the same memory: rows of it need not be of the slower subclass
