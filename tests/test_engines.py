"""Every engine agrees with the definition, and its result does not depend on the division into calls.

With NUMBA_DISABLE_JIT=1 the kernels run as plain Python, on fewer rounds.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from copy import deepcopy

import numpy as np
import pytest
from engine_cases import (
    COMPILED,
    ENGINES,
    LOW_RANK,
    ROUNDS,
    RTOL,
    SAME_BITS,
    as_batch,
    assert_same,
    assert_same_bits,
    difficult_events,
    difficult_relatives,
    make,
    pairwise_settings,
    supports,
)
from scipy import sparse

from ocelad import Comid, LearnerError, Metric, MetricTracker, Ocelad, Rice, _compile, track_metric
from ocelad.adaptive.low_rank_comid import LowRankComid
from ocelad.adaptive.precompile import precompile_engines
from ocelad.engines.build import build_compiled
from ocelad.engines.choose import choose_engine
from ocelad.engines.diagonal_bank import DiagonalBank
from ocelad.engines.kernels import cholesky, diagonal, eigenform, fullrank, lowrank, rounds, secular
from ocelad.engines.rice_bank import RiceBank
from ocelad.engines.warmup_bank import MAX_WARMUP_FEATURES, WARMUP_ROUNDS, WarmupBank
from ocelad.ensemble.bank import RoundState
from ocelad.ensemble.schedule import FixedExperts, Schedule
from ocelad.learners.diagonal_comid import DiagonalComid
from ocelad.pairs import Event, Events, Relative
from ocelad.testing import check_bank

BOUNDED = ["lowrank", "blocked, 4", "sparse, 4"]


def make_bank(engine, n=3, **changes):
    return make(engine, n, **{"step_size": 0.05, **changes}).bank


# The number of features and the shortest interval.
SHAPES = [(1, 1), (3, 3), (9, 1), (1, 3), (3, 1), (9, 3)] if COMPILED else [(1, 1), (3, 3), (4, 1)]


@pairwise_settings()
def test_agrees_with_the_definition(settings):
    engines = [engine for engine in ENGINES if supports(engine, settings["shrinkage"])]
    for n, shortest in SHAPES:
        shared = {**settings, "step_size": 0.3 / n**1.5, "shortest_interval": shortest}
        definition, fast = make("dense", n, **shared), {engine: make(engine, n, **shared) for engine in engines}
        for t, event in enumerate(difficult_events(n, n, ROUNDS // 4), start=1):
            expected = definition.step(event).losses
            for engine, tracker in fast.items():
                what = f"{engine}, n = {n}, shortest interval {shortest}, round {t}"
                losses = tracker.step(event).losses
                np.testing.assert_allclose(losses, expected, rtol=RTOL, atol=RTOL, err_msg=what)
                if t % 8 == 0 or t == ROUNDS // 4:
                    assert_same(tracker, definition, what=what)


@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
@pytest.mark.parametrize("shortest_interval", [1, 3])
@pytest.mark.parametrize("engine", SAME_BITS)
def test_replay_gives_the_same_bits_as_steps(engine, finest, shortest_interval):
    for shrinkage in (0.0, 0.01):
        if not supports(engine, shrinkage):
            continue
        events = difficult_events(7, 5, ROUNDS)
        shared = {"finest": finest, "shortest_interval": shortest_interval, "loss": "hinge", "shrinkage": shrinkage}
        one, whole, parts = (make(engine, 5, step_size=0.05, **shared) for _ in range(3))
        for event in events:
            one.step(event)
        whole.replay(as_batch(events))
        for first in range(0, ROUNDS, 29):
            parts.replay(as_batch(events[first : first + 29]))
        assert_same_bits(whole, one)
        assert_same_bits(parts, one)


@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
@pytest.mark.parametrize("engine", ["blocked", "blocked, 4", "sparse", "sparse, 4"])
def test_replay_with_blocks_agrees_with_steps_up_to_rounding(engine, finest):
    events = difficult_events(7, 5, ROUNDS)
    one, whole, parts = (make(engine, 5, step_size=0.05, finest=finest, shrinkage=0.01) for _ in range(3))
    for event in events:
        one.step(event)
    whole.replay(as_batch(events))
    for first in range(0, ROUNDS, 29):
        parts.replay(as_batch(events[first : first + 29]))
    assert_same(whole, one, 1e-10)
    assert_same(parts, one, 1e-10)


@pytest.mark.parametrize("engine", ["auto", *ENGINES])
def test_the_estimator_with_every_engine(engine):
    rng = np.random.default_rng(0)
    pairs, y = rng.normal(size=(ROUNDS, 2, 4)), rng.choice([-1, 1], size=ROUNDS)
    dense, fast = (
        MetricTracker(method=Rice(engine=each, step_size=0.05)).fit(pairs, y)
        for each in ("dense", engine.split(",")[0])
    )
    np.testing.assert_allclose(fast.get_mahalanobis_matrix(), dense.get_mahalanobis_matrix(), rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(fast.predict(pairs), dense.predict(pairs))
    assert fast.n_cuts_ == dense.n_cuts_ == 0
    assert fast.engine_ == {"auto": "fullrank"}.get(engine, engine.split(",")[0])


@pytest.mark.parametrize("engine", SAME_BITS)
def test_the_estimator_does_not_depend_on_the_division_into_calls(engine):
    rng = np.random.default_rng(0)
    pairs, y = rng.normal(size=(ROUNDS, 2, 4)), rng.choice([-1, 1], size=ROUNDS)
    whole, chunks, single = (MetricTracker(method=Rice(engine=engine, step_size=0.05)) for _ in range(3))
    whole.fit(pairs, y)
    for first in range(0, ROUNDS, 17):
        chunks.partial_fit(pairs[first : first + 17], y[first : first + 17])
    for pair, label in zip(pairs, y, strict=True):
        single.learn_one(pair[0], pair[1], label)
    assert chunks.metric_ == single.metric_ == whole.metric_


@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
@pytest.mark.parametrize("engine", ENGINES)
def test_satisfies_the_contract_of_a_bank(engine, finest):
    for n in (3, 50) if COMPILED else (3,):
        for invalid in (Event(np.full(n, np.nan), 1.0), Event(np.full(n, 1e148), 1.0)):
            check_bank(
                lambda: make_bank(engine, n, finest=finest, loss="squared_hinge", step_size=0.05 / n),  # noqa: B023
                difficult_events(1, n, 30),
                invalid_event=invalid,
            )


@pytest.mark.parametrize("engine", ["auto", *ENGINES])
def test_copies_and_pickles_continue_alike(engine):
    tracker = make(engine, step_size=0.05)
    events = difficult_events(2, 3, 80)
    for event in events[:20]:
        tracker.step(event)
    copies = [deepcopy(tracker), pickle.loads(pickle.dumps(tracker))]
    for event in events[20:]:
        for each in (tracker, *copies):
            each.step(event)
    for each in copies:
        assert_same_bits(each, tracker)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pair_that_overflows_is_rejected_and_nothing_changes(engine):
    tracker = make(engine, 2, loss="squared_hinge")
    tracker.replay(Events(np.ones((5, 2)), np.ones(5)))
    before = tracker.play()
    with pytest.raises(LearnerError, match=r"in round 6 .* use a smaller step_size or rescale the data"):
        tracker.step(Event(np.array([1e149, 0.0]), 1.0))
    with pytest.raises(LearnerError, match="in round 6"):
        tracker.replay(Events([[1e149, 0.0], [1.0, 0.0]], [1, 1]))
    assert tracker.play() == before
    assert tracker.n_rounds == 5
    with pytest.raises(LearnerError, match="in round 7"):
        tracker.replay(Events([[1.0, 0.0], [1e149, 0.0]], [1, 1]))
    assert tracker.n_rounds == 6


@pytest.mark.parametrize("engine", ENGINES)
def test_a_step_that_overflows_is_rejected(engine):
    tracker = make(engine, 2, loss="hinge", initial_scale=0.0, step_size=1e12)
    tracker.step(Event(np.array([0.0, 1e-6]), -1.0))
    before = tracker.play()
    with pytest.raises(LearnerError, match=r"in round 2 .*metric overflows"):
        tracker.step(Event(np.array([1e149, 0.0]), -1.0))
    assert tracker.play() == before


@pytest.mark.parametrize("engine", ENGINES)
def test_a_replay_stops_at_a_rejected_event(engine):
    events = difficult_events(1, 3, 20)
    events[12] = Event(np.full(3, 1e149), 1.0)
    one, other = (make(engine, loss="squared_hinge", step_size=0.05) for _ in range(2))
    with pytest.raises(LearnerError, match="in round 13"):
        one.replay(as_batch(events))
    for event in events[:12]:
        other.step(event)
    assert one.n_rounds == 12
    assert_same(one, other, 1e-13)
    one.step(events[13])
    other.step(events[13])
    assert_same(one, other, 1e-13)
    if engine in SAME_BITS:
        assert_same_bits(one, other)


@pytest.mark.parametrize(("engine", "kernels"), [("fullrank", fullrank), ("lowrank", lowrank), ("blocked", lowrank)])
def test_an_interrupted_replay_changes_nothing(engine, kernels, monkeypatch):
    tracker = make(engine)
    tracker.step(Event(np.ones(3), -1.0))
    before = tracker.play()

    def play_then_interrupt(*arguments):
        play(*arguments)
        raise KeyboardInterrupt

    play = kernels.play
    monkeypatch.setattr(kernels, "play", play_then_interrupt)
    with pytest.raises(KeyboardInterrupt):
        tracker.replay(Events(np.eye(3), np.ones(3)))
    assert tracker.n_rounds == 1
    assert tracker.play() == before


@pytest.mark.parametrize("size", [1e-8, 1e-4, 1e4, 1e8])
@pytest.mark.parametrize("engine", ENGINES)
def test_extreme_scales(engine, size):
    shared = {"step_size": 0.05 / size**4, "initial_scale": 1 / size**2, "loss": "hinge"}
    definition, fast = (make(each, 4, **shared) for each in ("dense", engine))
    for event in difficult_events(5, 4, ROUNDS // 5):
        event = Event(size * event.u, event.y)
        definition.step(event)
        fast.step(event)
    M, N = fast.play().matrix, definition.play().matrix
    assert np.linalg.norm(M - N) <= RTOL * np.linalg.norm(N)


@pytest.mark.parametrize("size", [1e-60, 1e-40, 1e40, 1e60])
@pytest.mark.parametrize("initial_scale", [0.0, 1.0])
@pytest.mark.parametrize("engine", ENGINES)
def test_scales_at_which_products_overflow(engine, size, initial_scale):
    shared = {"step_size": 0.05 / size**4, "initial_scale": initial_scale / size**2, "loss": "hinge"}
    if not 0 < shared["step_size"] < np.inf or shared["initial_scale"] > 1e100:
        shared = {"step_size": 0.05, "initial_scale": 0.0, "loss": "hinge"}
    definition, fast = (make(each, **shared) for each in ("dense", engine))
    for event in difficult_events(6, 3, 30):
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


@pytest.mark.parametrize("engine", ENGINES)
def test_tiny_pairs_from_a_zero_metric_stay_finite(engine):
    for size in (1e-150, 1e-155, 1e-160):
        tracker = make(engine, initial_scale=0.0)
        tracker.replay(Events(size * np.random.default_rng(0).normal(size=(4, 3)), -np.ones(4)))
        assert np.isfinite(tracker.play().matrix).all()


@pytest.mark.parametrize("size", [1e-140, 1e-150, 7.5e-160, 1e-170])
@pytest.mark.parametrize("engine", ENGINES)
def test_tiny_pairs_do_not_affect_later_ones(engine, size):
    # The square of such a length is subnormal or zero, so the normalised direction would not have length 1.
    definition, fast = (make(each, 4, step_size=0.2) for each in ("dense", engine))
    for t, event in enumerate(difficult_events(2, 4, 16)):
        event = Event(size * event.u if t % 3 == 0 else event.u, event.y)
        np.testing.assert_allclose(fast.step(event).losses, definition.step(event).losses, rtol=RTOL, atol=RTOL)
    assert_same(fast, definition)


@pytest.mark.parametrize("engine", ENGINES)
def test_max_norm_bounds_a_metric_whose_norm_overflows(engine):
    fast = make(engine, max_norm=10.0, initial_scale=0.0, loss="hinge", n_scales=1)
    fast.step(Event(1e79 * np.random.default_rng(1).normal(size=3), -1.0))
    assert np.linalg.norm(fast.play().matrix) == pytest.approx(10.0)


@pytest.mark.parametrize("engine", ENGINES)
def test_repeated_eigenvalues(engine):
    # Steps of the same size along the axes give groups of equal eigenvalues, and u has components in many of each.
    n = 6
    rng = np.random.default_rng(0)
    definition, fast = (make(each, n, loss="hinge", step_size=0.1, n_scales=2) for each in ("dense", engine))
    for t in range(ROUNDS // 3):
        u = np.eye(n)[t % n] if t % 4 else rng.integers(-1, 2, size=n).astype(float)
        event = Event(u, -1.0 if t % 3 else 1.0)
        np.testing.assert_allclose(fast.step(event).losses, definition.step(event).losses, rtol=RTOL, atol=RTOL)
    assert_same(fast, definition)


@pytest.mark.parametrize("shrinkage", [0.0, 0.02])
@pytest.mark.parametrize("engine", ENGINES)
def test_many_directions(engine, shrinkage):
    # The capacity grows from 8 to 16, 32 and 64 directions, and from 4 to 8 scales.
    if not supports(engine, shrinkage):
        pytest.skip("needs shrinkage 0")
    n, rounds = (40, 160) if COMPILED else (18, 24)
    rng = np.random.default_rng(4)
    shared = {"initial_scale": 0.0, "step_size": 0.02, "shrinkage": shrinkage}
    definition, fast = (make(each, n, **shared) for each in ("dense", engine))
    for t in range(rounds):
        event = Event(rng.normal(size=n), -1.0 if t % 3 else 1.0)
        np.testing.assert_allclose(fast.step(event).losses, definition.step(event).losses, rtol=RTOL, atol=RTOL)
    assert_same(fast, definition)
    if engine != "fullrank":
        assert max(fast.bank.ranks) > (32 if n == 40 else 8)


@pytest.mark.skipif(not COMPILED, reason="needs the compiler")
def test_long_streams_stay_accurate():
    definition, *fast = (make(engine, 5, step_size=0.02, loss="hinge") for engine in ("dense", *ENGINES))
    U = np.random.default_rng(0).normal(size=(5_000, 5))
    events = Events(U, np.where(np.abs(U[:, 0]) < 1, 1.0, -1.0))
    definition.replay(events)
    for engine, tracker in zip(ENGINES, fast, strict=True):
        tracker.replay(events)
        assert_same(tracker, definition, what=engine)


@pytest.mark.parametrize("engine", BOUNDED)
def test_max_rank_bounds_the_rank_and_cuts_are_counted(engine):
    events = difficult_events(3, 8, ROUNDS)
    free, bounded = (make(engine, 8, initial_scale=0.0, step_size=0.05, max_rank=r) for r in (None, 3))
    for event in events:
        free.step(event)
        bounded.step(event)
    assert free.bank.n_cuts == 0
    assert max(free.bank.ranks) >= 7
    assert bounded.bank.n_cuts > 0
    assert max(bounded.bank.ranks) == 3
    # The removed directions are small: the bounded metric is close to the free one.
    M, N = bounded.play().matrix, free.play().matrix
    assert np.linalg.norm(M - N) < 0.5 * np.linalg.norm(N)


@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
@pytest.mark.parametrize("engine", BOUNDED)
def test_max_rank_around_a_base(engine, finest):
    # With small steps every metric stays close to I / n, with and without a rank bound.
    n = 6
    events = as_batch(difficult_events(4, n, ROUNDS // 3))
    free, *bounded = (make(engine, n, step_size=1e-3, finest=finest, max_rank=r) for r in (None, 5, 4, 3, 1))
    for tracker in (free, *bounded):
        tracker.replay(events)
    expected = free.play().matrix
    for tracker, r in zip(bounded, (5, 4, 3, 1), strict=True):
        assert max(tracker.bank.ranks) <= r
        assert tracker.bank.n_cuts > 0
        assert np.linalg.norm(tracker.play().matrix - expected) < 0.2 * np.linalg.norm(expected)


@pytest.mark.parametrize("finest", ["carry", "ensemble"])
@pytest.mark.parametrize("shrinkage", [0.0, 0.02])
def test_blocked_engines_remove_the_same_directions(finest, shrinkage):
    events = difficult_events(3, 8, ROUNDS // 2)
    shared = {"step_size": 0.05, "shrinkage": shrinkage, "max_rank": 3, "finest": finest}
    plain, *blocked = (make(engine, 8, **shared) for engine in BOUNDED)
    for event in events:
        for tracker in (plain, *blocked):
            tracker.step(event)
    for tracker in blocked:
        assert tracker.bank.n_cuts == plain.bank.n_cuts > 0
        assert tracker.bank.ranks == plain.bank.ranks
        assert_same(tracker, plain)


@pytest.mark.parametrize("engine", ["dense", "auto", *ENGINES])
@pytest.mark.parametrize(
    ("U", "y", "message"),
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
def test_arrays_of_events_are_checked(engine, U, y, message):
    tracker = make(engine)
    with pytest.raises(ValueError, match=message):
        tracker.replay(Events(U, y))
    assert tracker.n_rounds == 0


@pytest.mark.parametrize("n", [4, 8])
@pytest.mark.parametrize("engine", ENGINES)
def test_arrays_of_any_type_give_the_same_bits(engine, n):
    events = difficult_events(3, n, 40)
    U = np.round(np.array([event.u for event in events]) * 16) / 16  # exact in float32
    y = np.array([event.y for event in events])
    plain = make(engine, n)
    plain.replay(Events(U, y))
    others = [U.astype(np.float32), np.asfortranarray(U), np.repeat(U, 2, axis=1)[:, ::2], U.tolist()]
    for other in [*others, sparse.csr_array(U), sparse.coo_matrix(U)]:
        tracker = make(engine, n)
        tracker.replay(Events(other, y > 0))
        assert tracker.play() == plain.play()
    unchanged = Events(U, y)
    make(engine, n).replay(unchanged)
    assert (unchanged.U == U).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_bank_serves_one_ocelad_with_its_schedule(engine):
    name = type(make_bank(engine)).__name__
    bank = make_bank(engine)
    Ocelad(bank).step(Event(np.ones(3), 1.0))
    with pytest.raises(ValueError, match=f"this {name} has already learned; create a new one for every Ocelad"):
        Ocelad(bank)
    message = f"this {name} was created for a shortest interval of 1 rounds; the ensemble has 4"
    with pytest.raises(ValueError, match=message):
        Ocelad(make_bank(engine), shortest_interval=4)
    with pytest.raises(ValueError, match="finest must be one of"):
        build_compiled(
            engine.split(",")[0],
            3,
            Schedule(),
            shrinkage=0.0,
            max_rank=None,
            initial_scale=1.0,
            initial_threshold=1.0,
            step_size=0.1,
            loss="hinge",
            max_norm=None,
            finest="first",
        )


@pytest.mark.parametrize("engine", ["fullrank", *LOW_RANK])
def test_memory_grows_logarithmically(engine):
    tracker = make(engine, 2)
    events = as_batch(difficult_events(0, 2, 16 if COMPILED else 4))
    sizes = []
    for doubling in range(4, 11 if COMPILED else 7):
        while tracker.n_rounds < 2**doubling:
            tracker.replay(events)
        sizes.append(len(pickle.dumps(tracker)))
    assert max(np.diff(sizes)) < 2 * sizes[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"divergence": "burg"}, "engine 'lowrank' needs the divergence 'frobenius'"),
        ({"engine": "blocked", "divergence": "von_neumann"}, "engine 'blocked' needs the divergence 'frobenius'"),
        ({"regularizer": "l1", "shrinkage": 0.1}, "engine 'lowrank' needs"),
        ({"engine": "fullrank", "shrinkage": 0.1}, "engine 'fullrank' needs shrinkage 0; use 'lowrank' with shrinkage"),
        ({"engine": "dense", "max_rank": 3}, "max_rank needs the engine .*; engine 'dense' keeps the full rank"),
        ({"engine": "fullrank", "max_rank": 3}, "max_rank needs the engine .*; engine 'fullrank' keeps the full rank"),
        ({"engine": "quick"}, "engine must be one of 'auto', 'dense', 'fullrank', 'lowrank', 'blocked', 'sparse'"),
        ({"max_rank": 0}, "max_rank must be a whole number of at least 1"),
        ({"regularizer": None, "shrinkage": 0.1}, "shrinkage must be 0 with regularizer None"),
    ],
)
def test_invalid_settings_are_rejected(changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        track_metric(3, **{"engine": "lowrank", **changes})


@pytest.mark.parametrize(
    ("n", "changes", "chosen"),
    [
        (1, {}, "fullrank"),
        (300, {}, "fullrank"),
        (301, {}, "lowrank"),
        (300, {"shrinkage": 0.1}, "lowrank"),
        (300, {"max_rank": 5}, "lowrank"),
        (999, {"shrinkage": 0.1}, "lowrank"),
        (1000, {"shrinkage": 0.1}, "blocked"),
        (1000, {}, "blocked"),
        (399, {"shrinkage": 0.1, "sparse": True}, "lowrank"),
        (1999, {"shrinkage": 0.1, "sparse": True}, "blocked"),
        (2000, {"shrinkage": 0.1, "sparse": True}, "sparse"),
        (300, {"sparse": True}, "fullrank"),
        (100_000, {"sparse": True}, "sparse"),
        (3, {"divergence": "burg"}, "dense"),
        (1000, {"divergence": "von_neumann", "sparse": True}, "dense"),
        (3, {"regularizer": "l1", "shrinkage": 0.1}, "dense"),
        (3, {"regularizer": "l1"}, "fullrank"),
        (3, {"regularizer": None}, "fullrank"),
    ],
)
def test_the_engine_of_auto(n, changes, chosen):
    settings = dict(changes)
    sparse = settings.pop("sparse", False)
    assert choose_engine(n, Rice(**settings), sparse=sparse) == chosen
    if not sparse:
        assert track_metric(n, **settings).bank.engine == chosen


@pytest.mark.parametrize(
    ("n", "sparse_pairs", "settings", "engine"),
    [
        (3, False, {}, "fullrank"),
        (3, False, {"shrinkage": 0.1}, "lowrank"),
        (3, False, {"divergence": "burg"}, "dense"),
        (3, True, {}, "fullrank"),
        (1000, False, {"shrinkage": 0.1}, "blocked"),
        (2000, True, {"shrinkage": 0.1}, "sparse"),
        (700, True, {"engine": "blocked", "shrinkage": 0.1}, "blocked"),
    ],
)
def test_the_estimator_chooses_by_its_first_pairs(n, sparse_pairs, settings, engine):
    X, Z = np.eye(2, n), np.zeros((2, n))
    pairs = (sparse.csr_array(X), sparse.csr_array(Z)) if sparse_pairs else np.stack([X, Z], axis=1)
    tracker = MetricTracker(method=Rice(**settings)).fit(pairs, [1, -1])
    assert tracker.engine_ == engine
    tracker.partial_fit(pairs, [-1, 1])
    assert tracker.engine_ == engine


@pytest.mark.parametrize("shrinkage", [0.0, 0.05])
@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
@pytest.mark.parametrize("shortest", [1, 3])
def test_auto_warms_up_with_the_definition(shrinkage, finest, shortest):
    shared = {
        "shrinkage": shrinkage,
        "finest": finest,
        "step_size": 0.1,
        "loss": "hinge",
        "shortest_interval": shortest,
    }
    definition, auto = (track_metric(4, engine=engine, **shared) for engine in ("dense", "auto"))
    engine = "lowrank" if shrinkage else "fullrank"
    for t, event in enumerate(difficult_events(8, 4, ROUNDS + WARMUP_ROUNDS), start=1):
        assert isinstance(auto.bank, WarmupBank) == (t <= WARMUP_ROUNDS)
        assert auto.bank.engine == engine
        np.testing.assert_allclose(auto.step(event).losses, definition.step(event).losses, rtol=RTOL, atol=RTOL)
        if t == WARMUP_ROUNDS - 1:
            assert_same_bits(auto, definition)  # still the definition
        if t >= WARMUP_ROUNDS and t % 8 == 0:
            assert_same(auto, definition)
    assert_same(auto, definition)


def test_settings_without_a_warm_up():
    assert isinstance(track_metric(MAX_WARMUP_FEATURES).bank, WarmupBank)
    assert not isinstance(track_metric(MAX_WARMUP_FEATURES + 1).bank, WarmupBank)
    assert not isinstance(track_metric(3, engine="fullrank").bank, WarmupBank)
    assert not isinstance(track_metric(3, max_rank=2).bank, WarmupBank)
    assert isinstance(track_metric(3, divergence="burg").bank, RiceBank)


def test_a_few_pairs_import_no_compiler():
    statement = (
        "import sys; from ocelad import Pair, track_metric; tracker = track_metric(3)\n"
        f"for _ in range({WARMUP_ROUNDS - 1}): tracker.step(Pair([1, 0, 0], [0, 0, 0], True))\n"
        "print('numba' in sys.modules); tracker.step(Pair([1, 0, 0], [0, 0, 0], True)); print('numba' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", statement], capture_output=True, text=True, check=True).stdout
    assert output.split() == ["False", "True"]


@pytest.mark.skipif(not COMPILED, reason="needs the compiler")
def test_each_kernel_has_one_compiled_signature():
    precompile_engines()
    for engine in ENGINES:
        for finest in ("carry", "ensemble", "reset"):
            shrinkage = 0.1 if supports(engine, 0.1) else 0.0
            tracker = make(engine, 4, loss="hinge", shrinkage=shrinkage, max_norm=3.0, finest=finest)
            for event in difficult_events(1, 4, 40):
                tracker.step(event)
            tracker.replay(Events(np.ones((2, 4)), np.ones(2)))
            tracker.replay(Events(np.ones((2, 4), order="F"), np.ones(2))[:1])
            tracker.replay(Events(sparse.csr_array(np.ones((2, 4))), np.ones(2)))
    for kernel in (lowrank.play, lowrank.start, fullrank.play, fullrank.start):
        assert len(kernel.signatures) == 1, kernel
    # Kernels that only other kernels call have no signature if those come from the disk cache.
    for kernel in (eigenform.rank_one_update, eigenform.deflate, secular.solve, rounds.finish_round):
        assert len(kernel.signatures) <= 1, kernel


@pytest.mark.heavy
@pytest.mark.skipif(not COMPILED, reason="needs the compiler")
def test_only_the_first_use_reports_that_it_compiles(tmp_path):
    def run():
        return subprocess.run(
            [sys.executable, "-m", "ocelad", "warm"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        )

    cold, again = run(), run()
    sentence = "this happens once per installation and takes ten seconds to a minute"
    assert cold.stderr == f"ocelad: compiling kernels; {sentence}\n"
    assert again.stderr == ""
    assert cold.stdout.startswith("The kernels are compiled")


def test_the_digest_changes_with_every_source(tmp_path):
    (tmp_path / "deep").mkdir()
    files = [tmp_path / "one.py", tmp_path / "deep" / "two.py"]
    for path in files:
        path.write_text("x = 1\n")
    stamps = {_compile.source_digest(tmp_path)}
    assert _compile.source_digest(tmp_path) in stamps
    for path in files:
        path.write_text("x = 2\n")
        stamps.add(_compile.source_digest(tmp_path))
    (tmp_path / "three.py").write_text("x = 3\n")
    stamps.add(_compile.source_digest(tmp_path))
    assert len(stamps) == 4
    (tmp_path / "notes.txt").write_text("not a source")
    assert _compile.source_digest(tmp_path) in stamps


@pytest.mark.skipif(not COMPILED, reason="needs the compiler")
def test_every_cached_kernel_has_the_digest_of_all_sources():
    stamp = _compile.source_digest(*_compile.SHARED_SOURCES)
    kernels = [
        kernel
        for module in (cholesky, diagonal, eigenform, fullrank, lowrank, rounds, secular)
        for kernel in vars(module).values()
        if hasattr(kernel, "py_func")
    ]
    assert len(kernels) > 40
    for kernel in kernels:
        assert kernel._cache._cache_file._source_stamp == stamp, kernel


@pytest.mark.skipif(not COMPILED, reason="needs the compiler")
@pytest.mark.parametrize("setting", ["0", "1"])
def test_the_settings_of_the_compiler_are_restored(setting, tmp_path):
    statement = """
