"""Files of a MovingIndex: a folder with the vectors, the ids, the settings, and the index of another library."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ocelad.curved_metric import AnyMetric, CurvedMetric
from ocelad.metric import Metric
from ocelad.neighbors.approximate_search import BuiltIndex
from ocelad.neighbors.backends import backend_factory
from ocelad.neighbors.item_table import ItemTable
from ocelad.neighbors.segment import BLOCK_ENTRIES, Segment

FORMAT = "ocelad index 1"
_VECTORS, _SETTINGS, _IDS, _BUILT = "vectors.npy", "index.json", "ids.json", "built"
# The index of another library in its own format, and its metric.
_INDEX, _METRIC, _CURVED = "index", "metric.safetensors", "curved-metric.safetensors"


class ReadItems(NamedTuple):
    """What was read: memory-mapped vectors, their digest, ids, and settings of the index."""

    vectors: npt.NDArray[Any]
    digest: str
    ids: list[Any] | None
    settings: dict[str, Any]


def write(folder: str | os.PathLike[str], table: ItemTable, built: BuiltIndex | None, settings: dict[str, Any]) -> None:
    """Write an index into a folder: into one beside it first, which then takes its place.

    The items are those of the index of another library, if there is one, otherwise those of the table now.
    """
    target, new, old = _paths(folder)
    _restore(target, old)
    if target.exists() and not (target / _SETTINGS).exists() and (not target.is_dir() or any(target.iterdir())):
        raise ValueError(f"{target} exists and is not an index; accepted: a new folder, or that of an index")
    segments = table.snapshot.segments if built is None else built.segments
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        _write_files(new, segments, table, settings)
        if built is not None:
            _write_built(new / _BUILT, built)
        if target.exists():
            target.rename(old)
        new.rename(target)
    finally:
        _restore(target, old)
        shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def _paths(folder: str | os.PathLike[str]) -> tuple[Path, Path, Path]:
    """Return a folder, the one that is written before it takes its place, and the one that it takes the place of."""
    target = Path(folder).resolve()
    if not target.name:
        raise ValueError(f"{target} cannot be the folder of an index")
    return target, target.with_name(f".{target.name}.new"), target.with_name(f".{target.name}.old")


def _restore(target: Path, old: Path) -> None:
    """Bring an index back whose replacement was interrupted."""
    if not target.exists() and old.exists():
        old.rename(target)


def _write_files(folder: Path, segments: Sequence[Segment], table: ItemTable, settings: dict[str, Any]) -> None:
    positions = np.concatenate([segment.positions[segment.alive] for segment in segments])
    n_items = len(positions)
    if not n_items:
        raise ValueError("the index has no items; there is nothing to save")
    names = table.take_ids(positions).tolist()
    refused = next((name for name in names if not isinstance(name, str | int | float)), None)
    if refused is not None:
        raise TypeError(f"the id {refused!r} cannot be saved; accepted: text and numbers")
    (folder / _IDS).write_text(json.dumps(None if names == list(range(n_items)) else names))
    digest = blake2b(digest_size=16)
    out = np.lib.format.open_memmap(folder / _VECTORS, mode="w+", dtype=table.dtype, shape=(n_items, table.n_features))
    first = 0
    for segment in segments:
        for block in _blocks(segment.vectors, segment.alive):
            out[first : first + len(block)] = block
            digest.update(block.data)
            first += len(block)
    out.flush()
    content = {"format": FORMAT, "n_items": n_items, "n_features": table.n_features, "digest": digest.hexdigest()}
    (folder / _SETTINGS).write_text(json.dumps({**content, "settings": settings}, indent=2, default=os.fspath))


def _blocks(vectors: npt.NDArray[Any], rows: npt.NDArray[np.intp]) -> Iterator[npt.NDArray[Any]]:
    """Yield some rows, in blocks that are not too large."""
    step = max(BLOCK_ENTRIES // vectors.shape[1], 1)
    for start in range(0, len(rows), step):
        yield np.ascontiguousarray(vectors[rows[start : start + step]])


def _write_built(folder: Path, built: BuiltIndex) -> None:
    folder.mkdir()
    built.backend.save(folder / _INDEX)
    built.metric.save(folder / (_CURVED if isinstance(built.metric, CurvedMetric) else _METRIC))


def read(folder: str | os.PathLike[str]) -> ReadItems:
    """Read the files of an index, after checking them."""
    source, _, old = _paths(folder)
    _restore(source, old)
    try:
        content = json.loads((source / _SETTINGS).read_text())
        ids = json.loads((source / _IDS).read_text())
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{source} is not an index: it has no file {_SETTINGS} or {_IDS}") from None
    except ValueError:
        raise ValueError(f"{source} is not a complete index: {_SETTINGS} or {_IDS} is damaged") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{source} is not an index of this version; accepted: the format {FORMAT!r}")
    try:
        shape, digest = (int(content["n_items"]), int(content["n_features"])), str(content["digest"])
        settings = {name: content["settings"][name] for name in ("backend", "recall", "options")}
        is_complete = ids is None or (isinstance(ids, list) and len(ids) == shape[0])
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{source} is not a complete index: {_SETTINGS} is damaged") from None
    try:
        vectors = np.load(source / _VECTORS, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError):
        raise ValueError(f"{source / _VECTORS} is missing, cut or damaged; save the index again") from None
    if vectors.shape != shape or not is_complete:
        raise ValueError(f"{source} is not a complete index: it has {len(vectors)} vectors of {shape[0]}")
    return ReadItems(vectors, digest, ids, settings)


def read_built(folder: str | os.PathLike[str], table: ItemTable, settings: dict[str, Any]) -> BuiltIndex:
    """Read the index of another library."""
    source = Path(folder, _BUILT)
    metric: AnyMetric
    metric = CurvedMetric.load(source / _CURVED) if (source / _CURVED).exists() else Metric.load(source / _METRIC)
    backend = backend_factory(settings["backend"], settings["options"])()
    backend.load(source / _INDEX)
    if len(backend) != len(table):
        raise ValueError(f"{source} is an index of {len(backend)} other items; save the index again")
    return BuiltIndex(backend, metric, table.snapshot.segments)


def check_same_items(folder: str | os.PathLike[str], saved: ReadItems, items: npt.NDArray[Any]) -> None:
    """Refuse items other than those of an index, or in another order than its ids."""
    digest = blake2b(digest_size=16)
    for block in _blocks(items, np.arange(len(items))):
        digest.update(block.data)
    if items.shape != saved.vectors.shape or digest.hexdigest() != saved.digest:
        n_items, n_features = saved.vectors.shape
        raise ValueError(
            f"{folder} was built on other items ({n_items} of {n_features} numbers); build a new index of these"
        )
