"""The adaptive method for many or sparse features: RICE in a unit set by the data, with one Platt scaling."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from adaptive_streams import accuracy
from engine_cases import assert_same_bits
from scipy import sparse

from ocelad import LearnerError, Relative
from ocelad.adaptive.definition import Cusum, PlattScaling
from ocelad.adaptive.kernels import platt
from ocelad.adaptive.many_features import MAX_RANK, WARMUP_ROUNDS, CalibratedRiceBank, UnitWarmupBank
from ocelad.adaptive.track_adaptive import resume, track_adaptive
from ocelad.engines.build import build_bank
from ocelad.engines.rice_settings import Rice
from ocelad.ensemble.schedule import Schedule
from ocelad.pairs import Event, Events
from ocelad.testing import check_bank

N = 200
N_WORDS = 20_000


def three_informative_features(seed: int, rounds: int, n: int = N) -> Events:
    rng = np.random.default_rng(seed)
    U, y = rng.normal(size=(rounds, n)), rng.choice([-1.0, 1.0], size=rounds)
    near = 0.1 * U[:, :3]
    U[:, :3] = 3.0 * np.where(y[:, None] > 0.0, near, np.sign(near) + U[:, :3])
    return Events(U, y)


def logistic(seed: int, rounds: int) -> Events:
    """Return pairs that are similar with the probability ``1 / (1 + exp(d^2 / 4 - 4))``, d in three features."""
    rng = np.random.default_rng(seed)
    U = rng.normal(size=(rounds, N)) * np.where(np.arange(N) < 3, 3.0, 1.0)
    p = 1.0 / (1.0 + np.exp(np.square(U[:, :3]).sum(axis=1) / 4.0 - 4.0))
    return Events(U, np.where(rng.random(rounds) < p, 1.0, -1.0))


def words(seed: int, rounds: int) -> Events:
    """Return sparse pairs; dissimilar ones also differ in the first three words."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], size=rounds)
    U = sparse.lil_array((rounds, N_WORDS))
    for t in range(rounds):
        U[t, rng.choice(np.arange(3, N_WORDS), size=20, replace=False)] = 0.3 * rng.normal(size=20)
        if y[t] < 0.0:
            U[t, [0, 1, 2]] = 2.0 * rng.choice([-1.0, 1.0], size=3)
    return Events(sparse.csr_array(U), y)


def test_learns_from_many_features():
    margins = track_adaptive(N).replay(three_informative_features(1, 1000))
    assert (margins[:WARMUP_ROUNDS] == 0.0).all()
    assert accuracy(margins[WARMUP_ROUNDS:200]) > 0.85
    assert accuracy(margins[200:]) > 0.98


def test_learns_from_sparse_pairs():
    tracker = track_adaptive(N_WORDS, sparse=True)
    events = words(1, 500)
    assert tracker.bank.engine == "sparse"
    assert accuracy(tracker.replay(events)[200:]) > 0.97
    metric = tracker.play()
    assert metric.squared_length(events.U).shape == (500,)
    odds = tracker.bank.log_odds(events.U, tracker.round_state)
    assert np.mean((odds > 0.0) == (events.y > 0.0)) > 0.97
    # The state grows linearly with the number of features.
    assert sum(array.nbytes for array in tracker.state()[0].values()) < 16 * 8 * 2 * MAX_RANK * N_WORDS


@pytest.mark.parametrize("cut", [1, 5, 8, 9, 100])
def test_a_stream_can_be_cut_anywhere(cut):
    events = three_informative_features(2, 150)
    whole, parts, stepped = (track_adaptive(N) for _ in range(3))
    margins = whole.replay(events)
    assert (np.concatenate([parts.replay(events[:cut]), parts.replay(events[cut:])]) == margins).all()
    np.testing.assert_allclose(stepped.replay(list(events)), margins, rtol=1e-9, atol=1e-9)
    assert_same_bits(whole, parts)
    assert_same_bits(whole, stepped)


