"""A table of lancedb with an index of its vectors."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from weakref import finalize

import lancedb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

#: The name of the table in its folder.
TABLE = "items"
# Below this many rows, a scan is faster than an index.
_MIN_INDEXED = 10_000
_N_PROBES = 20
_ROWS_PER_BATCH = 16_384


class LancedbBackend:
    """A table of lancedb in a folder, by default a temporary one, with an IVF index.

    Parameters
    ----------
    folder : path or None
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._folder = None if folder is None else Path(folder)
        self._table: Any = None

    def __len__(self) -> int:
        return 0 if self._table is None else int(self._table.count_rows())

    def build(self, points: npt.NDArray[np.float32]) -> None:
        folder = self._folder
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="ocelad-lancedb-"))
            finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._table = write_table(folder, points)

    def search(self, queries: npt.NDArray[np.float32], k: int, effort: int) -> npt.NDArray[np.int64]:
        found = np.full((len(queries), k), -1, dtype=np.int64)
        for at, query in enumerate(queries):
            search = self._table.search(query).nprobes(_N_PROBES * effort).limit(k)
            rows = search.select(["id", "_distance"]).to_arrow()["id"]
            found[at, : len(rows)] = rows.to_numpy()
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        table = lancedb.connect(Path(path)).create_table(TABLE, self._table.to_arrow(), mode="overwrite")
        _create_index(table)

    def load(self, path: str | os.PathLike[str]) -> None:
        try:
            self._table = lancedb.connect(Path(path)).open_table(TABLE)
        except (ValueError, OSError, RuntimeError):
            raise ValueError(f"{path} holds no complete table of lancedb") from None


def write_table(folder: Path, points: npt.NDArray[np.float32], ids: Sequence[Any] | None = None) -> Any:
    """Write points into a new table with the columns ``id`` and ``vector``, and return it; without ids, row numbers."""
    names = pa.array(range(len(points))) if ids is None else pa.array(ids)
    vector = pa.list_(pa.float32(), points.shape[1])
    schema = pa.schema([pa.field("id", names.type), pa.field("vector", vector)])

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, len(points), _ROWS_PER_BATCH):
            block = np.ascontiguousarray(points[first : first + _ROWS_PER_BATCH])
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(block.ravel()), points.shape[1])
            yield pa.record_batch([names[first : first + len(block)], vectors], schema=schema)

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    table = lancedb.connect(folder).create_table(TABLE, reader, mode="overwrite")
    _create_index(table)
    return table


def _create_index(table: Any) -> None:
    if table.count_rows() >= _MIN_INDEXED:
        table.create_index(metric="l2", vector_column_name="vector", index_type="IVF_FLAT")
