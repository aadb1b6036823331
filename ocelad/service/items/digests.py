"""Digests of items and of the files that they were read from."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from ocelad.service.itemset import ItemSet

# The number of items that are copied at once.
_BLOCK_ROWS = 4096


def items_digest(items: ItemSet) -> str:
    """Return the SHA-256 of all content of an item set, in hexadecimal digits.

    Features computed from texts or pictures may differ in their last bits between machines and versions of libraries;
    ``source_digest`` depends only on the files.
    """
    total = sha256()
    parts = [items.metadata(), items.ids, items.features.shape, items.text, list(items.fields.items())]
    total.update(json.dumps(parts, separators=(",", ":"), default=np.generic.item).encode())
    kind = "<f4" if items.is_single else "<f8"
    for first in range(0, len(items), _BLOCK_ROWS):
        total.update(np.ascontiguousarray(items.features[first : first + _BLOCK_ROWS], dtype=kind).tobytes())
    for picture in items.pictures or ():
        total.update(len(picture).to_bytes(8, "little"))
        total.update(picture)
    return total.hexdigest()


def source_digest(source: str | Path, **options: Any) -> str:
    """Return the SHA-256 of a file, or of the names and bytes of a folder's files, and of the options of reading."""
    total = sha256(json.dumps(options, sort_keys=True, separators=(",", ":")).encode())
    path = Path(source)
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if not file.is_file():
            continue
        name = str(file.relative_to(path)).encode(errors="surrogateescape")
        content = sha256()
        with open(file, "rb") as opened:
            while block := opened.read(1 << 20):
                content.update(block)
        total.update(len(name).to_bytes(8, "little") + name + content.digest())
    return total.hexdigest()
