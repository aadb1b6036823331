"""Indexes of other libraries behind one small protocol; each is an optional dependency."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import signature
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

# The module and class of each backend, and the extra that installs its library.
_BACKENDS = {
    "faiss": ("faiss_backend", "FaissBackend", "faiss"),
    "usearch": ("usearch_backend", "UsearchBackend", "usearch"),
    "lancedb": ("lancedb_backend", "LancedbBackend", "lancedb"),
}
#: The names of the indexes of other libraries.
BACKENDS = tuple(_BACKENDS)


class Backend(Protocol):
    """An index of points for Euclidean distance, built once."""

    def __len__(self) -> int:
        """Return the number of points."""

    def build(self, points: npt.NDArray[np.float32]) -> None:
        """Build the index of points, one per row."""

    def search(self, queries: npt.NDArray[np.float32], k: int, effort: int) -> npt.NDArray[np.int64]:
        """Return the numbers of k rows near each query, of shape (n_queries, k), -1 where there are fewer.

        A larger effort, a power of two, finds more of the nearest ones and takes longer.
        """

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index in its library's own format: a file, or a folder."""

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read an index that ``save`` wrote."""


def check_options(options: Any) -> dict[str, Any]:
    """Return options of a backend as a dict; None means none."""
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options is {options!r}; accepted: a dict, such as {{'kind': 'hnsw'}}")
    return dict(options or {})


def backend_factory(name: str, options: dict[str, Any]) -> Callable[[], Backend]:
    """Return a function that makes an empty index; refuse an unknown name, and a library that is missing."""
    if name not in _BACKENDS:
        raise ValueError(f"there is no backend {name!r}; accepted: exact, {', '.join(_BACKENDS)}")
    module, backend, extra = _BACKENDS[name]
    for variable in ("LANCE_LOG", "LANCEDB_LOG"):  # lancedb warns of every new table; it reads them when it is imported
        os.environ.setdefault(variable, "error")
    try:
        kind = getattr(import_module(f"{__name__}.{module}"), backend)
    except ImportError as missing:
        raise ImportError(
            f"the backend {name!r} needs a library that is not installed ({missing}); "
            f"install it with: pip install 'ocelad[{extra}]'"
        ) from missing
    accepted = signature(kind).parameters
    unknown = next((option for option in options if option not in accepted), None)
    if unknown is not None:
        raise ValueError(f"the backend {name!r} has no option {unknown!r}; accepted: {', '.join(accepted)}")
    kind(**options)  # refuses wrong values now, not in the background
    return lambda: kind(**options)
