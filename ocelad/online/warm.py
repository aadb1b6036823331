"""Compile every kernel ahead of its use."""

from __future__ import annotations

import numpy as np

from ocelad.online.track import track_metric
from ocelad.pairs import Events


def warm() -> None:
    """Compile every kernel, or load it from the disk."""
    events = Events(np.eye(3), np.array([1.0, -1.0, 1.0]))
    trackers = [track_metric(3, engine="fullrank"), track_metric(3, engine="lowrank"), track_metric(3, diagonal=True)]
    for tracker in trackers:  # the engines "blocked" and "sparse" use the kernels of "lowrank"
        tracker.replay(events)
        for event in events:
            tracker.step(event)
