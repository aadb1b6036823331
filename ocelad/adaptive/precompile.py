"""Ahead-of-time compilation of the kernels of the engines and of the adaptive ensemble."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocelad.adaptive.adaptive_bank import AdaptiveBank
from ocelad.adaptive.track_adaptive import track_adaptive
from ocelad.engines.diagonal_bank import DiagonalBank
from ocelad.engines.rice import track_metric
from ocelad.ensemble.ocelad import Ocelad
from ocelad.metric import Metric
from ocelad.pairs import Events, Relatives


def precompile_engines() -> None:
    """Compile every kernel, or load it from the disk cache."""
    pairs, relatives = Events(np.eye(3), np.array([1.0, -1.0, 1.0])), Relatives(np.eye(3), np.ones((3, 3)))
    # The engines "blocked" and "sparse" use the kernels of "lowrank"; the diagonal kernel serves both kinds of events.
    trackers: list[tuple[Ocelad[Any, Metric], Events | Relatives]] = [
        (track_metric(3, engine="fullrank"), pairs),
        (track_metric(3, engine="lowrank"), pairs),
        (track_metric(3, diagonal=True), pairs),
        (track_metric(3, engine="fullrank", events="relatives"), relatives),
        (track_metric(3, engine="lowrank", events="relatives"), relatives),
    ]
    adaptive = track_adaptive(3)
    adaptive.replay(Events(np.tile(np.eye(3), (4, 1)), np.tile([1.0, -1.0, 1.0], 4)))
    assert isinstance(adaptive.bank, AdaptiveBank)
    adaptive.bank.log_odds(np.eye(3), adaptive.round_state)
    for tracker, events in trackers:
        tracker.replay(events)
        for event in events:
            tracker.step(event)
    # The diagonal bank applies its deferred shrinkage every repair_interval rounds.
    shrinking = track_metric(3, diagonal=True, shrinkage=1e-3)
    assert isinstance(shrinking.bank, DiagonalBank)
    n = shrinking.bank.repair_interval
    shrinking.replay(Events(np.ones((n, 3)), np.ones(n)))
