"""Experts of the user's own join the adaptive ensemble; windows begin again after a change."""

from __future__ import annotations

import pickle
from copy import copy

import numpy as np
import pytest
from adaptive_streams import accuracy, one_informative_feature
from engine_cases import COMPILED
from scipy.sparse import csr_array

from ocelad.adaptive.adaptive_tracker import PLAIN_ROUNDS
from ocelad.adaptive.calibration import WARMUP
from ocelad.adaptive.mixture import SNAPSHOT_PERIOD, Mixture
from ocelad.adaptive.precompile import precompile_adaptive
from ocelad.adaptive.track_adaptive import track_adaptive
from ocelad.engines.kernel_loading import mark_kernels_ready
from ocelad.estimators.learning_method import resume_tracker
from ocelad.metric import Metric
from ocelad.pairs import Events
from ocelad.testing import check_expert

pytestmark = pytest.mark.skipif(not COMPILED, reason="too many rounds for plain Python")


@pytest.fixture(autouse=True, scope="module")
def _compiled_kernels():
    precompile_adaptive()
    mark_kernels_ready()


class Weights:
    """One weight per feature, which falls where similar pairs differ."""

    name = "weights"

    def __init__(self, n_features, bad_round=None):
        self.weights, self.round, self.bad_round = np.ones(n_features), 0, bad_round

    def square(self, u):
        return np.nan if self.round == self.bad_round else float(self.weights @ u**2)

    def learn(self, u, y, weight):
        self.round += 1
        self.weights = np.maximum(self.weights * (1.0 - 0.02 * weight * y * np.minimum(u**2, 4.0)), 1e-3)

    def metric(self):
        return Metric.from_diagonal(self.weights, threshold=1.0)


class Renamed(Weights):
    def __init__(self, name):
        super().__init__(3)
        self.name = name


class PlaysAMatrix(Weights):
    def metric(self):
        return np.diag(self.weights)


class Fails(Weights):
    def __init__(self, method, bad_round):
        super().__init__(3)
        self.method, self.fails_at = method, bad_round

    def square(self, u):
        if self.method == "square" and self.round == self.fails_at:
            raise KeyError("x")
        return super().square(u)

    def learn(self, u, y, weight):
        if self.method == "learn" and self.round == self.fails_at:
            raise KeyError("x")
        super().learn(u, y, weight)

    def metric(self):
        if self.method == "metric" and self.round == self.fails_at:
            raise KeyError("x")
        return super().metric()


def test_the_expert_of_these_tests_is_one():
    check_expert(lambda: Weights(3), one_informative_feature(0, 3, 50))


@pytest.mark.parametrize("n", [3, 150])
def test_an_expert_joins_the_ensemble(n):
    """The prediction, the exported metric and the names include it, before and after the hand-over."""
    events = one_informative_feature(1, n, 300)
    tracker = track_adaptive(n, experts=[Weights(n)])
    assert "weights" in tracker.expert_names
    assert len(tracker.expert_weights) == len(tracker.expert_names)
    tracker.replay(events[:WARMUP])
    for rounds in (40, 252):
        start = tracker.n_rounds
        before = tracker.log_odds(events.U[start : start + 1])[0]
        margins = tracker.replay(events[start : start + rounds])
        assert margins[0] == pytest.approx(before * events.y[start], rel=1e-9)


def test_a_good_expert_is_used():
    """Its distance is exact, and that of the others has to be learned in 100 dimensions."""

    class Exact(Weights):
        def learn(self, u, y, weight):
            pass

        def metric(self):
            return Metric.from_diagonal(np.eye(100)[0], threshold=1.0)

        def square(self, u):
            return float(u[0] ** 2)

    events = one_informative_feature(2, 100, 400)
    with_expert = accuracy(track_adaptive(100, experts=[Exact(100)]).replay(events)[100:])
    assert with_expert > accuracy(track_adaptive(100).replay(events)[100:]) + 0.05