@pytest.mark.parametrize("saved_at", [0, 3, 7, 8, 9, 60])
def test_resumes_from_its_state(saved_at):
    events = three_informative_features(3, 100)
    tracker = track_adaptive(N)
    tracker.replay(events[:saved_at])
    resumed = resume(*tracker.state())
    assert (
        type(resumed.bank) is type(tracker.bank) is (UnitWarmupBank if saved_at < WARMUP_ROUNDS else CalibratedRiceBank)
    )
    assert (tracker.replay(events[saved_at:]) == resumed.replay(events[saved_at:])).all()
    assert_same_bits(tracker, resumed)
    assert tracker.bank.changes == resumed.bank.changes


@pytest.mark.parametrize("saved_at", [4, 30])
def test_resumes_from_its_state_with_sparse_pairs(saved_at):
    events = words(3, 60)
    tracker = track_adaptive(N_WORDS, sparse=True)
    tracker.replay(events[:saved_at])
    resumed = resume(*tracker.state())
    assert (tracker.replay(events[saved_at:]) == resumed.replay(events[saved_at:])).all()


@pytest.mark.parametrize("rounds", [4, 30])
def test_damaged_states_are_refused(rounds):
    tracker = track_adaptive(N)
    tracker.replay(three_informative_features(3, rounds))
    arrays, metadata = tracker.state()
    for name, array in arrays.items():
        with pytest.raises(ValueError, match=r"\w+ \w+"):
            resume({key: value for key, value in arrays.items() if key != name}, metadata)
        if array.dtype == np.float64 and array.size:
            wrong = array.copy()
            wrong.flat[0] = np.nan
            with pytest.raises(ValueError, match="finite"):
                resume({**arrays, name: wrong}, metadata)


def test_scaling_by_a_power_of_two_gives_the_same_bits():
    events = three_informative_features(4, 300)
    margins = track_adaptive(N).replay(events)
    assert (track_adaptive(N).replay(Events(events.U * 4.0**20, events.y)) == margins).all()


@pytest.mark.parametrize("factor", [1e-10, 3.0, 1e10])
def test_predictions_do_not_depend_on_the_unit(factor):
    events = three_informative_features(4, 300)
    one, other = track_adaptive(N), track_adaptive(N)
    np.testing.assert_allclose(
        other.replay(Events(events.U * factor, events.y)), one.replay(events), rtol=1e-6, atol=1e-6
    )
    metric, same = one.play(), other.play()
    assert same.threshold == pytest.approx(metric.threshold, rel=1e-6)
    np.testing.assert_allclose(same.squared_length(events.U * factor), metric.squared_length(events.U), rtol=1e-6)


def test_probabilities_are_calibrated():
    predicted, labels = [], []
    for seed in range(3):
        events = logistic(seed, 2000)
        predicted.append(1.0 / (1.0 + np.exp(-track_adaptive(N).replay(events)[500:] * events.y[500:])))
        labels.append(events.y[500:] > 0.0)
    p, similar = np.concatenate(predicted), np.concatenate(labels)
    for low, high in ((0.0, 0.15), (0.15, 0.5), (0.5, 0.85), (0.85, 1.0)):
        in_bin = (p >= low) & (p < high)
        assert in_bin.sum() > 100
        assert similar[in_bin].mean() == pytest.approx(p[in_bin].mean(), abs=0.1)
    assert (np.abs(np.log(p / (1.0 - p))) <= platt.MAX_LOG_ODDS).all()


def test_margins_are_the_log_odds_before_the_update():
    events = three_informative_features(5, 60)
    tracker = track_adaptive(N)
    for event in events:
        odds = tracker.bank.log_odds(event.u[None], tracker.round_state)[0]
        assert tracker.replay([event])[0] == pytest.approx(event.y * odds, rel=1e-9, abs=1e-9)


def test_an_obvious_change_is_detected():
    """All answers are inverted."""
    events = three_informative_features(6, 700)
    tracker = track_adaptive(N)
    tracker.replay(Events(events.U, np.where(np.arange(700) < 500, events.y, -events.y)))
    assert [change.noticed > 500 for change in tracker.bank.changes][:1] == [True]
    assert all(change.round <= change.noticed for change in tracker.bank.changes)
    assert np.isnan(tracker.bank.drift(tracker.round_state))


