"""export_index: hand the learned distance over to a vector store, as a matrix or with all items."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad.curved_metric import AnyMetric, CurvedMetric, project
from ocelad.io.atomic import check_folder_of
from ocelad.metric import check_metric
from ocelad.neighbors.backends import backend_factory, check_options
from ocelad.neighbors.item_ids import check_id_sequence
from ocelad.neighbors.item_table import check_vectors
from ocelad.neighbors.segment import BLOCK_ENTRIES

#: What can be exported to.
Target: TypeAlias = Literal["matrix", "npy", "faiss", "usearch", "lancedb"]
TARGETS: tuple[Target, ...] = get_args(Target)


class Exported(NamedTuple):
    """What was written.

    Attributes
    ----------
    path : Path
    matrix : Path or None
        The matrix by which queries are multiplied; None if the distance is curved.
    ids : Path or None
        The ids of the rows, a JSON list; None if they are the row numbers, or if the store itself has them.
    n_items, n_dimensions : int
    """

    path: Path
    matrix: Path | None
    ids: Path | None
    n_items: int
    n_dimensions: int


def export_index(
    metric: AnyMetric,
    to: Target,
    path: str | os.PathLike[str],
    *,
    items: Any = None,
    ids: Sequence[Any] | None = None,
    n_components: int | None = None,
    options: dict[str, Any] | None = None,
) -> Exported:
    """Write a metric, or items in the space where the Euclidean distance is the metric's, for another program.

    Parameters
    ----------
    metric : Metric or CurvedMetric
    to : {"matrix", "npy", "faiss", "usearch", "lancedb"}
        "matrix": the matrix P, a .npy file; store ``items @ P``, and search with ``query @ P``. The others hold the
        items multiplied by it: an array, an index of faiss or usearch, or a table of lancedb with the columns ``id``
        and ``vector``. The matrix for queries is written beside them.
    path : path
        An existing file is replaced; so is the table ``items`` in a folder of lancedb.
    items : array-like of shape (n_items, n_features), or None
        None for "matrix" only: then all components of the metric are written.
    ids : sequence of text or numbers, or None
        None: the row numbers.
    n_components : int or None
        The number of dimensions: the principal axes of the items in the learned space. None: all. There are fewer if
        the metric has a smaller rank; ``Exported.n_dimensions`` says how many.
    options : dict or None
        Options of faiss or usearch, such as ``{"kind": "hnsw"}``.

    Examples
    --------
    >>> import tempfile
    >>> from ocelad import Metric
    >>> items = np.random.default_rng(0).normal(size=(100, 3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_index(Metric.from_diagonal([4.0, 1.0, 0.0]), "matrix", f"{folder}/P.npy", items=items).n_dimensions
    2
    """
    if to not in TARGETS:
        raise ValueError(f"there is no export to {to!r}; accepted: {', '.join(TARGETS)}")
    check_metric(metric, CurvedMetric)
    target, vectors = Path(path), None if items is None else check_vectors(items, "items", metric.n_features)
    if to != "lancedb":  # it makes folders itself
        check_folder_of(target)
    if to == "matrix":
        return _export_matrix(metric, target, vectors, n_components)
    if vectors is None:
        raise ValueError(f"the export to {to} needs items")
    check_id_sequence(ids)
    if ids is not None and len(ids) != len(vectors):
        raise ValueError(f"there are {len(ids)} ids and {len(vectors)} items; accepted: one id for each item")
    names = None if ids is None else [name.item() if hasattr(name, "item") else name for name in ids]
    if names is not None and not all(isinstance(name, str | int | float) for name in names):
        raise TypeError("ids holds a value that is neither text nor a number")
    write, names_json = _writer(to, check_options(options), names), json.dumps(names)
    if to != "lancedb" and target.is_dir():
        raise ValueError(f"{target} is a folder; accepted: the name of a file")
    matrix = metric.projection(vectors, n_components)
    points = _project_all(metric, vectors, matrix)
    if to == "lancedb":  # it replaces a table itself, and leaves other tables of the folder alone
        write(target, points)
    else:
        _replace(target, lambda new: write(new, points))
    beside = {name: target.with_name(f"{target.name}.{name}") for name in ("matrix.npy", "ids.json")}
    for path_beside in beside.values():
        path_beside.unlink(missing_ok=True)  # those of an earlier export
    if not isinstance(metric, CurvedMetric):
        _replace(beside["matrix.npy"], lambda new: _save_array(new, matrix))
    if names is not None and to != "lancedb" and names != list(range(len(names))):
        _replace(beside["ids.json"], lambda new: new.write_text(names_json))
    written = {name: path_beside if path_beside.exists() else None for name, path_beside in beside.items()}
    return Exported(target, written["matrix.npy"], written["ids.json"], *points.shape)


def _export_matrix(
    metric: AnyMetric, path: Path, vectors: npt.NDArray[Any] | None, n_components: int | None
) -> Exported:
    if isinstance(metric, CurvedMetric):
        raise ValueError(
            "a curved distance has no matrix; export the items (npy, faiss, usearch or lancedb), or learn with "
            "curved=False"
        )
    if vectors is None and n_components is not None:
        raise ValueError("n_components needs items, whose principal axes are used")
    matrix = np.array(metric.components.T) if vectors is None else metric.projection(vectors, n_components)
    _replace(path, lambda new: _save_array(new, matrix))
    return Exported(path, path, None, 0 if vectors is None else len(vectors), matrix.shape[1])


def _writer(to: Target, options: dict[str, Any], ids: list[Any] | None) -> Callable[[Path, npt.NDArray[Any]], None]:
    """Return the function that writes points; refuse a library that is missing now, not after the work."""
    if to == "npy":
        return _save_array
    make = backend_factory(to, options)
    if to == "lancedb":
        from ocelad.neighbors.backends.lancedb_backend import write_table

        return lambda path, points: write_table(path, points, ids)

    def write(path: Path, points: npt.NDArray[Any]) -> None:
        backend = make()
        backend.build(points)
        backend.save(path)

    return write


def _project_all(metric: AnyMetric, vectors: npt.NDArray[Any], matrix: Floats) -> npt.NDArray[np.float32]:
    """Return all vectors in the learned space, in single precision, computed in blocks."""
    points = np.empty((len(vectors), matrix.shape[1]), dtype=np.float32)
    step = max(BLOCK_ENTRIES // max(matrix.shape), 1)
    for first in range(0, len(vectors), step):
        points[first : first + step] = project(metric, vectors[first : first + step].astype(np.float64), matrix)
    return points


def _save_array(path: Path, array: npt.NDArray[Any]) -> None:
    with path.open("wb") as file:  # np.save would add a suffix
        np.save(file, array)


def _replace(path: Path, write: Callable[[Path], Any]) -> None:
    """Let a function write a new file, which then takes the place of the old one."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; accepted: the name of a file")
    new = path.with_name(f".{path.name}.new")
    try:
        write(new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
