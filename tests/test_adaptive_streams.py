"""The adaptive ensemble on streams: calibration, robustness to odd input, learning and detected changes."""

from __future__ import annotations

import numpy as np
import pytest
from adaptive_streams import accuracy, logistic_answers, one_informative_feature

from ocelad.adaptive.changes import MAX_CHANGES
from ocelad.adaptive.track_adaptive import track_adaptive
from ocelad.evaluation.streams import DriftingClusters, Phase
from ocelad.pairs import Events

# -- Probabilities --


@pytest.mark.parametrize("n", [2, 6, 25])
def test_probabilities_are_calibrated(n):
    """Among pairs with a predicted probability of p, a share of about p is similar."""
    predicted, labels = [], []
    for seed in range(5):
        events = logistic_answers(seed, n, 4000)
        odds = track_adaptive(n).replay(events) * events.y
        predicted.append(1.0 / (1.0 + np.exp(-odds[1000:])))
        labels.append(events.y[1000:] > 0.0)
    p, similar = np.concatenate(predicted), np.concatenate(labels)
    for low in np.arange(0.0, 1.0, 0.1):
        in_bin = (p >= low) & (p < low + 0.1)
        assert in_bin.sum() > 300
        assert similar[in_bin].mean() == pytest.approx(p[in_bin].mean(), abs=0.08)
    assert similar.mean() == pytest.approx(p.mean(), abs=0.02)


# -- Robustness --


def half_zero(events: Events) -> np.ndarray:
    return events.U * (np.arange(len(events)) % 2)[:, None]


def constant_features(events: Events) -> np.ndarray:
    U = events.U.copy()
    U[:, 2:4] = 0.0
    return U


