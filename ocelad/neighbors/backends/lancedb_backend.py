"""A table of lancedb with an index of its vectors."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any
from weakref import finalize

import lancedb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

_FOLDER, _TABLE = "lancedb", "items"
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

    def _new_folder(self) -> Path:
        if self._folder is not None:
            return self._folder
        folder = Path(tempfile.mkdtemp(prefix="ocelad-lancedb-"))
        finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder

    def build(self, points: npt.NDArray[np.float32]) -> None:
        kind = pa.list_(pa.float32(), points.shape[1])
        schema = pa.schema([pa.field("row", pa.int64()), pa.field("vector", kind)])

        def batches() -> Any:
            for first in range(0, len(points), _ROWS_PER_BATCH):
                block = points[first : first + _ROWS_PER_BATCH]
                vectors = pa.FixedSizeListArray.from_arrays(pa.array(block.ravel()), points.shape[1])
                yield pa.record_batch([pa.array(np.arange(first, first + len(block))), vectors], schema=schema)

        reader = pa.RecordBatchReader.from_batches(schema, batches())
        table = lancedb.connect(self._new_folder()).create_table(_TABLE, reader, mode="overwrite")
        if len(points) >= _MIN_INDEXED:
            table.create_index(metric="l2", vector_column_name="vector", index_type="IVF_FLAT")
        self._table = table

    def search(self, queries: npt.NDArray[np.float32], k: int, effort: int) -> npt.NDArray[np.int64]:
        found = np.full((len(queries), k), -1, dtype=np.int64)
        for at, query in enumerate(queries):
            search = self._table.search(query).nprobes(_N_PROBES * effort).limit(k)
            rows = search.select(["row", "_distance"]).to_arrow()["row"]
            found[at, : len(rows)] = rows.to_numpy()
        return found

    def save(self, folder: str | os.PathLike[str]) -> None:
        target = Path(folder, _FOLDER)
        table = lancedb.connect(target).create_table(_TABLE, self._table.to_arrow(), mode="overwrite")
        if table.count_rows() >= _MIN_INDEXED:
            table.create_index(metric="l2", vector_column_name="vector", index_type="IVF_FLAT")

    def load(self, folder: str | os.PathLike[str]) -> None:
        source = Path(folder, _FOLDER)
        try:
            self._table = lancedb.connect(source).open_table(_TABLE)
        except (ValueError, OSError, RuntimeError):
            raise ValueError(f"{source} holds no complete table of lancedb") from None
