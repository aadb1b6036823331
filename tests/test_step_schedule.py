"""COMID learners with a step schedule: each engine against the definition, ``ScheduledComid``."""

from __future__ import annotations

import json
import pickle
from copy import deepcopy

import numpy as np
import pytest
from engine_cases import COMPILED, ENGINES, RTOL, SAME_BITS, as_batch, difficult_events, difficult_relatives, supports
from scipy.sparse import csr_array

from ocelad import Events, Metric, Rice
from ocelad.engines.build import build_bank
from ocelad.ensemble.ocelad import Ocelad
from ocelad.ensemble.schedule import Schedule
from ocelad.lab.baselines.comid_variants import ScheduledComid, inverse_root, scheduled_comid
from ocelad.lab.baselines.saol import Saol
from ocelad.pairs import Event

N = 4
ROUNDS = 120 if COMPILED else 30
PLAIN = [engine for engine in ENGINES if "," not in engine]
RATES = {
    "inverse root": inverse_root(0.3),
    "slower": inverse_root(0.2, after=7.5),
    "constant": 0.05,
    "listed": [0.3, 0.01, 0.2],
    "up and down": lambda t: 0.1 + 0.09 * np.sin(t),
}


def play_of_definition(events, n=N, rate=None, **settings):
    learner = ScheduledComid(Metric(np.eye(n) / n), rate=rate, **settings)
    for event in events:
        learner.update(event)
    return learner.play()


def assert_close(metric, expected):
    assert np.linalg.norm(metric.matrix - expected.matrix) <= RTOL * np.linalg.norm(expected.matrix)
    assert metric.threshold == pytest.approx(expected.threshold, rel=RTOL)
    assert metric.round == expected.round


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize(
    ("loss", "shrinkage", "max_norm"), [("hinge", 0.0, None), ("hinge", 0.05, None), ("logistic", 0.05, 0.7)]
)
def test_every_engine_agrees_with_the_definition(rate, loss, shrinkage, max_norm):
    events = difficult_events(3, N, ROUNDS)
    settings = {"rate": RATES[rate], "loss": loss, "shrinkage": shrinkage, "max_norm": max_norm}
    expected = play_of_definition(events, **settings)
    for engine in ["auto", "dense", *PLAIN]:
        if supports(engine, shrinkage):
            learner = scheduled_comid(N, engine=engine, **settings)
            learner.replay(as_batch(events))
            assert_close(learner.play(), expected)


@pytest.mark.parametrize("shrinkage", [0.0, 0.05])
def test_a_diagonal_metric(shrinkage):
    # Differences along single axes: a full matrix stays diagonal.
    differences = [event.u * (np.arange(N) == t % N) for t, event in enumerate(difficult_events(4, N, ROUNDS))]
    events = [Event(u, 1.0 if abs(u).max() < 0.7 else -1.0) for u in differences]
    learner = scheduled_comid(N, rate=RATES["slower"], diagonal=True, shrinkage=shrinkage)
    learner.replay(as_batch(events))
    assert_close(learner.play(), play_of_definition(events, rate=RATES["slower"], shrinkage=shrinkage))


@pytest.mark.parametrize("engine", ["dense", "fullrank", "lowrank"])
def test_relative_comparisons(engine):
    events = difficult_relatives(5, N, ROUNDS)
    learner = scheduled_comid(N, rate=RATES["inverse root"], engine=engine, events="relatives")
    learner.replay(as_batch(events))
    assert_close(learner.play(), play_of_definition(events, rate=RATES["inverse root"]))


def test_sparse_pairs_with_max_rank():
    rng = np.random.default_rng(6)
    n, rank = 60, 5
    U = np.where(rng.random((ROUNDS, n)) < 0.1, rng.normal(size=(ROUNDS, n)), 0.0)
    y = np.where(rng.random(ROUNDS) < 0.5, 1, -1)
    settings = {"rate": inverse_root(0.5, after=10), "max_rank": rank, "initial_scale": 0.0}
    sparse, low = scheduled_comid(n, engine="sparse", **settings), scheduled_comid(n, engine="lowrank", **settings)
    sparse.replay(Events(csr_array(U), y))
    low.replay(Events(U, y))
    assert_close(sparse.play(), low.play())
    assert 0 < low.play().rank <= rank