def late_features(events: Events) -> np.ndarray:
    U = events.U.copy()
    U[: len(U) // 2, 2:] = 0.0
    return U


def scale_jumps_up(events: Events) -> np.ndarray:
    return events.U * np.where(np.arange(len(events)) < len(events) // 2, 1e-10, 1.0)[:, None]


def scale_jumps_down(events: Events) -> np.ndarray:
    return events.U * np.where(np.arange(len(events)) < len(events) // 2, 1e10, 1.0)[:, None]


def outliers(events: Events) -> np.ndarray:
    return events.U * np.where(np.arange(len(events)) % 500 == 250, 1e10, 1.0)[:, None]


def cauchy(events: Events) -> np.ndarray:
    return np.random.default_rng(1).standard_cauchy(size=events.U.shape)


def identical_pairs(events: Events) -> np.ndarray:
    return np.tile(events.U[:1], (len(events), 1))


def three_distinct_pairs(events: Events) -> np.ndarray:
    return events.U[np.random.default_rng(1).integers(3, size=len(events))]


def collinear_pairs(events: Events) -> np.ndarray:
    return np.outer(events.U[:, 0], np.ones(events.n_features))


DIFFERENCES = [
    half_zero,
    constant_features,
    late_features,
    scale_jumps_up,
    scale_jumps_down,
    outliers,
    cauchy,
    identical_pairs,
    three_distinct_pairs,
    collinear_pairs,
]
KINDS = {
    "only similar": lambda events, tracker: Events(events.U, np.ones(len(events))),
    "only dissimilar": lambda events, tracker: Events(events.U, -np.ones(len(events))),
    "random labels": lambda events, tracker: Events(
        events.U, np.random.default_rng(1).choice([-1.0, 1.0], len(events))
    ),
    "zero differences": lambda events, tracker: Events(np.zeros_like(events.U), events.y),
    "inverted labels": lambda events, tracker: Events(events.U, -events.y),
    "opposite of the prediction": lambda events, tracker: Events(
        events.U, np.where(tracker.log_odds(events.U) > 0.0, -1.0, 1.0)
    ),
    **{f.__name__: lambda events, tracker, f=f: Events(f(events), events.y) for f in DIFFERENCES},
}
# After these the mean squares of the features are far too large for thousands of rounds.
FORGOTTEN_SLOWLY = {"scale_jumps_down", "outliers", "cauchy"}


def assert_valid(tracker) -> None:
    """Check that the metric is finite and positive semidefinite, and that all other results are in range."""
    metric = tracker.play()
    matrix = metric.matrix
    values = np.linalg.eigvalsh(matrix)
    assert np.isfinite(matrix).all()
    assert values[0] >= -1e-9 * values[-1]
    assert values[-1] > 0.0
    assert np.isfinite(metric.threshold)
    assert np.isfinite(tracker.drift)
    assert tracker.drift >= 0.0
    assert len(tracker.changes) <= MAX_CHANGES
    assert all(change.round <= change.detected <= tracker.n_rounds for change in tracker.changes)
    assert (tracker.expert_weights >= 0.0).all()
    assert tracker.expert_weights.sum() == pytest.approx(1.0)


def tracker_after(kind: str, n: int, rounds: int, block: int):
    """Return a tracker after a stream of this kind; it is checked after each block of rounds."""
    tracker = track_adaptive(n)
    for first in range(0, rounds, block):
        events = KINDS[kind](one_informative_feature(first % 997, n, block, period=300), tracker)
        margins = tracker.replay(events)
        assert np.isfinite(margins).all()
        assert_valid(tracker)
    return tracker


def assert_learns_again(tracker, n: int, rounds: int) -> None:
    margins = tracker.replay(one_informative_feature(7, n, rounds + 200))
    assert accuracy(margins[rounds:]) > 0.9
    assert_valid(tracker)


@pytest.mark.parametrize("n", [1, 6, 25])
@pytest.mark.parametrize("kind", KINDS)
def test_robust_to_odd_streams(kind, n):
    if n < 5 and kind in ("constant_features", "late_features"):
        pytest.skip("too few features")
    tracker = tracker_after(kind, n, rounds=3000, block=500)
    if kind not in FORGOTTEN_SLOWLY:
        assert_learns_again(tracker, n, rounds=1500 if n == 25 else 600)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_robust_over_many_rounds(kind):
    tracker = tracker_after(kind, n=6, rounds=60_000, block=20_000)
    if kind not in FORGOTTEN_SLOWLY:
        assert_learns_again(tracker, n=6, rounds=1500)


def test_robust_to_an_adversary():
    """Every answer is the opposite of the current prediction."""
    tracker = track_adaptive(3)
    for event in one_informative_feature(1, 3, 1500):
        odds = tracker.log_odds(event.u[None])[0]
        tracker.step(event._replace(y=-1.0 if odds > 0.0 else 1.0))
    assert_valid(tracker)
    assert_learns_again(tracker, 3, rounds=600)


# -- Learning --


@pytest.mark.parametrize("n", [2, 6, 25])
def test_learns_and_tracks_changes(n):
    margins = track_adaptive(n).replay(one_informative_feature(11, n, 2000, period=1000))
    assert accuracy(margins[500:1000]) > 0.88
    assert accuracy(margins[1300:]) > 0.88


@pytest.mark.parametrize("n", [2, 4, 6])
def test_separable_pairs_are_separated(n):
    """One feature decides without errors. The nearest pairs by the prior are similar, too, but it only adds noise."""
    events = one_informative_feature(11, n, 1000)
    assert accuracy(track_adaptive(n).replay(events)[500:]) > 0.94


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_noisy_answers_do_not_make_it_worse_than_chance(noise):
    """A constant prediction of one half has a loss of log 2 per pair."""
    margins = track_adaptive(6).replay(one_informative_feature(12, 6, 3000, period=600, noise=2.0 * noise))
    assert np.logaddexp(0.0, -margins).mean() < np.log(2.0)


# -- Changes and drift --

SEEDS = range(20)


def clusters(seed: int, *phases: Phase) -> tuple[Events, int]:
    stream = DriftingClusters(phases, seed=seed)
    return stream.events(), stream.n_features


def test_most_changes_are_detected_early():
    """At least three of four are detected within 150 rounds, and none before they happen."""
    n_detected = 0
    for seed in SEEDS:
        events, n = clusters(seed, Phase("before", "A", 0.0, 700), Phase("after", "B", 0.0, 150))
        tracker = track_adaptive(n)
        tracker.replay(events)
        changes = tracker.changes
        assert all(change.detected > 700 for change in changes)
        assert all(change.round <= change.detected and change.evidence > 0.0 for change in changes)
        n_detected += any(change.round > 680 for change in changes)
    assert n_detected >= 15


def test_no_changes_are_detected_in_a_static_stream():
    for seed in SEEDS:
        events, n = clusters(100 + seed, Phase("static", "A", 0.0, 2000))
        tracker = track_adaptive(n)
        tracker.replay(events)
        assert tracker.changes == []


def test_memories_help_when_an_old_question_returns():
    """After a change the accuracy recovers sooner if the new question was asked before."""
    new, old = [], []
    for seed in range(5):
        margins = track_adaptive(25).replay(one_informative_feature(seed, 25, 4000, period=1000))
        new.append(accuracy(margins[1000:1060]))
        old += [accuracy(margins[2000:2060]), accuracy(margins[3000:3060])]
    assert np.mean(old) > np.mean(new) + 0.08


@pytest.mark.parametrize("n", [2, 6, 25])
def test_drift_is_larger_when_the_metric_moves(n):
    drifts = [[], []]
    for seed in range(5):
        for measured, turn in zip(drifts, (0.0, 0.01), strict=True):
            tracker = track_adaptive(n)
            tracker.replay(logistic_answers(seed, n, 2000, turn))
            measured.append(tracker.drift)
    still, moving = drifts
    assert np.median(moving) > 1.5 * np.median(still)
    assert min(moving) > np.median(still)
