"""The meta-algorithm: plays, weights, reading without side effects, and growth."""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocelad import LearnerBank, Ocelad, Pair, track_metric
from ocelad.ensemble.schedule import Schedule
from ocelad.ensemble.weight_updates import MIN_WEIGHT, REGRET_TOLERANCE, rescaled_regret_update
from ocelad.ensemble.weighting import RescaledRegret
from ocelad.evaluation.regret import margin_loss
from ocelad.pairs import Event
from ocelad.testing import strategies


def update(weights, rates, losses):
    weights = np.array(weights)
    rescaled_regret_update(weights, rates, losses, len(weights))
    return weights


class ScriptedBank:
    """A bank whose losses are the event, and whose play is the round state."""

    def start(self, round_state):
        return self

    def observe(self, event, round_state):
        return np.asarray(event, dtype=float)[: round_state.n_active], self

    def mix(self, round_state):
        return round_state


def test_the_losses_of_a_round_are_those_of_the_play_before_it():
    for finest in ("carry", "ensemble", "reset"):
        tracker = track_metric(3, step_size=0.2, finest=finest, engine="dense")
        rng = np.random.default_rng(0)
        loss = margin_loss("logistic")
        for _ in range(40):
            event = Event(rng.normal(size=3), float(rng.choice([-1, 1])))
            play = tracker.play()
            metrics = [learner.play() for learner in tracker.bank.learners]
            assert len(metrics) == tracker.round_state.n_active
            if finest == "carry":  # every learner has seen all rounds, including those that have just started
                assert {metric.round for metric in metrics} == {tracker.n_rounds}
            losses = [loss(metric, event) for metric in metrics]
            mixed = sum(p * m.matrix for p, m in zip(tracker.round_state.probabilities, metrics, strict=True))
            np.testing.assert_array_equal(play.matrix, mixed)
            info = tracker.step(event)
            np.testing.assert_allclose(info.losses, losses, rtol=1e-12)
            # By convexity, the loss of the average play is at most the average loss.
            assert loss(play, event) <= info.loss + 1e-12


@given(strategies.streams(2, max_size=12))
def test_reading_changes_nothing(events):
    read, unread = track_metric(2, step_size=0.1), track_metric(2, step_size=0.1)
    for event in events:
        assert read.play() == read.play()
        _ = read.round_state.probabilities
        read.step(event)
        unread.step(event)
    assert read.play() == unread.play()


def test_weights_by_hand():
    bank = ScriptedBank()
    ocelad = Ocelad(bank)
    assert ocelad.round_state.weights.tolist() == [0.5]
    ocelad.step([1.0])
    # Round 2 starts scales 0 and 1, of lengths 1 and 2: weights min(1/2, 1) and min(1/2, 1/sqrt 2).
    assert ocelad.round_state.weights.tolist() == [0.5, 0.5]
    ocelad.step([3.0, 1.0])
    # Regrets 2 - 3 = -1 and 2 - 1 = 1, at most 1: weights 0.5 (1 -+ 0.5); then scale 0 starts in round 3.
    assert ocelad.round_state.previous_weights.tolist() == [0.25, 0.75]
    assert ocelad.round_state.weights.tolist() == [0.5, 0.75]
    result = ocelad.step([0.0, 0.0])
    assert result.loss == 0.0
    assert result.probabilities.tolist() == [0.4, 0.6]
    # Round 4 starts scales 0, 1 and 2; equal losses do not change the weights.
    assert ocelad.round_state.previous_weights.tolist() == [0.5, 0.75]
    assert ocelad.round_state.weights.tolist() == [0.5, 0.5, 0.5]
    assert [scale.length for scale in ocelad.round_state.starting] == [1, 2, 4]


def test_rounding_noise_does_not_move_the_weights():
    weights, rates = np.array([0.5, 0.5]), np.array([0.5, 0.5])
    assert update(weights, rates, np.array([1.0, 1.0 + 1e-15])).tolist() == [0.5, 0.5]
    assert update(weights, rates, np.array([1e9, 1e9 + 1e-6])).tolist() == [0.5, 0.5]
    assert update(weights, rates, np.array([-1e9, -1e9 + 1e-6])).tolist() == [0.5, 0.5]
    np.testing.assert_allclose(update(weights, rates, np.array([1.0, 1.1])), [0.75, 0.25])


def test_regrets_up_to_the_tolerance_do_not_move_the_weights():
    weights, rates = np.array([0.5, 0.5]), np.array([0.5, 0.5])
    below, above = 1.9 * REGRET_TOLERANCE, 2.1 * REGRET_TOLERANCE  # a difference of losses is twice the regret
    assert update(weights, rates, np.array([0.0, below])).tolist() == [0.5, 0.5]
    np.testing.assert_allclose(update(weights, rates, np.array([0.0, above])), [0.75, 0.25])


def test_weights_never_fall_below_the_minimum():
    smallest = np.array([MIN_WEIGHT, 1.0])
    updated = update(smallest, np.array([0.5, 0.5]), np.array([1.0, 0.0]))
    assert updated[0] == MIN_WEIGHT