@pytest.mark.parametrize("engine", ENGINES[:2])
def test_all_scales_follow_the_step_schedule(engine):
    events = as_batch(difficult_events(7, N, ROUNDS))
    schedule = Schedule(2)
    fast, slow = (
        Ocelad(
            build_bank(N, Rice(engine=e), schedule, step_schedule=RATES["up and down"])[0],
            schedule=schedule,
            weighting=Saol(),
        )
        for e in (engine, "dense")
    )
    fast.replay(events)
    slow.replay(events)
    for j in range(slow.round_state.n_active):
        assert_close(fast.bank.learner(j), slow.bank.learners[j].play().with_round(0))


@pytest.mark.parametrize("engine", [*SAME_BITS, "blocked", "sparse", "dense"])
def test_steps_copies_pickles_and_restored_states(engine):
    events = as_batch(difficult_events(8, N, 40))
    whole, steps = (scheduled_comid(N, rate=RATES["slower"], engine=engine) for _ in range(2))
    for event in events[:17]:
        steps.step(event)
    other = scheduled_comid(N, rate=RATES["slower"], engine=engine)
    other.restore(*steps.state())
    again = [steps, other, deepcopy(steps), pickle.loads(pickle.dumps(steps))]
    whole.replay(events)
    for each in again:
        each.replay(events[17:30])
        each.replay(events[30:])
        assert each.play() == steps.play()
        assert_close(each.play(), whole.play())
        assert engine in ("blocked", "sparse") or each.play() == whole.play()


@pytest.mark.parametrize("rate", ["inverse root", "slower", "constant", "listed"])
def test_the_metadata_of_the_state_are_json_values(rate):
    events = as_batch(difficult_events(10, N, 20))
    one, other = (scheduled_comid(N, rate=RATES[rate], engine="lowrank") for _ in range(2))
    one.replay(events[:9])
    arrays, metadata = one.state()
    other.restore(arrays, json.loads(json.dumps(metadata)))
    one.replay(events[9:])
    other.replay(events[9:])
    assert one.play() == other.play()


def test_a_state_with_another_rate_is_rejected():
    one = scheduled_comid(N, rate=RATES["slower"])
    for rate in (RATES["inverse root"], 0.2, [0.2, 0.1], lambda t: 0.2):
        other = scheduled_comid(N, rate=rate)
        with pytest.raises(ValueError, match="the saved tracker has rate="):
            other.restore(*one.state())
        assert other.n_rounds == 0


@pytest.mark.parametrize("engine", ["dense", "fullrank", "sparse"])
@pytest.mark.parametrize("wrong", [np.nan, 0.0, -1.0, np.inf, 10**400, None, "0.1", True])
def test_an_invalid_later_rate_is_rejected_and_nothing_changes(engine, wrong):
    events = as_batch(difficult_events(9, N, 5))
    learner = scheduled_comid(N, rate=lambda t: 0.1 if t < 4 else wrong, engine=engine)
    learner.replay(events[:3])
    before = learner.play()
    for learn in (lambda: learner.replay(events[3:]), lambda: learner.step(events[3])):
        with pytest.raises((ValueError, TypeError), match="the rate of round 4 must be a finite number above 0; got"):
            learn()
        assert learner.play() == before
        assert learner.n_rounds == 3


@pytest.mark.parametrize("wrong", [0.0, np.nan, [], [0.1, -0.1], "fast", None, lambda t: -1.0])
def test_an_invalid_first_rate_is_rejected(wrong):
    with pytest.raises((ValueError, TypeError), match="rate"):
        scheduled_comid(N, rate=wrong)


def test_inverse_root_with_a_later_decay():
    rate = inverse_root(0.3, after=1000)
    assert [rate(t) for t in (1, 3001)] == [0.3, 0.15]
    assert eval(repr(rate)) == rate
    with pytest.raises(ValueError, match="after must be a finite number above 0; got 0"):
        inverse_root(0.3, after=0)