import numba
from numba.core import event
from ocelad.engines.kernels import rounds

class Record(event.Listener):
    def on_start(self, event): print(event.data["dispatcher"].py_func.__name__, numba.config.SLP_VECTORIZE)
    def on_end(self, event): pass

event.register("numba:compile", Record())
rounds.loss_slope(0, 1.0)
print("after", numba.config.SLP_VECTORIZE)
@numba.njit
def of_others(x): return x + 1
of_others(1)
try:
    rounds.invalid_kernel = rounds.jit(lambda x: x.no_such_thing)
    rounds.invalid_kernel(1.0)
except Exception:
    print("after", numba.config.SLP_VECTORIZE)
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_SLP_VECTORIZE": setting}
    result = subprocess.run([sys.executable, "-c", statement], capture_output=True, text=True, env=environment)
    lines = result.stdout.splitlines()
    assert "loss_slope 1" in lines
    assert "hinge_slope 1" in lines
    assert f"of_others {setting}" in lines
    assert [line for line in lines if line.startswith("after")] == [f"after {setting}"] * 2, result.stderr


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if "4" not in engine])
def test_the_error_names_the_scale_that_cannot_learn(engine):
    tracker = make(engine, 3, loss="squared_hinge")
    for event in difficult_events(1, 3, 6):
        tracker.step(event)
    bank = tracker.bank
    bank._set_metric(int(bank._state.slots[1]), Metric(1e200 * np.eye(3)))
    before, far = tracker.play(), Event(np.full(3, 1e60), 1.0)  # its loss is infinite only with a metric of that size
    for learn in (lambda: tracker.step(far), lambda: tracker.replay(Events([far.u], [far.y]))):
        with pytest.raises(LearnerError, match=r"the learner of scale 1 .*its loss is not finite") as error:
            learn()
        assert error.value.scale.index == 1
        assert tracker.play() == before


