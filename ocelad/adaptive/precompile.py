"""Compiles the kernels of all engines and of the adaptive method: ``python -m ocelad.adaptive.precompile FAMILY``."""

from __future__ import annotations

import os
import sys
from typing import Any, cast, get_args

import numpy as np

from ocelad.adaptive.adaptive_tracker import AdaptiveTracker
from ocelad.adaptive.decisions import DecisionThresholds
from ocelad.adaptive.kernels.decisions import play_decisions
from ocelad.adaptive.mixture import Mixture
from ocelad.adaptive.tracker_worker import TrackerWorker
from ocelad.engines.diagonal_bank import DiagonalBank
from ocelad.engines.kernel_loading import Family, mark_kernels_ready
from ocelad.engines.rice import track_metric
from ocelad.ensemble.ocelad import Ocelad
from ocelad.metric import Metric
from ocelad.pairs import Events, Relatives


def precompile_engines() -> None:
    """Compile every kernel, or load it from the disk cache."""
    for family in get_args(Family):
        precompile(family)
    _play(track_metric(3, diagonal=True))
    # The diagonal bank applies its deferred shrinkage every repair_interval rounds.
    shrinking = track_metric(3, diagonal=True, shrinkage=1e-3)
    assert isinstance(shrinking.bank, DiagonalBank)
    n = shrinking.bank.repair_interval
    shrinking.replay(Events(np.ones((n, 3)), np.ones(n)))


def precompile(family: Family) -> None:
    """Compile the kernels of a family, or load them from the disk cache."""
    if family == "adaptive":
        precompile_adaptive()
    elif family == "many_trackers":
        precompile_many_trackers()
    else:  # the engines "blocked" and "sparse" use the kernels of "lowrank"
        _play(track_metric(3, engine=family))
        _play(track_metric(3, engine=family, events="relatives"), relative=True)
    mark_kernels_ready(family)


def _play(tracker: Ocelad[Any, Metric], relative: bool = False) -> None:
    """Play rounds at once and one by one; the diagonal kernel serves both kinds of events."""
    events: Events | Relatives = Events(np.eye(3), np.array([1.0, -1.0, 1.0]))
    if relative:
        events = Relatives(np.eye(3), np.ones((3, 3)))
    tracker.replay(events)
    for event in events:
        tracker.step(event)


def precompile_adaptive() -> None:
    """Compile the kernels of the adaptive method for few and many features, sparse pairs and relative comparisons."""
    from scipy.sparse import csr_array

    rng = np.random.default_rng(0)
    for n_features in (3, 130):
        U = rng.normal(size=(4, n_features))
        pairs, relatives = Events(U, np.array([1.0, -1.0, 1.0, -1.0])), Relatives(U, 2.0 * U[::-1])
        mixture, decisions = Mixture(n_features, compiled=True), DecisionThresholds()
        log_odds = mixture.play(pairs)
        play_decisions(decisions.bins, decisions.levels, decisions.clock, log_odds, pairs.y, np.ones(len(pairs)))
        Mixture(n_features, compiled=True, events="relatives").play(relatives)
        if mixture.kinds.has_windows:
            mixture.aggregator.restart_windows(mixture.bases.restart_windows(U, np.ones(len(U))))
    sparse = Mixture(130, compiled=True, sparse=True)
    sparse.play(Events(csr_array(U), pairs.y))
    sparse.aggregator.start_memory(0, 1.0)


def precompile_many_trackers() -> None:
    """Compile the kernels that play the rounds of many trackers, or load them from the disk cache."""
    worker = TrackerWorker(3, compact=False)
    record = worker.record(AdaptiveTracker(3))
    worker.learn(record, np.zeros((1, 2), np.int64), np.eye(3), np.array([1.0, -1.0, 1.0]), np.array([3]))


if __name__ == "__main__":
    os.nice(10)
    precompile(cast(Family, sys.argv[1]))
