"""Compiles the kernels of all engines and of the adaptive method: ``python -m ocelad.adaptive.precompile``."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ocelad.adaptive.decisions import DecisionThresholds
from ocelad.adaptive.kernel_loading import mark_kernels_ready
from ocelad.adaptive.kernels.decisions import play_decisions
from ocelad.adaptive.mixture import Mixture
from ocelad.engines.diagonal_bank import DiagonalBank
from ocelad.engines.rice import track_metric
from ocelad.ensemble.ocelad import Ocelad
from ocelad.metric import Metric
from ocelad.pairs import Events, Relatives


def precompile_engines() -> None:
    """Compile every kernel, or load it from the disk cache."""
    precompile_adaptive()
    mark_kernels_ready()
    pairs, relatives = Events(np.eye(3), np.array([1.0, -1.0, 1.0])), Relatives(np.eye(3), np.ones((3, 3)))
    # The engines "blocked" and "sparse" use the kernels of "lowrank"; the diagonal kernel serves both kinds of events.
    trackers: list[tuple[Ocelad[Any, Metric], Events | Relatives]] = [
        (track_metric(3, engine="fullrank"), pairs),
        (track_metric(3, engine="lowrank"), pairs),
        (track_metric(3, diagonal=True), pairs),
        (track_metric(3, engine="fullrank", events="relatives"), relatives),
        (track_metric(3, engine="lowrank", events="relatives"), relatives),
    ]
    for tracker, events in trackers:
        tracker.replay(events)
        for event in events:
            tracker.step(event)
    # The diagonal bank applies its deferred shrinkage every repair_interval rounds.
    shrinking = track_metric(3, diagonal=True, shrinkage=1e-3)
    assert isinstance(shrinking.bank, DiagonalBank)
    n = shrinking.bank.repair_interval
    shrinking.replay(Events(np.ones((n, 3)), np.ones(n)))


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


if __name__ == "__main__":
    os.nice(10)
    precompile_engines()