def test_the_bits_do_not_depend_on_calls_and_the_experts_given_do_not_change():
    events, expert = one_informative_feature(3, 4, 300), Weights(4)
    whole, parts = track_adaptive(4, experts=[expert]), track_adaptive(4, experts=[expert])
    whole.replay(events)
    for first in range(0, 300, 37):
        parts.replay(events[first : first + 37])
    assert parts.play() == whole.play()
    assert (expert.weights == 1.0).all()
    duplicate = copy(whole)
    duplicate.replay(events)
    assert whole.play() == parts.play()
    assert pickle.loads(pickle.dumps(whole)).play() == whole.play()


def test_an_expert_may_be_zero_at_first():
    """Its distance has no mean until a pair differs by it."""

    class First(Weights):
        def square(self, u):
            return float(u[0] ** 2)

        def metric(self):
            return Metric.from_diagonal(np.eye(3)[0], threshold=1.0)

    events = one_informative_feature(9, 3, 400)
    U = events.U.copy()
    U[:30, 0] = 0.0
    tracker = track_adaptive(3, experts=[First(3)])
    margins = tracker.replay(Events(U, events.y))
    assert np.isfinite(margins).all()
    assert np.abs(margins).max() < 1e4
    assert accuracy(margins[100:]) > 0.8
    definition, compiled = (Mixture(3, compiled=compiled, experts=[First(3)]) for compiled in (False, True))
    expected = definition.play(Events(U[:200], events.y[:200]))
    np.testing.assert_allclose(compiled.play(Events(U[:200], events.y[:200])), expected, rtol=1e-9, atol=1e-9)


def test_a_wrong_squared_distance_is_refused_and_changes_nothing():
    tracker = track_adaptive(3, experts=[Weights(3, bad_round=70)])
    tracker.replay(one_informative_feature(4, 3, 66))
    before = tracker.play()
    with pytest.raises(ValueError, match="the squared distance of expert 'weights' is nan; accepted: numbers from 0"):
        tracker.replay(one_informative_feature(4, 3, 100))
    assert tracker.play() == before
    assert tracker.n_rounds == 66
    tracker.replay(one_informative_feature(4, 3, 3))


@pytest.mark.parametrize(("method", "action"), [("square", "measure"), ("learn", "learn from")])
@pytest.mark.parametrize("bad_round", [5, PLAIN_ROUNDS + 50])
def test_an_expert_that_fails_is_named_and_changes_nothing(method, action, bad_round):
    events = one_informative_feature(4, 3, PLAIN_ROUNDS + 100)
    tracker = track_adaptive(3, experts=[Fails(method, bad_round)])
    tracker.replay(events[: bad_round - 1])
    before = tracker.play()
    sentence = (
        rf"^in round {bad_round + 1} the expert 'weights' could not {action} the pair \(KeyError: 'x'\); the tracker "
        "is unchanged$"
    )
    with pytest.raises(RuntimeError, match=sentence):
        tracker.replay(events[bad_round - 1 :])
    assert tracker.play() == before
    assert tracker.n_rounds == bad_round - 1


def test_an_expert_that_cannot_return_its_metric_is_named():
    tracker = track_adaptive(3, experts=[Fails("metric", 5)])
    tracker.replay(one_informative_feature(4, 3, 5))
    with pytest.raises(RuntimeError, match=r"^the expert 'weights' could not return its metric \(KeyError: 'x'\)$"):
        tracker.play()


