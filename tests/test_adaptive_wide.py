"""The adaptive method of many features, or sparse ones: RICE in a unit of the data's own, and one calibration."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from adaptive_streams import right
from engine_cases import assert_same_bits
from scipy import sparse

from ocelad import LearnerError, Relative
from ocelad.adaptive.kernels import platt
from ocelad.adaptive.many_features import MOST_DIRECTIONS, WATCHED, Watching, WideBank
from ocelad.adaptive.track import resume, track_adaptive
from ocelad.engines.build import build_bank
from ocelad.engines.rice_settings import Rice
from ocelad.ensemble.schedule import Schedule
from ocelad.pairs import Event, Events
from ocelad.testing import check_bank

N = 200
N_WORDS = 20_000


def told_by_three(seed: int, rounds: int, n: int = N) -> Events:
    rng = np.random.default_rng(seed)
    U, y = rng.normal(size=(rounds, n)), rng.choice([-1.0, 1.0], size=rounds)
    near = 0.1 * U[:, :3]
    U[:, :3] = 3.0 * np.where(y[:, None] > 0.0, near, np.sign(near) + U[:, :3])
    return Events(U, y)


def logistic(seed: int, rounds: int) -> Events:
    """Answers with the probability ``1 / (1 + exp(d^2 / 4 - 4))``, d the distance in three features."""
    rng = np.random.default_rng(seed)
    U = rng.normal(size=(rounds, N)) * np.where(np.arange(N) < 3, 3.0, 1.0)
    p = 1.0 / (1.0 + np.exp(np.square(U[:, :3]).sum(axis=1) / 4.0 - 4.0))
    return Events(U, np.where(rng.random(rounds) < p, 1.0, -1.0))


def words(seed: int, rounds: int) -> Events:
    """Sparse differences; those of dissimilar pairs differ in three words, too."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], size=rounds)
    U = sparse.lil_array((rounds, N_WORDS))
    for t in range(rounds):
        U[t, rng.choice(np.arange(3, N_WORDS), size=20, replace=False)] = 0.3 * rng.normal(size=20)
        if y[t] < 0.0:
            U[t, [0, 1, 2]] = 2.0 * rng.choice([-1.0, 1.0], size=3)
    return Events(sparse.csr_array(U), y)


def test_it_learns_from_many_features():
    margins = track_adaptive(N).replay(told_by_three(1, 1000))
    assert (margins[:WATCHED] == 0.0).all()
    assert right(margins[WATCHED:200]) > 0.85
    assert right(margins[200:]) > 0.98


def test_it_learns_from_sparse_pairs():
    tracker = track_adaptive(N_WORDS, sparse=True)
    events = words(1, 500)
    assert tracker.bank.engine == "sparse"
    assert right(tracker.replay(events)[200:]) > 0.97
    metric = tracker.play()
    assert metric.squared_length(events.U).shape == (500,)
    odds = tracker.bank.log_odds(events.U, tracker.round_state)
    assert np.mean((odds > 0.0) == (events.y > 0.0)) > 0.97
    # What is kept grows with the features, not with their square.
    assert sum(array.nbytes for array in tracker.state()[0].values()) < 16 * 8 * 2 * MOST_DIRECTIONS * N_WORDS


@pytest.mark.parametrize("cut", [1, 5, 8, 9, 100])
def test_a_stream_can_be_cut_anywhere(cut):
    events = told_by_three(2, 150)
    whole, parts, stepped = (track_adaptive(N) for _ in range(3))
    margins = whole.replay(events)
    assert (np.concatenate([parts.replay(events[:cut]), parts.replay(events[cut:])]) == margins).all()
    np.testing.assert_allclose(stepped.replay(list(events)), margins, rtol=1e-9, atol=1e-9)
    assert_same_bits(whole, parts)
    assert_same_bits(whole, stepped)


@pytest.mark.parametrize("kept_at", [0, 3, 7, 8, 9, 60])
def test_it_goes_on_from_its_state(kept_at):
    events = told_by_three(3, 100)
    tracker = track_adaptive(N)
    tracker.replay(events[:kept_at])
    resumed = resume(*tracker.state())
    assert type(resumed.bank) is type(tracker.bank) is (Watching if kept_at < WATCHED else WideBank)
    assert (tracker.replay(events[kept_at:]) == resumed.replay(events[kept_at:])).all()
    assert_same_bits(tracker, resumed)
    assert tracker.bank.changes == resumed.bank.changes


@pytest.mark.parametrize("kept_at", [4, 30])
def test_sparse_pairs_go_on_from_a_state(kept_at):
    events = words(3, 60)
    tracker = track_adaptive(N_WORDS, sparse=True)
    tracker.replay(events[:kept_at])
    resumed = resume(*tracker.state())
    assert (tracker.replay(events[kept_at:]) == resumed.replay(events[kept_at:])).all()


