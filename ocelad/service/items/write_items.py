"""Writing items to a file that the command line can read."""

from __future__ import annotations

import os

from ocelad.io import open_output
from ocelad.service.itemset import ItemSet

# The number of values per block.
_BLOCK_VALUES = 1_000_000


def write_items(items: ItemSet, path: str | os.PathLike[str]) -> None:
    """Write the ids and the features in their own units, in the form that ``ocelad track --items`` and ``embed`` read.

    The suffix of the path selects the format, as in ``open_output``: .parquet, .jsonl, .csv or .arrow.
    """
    names = items.feature_names
    with open_output(path, {"id": "value", **dict.fromkeys(names, "float")}) as out:
        rows = max(1, _BLOCK_VALUES // len(names))
        for begin in range(0, len(items), rows):
            part = slice(begin, begin + rows)
            features = items.features[part]
            out.write({"id": list(items.ids[part]), **{name: features[:, j] for j, name in enumerate(names)}})