@pytest.mark.parametrize(
    ("experts", "kind", "sentence"),
    [
        (Weights(3), TypeError, "experts must be a list of experts; got Weights"),
        ([5], TypeError, "expert 0 is an object of type int without square; accepted: objects with a name"),
        ([Weights], TypeError, r"expert 0 is a class; accepted: an object, such as Weights\(\)"),
        ([Renamed("")], ValueError, "the name of expert 0 is ''; accepted: a string that is not empty"),
        ([Renamed(3)], ValueError, "the name of expert 0 is 3; accepted: a string that is not empty"),
        ([Renamed("Euclidean")], ValueError, "the name 'Euclidean' belongs to a built-in expert; accepted: another"),
        ([PlaysAMatrix(3)], TypeError, r"metric\(\) of expert 'weights' returned a ndarray; accepted: a Metric"),
        (
            [Weights(3), Metric.from_diagonal(np.ones(3), threshold=1.0)],
            TypeError,
            "expert 1 is an object of type Metric without",
        ),
        ([Weights(4)], ValueError, "the metric of expert 'weights' has 4 features; 3 are expected"),
        ([Weights(3), Weights(3)], ValueError, "the name 'weights' occurs twice"),
    ],
)
def test_what_is_no_expert_is_refused(experts, kind, sentence):
    with pytest.raises(kind, match=sentence):
        track_adaptive(3, experts=experts)


@pytest.mark.parametrize("settings", [{"sparse": True}, {"events": "relatives"}])
def test_sparse_pairs_and_comparisons_are_refused(settings):
    with pytest.raises(ValueError, match="experts of your own accept dense pairs only"):
        track_adaptive(3, experts=[Weights(3)], **settings)


def test_sparse_events_of_a_dense_tracker_are_accepted():
    events = one_informative_feature(5, 3, 100)
    dense, sparse = (track_adaptive(3, experts=[Weights(3)]) for _ in range(2))
    expected = dense.replay(events)
    assert (sparse.replay(Events(csr_array(events.U), events.y)) == expected).all()


def test_it_cannot_be_saved():
    tracker = track_adaptive(3, experts=[Weights(3)])
    with pytest.raises(ValueError, match="a tracker with experts of your own cannot be saved"):
        tracker.state()


# -- Windows after a change --


def restarted_counts(mixture):
    return mixture.bases._moments.counts


def test_windows_begin_again_after_a_change():
    """At the snapshot after the detection, long windows hold no more than the similar pairs since the change."""
    n, change = 4, 500
    events, mixture = one_informative_feature(6, n, 800, period=change), Mixture(n, compiled=True)
    mixture.play(events[:change])
    before = restarted_counts(mixture).copy()
    for t in range(change, 800):
        mixture.play(events[t : t + 1])
        if mixture.aggregator.changes and mixture.round % SNAPSHOT_PERIOD == 0:
            break
    (found,) = mixture.aggregator.changes
    n_similar = int((events.y[found.round - 1 : mixture.round] > 0.0).sum())
    after, n_windows = restarted_counts(mixture), len(mixture.kinds.windows)
    longest = n_windows - 1
    assert after[longest] < n_similar < before[longest]
    assert after[longest] == pytest.approx(n_similar, rel=0.2)


def test_a_restart_keeps_the_answer_one():
    """The metric after it predicts the next pair, and a tracker saved between detection and restart continues."""
    events = one_informative_feature(7, 5, 900, period=450)
    tracker = track_adaptive(5)
    tracker.replay(events[:450])
    detected = False
    for t in range(450, 700):
        expected = tracker.log_odds(events.U[t : t + 1])[0] * events.y[t]
        assert tracker.step(events[t]) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        if tracker.changes and not detected:
            detected = True
            resumed = resume_tracker(*tracker.state())
            resumed.replay(events[t + 1 :])
    assert detected
    tracker.replay(events[700:])
    assert resumed.play() == tracker.play()
    assert tracker.n_rounds > PLAIN_ROUNDS


@pytest.mark.parametrize("n", [6, 25])
def test_a_change_is_learned_as_fast_as_the_first_question(n):
    margins = track_adaptive(n).replay(one_informative_feature(8, n, 2000, period=1000))
    first, second = accuracy(margins[100:300]), accuracy(margins[1100:1300])
    assert second > first - 0.04
