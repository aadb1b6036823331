"""What the tests of the engines share: the engines, awkward streams of pairs, and what it means to agree."""

from __future__ import annotations

import os
from itertools import product
from unittest.mock import patch

import numpy as np
import pytest

from ocelad import track_metric
from ocelad.engines.blocked_bank import BlockedBank, SparseBank
from ocelad.pairs import Event, Events, Relative, Relatives

# With NUMBA_DISABLE_JIT=1 kernels run as plain Python, and the tests on fewer rounds.
COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
ROUNDS = 300 if COMPILED else 40
RTOL = 1e-9  # same mathematics, other arithmetic


class SmallBlocks(BlockedBank):
    block = 4


class SmallSparseBlocks(SparseBank):
    block = 4


# With blocks of 4 pairs the frame is renewed all the time; with those of the package, in none of the short streams.
SMALL_BLOCKS = {
    "blocked, 4": ("blocked", "BlockedBank", SmallBlocks),
    "sparse, 4": ("sparse", "SparseBank", SmallSparseBlocks),
}
LOW_RANK = ["lowrank", "blocked", "blocked, 4", "sparse", "sparse, 4"]
ENGINES = ["fullrank", *LOW_RANK]
# What plays a stream at once to the same bits as pair by pair. Blocked ones do not: they leave products of matrices to
# BLAS, which rounds a row differently when there are more rows.
SAME_BITS = ["auto", "fullrank", "lowrank"]


def settings_and_shapes(shapes):
    """Each combination of settings, with a third of the shapes, by turns: any two values of settings meet every shape.

    With all shapes in the slow run.
    """
    values = {
        "loss": ["hinge", "squared_hinge", "logistic"],
        "finest": ["carry", "ensemble", "reset"],
        "shrinkage": [0.0, 0.05],
        "max_norm": [None, 0.9],
        "initial_scale": [None, 0.0],
    }
    combinations = [dict(zip(values, each, strict=True)) for each in product(*values.values())]
    cases = [
        pytest.param(settings, some, marks=marks, id="-".join(map(str, settings.values())) + name)
        for at, settings in enumerate(combinations)
        for some, marks, name in ((shapes[at % 3 :: 3], (), ""), (shapes, pytest.mark.slow, "-every shape"))
    ]
    return pytest.mark.parametrize(("settings", "shapes"), cases)


def make(engine, n=3, **settings):
    """What ``track_metric`` makes; "blocked, 4" and "sparse, 4" have blocks of 4 pairs."""
    if engine not in SMALL_BLOCKS:
        return track_metric(n, engine=engine, **settings)
    engine, name, small = SMALL_BLOCKS[engine]
    with patch(f"ocelad.engines.blocked_bank.{name}", small):
        return track_metric(n, engine=engine, **settings)


def takes(engine, shrinkage):
    return engine != "fullrank" or shrinkage == 0.0


def awkward_events(seed, n, rounds):
    """Gaussian differences of all sizes; among them zeros, repetitions, near ones too, and some in few directions."""
    rng = np.random.default_rng(seed)
    few = rng.normal(size=(2, n))
    events = []
    for t in range(rounds):
        u = rng.normal(size=n) * rng.uniform(0.1, 1.5)
        if t % 17 == 3:
            u = np.zeros(n)
        elif t % 13 == 5:
            u = events[-1].u
        elif t % 7 == 2:
            u = rng.normal(size=2) @ few
        elif t % 11 == 7:
            u = events[-1].u + 10.0 ** -(3 * (1 + t // 11 % 4)) * np.linalg.norm(events[-1].u) * rng.normal(size=n)
        events.append(Event(u, 1.0 if abs(u[0]) < 0.7 else -1.0))
    return events


def awkward_relatives(seed, n, rounds):
    """Relative comparisons of the differences of ``awkward_events``; among them equal and opposite ones, and zeros."""
    rng = np.random.default_rng(seed + 1000)
    u, v = ([event.u for event in awkward_events(seed + k, n, rounds)] for k in (0, 50))
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


def together(events):
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
    assert (one.round_state.before == other.round_state.before).all()
    assert one.round_state.starting == other.round_state.starting
