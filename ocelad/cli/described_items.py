"""Read the items between which a saved distance is described."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ocelad.cli.evaluate import read_labelled_items
from ocelad.cli.file_kind import PAIRS, expect_table


def check_one_file(items: str | None, pairs: str | None) -> None:
    """Refuse a file of items beside a file of pairs."""
    if items is not None and pairs is not None:
        raise click.UsageError("both --items and --pairs are given; accepted: one of them")


def read_described_items(tracker: Path, items: str | None, pairs: str | None, options: dict[str, Any]) -> Any:
    """Return the points of a file of items, or of both sides of a file of pairs; None if there is no file.

    Of many points, a sample is returned. ``options`` are those of ``open_item_table``.
    """
    if items is None and pairs is None:
        return None
    from ocelad.estimators.distance_shares import MAX_ITEMS
    from ocelad.estimators.saved_metric import load_metric

    saved = load_metric(tracker)
    if items is not None:
        return read_labelled_items(saved, items, None, 0, MAX_ITEMS, options)[0]
    return read_points_of_pairs(saved, str(pairs), MAX_ITEMS // 2)


def read_points_of_pairs(saved: Any, file: str, max_pairs: int) -> Any:
    """Return the points of at most ``max_pairs`` pairs, evenly spaced; the whole file need not fit into memory."""
    import numpy as np

    from ocelad.io import open_comparisons

    every, n_read, kept = 1, 0, np.empty((0, 2, saved.metric.n_features))
    with expect_table(file, PAIRS):
        stream = open_comparisons(file, label=False, time=False)
    with stream:
        saved.check_features(stream.feature_names, file)
        for chunk in stream:
            kept = np.concatenate([kept, chunk.pairs[-n_read % every :: every]])
            n_read += len(chunk.pairs)
            while len(kept) > max_pairs:
                kept, every = kept[::2], 2 * every
    if not n_read:
        raise ValueError(f"{file} has no pairs")
    return kept.reshape(-1, kept.shape[2])