@pytest.mark.parametrize("rounds", [4, 30])
def test_damaged_states_are_refused(rounds):
    tracker = track_adaptive(N)
    tracker.replay(told_by_three(3, rounds))
    arrays, metadata = tracker.state()
    for name, array in arrays.items():
        with pytest.raises(ValueError, match=r"\w+ \w+"):
            resume({key: value for key, value in arrays.items() if key != name}, metadata)
        if array.dtype == np.float64 and array.size:
            wrong = array.copy()
            wrong.flat[0] = np.nan
            with pytest.raises(ValueError, match="finite"):
                resume({**arrays, name: wrong}, metadata)


def test_twice_as_large_gives_the_same_bits():
    events = told_by_three(4, 300)
    margins = track_adaptive(N).replay(events)
    assert (track_adaptive(N).replay(Events(events.U * 4.0**20, events.y)) == margins).all()


@pytest.mark.parametrize("factor", [1e-10, 3.0, 1e10])
def test_in_any_unit_it_says_the_same(factor):
    events = told_by_three(4, 300)
    one, other = track_adaptive(N), track_adaptive(N)
    np.testing.assert_allclose(
        other.replay(Events(events.U * factor, events.y)), one.replay(events), rtol=1e-6, atol=1e-6
    )
    metric, same = one.play(), other.play()
    assert same.threshold == pytest.approx(metric.threshold, rel=1e-6)
    np.testing.assert_allclose(same.squared_length(events.U * factor), metric.squared_length(events.U), rtol=1e-6)


def test_probabilities_are_calibrated():
    said, same = [], []
    for seed in range(3):
        events = logistic(seed, 2000)
        said.append(1.0 / (1.0 + np.exp(-track_adaptive(N).replay(events)[500:] * events.y[500:])))
        same.append(events.y[500:] > 0.0)
    p, similar = np.concatenate(said), np.concatenate(same)
    for low, high in ((0.0, 0.15), (0.15, 0.5), (0.5, 0.85), (0.85, 1.0)):
        among = (p >= low) & (p < high)
        assert among.sum() > 100
        assert similar[among].mean() == pytest.approx(p[among].mean(), abs=0.1)
    assert (np.abs(np.log(p / (1.0 - p))) <= platt.MOST_ODDS).all()


def test_log_odds_are_those_that_are_judged():
    events = told_by_three(5, 60)
    tracker = track_adaptive(N)
    for event in events:
        odds = tracker.bank.log_odds(event.u[None], tracker.round_state)[0]
        assert tracker.replay([event])[0] == pytest.approx(event.y * odds, rel=1e-9, abs=1e-9)


def test_a_change_is_told():
    """Answers are turned round, which nobody can miss."""
    events = told_by_three(6, 700)
    tracker = track_adaptive(N)
    tracker.replay(Events(events.U, np.where(np.arange(700) < 500, events.y, -events.y)))
    assert [change.noticed > 500 for change in tracker.bank.changes][:1] == [True]
    assert all(change.round <= change.noticed for change in tracker.bank.changes)
    assert np.isnan(tracker.bank.drift(tracker.round_state))


def test_pairs_that_do_not_differ_come_first():
    tracker = track_adaptive(N)
    assert (tracker.replay(Events(np.zeros((50, N)), np.ones(50))) == 0.0).all()
    assert type(tracker.bank) is Watching
    assert right(tracker.replay(told_by_three(7, 500))[200:]) > 0.97


def refused(tracker, event, kind, words):
    before = deepcopy(tracker)
    with pytest.raises(kind, match=words) as told:
        tracker.step(event)
    assert "\n" not in str(told.value)
    assert_same_bits(tracker, before)
    for name, array in tracker.state()[0].items():
        assert np.array_equal(array, before.state()[0][name]), name


@pytest.mark.parametrize("rounds", [0, 5, WATCHED - 1, 30])
def test_wrong_events_change_nothing(rounds):
    tracker = track_adaptive(N)
    events = told_by_three(8, 40)
    tracker.replay(events[:rounds])
    refused(tracker, Event(np.ones(3), 1.0), ValueError, str(N))
    refused(tracker, Event(np.full(N, np.nan), 1.0), ValueError, "finite")
    refused(tracker, Relative(np.ones(N), np.ones(N)), TypeError, "Relative")
    if rounds < WATCHED:
        refused(tracker, Event(np.full(N, 1e120), 1.0), LearnerError, "squared length")
        refused(tracker, Event(np.full(N, 1e-120), 1.0), LearnerError, "squared length")
    assert tracker.n_rounds == rounds
    tracker.replay(events[rounds:])
    assert tracker.n_rounds == 40


def test_the_first_pairs_may_be_of_very_different_lengths():
    tracker, events = track_adaptive(N), told_by_three(9, 20)
    for t, event in enumerate(events):
        tracker.step(Event(event.u * (1e-48 if t < WATCHED - 1 else 1e48), event.y))
    assert tracker.n_rounds == 20
    assert np.isfinite(tracker.play().matrix).all()


def test_it_is_a_bank():
    def make() -> Watching:
        learners, _ = build_bank(N, Rice(engine="lowrank", max_rank=MOST_DIRECTIONS), Schedule())
        return Watching(learners, N)

    check_bank(make, list(told_by_three(10, 30)), invalid_event=Event(np.ones(3), 1.0))
