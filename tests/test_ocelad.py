"""The meta-algorithm: what is played and when, weights, purity, growth."""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocelad import Ocelad, Pair, track_metric
from ocelad.ensemble.weight_updates import rescaled_regret_update
from ocelad.evaluation.regret import margin_loss
from ocelad.pairs import Event
from ocelad.testing import strategies


def reweigh(weights, rates, losses):
    weights = np.array(weights)
    rescaled_regret_update(weights, rates, losses, len(weights))
    return weights


class ScriptedBank:
    """A bank that loses what it is told and plays the turn."""

    def start(self, round_state):
        return self

    def observe(self, event, round_state):
        return np.asarray(event, dtype=float)[: round_state.n_active], self

    def mix(self, round_state):
        return round_state


def test_play_is_what_the_next_round_is_judged_on_its_starts_included():
    for finest in ("carry", "ensemble", "reset"):
        tracker = track_metric(3, step_size=0.2, finest=finest, engine="dense")
        rng = np.random.default_rng(0)
        loss = margin_loss("logistic")
        for _ in range(40):
            event = Event(rng.normal(size=3), float(rng.choice([-1, 1])))
            play = tracker.play()
            metrics = [learner.play() for learner in tracker.bank.learners]
            assert len(metrics) == tracker.round_state.n_active
            if finest == "carry":  # then every learner knows all that came before, those that just started included
                assert {metric.round for metric in metrics} == {tracker.n_rounds}
            judged = [loss(metric, event) for metric in metrics]
            mixed = sum(p * m.matrix for p, m in zip(tracker.round_state.probabilities, metrics, strict=True))
            np.testing.assert_array_equal(play.matrix, mixed)
            round_ = tracker.step(event)
            np.testing.assert_allclose(round_.losses, judged, rtol=1e-12)
            # Convexity: what the ensemble itself loses is at most the mean of what its learners lose.
            assert loss(play, event) <= round_.loss + 1e-12


@given(strategies.streams(2, max_size=12))
def test_reading_is_pure(events):
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
    # Regrets 2 - 3 = -1 and 2 - 1 = 1, largest 1: weights 0.5 (1 -+ 0.5); then round 3 resets scale 0.
    assert ocelad.round_state.previous_weights.tolist() == [0.25, 0.75]
    assert ocelad.round_state.weights.tolist() == [0.5, 0.75]
    result = ocelad.step([0.0, 0.0])
    assert result.loss == 0.0
    assert result.probabilities.tolist() == [0.4, 0.6]
    # Round 4 starts scales 0, 1 and 2; equal losses had left the weights as they were.
    assert ocelad.round_state.previous_weights.tolist() == [0.5, 0.75]
    assert ocelad.round_state.weights.tolist() == [0.5, 0.5, 0.5]
    assert [scale.length for scale in ocelad.round_state.starting] == [1, 2, 4]


def test_rounding_noise_does_not_move_the_weights():
    weights, rates = np.array([0.5, 0.5]), np.array([0.5, 0.5])
    assert reweigh(weights, rates, np.array([1.0, 1.0 + 1e-15])).tolist() == [0.5, 0.5]
    assert reweigh(weights, rates, np.array([1e9, 1e9 + 1e-6])).tolist() == [0.5, 0.5]
    assert reweigh(weights, rates, np.array([-1e9, -1e9 + 1e-6])).tolist() == [0.5, 0.5]
    np.testing.assert_allclose(reweigh(weights, rates, np.array([1.0, 1.1])), [0.75, 0.25])


def test_the_largest_losses_there_are():
    weights = reweigh(np.array([0.5, 0.5]), np.array([0.5, 0.5]), np.array([1.7e308, -1.7e308]))
    np.testing.assert_allclose(weights, [0.25, 0.75])


def test_a_turn_cannot_be_written_to():
    round_state = track_metric(2).round_state
    with pytest.raises(ValueError, match="read-only"):
        round_state.weights[0] = np.nan
    assert round_state == round_state
    assert repr(track_metric(2, engine="dense")) == "Ocelad(RiceBank, n_rounds=0, n_active_scales=1)"


@given(st.lists(st.lists(st.floats(0, 1e12), min_size=8, max_size=8), min_size=1, max_size=60))
def test_weights_stay_positive_and_their_total_bounded(losses):
    ocelad = Ocelad(ScriptedBank())
    for event in losses:
        ocelad.step(event)
        round_state = ocelad.round_state
        assert (round_state.weights > 0).all()
        assert round_state.probabilities.sum() == pytest.approx(1.0)


def test_a_scale_that_always_loses_keeps_a_weight():
    weights = np.array([1.0, 1.0])
    for _ in range(5000):
        weights = reweigh(weights, np.array([0.5, 0.5]), np.array([1.0, 0.0]))
        weights[1] = 1.0
    assert weights[0] > 0


def test_memory_grows_with_the_logarithm_of_time():
    tracker = track_metric(2, engine="dense")
    event = Pair([1.0, 0.0], [0.0, 0.5], similar=True).event()
    sizes = {}
    for t in range(1, 2049):
        tracker.step(event)
        if t & (t - 1) == 0:
            sizes[t] = len(pickle.dumps(tracker))
    # As many bytes more for each doubling.
    growth = np.diff(list(sizes.values()))[2:]
    assert growth.max() - growth.min() <= 64
    assert len(tracker.bank.learners) == 12


def test_copies_and_pickles_go_on_alike():
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
    ("settings", "sentence"),
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
def test_track_metric_refuses(settings, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        track_metric(**{"n_features": 2, **settings})


def test_start_is_scaled_down_to_the_bound_unless_it_was_asked_for():
    assert np.linalg.norm(track_metric(4, max_norm=0.1).play().matrix) == pytest.approx(0.1)
    assert np.linalg.norm(track_metric(4, max_norm=9.0).play().matrix) == pytest.approx(0.5)