def test_the_warm_up_lasts_until_a_pair_differs():
    tracker = track_adaptive(N)
    assert (tracker.replay(Events(np.zeros((50, N)), np.ones(50))) == 0.0).all()
    assert type(tracker.bank) is UnitWarmupBank
    assert accuracy(tracker.replay(three_informative_features(7, 500))[200:]) > 0.97


def assert_refused(tracker, event, kind, message):
    before = deepcopy(tracker)
    with pytest.raises(kind, match=message) as error:
        tracker.step(event)
    assert "\n" not in str(error.value)
    assert_same_bits(tracker, before)
    for name, array in tracker.state()[0].items():
        assert np.array_equal(array, before.state()[0][name]), name


@pytest.mark.parametrize("rounds", [0, 5, WARMUP_ROUNDS - 1, 30])
def test_wrong_events_change_nothing(rounds):
    tracker = track_adaptive(N)
    events = three_informative_features(8, 40)
    tracker.replay(events[:rounds])
    assert_refused(tracker, Event(np.ones(3), 1.0), ValueError, str(N))
    assert_refused(tracker, Event(np.full(N, np.nan), 1.0), ValueError, "finite")
    assert_refused(tracker, Relative(np.ones(N), np.ones(N)), TypeError, "Relative")
    if rounds < WARMUP_ROUNDS:
        assert_refused(tracker, Event(np.full(N, 1e120), 1.0), LearnerError, "squared length")
        assert_refused(tracker, Event(np.full(N, 1e-120), 1.0), LearnerError, "squared length")
    assert tracker.n_rounds == rounds
    tracker.replay(events[rounds:])
    assert tracker.n_rounds == 40


def test_the_first_pairs_may_be_of_very_different_lengths():
    tracker, events = track_adaptive(N), three_informative_features(9, 20)
    for t, event in enumerate(events):
        tracker.step(Event(event.u * (1e-48 if t < WARMUP_ROUNDS - 1 else 1e48), event.y))
    assert tracker.n_rounds == 20
    assert np.isfinite(tracker.play().matrix).all()


@pytest.mark.parametrize("zeros", [0, 3])
def test_the_unit_gives_the_first_pairs_a_median_squared_length_of_40(zeros):
    events = three_informative_features(11, WARMUP_ROUNDS + 1)
    U = events.U.copy()
    U[:zeros] = 0.0
    squares = np.square(U[zeros:WARMUP_ROUNDS]).sum(axis=1)
    tracker = track_adaptive(N)
    tracker.replay(Events(U[:WARMUP_ROUNDS], events.y[:WARMUP_ROUNDS]))
    assert tracker.bank._factor[0] == pytest.approx(np.sqrt(40.0 / np.median(squares)), rel=1e-12)


def test_calibration_agrees_with_the_definition():
    """Margins through the bank's Platt scaling and CUSUM test; from the 200th on, most of them are wrong."""
    rng = np.random.default_rng(0)
    margins, y = rng.normal(1.0, 1.0, size=400), rng.choice([-1.0, 1.0], size=400)
    margins[200:] *= -1.0
    learners, _ = build_bank(N, Rice(engine="lowrank", max_rank=MAX_RANK), Schedule())
    bank, scaling, test, expected = CalibratedRiceBank(learners, N, 1.0), PlattScaling(offset=0.0), Cusum(), []
    for t, (margin, label) in enumerate(zip(margins, y, strict=True), start=11):
        odds = scaling.log_odds(-margin * label)
        expected.append(label * odds)
        if test.update(odds, label, t) == "change":
            test.restart(t)
        scaling.learn(-margin * label, label, t, update_mean=False)
    np.testing.assert_allclose(bank._calibrate(margins, y, 11), expected, rtol=1e-9)
    assert [(change.round, change.noticed) for change in bank.changes] == [each[:2] for each in test.changes]
    assert len(test.changes) > 0


def test_satisfies_the_contract_of_a_bank():
    def make() -> UnitWarmupBank:
        learners, _ = build_bank(N, Rice(engine="lowrank", max_rank=MAX_RANK), Schedule())
        return UnitWarmupBank(learners, N)

    check_bank(make, list(three_informative_features(10, 30)), invalid_event=Event(np.ones(3), 1.0))
