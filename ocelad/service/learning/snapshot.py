"""Snapshots: a learning state in a file, so that a restart does not learn everything again. They are only a cache."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from ocelad.io import state_files
from ocelad.service.learning.item_points import ItemPoints
from ocelad.service.learning.learning_state import LearningState
from ocelad.service.learning.log_reader import LogReader

FORMAT = "ocelad.snapshot/2"
_logger = logging.getLogger(__name__)


def write(
    path: Path,
    seq: int,
    state: LearningState,
    log: LogReader,
    item_points: ItemPoints,
    weights: Mapping[str, float] | None = None,
) -> None:
    """Write the state after entry ``seq``, with what identifies the log, items and weights it was learned from."""
    arrays, metadata = state.state()
    n_items = len(item_points.points)
    chain = log.chain(seq)
    if chain is None:
        raise ValueError(f"the log has no entry {seq} any more")
    origin = {"seq": seq, "chain": chain.hex(), "n_items": n_items, "items": item_points.digest(n_items)}
    origin["weights"] = _digest(weights)
    state_files.write(path, FORMAT, arrays, {**metadata, "origin": origin})


def _digest(weights: Mapping[str, float] | None) -> str:
    """Return a digest of the weights of people, so that a snapshot has no names; empty if all are 1."""
    return sha256(json.dumps(sorted(weights.items())).encode()).hexdigest() if weights else ""


def read(
    path: Path,
    initial: LearningState,
    log: LogReader,
    item_points: ItemPoints,
    weights: Mapping[str, float] | None = None,
) -> tuple[int, LearningState] | None:
    """Read a snapshot and the log after it; the log reader then is at the end of the log.

    The entries up to that of the snapshot are not read: the chain of the log identifies them. A snapshot from before
    an erasure is not used, because it has learned from the erased answers.

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
        chain = log.chain(seq)
        if chain is None or chain.hex() != origin["chain"]:
            raise ValueError(f"{str(path)!r} is not a snapshot of this log")
        if n_items > len(item_points.points) or item_points.digest(n_items) != origin["items"]:
            raise ValueError(f"{str(path)!r} is a snapshot of other items")
        if origin.get("weights", "") != _digest(weights):
            raise ValueError(f"{str(path)!r} was learned with other weights of people's answers")
        log.start_after(seq)
        log.fetch()
        if log.last_erasure:
            raise ValueError(f"answers were erased after {str(path)!r} was written")
    except (OSError, ValueError) as error:
        _logger.warning("all answers are learned again, because a snapshot cannot be used: %s", error)
        log.start_after(0)
        return None
    return seq, state
