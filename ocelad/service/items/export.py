"""Items to a file that the command line reads."""

from __future__ import annotations

import os

from ocelad.io import open_output
from ocelad.service.itemset import ItemSet

_ROWS = 1_000_000


def write_items(items: ItemSet, path: str | os.PathLike[str]) -> None:
    """Write ids, and features under their names in their own units: what ``ocelad track --items`` and ``embed`` read.

    The format is that of the path's suffix, as in ``open_output``: .parquet, .jsonl, .csv or .arrow.
    """
    names = items.feature_names
    with open_output(path, {"id": "value", **dict.fromkeys(names, "float")}) as out:
        rows = max(1, _ROWS // len(names))
        for begin in range(0, len(items), rows):
            part = slice(begin, begin + rows)
            features = items.features[part]
            out.write({"id": list(items.ids[part]), **{name: features[:, j] for j, name in enumerate(names)}})
