"""Digests: whether items are the same, and whether a file is."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from ocelad.service.itemset import ItemSet


def digest(items: ItemSet) -> str:
    """The SHA-256 of everything in it, in hexadecimal digits; another one where anything is another.

    What was computed from texts or pictures may differ in its last bits from one machine or version of a library to the
    next; ``fingerprint`` is of what was read, and does not.
    """
    total = sha256()
    parts = [items.metadata(), items.ids, items.features.shape, items.text, list(items.fields.items())]
    total.update(json.dumps(parts, separators=(",", ":"), default=np.generic.item).encode())
    total.update(np.ascontiguousarray(items.features, dtype="<f8").tobytes())
    for picture in items.pictures or ():
        total.update(len(picture).to_bytes(8, "little"))
        total.update(picture)
    return total.hexdigest()


def fingerprint(source: str | Path, **options: Any) -> str:
    """The SHA-256 of the bytes of a file, or of the names and bytes of a folder's files, and of how they are read."""
    total = sha256(json.dumps(options, sort_keys=True, separators=(",", ":")).encode())
    path = Path(source)
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if not file.is_file():
            continue
        name = str(file.relative_to(path)).encode(errors="surrogateescape")
        content = sha256()
        with open(file, "rb") as opened:
            while piece := opened.read(1 << 20):
                content.update(piece)
        total.update(len(name).to_bytes(8, "little") + name + content.digest())
    return total.hexdigest()