def test_losses_near_the_largest_float():
    weights = update(np.array([0.5, 0.5]), np.array([0.5, 0.5]), np.array([1.7e308, -1.7e308]))
    np.testing.assert_allclose(weights, [0.25, 0.75])


def test_a_round_state_is_read_only():
    round_state = track_metric(2).round_state
    with pytest.raises(ValueError, match="read-only"):
        round_state.weights[0] = np.nan
    assert round_state == round_state
    assert repr(track_metric(2, engine="dense")) == "Ocelad(RiceBank, n_rounds=0, n_active_scales=1)"


@given(st.lists(st.lists(st.floats(0, 1e12), min_size=8, max_size=8), min_size=1, max_size=60))
def test_weights_stay_positive(losses):
    ocelad = Ocelad(ScriptedBank())
    for event in losses:
        ocelad.step(event)
        round_state = ocelad.round_state
        assert (round_state.weights > 0).all()
        assert round_state.probabilities.sum() == pytest.approx(1.0)


def test_a_scale_that_always_loses_keeps_a_weight():
    weights = np.array([1.0, 1.0])
    for _ in range(5000):
        weights = update(weights, np.array([0.5, 0.5]), np.array([1.0, 0.0]))
        weights[1] = 1.0
    assert weights[0] > 0


def test_memory_grows_logarithmically():
    tracker = track_metric(2, engine="dense")
    event = Pair([1.0, 0.0], [0.0, 0.5], similar=True).event()
    sizes = {}
    for t in range(1, 2049):
        tracker.step(event)
        if t & (t - 1) == 0:
            sizes[t] = len(pickle.dumps(tracker))
    # Each doubling of the rounds adds the same number of bytes.
    growth = np.diff(list(sizes.values()))[2:]
    assert growth.max() - growth.min() <= 64
    assert len(tracker.bank.learners) == 12


def test_copies_and_pickles_continue_alike():
    tracker = track_metric(2, step_size=0.1)
    rng = np.random.default_rng(0)
    events = [Event(rng.normal(size=2), float(rng.choice([-1, 1]))) for _ in range(20)]
    for event in events:
        tracker.step(event)
    copies = [deepcopy(tracker), pickle.loads(pickle.dumps(tracker))]
    for event in events:
        for other in (tracker, *copies):
            other.step(event)
    assert all(copy.play() == tracker.play() for copy in copies)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_features": 0}, "n_features must be a whole number of at least 1"),
        ({"n_features": 2.5}, "n_features must be a whole number"),
        ({"n_features": "2"}, "n_features must be a whole number"),
        ({"initial_scale": -1.0}, "initial_scale must be a finite number of at least 0"),
        ({"initial_scale": 0.0, "divergence": "burg"}, "needs a positive definite start; got a metric of rank 0"),
        ({"initial_threshold": 0.9}, "initial_threshold must be a finite number of at least 1"),
        ({"shortest_interval": 0}, "shortest_interval must be a whole number"),
        ({"n_scales": 0}, "n_scales must be"),
        ({"initial_scale": 1e308}, "initial_scale must be"),
        ({"finest": "first"}, "finest must be one of"),
        ({"regularizer": None, "shrinkage": 1.0}, "shrinkage must be 0 with regularizer None"),
        ({"initial_scale": 5.0, "max_norm": 1.0}, "max_norm must be at least .*; got 1"),
        ({"max_norm": -1.0}, "max_norm must be a finite number above 0"),
        ({"step_size": float("inf")}, "step_size must be a finite number above 0"),
    ],
)
def test_track_metric_rejects(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        track_metric(**{"n_features": 2, **settings})


def test_the_default_initial_scale_respects_max_norm():
    assert np.linalg.norm(track_metric(4, max_norm=0.1).play().matrix) == pytest.approx(0.1)
    assert np.linalg.norm(track_metric(4, max_norm=9.0).play().matrix) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schedule": "dyadic"}, "schedule must be a Schedule or FixedExperts; got str"),
        ({"schedule": Schedule(), "n_scales": 3}, "give either schedule, or shortest_interval and n_scales; got both"),
        ({"schedule": Schedule(), "shortest_interval": 2}, "give either schedule, or shortest_interval and n_scales"),
        ({"weighting": RescaledRegret}, "weighting must have settings, begin, learn and weights"),
        ({"seed": 1.5}, "seed must be a whole number"),
    ],
)
def test_invalid_arguments_are_rejected(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Ocelad(ScriptedBank() if "seed" not in settings else LearnerBank(lambda scale, start: None), **settings)


def test_a_state_of_other_settings_is_rejected_and_changes_nothing():
    saved, other = track_metric(2, step_size=0.1), track_metric(2, step_size=0.2)
    saved.step(Event(np.ones(2), 1.0))
    arrays, metadata = saved.state()
    with pytest.raises(ValueError, match=r"the saved tracker has step_size=0\.1; expected 0\.2"):
        other.restore(arrays, metadata)
    with pytest.raises(ValueError, match="the saved tracker has the settings None; expected"):
        other.restore(arrays, {**metadata, "settings": None})
    with pytest.raises(ValueError, match="this tracker has played 1 rounds; accepted: a new one from track_metric"):
        saved.restore(arrays, metadata)
    assert other.n_rounds == 0
    assert other.play() == track_metric(2, step_size=0.2).play()