# -- Learners without an ensemble --

RATES = (4.0, 1.0, 0.2)


def bank_of_learners(engine, n, events, max_rank=None):
    """Return a bank of ``FixedExperts`` as the adaptive method has it."""
    schedule = FixedExperts(RATES)
    settings = {
        "initial_scale": 1.0 / n,
        "initial_threshold": 1.0,
        "step_size": 0.5 / n,
        "loss": "logistic",
        "finest": "reset",
        "starts": "scratch",
        "events": events,
    }
    if engine == "diagonal":
        bank = DiagonalBank(n, schedule, shrinkage=0.0, **settings)
    else:
        bank = build_compiled(engine, n, schedule, shrinkage=0.0, max_rank=max_rank, max_norm=None, **settings)
    return bank.start(RoundState(1, tuple(schedule.scale(j) for j in range(3)), np.ones(3), np.empty(0)))


def kernel_rows(bank, engine, events):
    """Return the events in the form that ``measure_and_learn`` takes."""
    if engine == "sparse":
        return sparse.csr_array(events.U)
    rows, _ = bank._prepare_rows(events)
    return rows


def learned_by_bank(engine, events, factors, sizes, max_rank=None):
    """Let a bank learn in chunks of these sizes; return the squared distances and the learners' metrics."""
    n = events.n_features
    bank = bank_of_learners(engine, n, "pairs" if isinstance(events, Events) else "relatives", max_rank)
    squares, first = np.empty((len(events), 3)), 0
    for size in sizes:
        part = slice(first, min(first + size, len(events)))
        y = events.y[part] if isinstance(events, Events) else np.ones(part.stop - first)
        bank.measure_and_learn(kernel_rows(bank, engine, events[part]), y, first + 1, factors[part], squares[part])
        first = part.stop
    return squares, [bank.learner(j) for j in range(3)], bank


