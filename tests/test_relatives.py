"""Relative comparisons: a step of the definition is a minimum, and every engine agrees with the definition.

Also runs with NUMBA_DISABLE_JIT=1, as plain Python with fewer rounds.
"""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pytest
from engine_cases import (
    COMPILED,
    ROUNDS,
    RTOL,
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

from ocelad import Comid, LearnerError, Metric, Pair, Rice, track_metric
from ocelad.adaptive.precompile import precompile_engines
from ocelad.engines.blocked_bank import BlockedBank
from ocelad.engines.choose import choose_engine
from ocelad.engines.kernels import fullrank, lowrank
from ocelad.engines.rice_bank import RiceBank
from ocelad.engines.warmup_bank import WARMUP_ROUNDS, WarmupBank
from ocelad.ensemble.schedule import Schedule
from ocelad.learners.losses import LOSSES
from ocelad.learners.mirror_maps import DIVERGENCES
from ocelad.pairs import Event, Relative, Relatives, as_relative, as_sparse
from ocelad.testing import check_bank, check_learner

ENGINES = ["fullrank", "lowrank"]
ALL_ENGINES = ["dense", "auto", *ENGINES, "diagonal", "diagonal, dense"]


def track(engine, n=3, **settings):
    settings = {"events": "relatives", "step_size": 0.05, **settings}
    if engine.startswith("diagonal"):
        return track_metric(n, diagonal=True, engine="dense" if "dense" in engine else "auto", **settings)
    return make(engine, n, **settings)


def positive_definite(n, seed):
    A = np.random.default_rng(seed).normal(size=(n, n))
    return A @ A.T / n + 0.1 * np.eye(n)


# The definition


@pytest.mark.parametrize("divergence", ["frobenius", "von_neumann", "burg"])
@pytest.mark.parametrize(("regularizer", "shrinkage"), [(None, 0.0), ("nuclear", 0.3), ("l1", 0.3)])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_no_perturbation_improves_a_step(divergence, regularizer, shrinkage, loss):
    n, eta = 4, 0.2
    rng = np.random.default_rng(0)
    for seed in range(4):
        event = Relative(rng.normal(size=n), rng.normal(size=n) * (seed != 3))
        start = Metric(positive_definite(n, seed), threshold=1.5)
        learner = Comid(
            start, step_size=eta, loss=loss, divergence=divergence, regularizer=regularizer, shrinkage=shrinkage
        )
        m = start.squared_length(event.far) - start.squared_length(event.near)
        assert learner.loss(event) == pytest.approx(LOSSES[loss].value(m))
        g = LOSSES[loss].slope(m)
        G = g * (np.outer(event.near, event.near) - np.outer(event.far, event.far))

        def objective(M):
            size = {"nuclear": np.trace(M), "l1": np.abs(M).sum(), None: 0.0}[regularizer]
            between = DIVERGENCES[divergence].between(M, start.matrix)  # noqa: B023
            return between + eta * (G * M).sum() + eta * shrinkage * size  # noqa: B023

        learner.update(event)
        M = learner.play().matrix
        assert learner.play().threshold == 1.5
        minimum = objective(M + 1e-12 * np.eye(n))
        for size in (1e-1, 1e-2, 1e-3):
            for _ in range(20):
                step = rng.normal(size=(n, n))
                values, vectors = np.linalg.eigh(M + size * (step + step.T))
                other = (vectors * np.maximum(values, 1e-12)) @ vectors.T
                assert objective(other) >= minimum - 1e-9


def test_the_margin_and_its_gradient():
    rng = np.random.default_rng(1)
    near, far = rng.normal(size=(2, 3))
    M, D = positive_definite(3, 0), positive_definite(3, 1)
    event = Relative(near, far)
    margin = Metric(M).margin(event)
    assert margin == pytest.approx(far @ M @ far - near @ M @ near)
    change = Metric(M + D).margin(event) - margin
    assert change == pytest.approx(-(event.gradient(lambda u: np.outer(u, u)) * D).sum())
    assert Metric(M, threshold=9.0).margin(event) == margin
    assert event.threshold_slope == 0.0


def test_a_tracker_learns_which_point_is_nearer():
    rng = np.random.default_rng(2)
    near, far = rng.normal(size=(2, 400, 3))
    wrong = np.abs(near[:, 0]) > np.abs(far[:, 0])
    near[wrong], far[wrong] = far[wrong], near[wrong].copy()
    for engine in ALL_ENGINES if COMPILED else ["dense"]:
        margins = track(engine, step_size=0.1).replay(Relatives(near, far))
        assert (margins[-100:] > 0).mean() > 0.9 > (margins[:30] > 0).mean()


def test_the_definition_satisfies_the_protocols():
    events = difficult_relatives(0, 3, 12)
    check_learner(lambda: Comid(Metric(np.eye(3)), step_size=0.1), events)
    check_bank(
        lambda: RiceBank(Metric(np.eye(3)), step_size=0.1, events="relatives"),
        events,
        invalid_event=Relative(np.full(3, np.nan), np.ones(3)),
    )


# The engines


@pairwise_settings()
def test_agrees_with_the_definition(settings):
    engines = [engine for engine in ENGINES if supports(engine, settings["shrinkage"])]
    for n, shortest in ((1, 1), (3, 3), (9 if COMPILED else 4, 1)):
        shared = {**settings, "step_size": 0.3 / n**1.5, "shortest_interval": shortest}
        assert_agree("dense", engines, difficult_relatives(n, n, ROUNDS // 4), n, shared)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
@pytest.mark.parametrize("shrinkage", [0.0, 0.05])
def test_diagonal_metrics_agree_with_their_definition(loss, finest, shrinkage):
    for n, shortest in ((1, 1), (3, 3), (9, 1)):
        shared = {"loss": loss, "finest": finest, "shrinkage": shrinkage, "shortest_interval": shortest}
        assert_agree("diagonal, dense", ["diagonal"], difficult_relatives(n, n, ROUNDS // 4), n, shared)


def assert_agree(definition, engines, events, n, shared):
    slow, fast = track(definition, n, **shared), {engine: track(engine, n, **shared) for engine in engines}
    for t, event in enumerate(events, start=1):
        expected = slow.step(event).losses
        for engine, tracker in fast.items():
            what = f"{engine}, n = {n}, {shared}, round {t}"
            np.testing.assert_allclose(tracker.step(event).losses, expected, rtol=RTOL, atol=RTOL, err_msg=what)
            if t % 8 == 0 or t == len(events):
                assert_same(tracker, slow, what=what)


@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
@pytest.mark.parametrize("shortest_interval", [1, 3])
@pytest.mark.parametrize("engine", ["auto", *ENGINES, "diagonal"])
def test_replay_gives_the_same_bits_as_steps(engine, finest, shortest_interval):
    for shrinkage in (0.0, 0.01):
        if not supports(engine, shrinkage):
            continue
        events = difficult_relatives(7, 5, ROUNDS)
        shared = {"finest": finest, "shortest_interval": shortest_interval, "loss": "hinge", "shrinkage": shrinkage}
        one, whole, parts = (track(engine, 5, **shared) for _ in range(3))
        for event in events:
            one.step(event)
        margins = whole.replay(as_batch(events))
        in_parts = [parts.replay(as_batch(events[first : first + 29])) for first in range(0, ROUNDS, 29)]
        assert_same_bits(whole, one)
        assert_same_bits(parts, one)
        assert (np.concatenate(in_parts) == margins).all()


@pytest.mark.parametrize("engine", ALL_ENGINES)
def test_margins_precede_learning(engine):
    events = difficult_relatives(3, 4, ROUNDS // 3)
    tracker, expected, sizes = track(engine, 4), [], []
    for event in events:
        nearer, farther = (tracker.play().squared_length(u) for u in event)
        expected.append(farther - nearer)
        sizes.append(farther + nearer)
        tracker.step(event)
    assert np.max(expected) > 0 > np.min(expected)
    for stream in (as_batch(events), events):
        margins = track(engine, 4).replay(stream)
        assert (np.abs(margins - expected) <= RTOL * np.array(sizes)).all()


@pytest.mark.parametrize("shrinkage", [0.0, 0.02])
@pytest.mark.parametrize("engine", ENGINES)
def test_many_directions(engine, shrinkage):
    # The capacity is 8 directions at first, then 16, 32, 64; a comparison can add two directions.
    if not supports(engine, shrinkage):
        pytest.skip("needs shrinkage 0")
    n, rounds = (40, 120) if COMPILED else (18, 20)
    near, far = np.random.default_rng(4).normal(size=(2, rounds, n))
    shared = {"initial_scale": 0.0, "step_size": 0.02, "shrinkage": shrinkage}
    definition, fast = (track(each, n, **shared) for each in ("dense", engine))
    for event in Relatives(0.5 * near, far):
        np.testing.assert_allclose(fast.step(event).losses, definition.step(event).losses, rtol=RTOL, atol=RTOL)
    assert_same(fast, definition)


@pytest.mark.skipif(not COMPILED, reason="needs the compiler")
@pytest.mark.parametrize("shrinkage", [0.0, pytest.param(0.02, marks=pytest.mark.slow)])
def test_long_streams_stay_healthy(shrinkage):
    near, far = np.random.default_rng(0).normal(size=(2, 4_200, 5))
    shared = {"step_size": 0.02, "loss": "hinge", "shrinkage": shrinkage}
    definition = track("dense", 5, **shared)
    margins = definition.replay(Relatives(near, far))
    for engine in ENGINES:
        if supports(engine, shrinkage):
            fast = track(engine, 5, **shared)
            np.testing.assert_allclose(fast.replay(Relatives(near, far)), margins, rtol=1e-8, atol=1e-8)
            assert_same(fast, definition)


@pytest.mark.parametrize("size", [1e-8, 1e-4, 1e4, 1e8])
@pytest.mark.parametrize("engine", ENGINES)
def test_extreme_scales(engine, size):
    shared = {"step_size": 0.05 / size**4, "initial_scale": 1 / size**2, "loss": "hinge"}
    definition, fast = (track(each, 4, **shared) for each in ("dense", engine))
    for near, far in difficult_relatives(5, 4, ROUNDS // 5):
        event = Relative(size * near, size * far)
        definition.step(event)
        fast.step(event)
    M, N = fast.play().matrix, definition.play().matrix
    assert np.linalg.norm(M - N) <= RTOL * np.linalg.norm(N)


@pytest.mark.parametrize("which", ["near", "far", "both"])
@pytest.mark.parametrize("size", [1e-140, 1e-155, 1e-170, 0.0])
@pytest.mark.parametrize("engine", [*ENGINES, "diagonal"])
def test_tiny_differences_do_not_affect_later_ones(engine, size, which):
    reference = "diagonal, dense" if engine == "diagonal" else "dense"
    for shrinkage in (0.0, 0.02):
        if not supports(engine, shrinkage):
            continue
        shared = {"step_size": 0.2, "shrinkage": shrinkage, "initial_scale": 0.0}
        definition, fast = (track(each, 4, **shared) for each in (reference, engine))
        for t, (near, far) in enumerate(difficult_relatives(2, 4, 16)):
            if t % 3 == 0:
                near, far = near if which == "far" else size * near, far if which == "near" else size * far
            event = Relative(near, far)
            np.testing.assert_allclose(fast.step(event).losses, definition.step(event).losses, rtol=RTOL, atol=RTOL)
        assert_same(fast, definition)


@pytest.mark.parametrize("engine", ALL_ENGINES)
def test_equal_differences_change_nothing(engine):
    tracker = track(engine, loss="hinge")
    tracker.replay(as_batch(difficult_relatives(1, 3, 11)))
    before, u = tracker.play().matrix, np.array([3.0, 1.0, -2.0])
    for other in (u, -u):
        losses, bank = tracker.bank.observe(Relative(u, other), tracker.round_state)
        np.testing.assert_allclose(losses, 1.0, rtol=1e-12)
        np.testing.assert_allclose(bank.mix(tracker.round_state).matrix, before, rtol=1e-12, atol=1e-15)


def test_equal_differences_add_no_directions():
    tracker = track("lowrank", initial_scale=0.0)
    tracker.replay(as_batch(difficult_relatives(1, 3, 1)))
    ranks = tracker.bank.ranks
    near = np.random.default_rng(0).normal(size=(6, 3))
    tracker.replay(Relatives(near, near * np.tile([[1.0], [-1.0]], (3, 1))))
    assert max(tracker.bank.ranks) == max(ranks) == 1


@pytest.mark.parametrize("max_norm", [None, 1.0])
@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
def test_a_bounded_rank_is_cut_once_per_step(finest, max_norm):
    # The bounded step of one learner equals the dense step, cut to the r eigenvalues farthest from the base. With 5 of
    # 6 directions, adding far reaches all 6; a direction that is cut still returns to the base.
    n = 6
    for seed, r in [(seed, r) for seed in range(5) for r in (3, 5)]:
        near, far = np.random.default_rng(seed).normal(size=(2, n)) * [[0.5], [1.5]]
        events = difficult_relatives(seed, n, 20)
        bounded = track("lowrank", n, max_rank=r, finest=finest, max_norm=max_norm, step_size=0.1)
        for event in events:
            bounded.step(event)
            assert max(bounded.bank.ranks) <= r
        assert bounded.bank.n_cuts > 0
        held = bounded.bank.learner(2)
        base = bounded.bank._state.base[bounded.bank._state.slots[2]]
        eta = 0.1 * Schedule().scale(2).rate
        learner = Comid(held, step_size=eta, loss="logistic")
        learner.update(Relative(near, far))
        eigenvalues, vectors = np.linalg.eigh(learner.play().matrix)
        largest = np.argsort(-np.abs(eigenvalues - base))[:r]
        cut = base * np.eye(n) + (vectors[:, largest] * (eigenvalues[largest] - base)) @ vectors[:, largest].T
        if max_norm is not None:
            cut *= max_norm / max(np.linalg.norm(cut), max_norm)
        bounded.bank.observe(Relative(near, far), bounded.round_state)
        np.testing.assert_allclose(bounded.bank.learner(2).matrix, cut, rtol=RTOL, atol=RTOL)


@pytest.mark.parametrize("shrinkage", [0.0, 0.05])
@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
def test_auto_starts_with_the_definition_and_switches_to_a_compiled_engine(shrinkage, finest):
    shared = {"shrinkage": shrinkage, "finest": finest, "loss": "hinge"}
    definition, auto = (track(engine, 4, **shared) for engine in ("dense", "auto"))
    engine = "lowrank" if shrinkage else "fullrank"
    for t, event in enumerate(difficult_relatives(8, 4, ROUNDS // 3 + WARMUP_ROUNDS), start=1):
        assert isinstance(auto.bank, WarmupBank) == (t <= WARMUP_ROUNDS)
        assert auto.bank.engine == engine
        np.testing.assert_allclose(auto.step(event).losses, definition.step(event).losses, rtol=RTOL, atol=RTOL)
    assert_same(auto, definition)


@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
@pytest.mark.parametrize("engine", [*ENGINES, "diagonal"])
def test_banks_satisfy_the_protocol(engine, finest):
    good = np.ones(3)
    for bad in (np.full(3, np.nan), np.full(3, 1e148)):
        for refused in (Relative(bad, good), Relative(good, bad)) if np.isnan(bad[0]) else (Relative(bad, good),):
            check_bank(
                lambda: track(engine, finest=finest, loss="squared_hinge").bank,
                difficult_relatives(1, 3, 30),
                invalid_event=refused,
            )


@pytest.mark.parametrize("engine", [*ENGINES, "diagonal"])
def test_a_comparison_that_overflows_is_refused_and_nothing_has_changed(engine):
    tracker = track(engine, loss="squared_hinge")
    tracker.replay(as_batch(difficult_relatives(1, 3, 5)))
    before, good, far_off = tracker.play(), np.ones(3), np.full(3, 1e149)
    with pytest.raises(LearnerError, match=r"in round 6 .*learn from the comparison .* use a smaller step_size or"):
        tracker.step(Relative(far_off, good))
    with pytest.raises(LearnerError, match="in round 6"):
        tracker.replay(Relatives([far_off, good], [good, 2 * good]))
    assert tracker.play() == before
    assert tracker.n_rounds == 5
    with pytest.raises(LearnerError, match="in round 7"):
        tracker.replay(Relatives([good, far_off], [2 * good, good]))
    assert tracker.n_rounds == 6


@pytest.mark.parametrize("engine", [*ENGINES, "diagonal"])
def test_a_step_that_overflows_is_refused(engine):
    tracker = track(engine, loss="hinge", initial_scale=0.0, step_size=1e12)
    before = tracker.play()
    for event in (Relative(np.zeros(3), np.full(3, 1e149)), Relative(np.full(3, 1e149), np.zeros(3))):
        with pytest.raises(LearnerError, match=r"in round 1 .*metric overflows"):
            tracker.step(event)
    assert tracker.play() == before


def test_weights_that_overflow_are_refused():
    tracker = track("diagonal", loss="hinge", initial_scale=0.0, step_size=1e308, n_scales=1)
    tracker.step(Relative([0.0, 0.0, 0.0], [1.0, 1.0, 0.0]))
    before = tracker.play()
    with pytest.raises(LearnerError, match=r"in round 2 .*metric overflows"):
        tracker.step(Relative([0.0, 1.0, 0.0], [1.0, 0.0, 0.0]))
    assert tracker.play() == before
    assert before.diagonal.tolist() == [1e308, 1e308, 0.0]


@pytest.mark.parametrize("engine", [*ENGINES, "diagonal"])
def test_copies_and_pickles_continue_identically(engine):
    tracker, events = track(engine), difficult_relatives(2, 3, 60)
    for event in events[:20]:
        tracker.step(event)
    copies = [deepcopy(tracker), pickle.loads(pickle.dumps(tracker))]
    for event in events[20:]:
        for each in (tracker, *copies):
            each.step(event)
    for each in copies:
        assert_same_bits(each, tracker)


@pytest.mark.parametrize("n", [4, 8])
@pytest.mark.parametrize("engine", [*ENGINES, "diagonal"])
def test_arrays_of_any_kind_give_the_same_bits(engine, n):
    near, far = np.round(np.random.default_rng(0).normal(size=(2, 30, n)) * 16) / 16
    plain = track(engine, n)
    plain.replay(Relatives(near, far))
    for change in (lambda U: U.astype(np.float32), np.asfortranarray, lambda U: U.tolist()):
        tracker = track(engine, n)
        tracker.replay(Relatives(change(near), change(far)))
        assert tracker.play() == plain.play()
    unchanged = Relatives(near, near.copy())
    track(engine, n).replay(unchanged)
    assert (unchanged.near == near).all()


@pytest.mark.skipif(not COMPILED, reason="needs the compiler")
def test_each_kernel_is_compiled_for_one_signature_only():
    precompile_engines()
    for engine in ENGINES:
        for finest in ("carry", "ensemble", "reset"):
            tracker = track(engine, 4, max_norm=3.0, finest=finest)
            events = as_batch(difficult_relatives(1, 4, 20))
            tracker.replay(events)
            tracker.replay(events[3:7])
            tracker.replay(events[::2])
            tracker.step(events[0])
    for kernel in (lowrank.play_relatives, fullrank.play_relatives):
        assert len(kernel.signatures) == 1, kernel


# Accepted input


@pytest.mark.parametrize("engine", ALL_ENGINES)
def test_a_tracker_learns_from_one_kind_of_events(engine):
    of_relatives, of_pairs = track(engine), track(engine, events="pairs")
    relatives, pairs = difficult_relatives(1, 3, 12), difficult_events(1, 3, 12)
    for rounds in (0, 12):
        if rounds:
            of_relatives.replay(as_batch(relatives))
            of_pairs.replay(as_batch(pairs))
        for wrong in (lambda: of_relatives.step(pairs[0]), lambda: of_relatives.replay(as_batch(pairs))):
            with pytest.raises(TypeError, match=r"must be a Relative\(near, far\); got Event; .*events='pairs'"):
                wrong()
        with pytest.raises(TypeError, match=r"must be a Relative\(near, far\); got Pair"):
            of_relatives.step(Pair([1, 0, 0], [0, 0, 0], True))
        with pytest.raises(TypeError, match=r"must be a Relative\(near, far\); got tuple$"):
            of_relatives.step((np.ones(3), np.ones(3)))
        for wrong in (lambda: of_pairs.step(relatives[0]), lambda: of_pairs.replay(as_batch(relatives))):
            with pytest.raises(TypeError, match=r"must be a Pair.* got Relative; .*events='relatives'"):
                wrong()
        assert of_relatives.n_rounds == of_pairs.n_rounds == rounds


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"engine": "blocked"}, "engine 'blocked' learns from pairs only; use 'lowrank' for relative comparisons"),
        ({"engine": "sparse"}, "engine 'sparse' learns from pairs only"),
        ({"events": "triplets"}, "events must be one of 'pairs', 'relatives'; got 'triplets'"),
    ],
)
def test_refuses_invalid_settings(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        track_metric(3, **{"events": "relatives", **settings})


def test_a_blocked_bank_accepts_only_pairs():
    settings = {"initial_scale": 1.0, "initial_threshold": 1.0, "step_size": 0.1, "loss": "hinge", "max_norm": None}
    with pytest.raises(ValueError, match="events must be one of 'pairs'; got 'relatives'"):
        BlockedBank(3, Schedule(), shrinkage=0.0, finest="carry", events="relatives", **settings)


@pytest.mark.parametrize(
    ("n", "changes", "chosen"),
    [
        (300, {}, "fullrank"),
        (301, {}, "lowrank"),
        (3, {"shrinkage": 0.1}, "lowrank"),
        (1000, {"shrinkage": 0.1}, "lowrank"),
        (2000, {"sparse": True}, "lowrank"),
        (3, {"divergence": "burg"}, "dense"),
    ],
)
def test_the_chosen_engine(n, changes, chosen):
    settings = dict(changes)
    is_sparse = settings.pop("sparse", False)
    assert choose_engine(n, Rice(**settings), sparse=is_sparse, events="relatives") == chosen
    assert track_metric(n, events="relatives", sparse=is_sparse, **settings).bank.engine == chosen


@pytest.mark.parametrize(
    ("near", "far", "sentence"),
    [
        (
            np.zeros((5, 3)),
            np.zeros((4, 3)),
            "near has 5 rows and far has 4; accepted: the same number of rows, one comparison per row",
        ),
        (np.zeros((5, 3)), np.zeros((5, 2)), "far has 2 features; 3 are expected"),
        (np.zeros(3), np.zeros(3), r"near has shape \(3,\)"),
        (np.full((2, 3), np.nan), np.zeros((2, 3)), r"near holds nan at index \(0, 0\)"),
        (np.zeros((2, 3)), np.full((2, 3), 1e200), "the points of comparison 0 are too far apart"),
        (sparse.csr_array(np.eye(3)), np.eye(3), r"near is sparse; accepted: an array, e.g. near.toarray\(\)"),
        (np.eye(3), sparse.csr_array(np.eye(3)), "far is sparse"),
        ("text", np.eye(3), "near holds 'text'"),
    ],
)
def test_arrays_of_comparisons_are_checked(near, far, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        Relatives(near, far)


def test_one_comparison_is_checked():
    for event, sentence in (
        (Relative(np.ones(2), np.ones(3)), "near has 2 features; 3 are expected"),
        (Relative(np.ones(3), as_sparse(np.ones(3))), "far is sparse"),
        (Relative(np.ones(3), np.full(3, np.inf)), "far holds inf"),
        (Event(np.ones(3), 1.0), r"must be a Relative\(near, far\); got Event"),
    ):
        with pytest.raises((ValueError, TypeError), match=sentence):
            as_relative(event, 3)
    with pytest.raises(ValueError, match=r"u must have shape \(3,\); got \(2,\)"):
        Comid(Metric(np.eye(3)), step_size=0.1).loss(Relative(np.ones(2), np.ones(2)))


@pytest.mark.parametrize("engine", ALL_ENGINES)
def test_replayed_comparisons_have_as_many_features_as_the_tracker(engine):
    tracker = track(engine)
    with pytest.raises(ValueError, match="has 4 features; 3 are expected"):
        tracker.replay(Relatives(np.ones((5, 4)), np.ones((5, 4))))
    assert tracker.n_rounds == 0


def test_comparisons_are_a_sequence():
    near, far = np.arange(12.0).reshape(2, 6, 1)
    events = Relatives(near, far)
    near[0] = 9.0
    assert len(events) == 6
    assert events.n_features == 1
    assert [float(event.near[0]) for event in events] == list(range(6))
    assert [float(event.far[0]) for event in events[4:]] == [10.0, 11.0]
    assert float(events[-1].far[0]) == 11.0
    with pytest.raises(IndexError, match="event 6 does not exist; the number of events is 6"):
        events[6]
    with pytest.raises(TypeError, match="an index of events must be an integer or a slice"):
        events[1.5]
