"""An index of usearch: a graph (HNSW)."""

from __future__ import annotations

import os
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
from usearch.index import Index

_N_LINKS, _EF_CONSTRUCTION, _EF_SEARCH = 16, 128, 64


class UsearchBackend:
    """A graph of usearch.

    Parameters
    ----------
    dtype : str
        How vectors are stored: "f32", or "f16" or "i8" for less memory; candidates are ranked by the metric itself.
    """

    def __init__(self, dtype: str = "f32") -> None:
        if dtype not in ("f32", "f16", "i8"):
            raise ValueError(f"dtype is {dtype!r}; accepted: 'f32', 'f16' or 'i8'")
        self._dtype = dtype
        self._index: Any = None
        self._lock = Lock()  # the effort is a setting of the index

    def __len__(self) -> int:
        return 0 if self._index is None else len(self._index)

    def _empty(self, n_dimensions: int) -> Any:
        return Index(
            ndim=n_dimensions,
            metric="l2sq",
            dtype=self._dtype,
            connectivity=_N_LINKS,
            expansion_add=_EF_CONSTRUCTION,
            expansion_search=_EF_SEARCH,
        )

    def build(self, points: npt.NDArray[np.float32]) -> None:
        index = self._empty(points.shape[1])
        index.add(np.arange(len(points), dtype=np.uint64), points)
        self._index = index

    def search(self, queries: npt.NDArray[np.float32], k: int, effort: int) -> npt.NDArray[np.int64]:
        index = self._index
        with self._lock:
            index.expansion_search = max(_EF_SEARCH * effort, k)
            found = index.search(queries, min(k, len(index)))
        keys = np.atleast_2d(found.keys).astype(np.int64)
        counts = np.atleast_1d(found.counts) if len(queries) > 1 else np.array([keys.shape[1]])
        keys[np.arange(keys.shape[1]) >= counts[:, None]] = -1
        return keys

    def save(self, path: str | os.PathLike[str]) -> None:
        self._index.save(os.fspath(path))

    def load(self, path: str | os.PathLike[str]) -> None:
        try:
            index = Index.restore(os.fspath(path)) if os.path.exists(path) else None
        except RuntimeError:
            index = None
        if index is None:
            raise ValueError(f"{path} is not a complete file of usearch")
        self._index = index
