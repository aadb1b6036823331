"""Diagonal metrics: the compiled bank agrees with the definition, in spite of deferred shrinkage and partial copies.

With NUMBA_DISABLE_JIT=1 the kernels run as plain Python, on fewer rounds.
"""

from __future__ import annotations

import os
import pickle
import tracemalloc
from copy import deepcopy

import numpy as np
import pytest
from scipy import sparse

from ocelad import Comid, LearnerError, Metric, MetricTracker, Ocelad, Pair, Rice, track_metric
from ocelad.adaptive.precompile import precompile_engines
from ocelad.engines.diagonal_bank import DiagonalBank
from ocelad.engines.kernels import diagonal
from ocelad.engines.rice_bank import DiagonalRiceBank
from ocelad.ensemble.bank import RoundState
from ocelad.ensemble.schedule import Schedule
from ocelad.learners.diagonal_comid import DiagonalComid
from ocelad.learners.losses import LOSSES
from ocelad.pairs import Event, Events
from ocelad.testing import check_bank, check_learner

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
ROUNDS = 400 if COMPILED else 70
RTOL = 1e-9  # same mathematics, different arithmetic


def sparse_events(seed, n, rounds, entries=4):
    """Return differences with few entries, with zeros, dense ones and repetitions among them."""
    rng = np.random.default_rng(seed)
    U = np.zeros((rounds, n))
    for t in range(rounds):
        if t % 17 == 3:
            continue
        if t % 29 == 5:
            U[t] = rng.normal(size=n) / np.sqrt(n)
        elif t % 13 == 5:
            U[t] = U[t - 1]
        else:
            where = rng.choice(n, size=min(entries, n), replace=False)
            U[t, where] = rng.normal(size=len(where)) * rng.uniform(0.2, 1.5)
    return Events(sparse.csr_array(U), np.where(rng.random(rounds) < 0.5, 1.0, -1.0))


def dense(events):
    return Events(events.U.toarray(), events.y)


def make_bank(n=5, schedule=None, **changes):
    settings = {
        "initial_scale": 1 / n,
        "initial_threshold": 1.0,
        "step_size": 0.1,
        "loss": "logistic",
        "shrinkage": 0.02,
        "finest": "carry",
    }
    return DiagonalBank(n, schedule or Schedule(), **{**settings, **changes})


def definition_and_fast(n, shortest=1, n_scales=None, repair_interval=None, **changes):
    settings = {"step_size": 0.1, "loss": "logistic", "shrinkage": 0.02, "finest": "carry", **changes}
    start = Metric.from_diagonal(np.full(n, 1 / n))
    bank = make_bank(n, Schedule(shortest, n_scales), **settings)
    if repair_interval is not None:
        bank.repair_interval = repair_interval
    shape = {"shortest_interval": shortest, "n_scales": n_scales}
    return Ocelad(DiagonalRiceBank(start, **settings), **shape), Ocelad(bank, **shape)


def assert_same(fast, definition):
    one, other = fast.play(), definition.play()
    assert np.linalg.norm(one.diagonal - other.diagonal) <= RTOL * max(np.linalg.norm(other.diagonal), 1e-3)
    assert one.threshold == pytest.approx(other.threshold, rel=RTOL)
    assert one.round == other.round
    assert one.is_diagonal
    np.testing.assert_allclose(fast.round_state.weights, definition.round_state.weights, rtol=RTOL)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
