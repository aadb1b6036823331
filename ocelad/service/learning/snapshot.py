"""Snapshots: a course in a file, so that a restart need not learn everything again. Only ever a cache."""

from __future__ import annotations

import logging
from pathlib import Path

from ocelad.io import state_files
from ocelad.service.learning.answer_log import Log
from ocelad.service.learning.course import Course
from ocelad.service.learning.item_points import ItemPoints

FORMAT = "ocelad.snapshot/1"
_logger = logging.getLogger(__name__)


def write(path: Path, seq: int, course: Course, log: Log, cloud: ItemPoints) -> None:
    """Keep a course as it is after an entry of the log, with digests of what it was learned from."""
    arrays, metadata = course.state()
    n_items = len(cloud.points)
    origin = {"seq": seq, "log": log.total(seq), "n_items": n_items, "items": cloud.digest(n_items)}
    state_files.write(path, FORMAT, arrays, {**metadata, "origin": origin})


def read(path: Path, beginning: Course, log: Log, cloud: ItemPoints) -> tuple[int, Course] | None:
    """The course that was kept, and after which entry; None where there is none of this log and these items.

    The log is seen up to that entry.
    """
    if not path.exists():
        return None
    try:
        arrays, metadata = state_files.read(path, FORMAT)
        with state_files.refusing(path, FORMAT):
            origin = metadata["origin"]
            seq, n_items = int(origin["seq"]), int(origin["n_items"])
            course = beginning.restored(arrays, metadata)
        log.fetch(seq, totalling=True)
        if log.end != seq or log.total(seq) != origin["log"]:
            raise ValueError(f"{str(path)!r} is not a snapshot of this log")
        if n_items > len(cloud.points) or cloud.digest(n_items) != origin["items"]:
            raise ValueError(f"{str(path)!r} is a snapshot of other items")
    except (OSError, ValueError) as error:
        _logger.warning("all answers are learned again, because a snapshot cannot be used: %s", error)
        return None
    return seq, course
