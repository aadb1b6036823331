"""Files of a MovingIndex: a folder with the vectors, the ids, the settings, and the index of another library."""

from __future__ import annotations

import json
import os
import shutil
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
from ocelad.neighbors.segment import BLOCK_ENTRIES

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
    """Write an index into a folder: into one beside it first, which then takes its place."""
    target = Path(folder)
    if target.exists() and not (target / _SETTINGS).exists() and (not target.is_dir() or any(target.iterdir())):
        raise ValueError(f"{target} exists and is not an index; accepted: a new folder, or that of an index")
    new, old = (target.with_name(f".{target.name}.{state}") for state in ("new", "old"))
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        _write_files(new, table, built, settings)
        shutil.rmtree(old, ignore_errors=True)
        if target.exists():
            target.rename(old)
        new.rename(target)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _write_files(folder: Path, table: ItemTable, built: BuiltIndex | None, settings: dict[str, Any]) -> None:
    segments = table.snapshot.segments
    positions = np.concatenate([segment.positions[segment.alive] for segment in segments])
    n_items = len(positions)
    if not n_items:
        raise ValueError("the index has no items; there is nothing to save")
    names = table.take_ids(positions).tolist()
    try:
        (folder / _IDS).write_text(json.dumps(None if names == list(range(n_items)) else names))
    except TypeError:
        raise TypeError("ids that are neither text nor numbers cannot be saved") from None
    digest = blake2b(digest_size=16)
    out = np.lib.format.open_memmap(folder / _VECTORS, mode="w+", dtype=table.dtype, shape=(n_items, table.n_features))
    first = 0
    step = max(BLOCK_ENTRIES // table.n_features, 1)
    for segment in segments:
        for start in range(0, len(segment.alive), step):
            block = segment.vectors[segment.alive[start : start + step]]
            out[first : first + len(block)] = block
            digest.update(np.ascontiguousarray(block).data)
            first += len(block)
    out.flush()
    if built is not None:
        (folder / _BUILT).mkdir()
        built.backend.save(folder / _BUILT / _INDEX)
        built.metric.save(folder / _BUILT / (_CURVED if isinstance(built.metric, CurvedMetric) else _METRIC))
    content = {"format": FORMAT, "n_items": n_items, "n_features": table.n_features, "digest": digest.hexdigest()}
    (folder / _SETTINGS).write_text(json.dumps({**content, "settings": settings}, indent=2))


def read(folder: str | os.PathLike[str]) -> ReadItems:
    """Read the files of an index, after checking them."""
    source = Path(folder)
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
        vectors = np.load(source / _VECTORS, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError):
        raise ValueError(f"{source / _VECTORS} is missing, cut or damaged; save the index again") from None
    if vectors.shape != (content["n_items"], content["n_features"]) or (ids is not None and len(ids) != len(vectors)):
        raise ValueError(f"{source} is not a complete index: it has {len(vectors)} vectors of {content['n_items']}")
    return ReadItems(vectors, content["digest"], ids, content["settings"])


def read_built(folder: str | os.PathLike[str], table: ItemTable, settings: dict[str, Any]) -> BuiltIndex:
    """Read the index of another library."""
    source = Path(folder, _BUILT)
    metric: AnyMetric
    metric = CurvedMetric.load(source / _CURVED) if (source / _CURVED).exists() else Metric.load(source / _METRIC)
    backend = backend_factory(settings["backend"], settings["options"])()
    backend.load(source / _INDEX)
    return BuiltIndex(backend, metric, table.snapshot.segments)


def check_same_items(folder: str | os.PathLike[str], saved: ReadItems, items: npt.NDArray[Any]) -> None:
    """Refuse items other than those of an index."""
    digest = blake2b(digest_size=16)
    step = max(BLOCK_ENTRIES // items.shape[1], 1)
    for start in range(0, len(items), step):
        digest.update(np.ascontiguousarray(items[start : start + step]).data)
    if items.shape != saved.vectors.shape or digest.hexdigest() != saved.digest:
        n_items, n_features = saved.vectors.shape
        raise ValueError(
            f"{folder} was built on other items ({n_items} of {n_features} numbers); build a new index of these"
        )
