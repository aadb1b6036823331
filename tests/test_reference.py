"""The package against an independent brute-force implementation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import reference
from engine_cases import pairwise

from ocelad import track_metric
from ocelad.pairs import Event

LOSSES = ["hinge", "squared_hinge", "logistic"]
DIVERGENCES = ["frobenius", "von_neumann", "burg"]
REGULARIZERS = ["nuclear", "l1", None]
# Same mathematics, different arithmetic.
RTOL = 1e-9


def drifting_events(seed: int, n_features: int, rounds: int) -> list[Event]:
    """Return differences of all sizes; another feature determines the label in the second half."""
    rng = np.random.default_rng(seed)
    events = []
    for t in range(rounds):
        u = rng.normal(size=n_features) * rng.uniform(0.2, 2.0)
        relevant = u[0] if t < rounds / 2 else u[1]
        events.append(Event(u, 1.0 if abs(relevant) < 0.8 else -1.0))
    return events


def assert_agrees(events: list[Event], n_features: int, **settings: object) -> None:
    states = reference.run(events, n_features, **settings)
    fast = settings.get("divergence", "frobenius") == "frobenius" and settings.get("regularizer", "nuclear") != "l1"
    for engine in ("dense", "lowrank") if fast else ("dense",):
        assert_plays(track_metric(n_features, engine=engine, **settings), events, states)


def assert_plays(tracker, events: list[Event], states: list[reference.State]) -> None:
    for t, state in enumerate(states):
        metric = tracker.play()
        assert metric.round == t
        scale = max(np.linalg.norm(state.matrix), 1e-12)
        assert np.linalg.norm(metric.matrix - state.matrix) <= RTOL * scale, f"matrix before round {t + 1}"
        assert metric.threshold == pytest.approx(state.threshold, rel=RTOL), f"threshold before round {t + 1}"
        np.testing.assert_allclose(tracker.round_state.weights, state.weights, rtol=RTOL)
        if t < len(events):
            losses = tracker.step(events[t]).losses
            np.testing.assert_allclose(losses, state.losses, rtol=RTOL, atol=RTOL)


def cases():
    """Return losses, divergences, regularisers, shortest intervals, and starts of the finest scale.

    Cases with every pair of values run by default, the rest of the product in the slow run.
    """
    choices = (LOSSES, DIVERGENCES, REGULARIZERS, [1, 3, 64], ["carry", "ensemble", "reset"])
    fast = pairwise(*choices)
    return [pytest.param(*case, marks=() if case in fast else pytest.mark.slow) for case in product(*choices)]


@pytest.mark.parametrize(("loss", "divergence", "regularizer", "shortest_interval", "finest"), cases())
def test_combinations_of_settings(loss, divergence, regularizer, shortest_interval, finest):
    rounds = {1: 20, 3: 26, 64: 140}[shortest_interval]  # with I0 = 64, scale 1 starts at round 128
    case = [LOSSES.index(loss), DIVERGENCES.index(divergence), REGULARIZERS.index(regularizer), shortest_interval]
    events = drifting_events(seed=int(np.dot(case, [1, 3, 9, 27])), n_features=3, rounds=rounds)
    assert_agrees(
        events,
        3,
        loss=loss,
        divergence=divergence,
        regularizer=regularizer,
        shrinkage=0.0 if regularizer is None else 0.05,
        # The slope of the squared hinge is unbounded; with a larger step the exponential of von Neumann overflows.
        step_size=(0.04 if loss == "squared_hinge" else 0.1) * np.sqrt(shortest_interval),
        shortest_interval=shortest_interval,
        finest=finest,
    )


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_max_norm_n_scales_and_initial_values(divergence, regularizer):
    assert_agrees(
        drifting_events(seed=5, n_features=4, rounds=40),
        4,
        loss="logistic",
        divergence=divergence,
        regularizer=regularizer,
        shrinkage=0.0 if regularizer is None else 0.02,
        step_size=0.2,
        n_scales=3,
        initial_scale=0.3,
        initial_threshold=1.5,
        max_norm=0.9,
    )


def test_a_long_stream_with_the_settings_of_the_paper():
    assert_agrees(drifting_events(seed=6, n_features=6, rounds=700), 6, loss="hinge", step_size=0.05, shrinkage=0.01)
