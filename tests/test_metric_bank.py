"""The compiled engine: the same mathematics as the definition, the same bits however it is run.

Runs with NUMBA_DISABLE_JIT=1 too, as plain Python, on fewer rounds.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocelad import LearnerError, MetricTracker, Ocelad, track_metric
from ocelad.online.dyadic import Schedule
from ocelad.online.kernels import eigenform, scales, secular
from ocelad.online.metric_bank import MetricBank, warm
from ocelad.pairs import Event, Events
from ocelad.testing import check_bank, strategies

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
ROUNDS = 300 if COMPILED else 40
RTOL = 1e-9  # same mathematics, other arithmetic


def make_bank(n=3, **changes):
    settings = {
        "initial_scale": 1 / n,
        "initial_threshold": 1.0,
        "step_size": 0.05,
        "loss": "logistic",
        "shrinkage": 0.0,
        "max_norm": None,
        "finest": "carry",
    }
    return MetricBank(n, Schedule(), **{**settings, **changes})


def awkward_events(seed, n, rounds):
    """Gaussian differences of all sizes; among them zeros, repetitions, and some in the span of few directions."""
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
        events.append(Event(u, 1.0 if abs(u[0]) < 0.7 else -1.0))
    return events


def assert_same(fast, definition, tolerance=RTOL):
    M, N = fast.play(), definition.play()
    assert np.linalg.norm(M.matrix - N.matrix) <= tolerance * max(np.linalg.norm(N.matrix), 1e-3)
    assert M.threshold == pytest.approx(N.threshold, rel=tolerance)
    assert M.round == N.round
    np.testing.assert_allclose(fast.turn.weights, definition.turn.weights, rtol=tolerance)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
@pytest.mark.parametrize("shrinkage", [0.0, 0.05])
@pytest.mark.parametrize("max_norm", [None, 0.9])
@pytest.mark.parametrize("initial_scale", [None, 0.0])
def test_agrees_with_the_definition(loss, finest, shrinkage, max_norm, initial_scale):
    for n, shortest in ((1, 1), (3, 3), (9, 1)):
        shared = {
            "loss": loss,
            "finest": finest,
            "shrinkage": shrinkage,
            "max_norm": max_norm,
            "initial_scale": initial_scale,
            "step_size": 0.3 / n**1.5,
            "shortest_interval": shortest,
        }
        definition, fast = (track_metric(n, engine=engine, **shared) for engine in ("dense", "lowrank"))
        for event in awkward_events(n, n, ROUNDS // 3):
            one, other = definition.step(event), fast.step(event)
            np.testing.assert_allclose(other.losses, one.losses, rtol=RTOL, atol=RTOL)
            assert_same(fast, definition)


@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
@pytest.mark.parametrize("shortest_interval", [1, 3])
def test_a_stream_at_once_gives_the_same_bits_as_pair_by_pair(finest, shortest_interval):
    events = awkward_events(7, 5, ROUNDS)
    U, y = np.array([event.u for event in events]), np.array([event.y for event in events])
    shared = {"finest": finest, "shortest_interval": shortest_interval, "loss": "hinge", "shrinkage": 0.01}
    one, whole, parts = (track_metric(5, engine="lowrank", step_size=0.05, **shared) for _ in range(3))
    for event in events:
        one.step(event)
    whole.replay(Events(U, y))
    for start in range(0, len(U), 29):
        parts.replay(Events(U[start : start + 29], y[start : start + 29]))
    for other in (whole, parts):
        assert other.play() == one.play()
        assert (other.turn.weights == one.turn.weights).all()
        assert (other.turn.before == one.turn.before).all()
        assert other.turn.starting == one.turn.starting


def test_the_estimator_on_either_engine():
    rng = np.random.default_rng(0)
    pairs, y = rng.normal(size=(ROUNDS, 2, 4)), rng.choice([-1, 1], size=ROUNDS)
    dense, fast = (MetricTracker(engine=engine, step_size=0.05).fit(pairs, y) for engine in ("dense", "lowrank"))
    np.testing.assert_allclose(fast.get_mahalanobis_matrix(), dense.get_mahalanobis_matrix(), rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(fast.predict(pairs), dense.predict(pairs))
    chunks = MetricTracker(engine="lowrank", step_size=0.05)
    for start in range(0, ROUNDS, 17):
        chunks.partial_fit(pairs[start : start + 17], y[start : start + 17])
    assert chunks.metric_ == fast.metric_
    single = MetricTracker(engine="lowrank", step_size=0.05)
    for pair, label in zip(pairs, y, strict=True):
        single.learn_one(pair[0], pair[1], label)
    assert single.metric_ == fast.metric_
    assert fast.n_cuts_ == dense.n_cuts_ == 0


@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
def test_keeps_the_bank_s_contract(finest):
    check_bank(
        lambda: make_bank(finest=finest), awkward_events(1, 3, 30), refused=Event(np.array([1.0, np.nan, 0.0]), 1.0)
    )


def test_copies_and_pickles_go_on_alike():
    tracker = Ocelad(make_bank())
    events = awkward_events(2, 3, 40)
    for event in events[:20]:
        tracker.step(event)
    copies = [deepcopy(tracker), pickle.loads(pickle.dumps(tracker))]
    for event in events[20:]:
        for each in (tracker, *copies):
            each.step(event)
    assert copies[0].play() == copies[1].play() == tracker.play()


def test_a_pair_that_overflows_is_refused_and_nothing_has_changed():
    tracker = MetricTracker(engine="lowrank", loss="squared_hinge").fit(np.ones((5, 2, 2)) * [[[0.0], [1.0]]], [1] * 5)
    before = tracker.metric_
    with pytest.raises(LearnerError, match=r"in round 7 .* a smaller step_size or data of a smaller scale"):
        tracker.partial_fit([[[1.0, 0.0], [0.0, 0.0]], [[1e149, 0.0], [0.0, 0.0]]], [1, 1])
    with pytest.raises(LearnerError, match="in round 6"):
        tracker.learn_one([1e149, 0.0], [0.0, 0.0], 1)
    assert tracker.metric_ == before
    assert tracker.n_rounds_ == 5


@pytest.mark.parametrize("size", [1e-8, 1e-4, 1e4, 1e8])
def test_extreme_scales(size):
    shared = {"step_size": 0.05 / size**4, "initial_scale": 1 / size**2, "loss": "hinge"}
    definition, fast = (track_metric(4, engine=engine, **shared) for engine in ("dense", "lowrank"))
    for event in awkward_events(5, 4, ROUNDS // 5):
        event = Event(size * event.u, event.y)
        definition.step(event)
        fast.step(event)
    M, N = fast.play().matrix, definition.play().matrix
    assert np.linalg.norm(M - N) <= RTOL * np.linalg.norm(N)


def test_rank_is_bounded_only_when_asked_for_and_cuts_are_counted():
    events = awkward_events(3, 8, ROUNDS)
    free, bounded = (Ocelad(make_bank(8, initial_scale=0.0, max_rank=r)) for r in (None, 3))
    for event in events:
        free.step(event)
        bounded.step(event)
    assert free.bank.n_cuts == 0
    assert max(free.bank.ranks) == 8
    assert bounded.bank.n_cuts > 0
    assert max(bounded.bank.ranks) == 3
    # What is cut is small: the bounded metric is near the free one.
    M, N = bounded.play().matrix, free.play().matrix
    assert np.linalg.norm(M - N) < 0.5 * np.linalg.norm(N)


def test_what_is_cut_is_what_lies_nearest_to_the_base():
    V, lam = np.zeros((1, 4, 8)), np.zeros((1, 8))
    V[0, :, :4] = np.eye(4)
    for base, expected in ((0.0, [5.0, 3.0, 2.0]), (2.9, [5.0, 2.0, 1.0]), (9.0, [3.0, 2.0, 1.0])):
        lam[0, :4] = [5.0, 3.0, 2.0, 1.0]
        assert scales.cut(V.copy(), lam, 0, 4, base) == 3
        assert lam[0, :3].tolist() == expected


@settings(max_examples=200 if COMPILED else 30)
@given(
    st.lists(st.floats(-3, 3), min_size=1, max_size=12, unique=True),
    st.integers(0, 10**6),
    st.sampled_from([1e-6, 0.1, 1.0, 100.0]),
)
def test_secular_equation(poles, seed, s):
    d = np.sort(np.array(poles))
    z = np.random.default_rng(seed).normal(size=len(d))
    size = max(np.abs(d).max(), s * (z @ z))
    m = len(d)
    if m > 1 and np.diff(d).min() <= 1e-13 * size:
        return  # nearly equal poles are deflated before they come here
    width = eigenform.padded(m)
    poles, weights, roots = np.zeros(width), np.zeros(width), np.zeros(width)
    Q, work = np.zeros((width, width)), np.zeros((secular.N_ROWS, width))
    poles[:m], weights[:m] = d, z
    with np.errstate(all="ignore"):
        secular.solve(poles, weights, s, m, width, work, roots, Q)
    A, Q = np.diag(d) + s * np.outer(z, z), Q[:m, :m]
    np.testing.assert_allclose((Q * roots[:m]) @ Q.T, A, atol=1e-13 * np.abs(A).max())
    np.testing.assert_allclose(Q.T @ Q, np.eye(m), atol=1e-13)
    assert (np.diff(roots[:m]) >= 0).all()


@settings(max_examples=60 if COMPILED else 10)
@given(strategies.streams(4, max_size=25 if COMPILED else 8), st.sampled_from(["hinge", "logistic"]))
def test_directions_stay_orthonormal_and_eigenvalues_sorted(events, loss):
    tracker = Ocelad(make_bank(4, loss=loss, step_size=0.2))
    for event in events:
        tracker.step(event)
    state = tracker.bank._state
    for slot in state.slots[: tracker.turn.active]:
        r = state.rank[slot]
        V, lam = state.V[slot, :, :r], state.lam[slot, :r]
        np.testing.assert_allclose(V.T @ V, np.eye(r), atol=1e-12)
        assert (np.diff(lam) <= 0).all()
        assert (lam >= 0).all()


def test_directions_that_have_become_oblique_are_made_orthonormal_again():
    tracker = Ocelad(make_bank(5))
    for event in awkward_events(4, 5, 30):
        tracker.step(event)
    bank, before = tracker.bank, tracker.play()
    slot = bank._state.slots[0]
    bank._state.V[slot] += 1e-9 * np.random.default_rng(0).normal(size=bank._state.V[slot].shape)
    bank._keep_orthonormal()
    V = bank._state.V[slot, :, : bank._state.rank[slot]]
    np.testing.assert_allclose(V.T @ V, np.eye(V.shape[1]), atol=1e-14)
    np.testing.assert_allclose(tracker.play().matrix, before.matrix, atol=1e-8)


@pytest.mark.skipif(not COMPILED, reason="needs the compiler")
def test_long_streams_stay_healthy():
    rng = np.random.default_rng(0)
    definition, fast = (track_metric(5, engine=engine, step_size=0.02, loss="hinge") for engine in ("dense", "lowrank"))
    U = rng.normal(size=(20_000, 5))
    y = np.where(np.abs(U[:, 0]) < 1, 1.0, -1.0)
    fast.replay(Events(U, y))
    definition.replay(Events(U, y))
    assert_same(fast, definition)


@pytest.mark.skipif(not COMPILED, reason="needs the compiler")
def test_each_kernel_is_compiled_for_one_signature_only():
    warm()
    tracker = track_metric(4, engine="lowrank", loss="hinge", shrinkage=0.1, max_norm=3.0, finest="ensemble")
    for event in awkward_events(1, 4, 40):
        tracker.step(event)
    tracker.replay(Events(np.ones((2, 4)), np.ones(2)))
    assert [len(kernel.signatures) for kernel in (scales.observe, scales.replay, scales.start)] == [1, 1, 1]
    # Those that are only called by others have none when the others come from the disk.
    assert max(len(kernel.signatures) for kernel in (scales.learn, eigenform.add_rank_one, secular.solve)) <= 1


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="needs the compiler")
def test_the_first_use_says_that_it_compiles_and_the_next_does_not(tmp_path):
    def run():
        return subprocess.run(
            [sys.executable, "-m", "ocelad", "warm"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        )

    cold, again = run(), run()
    assert cold.stderr == "ocelad: compiling its kernels for this machine, once; about 10 seconds\n"
    assert again.stderr == ""
    assert cold.stdout.startswith("The kernels are compiled")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"divergence": "burg"}, "engine 'lowrank' needs the divergence 'frobenius'"),
        ({"regularizer": "l1", "shrinkage": 0.1}, "engine 'lowrank' needs"),
        ({"engine": "dense", "max_rank": 3}, "max_rank is of engine 'lowrank'"),
        ({"engine": "quick"}, "engine must be one of 'dense', 'lowrank'"),
        ({"max_rank": 0}, "max_rank must be a whole number of at least 1"),
        ({"regularizer": None, "shrinkage": 0.1}, "nothing to shrink"),
    ],
)
def test_refuses(changes, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        track_metric(3, **{"engine": "lowrank", **changes})


@pytest.mark.parametrize("engine", ["dense", "lowrank"])
@pytest.mark.parametrize(
    ("U", "y", "sentence"),
    [
        (np.zeros((5, 4)), np.ones(5), "has 4 features; 3 are expected"),
        (np.zeros((5, 2)), np.ones(5), "has 2 features; 3 are expected"),
        (np.zeros((5, 3)), np.ones(4), "y has 4 labels for 5 pairs"),
        (np.zeros((5, 3)), np.full(5, 7), "y holds 7 at position 0"),
        (np.full((5, 3), np.nan), np.ones(5), "U holds nan"),
        (np.full((5, 3), 1e200), np.ones(5), "too far apart"),
        (np.zeros(3), np.ones(1), "U has shape"),
    ],
)
def test_arrays_of_events_are_checked(engine, U, y, sentence):
    tracker = track_metric(3, engine=engine)
    with pytest.raises(ValueError, match=sentence):
        tracker.replay(Events(U, y))
    assert tracker.n_rounds == 0


def test_arrays_of_any_kind_give_the_same_bits():
    events = awkward_events(3, 4, 40)
    U = np.round(np.array([event.u for event in events]) * 16) / 16  # exact in float32
    y = np.array([event.y for event in events])
    plain = track_metric(4, engine="lowrank")
    plain.replay(Events(U, y))
    for other in (U.astype(np.float32), np.asfortranarray(U), np.repeat(U, 2, axis=1)[:, ::2], U.tolist()):
        tracker = track_metric(4, engine="lowrank")
        tracker.replay(Events(other, y > 0))
        assert tracker.play() == plain.play()


def test_an_interrupted_replay_has_not_happened(monkeypatch):
    tracker = track_metric(3, engine="lowrank")
    before = tracker.play()

    def play_then_interrupt(*arguments):
        play_rounds(*arguments)
        raise KeyboardInterrupt

    play_rounds = scales.replay
    monkeypatch.setattr(scales, "replay", play_then_interrupt)
    with pytest.raises(KeyboardInterrupt):
        tracker.replay(Events(np.ones((30, 3)), np.ones(30)))
    assert tracker.n_rounds == 0
    assert tracker.play() == before


def test_a_replay_that_is_refused_has_passed_up_to_there():
    events = awkward_events(1, 3, 20)
    U, y = np.array([event.u for event in events]), np.array([event.y for event in events])
    U[12] = 1e149
    y[12] = 1.0
    one, other = (Ocelad(make_bank(loss="squared_hinge")) for _ in range(2))
    with pytest.raises(LearnerError, match="in round 13"):
        one.replay(Events(U, y))
    for event in events[:12]:
        other.step(event)
    assert one.n_rounds == 12
    assert one.play() == other.play()
    one.step(events[13])
    other.step(events[13])
    assert one.play() == other.play()


def test_the_health_check_comes_at_the_same_moment_however_it_is_run(monkeypatch):
    monkeypatch.setattr("ocelad.online.metric_bank.HEALTHY", 0.0)
    monkeypatch.setattr("ocelad.online.metric_bank.HEALTH_EVERY", 16)
    events = awkward_events(7, 4, 100)
    U, y = np.array([event.u for event in events]), np.array([event.y for event in events])
    one, whole, parts = (Ocelad(make_bank(4)) for _ in range(3))
    for event in events:
        one.step(event)
    whole.replay(Events(U, y))
    for start in range(0, 100, 7):
        parts.replay(Events(U[start : start + 7], y[start : start + 7]))
    assert one.play() == whole.play() == parts.play()


@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
def test_a_rank_that_is_bounded_around_a_base(finest):
    # Small steps: every metric stays near I / n, and so does one that is bounded.
    n = 6
    events = awkward_events(4, n, ROUNDS // 3)
    free, *bounded = (
        track_metric(n, engine="lowrank", step_size=1e-3, finest=finest, max_rank=r) for r in (None, 5, 4, 3, 1)
    )
    for tracker in (free, *bounded):
        tracker.replay(Events(np.array([event.u for event in events]), np.array([event.y for event in events])))
    expected = free.play().matrix
    for tracker, r in zip(bounded, (5, 4, 3, 1), strict=True):
        assert max(tracker.bank.ranks) <= r
        assert tracker.bank.n_cuts > 0
        assert np.linalg.norm(tracker.play().matrix - expected) < 0.2 * np.linalg.norm(expected)


@pytest.mark.parametrize("size", [1e-60, 1e-40, 1e40, 1e60])
@pytest.mark.parametrize("initial_scale", [0.0, 1.0])
def test_scales_at_which_products_overflow(size, initial_scale):
    shared = {"step_size": 0.05 / size**4, "initial_scale": initial_scale / size**2, "loss": "hinge"}
    if not 0 < shared["step_size"] < np.inf or shared["initial_scale"] > 1e100:
        shared = {"step_size": 0.05, "initial_scale": 0.0, "loss": "hinge"}
    definition, fast = (track_metric(3, engine=engine, **shared) for engine in ("dense", "lowrank"))
    for event in awkward_events(6, 3, 30):
        event = Event(size * event.u, event.y)
        try:
            definition.step(event)
        except LearnerError:
            with pytest.raises(LearnerError):
                fast.step(event)
            return
        fast.step(event)
    M, N = fast.play().matrix, definition.play().matrix
    assert np.isfinite(M).all()
    assert np.abs(M - N).max() <= RTOL * np.abs(N).max()


def test_tiny_pairs_from_nothing_do_not_make_nan():
    pairs = np.zeros((4, 2, 3))
    for size in (1e-150, 1e-155, 1e-160):
        pairs[:, 0] = size * np.random.default_rng(0).normal(size=(4, 3))
        tracker = MetricTracker(engine="lowrank", initial_scale=0.0).fit(pairs, [-1] * 4)
        assert np.isfinite(tracker.get_mahalanobis_matrix()).all()


def test_a_bound_on_a_metric_whose_norm_overflows():
    fast = track_metric(3, engine="lowrank", max_norm=10.0, initial_scale=0.0, loss="hinge", n_scales=1)
    fast.step(Event(1e79 * np.random.default_rng(1).normal(size=3), -1.0))
    assert np.linalg.norm(fast.play().matrix) == pytest.approx(10.0)


def test_a_bank_is_for_one_ocelad_and_its_schedule():
    bank = make_bank()
    Ocelad(bank).step(Event(np.ones(3), 1.0))
    with pytest.raises(ValueError, match="every Ocelad needs one of its own"):
        Ocelad(bank)
    with pytest.raises(ValueError, match="made for intervals of 1 rounds and up, not of 4"):
        Ocelad(make_bank(), shortest_interval=4)
    with pytest.raises(ValueError, match="finest must be one of"):
        make_bank(finest="first")