def learned_step_by_step(events, factors, n, diagonal=False):
    """Do the same with one ``Comid`` for each rate."""
    squares, metrics = np.empty((len(events), 3)), []
    for j, rate in enumerate(RATES):
        start = Metric.from_diagonal(np.full(n, 1.0 / n)) if diagonal else Metric(np.eye(n) / n)
        kind = DiagonalComid if diagonal else Comid
        learner = kind(start, step_size=1.0, loss="logistic", regularizer=None)
        for row, (event, factor) in enumerate(zip(events, factors, strict=True)):
            square = learner.play().squared_length
            is_relative = isinstance(event, Relative)
            squares[row, j] = square(event.near) - square(event.far) if is_relative else square(event.u)
            learner = learner.with_start(learner.play(), factor * rate * 0.5 / n)
            learner.update(event)
        metrics.append(learner.play())
    return squares, metrics


DIAGONAL_RELATIVES = pytest.mark.xfail(
    strict=True, reason="the diagonal kernel adds the threshold to the squared distances of relative comparisons"
)


@pytest.mark.parametrize(
    ("engine", "kind"),
    [
        ("fullrank", "pairs"),
        ("lowrank", "pairs"),
        ("sparse", "pairs"),
        ("diagonal", "pairs"),
        ("fullrank", "relatives"),
        ("lowrank", "relatives"),
        pytest.param("diagonal", "relatives", marks=DIAGONAL_RELATIVES),
    ],
)
def test_learners_without_an_ensemble_are_those_of_comid(engine, kind):
    rounds = 120 if COMPILED else 30
    for n in (1, 2, 5):
        events = (difficult_events if kind == "pairs" else difficult_relatives)(n, n, rounds)
        factors = np.random.default_rng(n).choice([0.0, 0.5, 1.0, 2.0], size=rounds)
        expected, metrics = learned_step_by_step(events, factors, n, diagonal=engine == "diagonal")
        squares, learned, _ = learned_by_bank(engine, as_batch(events), factors, [1, 7, rounds])
        np.testing.assert_allclose(squares, expected, rtol=RTOL, atol=RTOL)
        for mine, theirs in zip(learned, metrics, strict=True):
            np.testing.assert_allclose(mine.matrix, theirs.matrix, rtol=RTOL, atol=RTOL)
            assert mine.threshold == pytest.approx(theirs.threshold, rel=RTOL)


