"""Snapshots: a learning state in a file, so that a restart does not learn everything again. They are only a cache."""

from __future__ import annotations

import logging
from pathlib import Path

from ocelad.io import state_files
from ocelad.service.learning.item_points import ItemPoints
from ocelad.service.learning.learning_state import LearningState
from ocelad.service.learning.log_reader import LogReader

FORMAT = "ocelad.snapshot/1"
_logger = logging.getLogger(__name__)


def write(path: Path, seq: int, state: LearningState, log: LogReader, item_points: ItemPoints) -> None:
    """Write the state after entry ``seq``, with digests of the entries and the items that it was learned from."""
    arrays, metadata = state.state()
    n_items = len(item_points.points)
    origin = {"seq": seq, "log": log.digest(seq), "n_items": n_items, "items": item_points.digest(n_items)}
    state_files.write(path, FORMAT, arrays, {**metadata, "origin": origin})


def read(
    path: Path, initial: LearningState, log: LogReader, item_points: ItemPoints
) -> tuple[int, LearningState] | None:
    """Read a snapshot, and advance the log reader to its entry.

    Returns
    -------
    seq, state : int and LearningState
        The number of the snapshot's entry and the state after it. None if no snapshot of this log and these items
        exists.
    """
    if not path.exists():
        return None
    try:
        arrays, metadata = state_files.read(path, FORMAT)
        with state_files.content_errors(path, FORMAT):
            origin = metadata["origin"]
            seq, n_items = int(origin["seq"]), int(origin["n_items"])
            state = initial.with_state(arrays, metadata)
        log.fetch(seq, with_digest=True)
        if log.end != seq or log.digest(seq) != origin["log"]:
            raise ValueError(f"{str(path)!r} is not a snapshot of this log")
        if n_items > len(item_points.points) or item_points.digest(n_items) != origin["items"]:
            raise ValueError(f"{str(path)!r} is a snapshot of other items")
    except (OSError, ValueError) as error:
        _logger.warning("all answers are learned again, because a snapshot cannot be used: %s", error)
        return None
    return seq, state
