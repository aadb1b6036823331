"""The items that a tracker knows before the first answer: those of a table, or a random sample of many."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ocelad._validation import is_sparse
from ocelad.adaptive.adaptive_tracker import MAX_DIFFERENCE
from ocelad.estimators.item_lookup import ItemLookup
from ocelad.io import dataframes

# Of more items than this, a random sample is used for spreads, moments, landmarks and principal axes.
MAX_ITEMS = 4096


def usable_items(known: ItemLookup | None) -> Any:
    """Return the items of a preprocessor, without rows that no pair could use; None if there are none."""
    table = None if known is None else known.table()
    if table is None:
        return None
    try:
        rows = dataframes.to_rows(sample_rows(table), "the preprocessor").values
    except (TypeError, ValueError):  # a table with missing cells
        return None
    if is_sparse(rows):
        return rows if np.isfinite(rows.data).all() and np.abs(rows.data).max(initial=0.0) <= MAX_DIFFERENCE else None
    rows = np.asarray(rows, dtype=np.float64)  # float32 does not hold the largest accepted difference
    rows = rows[(np.abs(rows) <= MAX_DIFFERENCE).all(axis=1)]  # neither NaN nor enormous
    return rows if len(rows) else None


def sample_rows(items: Any) -> Any:
    """Return the items, an array or a table, or a random sample of many: a tracker needs no more."""
    table: Any = items if is_sparse(items) or dataframes.is_dataframe(items) else np.asarray(items)
    table = table.tocsr() if is_sparse(table) else table
    if len(table.shape) != 2 or table.shape[0] <= MAX_ITEMS:
        return table
    return dataframes.take_rows(table, draw_known(table.shape[0]))


def draw_known(n_items: int) -> npt.NDArray[np.intp]:
    """Return the positions of the items that a tracker knows before the first answer: all, or a random sample of many.

    It is the same for the same number of items. Logs of the service are replayed with it, so that it must not change.
    """
    if n_items <= MAX_ITEMS:
        return np.arange(n_items)
    return np.sort(np.random.default_rng(n_items).choice(n_items, MAX_ITEMS, replace=False))