RELATIVE_CUT = pytest.mark.xfail(
    strict=True, reason="with one feature more than max_rank, a relative comparison revives a direction clipped to 0"
)


@pytest.mark.parametrize(
    ("kind", "n", "max_rank"),
    [
        ("pairs", 3, 2),
        ("pairs", 9, 8),
        ("pairs", 12, 4),
        pytest.param("relatives", 9, 8, marks=RELATIVE_CUT),
        ("relatives", 10, 8),
        ("relatives", 12, 4),
    ],
)
def test_learners_of_low_rank_are_those_of_the_definition(kind, n, max_rank):
    rng, rounds = np.random.default_rng(n), 80 if COMPILED else 40
    if kind == "pairs":
        events = [
            Event(u, y) for u, y in zip(rng.normal(size=(rounds, n)), rng.choice([-1.0, 1.0], rounds), strict=True)
        ]
    else:
        events = [Relative(near, far) for near, far in zip(*rng.normal(size=(2, rounds, n)), strict=True)]
    factors = np.full(rounds, 6.0)
    squares, learned, bank = learned_by_bank("lowrank", as_batch(events), factors, [rounds], max_rank)
    for j, rate in enumerate(RATES):
        learner = LowRankComid(n, 6.0 * rate * 0.5 / n, max_rank)
        for row, event in enumerate(events):
            if kind == "pairs":
                assert squares[row, j] == pytest.approx(learner.square(event.u), rel=RTOL, abs=RTOL)
                learner.learn_pair(event.u, event.y, 1.0)
            else:
                difference = learner.square(event.near) - learner.square(event.far)
                assert squares[row, j] == pytest.approx(difference, rel=RTOL, abs=RTOL)
                learner.learn_relative(event.near, event.far, 1.0)
        assert len(learned[j].arrays()["rows"]) <= max_rank
    assert bank.n_cuts > 0


@pytest.mark.parametrize("engine", ["fullrank", "lowrank"])
def test_learners_without_an_ensemble_have_the_same_bits_in_any_chunks(engine):
    events, factors = as_batch(difficult_events(3, 5, 60)), np.ones(60)
    squares, learned, _ = learned_by_bank(engine, events, factors, [60])
    for sizes in ([1] * 60, [7] * 9):
        parts, same, _ = learned_by_bank(engine, events, factors, sizes)
        assert (parts == squares).all()
        assert same == learned