@pytest.mark.parametrize("shrinkage", [0.0, 0.02, 0.3])
def test_agrees_with_the_definition(loss, finest, shrinkage):
    # With 150 features only the touched ones are copied, with 3 all of them.
    for n, shortest, n_scales in ((1, 1, None), (3, 3, None), (150, 1, None), (150, 2, 3)):
        shape = {"shortest": shortest, "n_scales": n_scales}
        definition, fast = definition_and_fast(n, loss=loss, finest=finest, shrinkage=shrinkage, **shape)
        for event in sparse_events(n, n, ROUNDS // 4):
            one, other = definition.step(event), fast.step(event)
            np.testing.assert_allclose(other.losses, one.losses, rtol=RTOL, atol=RTOL)
        assert_same(fast, definition)


@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
@pytest.mark.parametrize("repair_interval", [1, 7, 64])
def test_agrees_with_the_definition_at_any_repair_interval(finest, repair_interval):
    definition, fast = definition_and_fast(60, finest=finest, repair_interval=repair_interval, shrinkage=0.1)
    for event in sparse_events(1, 60, ROUNDS // 2):
        definition.step(event)
        fast.step(event)
    assert_same(fast, definition)
    assert 0 < np.count_nonzero(fast.play().diagonal) < 60 or finest == "reset"


@pytest.mark.skipif(not COMPILED, reason="needs the compiler")
def test_long_streams_with_much_shrinkage_stay_accurate():
    definition, fast = definition_and_fast(40, shrinkage=0.5, step_size=1.0, loss="hinge")
    events = sparse_events(3, 40, 3_000)
    fast.replay(events)
    definition.replay(events)
    assert_same(fast, definition)


@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
@pytest.mark.parametrize("shortest_interval", [1, 3])
def test_replay_gives_the_same_bits_as_steps(finest, shortest_interval):
    events = sparse_events(7, 90, ROUNDS)
    shared = {"finest": finest, "shortest_interval": shortest_interval, "loss": "hinge", "shrinkage": 0.01}
    one, whole, parts, full = (track_metric(90, diagonal=True, step_size=0.1, **shared) for _ in range(4))
    for event in events:
        one.step(event)
    whole.replay(events)
    full.replay(dense(events))
    for first in range(0, ROUNDS, 29):
        parts.replay(Events(events.U[first : first + 29], events.y[first : first + 29]))
    for other in (whole, parts, full):
        assert other.play() == one.play()
        assert (other.round_state.weights == one.round_state.weights).all()
        assert (other.round_state.previous_weights == one.round_state.previous_weights).all()
        assert other.round_state.starting == one.round_state.starting


@pytest.mark.skipif(not COMPILED, reason="needs the compiler")
def test_more_scales_than_the_first_allocation():
    definition, fast = definition_and_fast(12, loss="hinge", step_size=0.02)
    assert len(fast.bank._state.slots) == diagonal.LANES
    events = sparse_events(2, 12, 600)
    fast.replay(events)
    definition.replay(events)
    assert fast.round_state.n_active > diagonal.LANES
    assert_same(fast, definition)


@pytest.mark.parametrize("regularizer", ["nuclear", "l1"])
def test_agrees_with_a_full_metric_that_is_diagonal(regularizer):
    # With pairs that differ in one feature, a full metric stays diagonal.
    rng = np.random.default_rng(0)
    shared = {"step_size": 0.1, "shrinkage": 0.05, "regularizer": regularizer, "loss": "hinge"}
    full, weighted = (track_metric(4, diagonal=diagonal, **shared) for diagonal in (False, True))
    for t in range(60):
        event = Event(rng.normal() * np.eye(4)[t % 4], float(rng.choice([-1, 1])))
        full.step(event)
        weighted.step(event)
    np.testing.assert_allclose(weighted.play().matrix, full.play().matrix, atol=1e-12)
    assert weighted.play().threshold == pytest.approx(full.play().threshold, rel=RTOL)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("y", [1.0, -1.0])
def test_a_step_minimises_its_objective_over_diagonal_metrics(loss, y):
    rng = np.random.default_rng(5)
    eta, rho = 0.3, 0.4
    w, u = rng.random(6), rng.normal(size=6)
    learner = DiagonalComid(Metric.from_diagonal(w, 1.5), step_size=eta, loss=loss, shrinkage=rho)
    slope = LOSSES[loss].slope(y * (1.5 - w @ (u * u)))
    learner.update(Event(u, y))
    new = learner.play().diagonal

    def objective(v):
        return np.square(v - w).sum() / 2 + eta * slope * y * (v @ (u * u)) + eta * rho * v.sum()

    for size in (1e-6, 1e-3, 0.1):
        for _ in range(50):
            assert objective(np.maximum(new + size * rng.normal(size=6), 0.0)) >= objective(new)
    assert (new >= 0).all()


@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
def test_satisfies_the_contract_of_a_bank(finest):
    events = list(sparse_events(1, 5, 30))
    for invalid in (Event(np.array([1.0, np.nan, 0.0, 0.0, 0.0]), 1.0), Event(np.ones(4), 1.0)):
        check_bank(lambda: make_bank(finest=finest), events, invalid_event=invalid)


def test_with_metrics_replaces_the_metrics():
    # There are more scales than the first allocation has slots.
    rng = np.random.default_rng(0)
    metrics = [Metric.from_diagonal(rng.random(5), 1.0 + rng.random()) for _ in range(10)]
    round_state = RoundState(600, (), np.eye(10)[7] + 1e-300, np.ones(10))
    bank = make_bank(shrinkage=0.0).with_metrics(metrics, round_state)
    assert bank.mix(round_state).diagonal.tolist() == pytest.approx(metrics[7].diagonal.tolist())
    assert bank.mix(round_state).threshold == pytest.approx(metrics[7].threshold)
    assert track_metric(3, diagonal=True).bank.engine == "diagonal"


def test_satisfies_the_contract_of_a_learner():
    events = [Event(event.u, event.y) for event in dense(sparse_events(1, 5, 20))]
    check_learner(lambda: DiagonalComid(Metric.from_diagonal(np.ones(5)), step_size=0.1, shrinkage=0.1), events)


def test_copies_and_pickles_continue_alike():
    tracker = Ocelad(make_bank())
    events = list(sparse_events(2, 5, 40))
    for event in events[:20]:
        tracker.step(event)
    copies = [deepcopy(tracker), pickle.loads(pickle.dumps(tracker))]
    for event in events[20:]:
        for each in (tracker, *copies):
            each.step(event)
    assert copies[0].play() == copies[1].play() == tracker.play()


@pytest.mark.parametrize(
    ("problem", "settings", "y"),
    [("loss is not finite", {}, 1), ("metric overflows", {"initial_scale": 0.0, "step_size": 1e10}, -1)],
)
def test_a_pair_that_overflows_is_rejected_and_nothing_changes(problem, settings, y):
    good, far = [[0.0, 0.1], [0.0, 0.0]], [[1e149, 0.0], [0.0, 0.0]]
    tracker = MetricTracker(method=Rice(diagonal=True, loss="squared_hinge", **settings)).fit([good] * 5, [y] * 5)
    before = tracker.metric_
    with pytest.raises(LearnerError, match=f"in round 7 .*{problem}; use a smaller step_size or rescale the data"):
        tracker.partial_fit([good, far], [y, y])
    with pytest.raises(LearnerError, match="in round 6"):
        tracker.learn_one(*far, y)
    assert tracker.metric_ == before
    assert tracker.n_rounds_ == 5


def test_a_replay_stops_at_a_rejected_event():
    events = sparse_events(1, 5, 20)
    U = events.U.toarray()
    U[12], events.y[12] = 1e149, 1.0
    one, other = (Ocelad(make_bank(loss="squared_hinge")) for _ in range(2))
    with pytest.raises(LearnerError, match="in round 13 the learner of scale 0"):
        one.replay(Events(U, events.y))
    for event in list(events)[:12]:
        other.step(event)
    assert one.n_rounds == 12
    assert one.play() == other.play()


def test_an_interrupted_replay_changes_nothing(monkeypatch):
    tracker = track_metric(3, diagonal=True)
    before = tracker.play()

    def play_then_interrupt(*arguments):
        play_rounds(*arguments)
        raise KeyboardInterrupt

    play_rounds = diagonal.play
    monkeypatch.setattr(diagonal, "play", play_then_interrupt)
    with pytest.raises(KeyboardInterrupt):
        tracker.replay(Events(np.ones((30, 3)), np.ones(30)))
    assert tracker.n_rounds == 0
    assert tracker.play() == before


def test_the_estimator_on_sparse_and_dense_pairs():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(2, ROUNDS, 8)) * (rng.random((2, ROUNDS, 8)) < 0.5)
    y = np.where(np.abs(X[:, 2] - Z[:, 2]) < 0.7, 1, -1)  # the third feature determines the label
    pairs, rows = np.stack([X, Z], axis=1), (sparse.csr_matrix(X), sparse.coo_array(Z))
    settings = {"diagonal": True, "step_size": 0.3, "shrinkage": 0.02}
    tracker, other, single = (MetricTracker(method=Rice(**settings)) for _ in range(3))
    tracker.fit(pairs, y)
    for first in range(0, ROUNDS, 31):
        part = slice(first, first + 31)
        other.partial_fit((rows[0][part], rows[1].tocsr()[part]), y[part])
    for i in range(ROUNDS):
        single.learn_one(rows[0][[i]], rows[1].tocsr()[[i]], y[i])
    assert tracker.metric_ == other.metric_ == single.metric_
    assert (tracker.predict(rows) == tracker.predict(pairs)).all()
    np.testing.assert_allclose(tracker.pair_distance(rows), tracker.pair_distance(pairs))
    np.testing.assert_allclose(tracker.transform(rows[0]), tracker.transform(X))
    assert np.mean(tracker.predict(pairs) == y) > 0.75
    assert tracker.metric_.diagonal.argmax() == 2


@pytest.mark.skipif(not COMPILED, reason="needs the compiler")
def test_a_hundred_thousand_features_need_little_memory():
    n = 100_000
    rng = np.random.default_rng(0)
    U = sparse.random(600, n, density=8e-4, format="csr", random_state=rng)
    tracemalloc.start()
    tracker = track_metric(n, diagonal=True, shrinkage=0.1)
    tracker.replay(Events(U, np.ones(600)))
    metric = tracker.play()
    assert tracemalloc.get_traced_memory()[1] < 150e6
    tracemalloc.stop()
    assert metric.n_features == n
    assert tracker.step(Pair(U[[0]], U[[1]], False)).round == 601


@pytest.mark.skipif(not COMPILED, reason="needs the compiler")
def test_each_kernel_has_one_compiled_signature():
    precompile_engines()
    for finest in ("carry", "ensemble", "reset"):
        tracker = track_metric(4, diagonal=True, loss="hinge", shrinkage=0.1, finest=finest)
        for event in sparse_events(1, 4, 40):
            tracker.step(event)
        events = dense(sparse_events(2, 4, 9))
        tracker.replay(events)
        tracker.play()
    kernels = (diagonal.play, diagonal.start, diagonal.average)
    assert [len(kernel.signatures) for kernel in kernels] == [1, 1, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"divergence": "burg"}, "diagonal=True needs the divergence 'frobenius'.*got divergence='burg'"),
        ({"max_norm": 3.0}, "diagonal=True needs .*no max_norm"),
        ({"engine": "lowrank"}, "diagonal=True needs .*engine 'auto' or 'dense'; got .*engine='lowrank'"),
        ({"max_rank": 3}, "diagonal=True needs .*no max_rank.*got .*max_rank=3"),
        ({"diagonal": "yes"}, "diagonal must be one of False, True; got 'yes'"),
        ({"regularizer": None, "shrinkage": 0.1}, "shrinkage must be 0 with regularizer None"),
        ({"step_size": 0.0}, "step_size must be a finite number above 0"),
        ({"loss": "hing"}, "loss must be one of"),
        ({"finest": "first"}, "finest must be one of"),
        ({"initial_threshold": 0.5}, "initial_threshold must be"),
    ],
)
def test_invalid_settings_are_rejected(changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        track_metric(3, **{"diagonal": True, **changes})


def test_diagonal_comid_checks_its_arguments():
    with pytest.raises(ValueError, match=r"start must be a diagonal metric, made by Metric\.from_diagonal"):
        DiagonalComid(Metric(np.eye(2)), step_size=0.1)
    with pytest.raises(ValueError, match=r"u must have shape \(2,\); got \(3,\)"):
        DiagonalComid(Metric.from_diagonal([1.0, 1.0]), step_size=0.1).loss(Event(np.ones(3), 1.0))
    with pytest.raises(FloatingPointError, match="smaller step_size"):
        DiagonalComid(Metric.from_diagonal([0.0]), step_size=1e300).update(Event(np.array([1e10]), -1.0))
    assert isinstance(DiagonalComid(Metric.from_diagonal([1.0]), step_size=0.1), Comid)


def test_a_bank_serves_one_ocelad_with_its_schedule():
    bank = make_bank()
    Ocelad(bank).step(Event(np.ones(5), 1.0))
    with pytest.raises(ValueError, match="has already learned; create a new one for every Ocelad"):
        Ocelad(bank)
    with pytest.raises(ValueError, match="created for a shortest interval of 1 rounds; the ensemble has 4"):
        Ocelad(make_bank(), shortest_interval=4)
    with pytest.raises(ValueError, match="has 4 features; 5 are expected"):
        Ocelad(make_bank()).replay(Events(np.ones((2, 4)), [1, 1]))


def test_diagonal_comid_counts_rounds_and_does_not_shrink_by_default():
    learner = DiagonalComid(Metric.from_diagonal([0.5, 0.25], 9.0), step_size=0.1)
    for t in range(1, 4):
        learner.update(Event(np.zeros(2), 1.0))
        assert learner.play().round == t
    assert learner.play().diagonal.tolist() == [0.5, 0.25]
