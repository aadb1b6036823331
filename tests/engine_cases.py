"""Shared by the tests of the engines: the engines, difficult streams of events, and comparisons of trackers."""

from __future__ import annotations

import os
from itertools import combinations, product
from unittest.mock import patch

import numpy as np
import pytest

from ocelad import track_metric
from ocelad.engines.blocked_bank import BlockedBank, SparseBank
from ocelad.pairs import Event, Events, Relative, Relatives

# With NUMBA_DISABLE_JIT=1 kernels run as plain Python, and the tests use fewer rounds.
COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
ROUNDS = 300 if COMPILED else 40
RTOL = 1e-9  # same mathematics, different arithmetic


class SmallBlocks(BlockedBank):
    block = 4


class SmallSparseBlocks(SparseBank):
    block = 4


# With blocks of 4 pairs the basis is renewed often; with the default blocks, never in the short streams of the tests.
SMALL_BLOCKS = {
    "blocked, 4": ("blocked", "BlockedBank", SmallBlocks),
    "sparse, 4": ("sparse", "SparseBank", SmallSparseBlocks),
}
LOW_RANK = ["lowrank", "blocked", "blocked, 4", "sparse", "sparse, 4"]
ENGINES = ["fullrank", *LOW_RANK]
# The engines whose replay gives the same bits as single steps. Those with blocks use the matrix products of BLAS, whose
# rounding of a row depends on the number of rows.
SAME_BITS = ["auto", "fullrank", "lowrank"]


def pairwise(*choices):
    """Return few combinations of the choices that contain every pair of values of every two of them."""

    def pairs(case):
        return set(combinations(enumerate(case), 2))

    indices = [range(len(values)) for values in choices]
    left = {case: pairs(case) for case in product(*indices)}
    uncovered, cases = set().union(*left.values()), []
    while uncovered:
        best = max(left, key=lambda case: len(left[case] & uncovered))  # the first one of those with the most
        uncovered -= left.pop(best)
        cases.append(tuple(values[i] for values, i in zip(choices, best, strict=True)))
    return cases


def pairwise_settings():
    """Parametrise a test by settings that cover every pair of values; the slow run has their product."""
    values = {
        "loss": ["hinge", "squared_hinge", "logistic"],
        "finest": ["carry", "ensemble", "reset"],
        "shrinkage": [0.0, 0.05],
        "max_norm": [None, 0.9],
        "initial_scale": [None, 0.0],
    }
    fast = pairwise(*values.values())
    cases = [
        pytest.param(dict(zip(values, case, strict=True)), marks=() if case in fast else pytest.mark.slow)
        for case in product(*values.values())
    ]
    return pytest.mark.parametrize("settings", cases)


def make(engine, n=3, **settings):
    """Return a tracker of ``track_metric``; "blocked, 4" and "sparse, 4" have blocks of 4 pairs."""
    if engine not in SMALL_BLOCKS:
        return track_metric(n, engine=engine, **settings)
    engine, name, small = SMALL_BLOCKS[engine]
    with patch(f"ocelad.engines.blocked_bank.{name}", small):
        return track_metric(n, engine=engine, **settings)


def supports(engine, shrinkage):
    """Return whether the engine supports this shrinkage."""
    return engine != "fullrank" or shrinkage == 0.0


def difficult_events(seed, n, rounds):
    """Gaussian differences of all sizes, with zeros, repetitions, near repetitions, and some in a plane."""
    rng = np.random.default_rng(seed)
    plane = rng.normal(size=(2, n))
    events = []
    for t in range(rounds):
        u = rng.normal(size=n) * rng.uniform(0.1, 1.5)
        if t % 17 == 3:
            u = np.zeros(n)
        elif t % 13 == 5:
            u = events[-1].u
        elif t % 7 == 2:
            u = rng.normal(size=2) @ plane
        elif t % 11 == 7:
            u = events[-1].u + 10.0 ** -(3 * (1 + t // 11 % 4)) * np.linalg.norm(events[-1].u) * rng.normal(size=n)
        events.append(Event(u, 1.0 if abs(u[0]) < 0.7 else -1.0))
    return events


def difficult_relatives(seed, n, rounds):
    """Relative comparisons of the differences of ``difficult_events``, with equal and opposite ones, and zeros."""
    rng = np.random.default_rng(seed + 1000)
    u, v = ([event.u for event in difficult_events(seed + k, n, rounds)] for k in (0, 50))
    relatives = []
    for t in range(rounds):
        near, far = (u[t], v[t]) if abs(u[t][0]) < abs(v[t][0]) or rng.random() < 0.2 else (v[t], u[t])
        if t % 19 == 4:
            near = np.zeros(n)
        elif t % 19 == 8:
            near = far
        elif t % 19 == 12:
            near = -far
        elif t % 19 == 16:
            far = -0.5 * near
        relatives.append(Relative(near, far))
    return relatives


def as_batch(events):
    """Return a list of events as ``Events``, or of relative comparisons as ``Relatives``."""
    if isinstance(events[0], Relative):
        return Relatives(np.array([event.near for event in events]), np.array([event.far for event in events]))
    return Events(np.array([event.u for event in events]), np.array([event.y for event in events]))


def assert_same(fast, definition, tolerance=RTOL, what=""):
    M, N = fast.play(), definition.play()
    assert np.linalg.norm(M.matrix - N.matrix) <= tolerance * max(np.linalg.norm(N.matrix), 1e-3), what
    assert M.threshold == pytest.approx(N.threshold, rel=tolerance), what
    assert M.round == N.round, what
    np.testing.assert_allclose(fast.round_state.weights, definition.round_state.weights, rtol=tolerance, err_msg=what)


def assert_same_bits(one, other):
    assert one.play() == other.play()
    assert (one.round_state.weights == other.round_state.weights).all()
    assert (one.round_state.previous_weights == other.round_state.previous_weights).all()
    assert one.round_state.starting == other.round_state.starting
