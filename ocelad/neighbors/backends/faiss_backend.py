"""An index of faiss: flat, inverted file (IVF) or graph (HNSW)."""

from __future__ import annotations

import os
from threading import Lock
from typing import Any, Literal

import faiss
import numpy as np
import numpy.typing as npt

# Points per cell of an inverted file that are used for training, and cells that are searched with effort 1.
_TRAINED_PER_CELL, _N_PROBES = 40, 8
_N_LINKS, _EF_CONSTRUCTION, _EF_SEARCH = 32, 80, 64


class FaissBackend:
    """An index of faiss.

    Parameters
    ----------
    kind : {"ivf", "flat", "hnsw"}
    """

    def __init__(self, kind: Literal["ivf", "flat", "hnsw"] = "ivf") -> None:
        if kind not in ("flat", "ivf", "hnsw"):
            raise ValueError(f"kind is {kind!r}; accepted: 'ivf', 'flat' or 'hnsw'")
        self._kind = kind
        self._index: Any = None
        self._lock = Lock()  # the effort is a setting of the index

    def __len__(self) -> int:
        return 0 if self._index is None else int(self._index.ntotal)

    def build(self, points: npt.NDArray[np.float32]) -> None:
        n, d = points.shape
        index: Any
        if self._kind == "ivf":
            n_cells = max(1, min(int(4.0 * np.sqrt(n)), n // _TRAINED_PER_CELL))
            index = faiss.IndexIVFFlat(faiss.IndexFlatL2(d), d, n_cells)
            drawn = np.random.default_rng(0).permutation(n)[: n_cells * _TRAINED_PER_CELL]
            index.train(np.ascontiguousarray(points[np.sort(drawn)]))
        elif self._kind == "hnsw":
            index = faiss.IndexHNSWFlat(d, _N_LINKS)
            index.hnsw.efConstruction = _EF_CONSTRUCTION
        else:
            index = faiss.IndexFlatL2(d)
        index.add(np.ascontiguousarray(points))
        self._index = index

    def search(self, queries: npt.NDArray[np.float32], k: int, effort: int) -> npt.NDArray[np.int64]:
        index = self._index
        with self._lock:
            if self._kind == "ivf":
                index.nprobe = min(_N_PROBES * effort, index.nlist)
            elif self._kind == "hnsw":
                index.hnsw.efSearch = max(_EF_SEARCH * effort, k)
            return np.asarray(index.search(np.ascontiguousarray(queries), k)[1])

    def save(self, path: str | os.PathLike[str]) -> None:
        faiss.write_index(self._index, os.fspath(path))

    def load(self, path: str | os.PathLike[str]) -> None:
        try:
            self._index = faiss.read_index(os.fspath(path))
        except RuntimeError:
            raise ValueError(f"{path} is not a complete file of faiss") from None
