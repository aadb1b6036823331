"""Tables of items as arrays: the ids and vectors of all rows of a file."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from ocelad.cli.pair_files import open_item_table, report_skipped, skipped_rows_path
from ocelad.cli.progress import show_bytes

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ocelad.estimators.saved_metric import SavedMetric


class ItemArrays(NamedTuple):
    """The items of a file; ``ids`` is None if they are the row numbers."""

    ids: list[Any] | None
    vectors: npt.NDArray[np.float32] | npt.NDArray[np.float64]
    n_skipped: int


def read_items(
    saved: SavedMetric, file: str, options: dict[str, Any], format_: str | None, *, unique: bool = False
) -> ItemArrays:
    """Read all items of a file whose features are those of a metric; a .npy file is mapped into memory.

    With ``unique``, an id that is repeated raises ``RowError``.
    """
    import numpy as np

    from ocelad.io.item_files import SeenIds
    from ocelad.neighbors.item_table import check_vectors

    arguments = {"format": format_, "on_error": options["on_error"], "skipped": skipped_rows_path(file, options)}
    with open_item_table(file, options, saved.features, label=False, **arguments) as rows:
        saved.check_features(rows.feature_names, file)
        if rows.array is not None and not rows.has_ids:
            return ItemArrays(None, check_vectors(rows.array, file), 0)
        with show_bytes(rows, f"Reading {rows.name}") as chunks:
            blocks, seen = [], SeenIds(rows, max_ids=inf if unique else 0)
            for chunk in chunks:
                if (repeated := seen.add(chunk)) is not None:
                    raise repeated
                blocks.append((chunk.ids, chunk.X))
        report_skipped(rows)
        if not blocks:
            raise ValueError(f"{file} has no items")
        vectors = np.concatenate([X for _, X in blocks])
        ids = [name for names, _ in blocks for name in names] if rows.has_ids or rows.n_skipped else None
        return ItemArrays(ids, vectors, rows.n_skipped)
