"""The adaptive ensemble on streams: calibrated, unharmed by whatever comes, and it tells when the question changes."""

from __future__ import annotations

import numpy as np
import pytest
from adaptive_streams import logistic_answers, right, told_by_one

from ocelad.adaptive.change_detection import MOST_CHANGES
from ocelad.adaptive.kernels import platt
from ocelad.adaptive.track import track_adaptive
from ocelad.evaluation.streams import DriftingClusters, Phase
from ocelad.pairs import Events

# -- Probabilities --


@pytest.mark.parametrize("n", [2, 6, 25])
def test_probabilities_are_calibrated(n):
    """Of pairs that were said to be similar with a probability of p, a share of p are."""
    said, same = [], []
    for seed in range(5):
        events = logistic_answers(seed, n, 4000)
        odds = track_adaptive(n).replay(events) * events.y
        said.append(1.0 / (1.0 + np.exp(-odds[1000:])))
        same.append(events.y[1000:] > 0.0)
    p, similar = np.concatenate(said), np.concatenate(same)
    for low in np.arange(0.0, 1.0, 0.1):
        among = (p >= low) & (p < low + 0.1)
        assert among.sum() > 300
        assert similar[among].mean() == pytest.approx(p[among].mean(), abs=0.08)
    assert similar.mean() == pytest.approx(p.mean(), abs=0.02)


# -- Whatever comes --


def with_differences(events: Events, U: np.ndarray) -> Events:
    return Events(U, events.y)


def half_of_them_zero(events: Events) -> np.ndarray:
    return events.U * (np.arange(len(events)) % 2)[:, None]


def some_never_differ(events: Events) -> np.ndarray:
    U = events.U.copy()
    U[:, 2:4] = 0.0
    return U


def some_first_differ_late(events: Events) -> np.ndarray:
    U = events.U.copy()
    U[: len(U) // 2, 2:] = 0.0
    return U


def jumps_up(events: Events) -> np.ndarray:
    return events.U * np.where(np.arange(len(events)) < len(events) // 2, 1e-10, 1.0)[:, None]


def jumps_down(events: Events) -> np.ndarray:
    return events.U * np.where(np.arange(len(events)) < len(events) // 2, 1e10, 1.0)[:, None]


def far_out(events: Events) -> np.ndarray:
    return events.U * np.where(np.arange(len(events)) % 500 == 250, 1e10, 1.0)[:, None]


def cauchy(events: Events) -> np.ndarray:
    return np.random.default_rng(1).standard_cauchy(size=events.U.shape)


def like_the_first(events: Events) -> np.ndarray:
    return np.tile(events.U[:1], (len(events), 1))


def of_three(events: Events) -> np.ndarray:
    return events.U[np.random.default_rng(1).integers(3, size=len(events))]


def along_one_line(events: Events) -> np.ndarray:
    return np.outer(events.U[:, 0], np.ones(events.n_features))


DIFFERENCES = [
    half_of_them_zero,
    some_never_differ,
    some_first_differ_late,
    jumps_up,
    jumps_down,
    far_out,
    cauchy,
    like_the_first,
    of_three,
    along_one_line,
]
KINDS = {
    "only similar": lambda events, tracker: Events(events.U, np.ones(len(events))),
    "only dissimilar": lambda events, tracker: Events(events.U, -np.ones(len(events))),
    "at random": lambda events, tracker: Events(events.U, np.random.default_rng(1).choice([-1.0, 1.0], len(events))),
    "never differ": lambda events, tracker: Events(np.zeros_like(events.U), events.y),
    "far is similar": lambda events, tracker: Events(events.U, -events.y),
    "the opposite of what was said": lambda events, tracker: Events(
        events.U, np.where(tracker.bank.log_odds(events.U, tracker.round_state) > 0.0, -1.0, 1.0)
    ),
    **{
        each.__name__: lambda events, tracker, made=each: with_differences(events, made(events)) for each in DIFFERENCES
    },
}
# After these spreads are far too large, and it takes thousands of rounds until they have been forgotten.
FORGOTTEN_SLOWLY = {"jumps_down", "far_out", "cauchy"}


def assert_sound(tracker) -> None:
    """Inverse moments are symmetric and positive semidefinite, relative to their diagonals, and all is in range."""
    state = tracker.bank._state
    for P in state.P:
        diagonal = np.diag(P)
        assert np.isfinite(P).all()
        assert (P == P.T).all()
        assert (diagonal >= 0.0).all()
        root = np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
        assert np.linalg.eigvalsh(P / np.outer(root, root))[0] >= -1e-9
    assert np.isfinite(state.fits).all()
    assert (np.abs(state.fits[:, platt.OFFSET]) <= platt.MOST_ODDS).all()
    assert (state.fits[:, platt.SLOPE] >= 0.0).all()
    assert (state.fits[:, platt.SLOPE] <= platt.MOST_ODDS).all()
    assert np.isfinite(state.memories).all()
    assert (state.spread >= 0.0).all()
    metric = tracker.play()
    values = np.linalg.eigvalsh(metric.matrix)
    assert values[0] >= -1e-9 * values[-1]
    assert values[-1] > 0.0
    assert 0.0 < metric.threshold < np.inf
    assert 0.0 <= tracker.bank.drift(tracker.round_state) < 20.0
    assert len(tracker.bank.changes) <= MOST_CHANGES
    assert np.isfinite(tracker.round_state.weights).all()


def survives(kind: str, n: int, rounds: int, block: int):
    """A tracker after so many rounds of a kind; looked at after each block."""
    tracker = track_adaptive(n)
    for first in range(0, rounds, block):
        events = KINDS[kind](told_by_one(first % 997, n, block, every=300), tracker)
        margins = tracker.replay(events)
        assert np.isfinite(margins).all()
        assert (np.abs(margins) <= platt.MOST_ODDS * (1.0 + 1e-12)).all()  # a mean, which is rounded
        assert_sound(tracker)
    return tracker


def learns_again(tracker, n: int, rounds: int) -> None:
    margins = tracker.replay(told_by_one(7, n, rounds + 200))
    assert right(margins[rounds:]) > 0.9
    assert_sound(tracker)


@pytest.mark.parametrize("n", [1, 6, 25])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_does_harm(kind, n):
    if n < 5 and kind in ("some_never_differ", "some_first_differ_late"):
        pytest.skip("there are too few features")
    tracker = survives(kind, n, rounds=3000, block=500)
    if kind not in FORGOTTEN_SLOWLY:
        learns_again(tracker, n, rounds=1500 if n == 25 else 600)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_million_rounds_do_no_harm(kind):
    tracker = survives(kind, n=6, rounds=1_000_000, block=20_000)
    if kind not in FORGOTTEN_SLOWLY:
        learns_again(tracker, n=6, rounds=1500)


def test_an_adversary_does_no_harm():
    """Every answer is the opposite of what is said of its pair at that moment."""
    tracker = track_adaptive(3)
    for event in told_by_one(1, 3, 1500):
        odds = tracker.bank.log_odds(event.u[None], tracker.round_state)[0]
        tracker.step(event._replace(y=-1.0 if odds > 0.0 else 1.0))
    assert_sound(tracker)
    learns_again(tracker, 3, rounds=600)


def test_one_pair_far_out_is_soon_forgotten():
    events = told_by_one(5, 6, 3000)
    U = events.U.copy()
    U[2000] *= 1e10
    assert right(track_adaptive(6).replay(Events(U, events.y))[2150:2400]) > 0.95


# -- It learns, and follows --


@pytest.mark.parametrize("n", [2, 6, 25])
def test_it_learns_and_follows(n):
    margins = track_adaptive(n).replay(told_by_one(11, n, 2000, every=1000))
    assert right(margins[500:1000]) > 0.97
    assert right(margins[1300:]) > 0.97


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.3])
def test_it_never_says_much_less_than_nothing(noise):
    """Who always says one half loses log 2 a pair; wrong answers must not make it lose more."""
    margins = track_adaptive(6).replay(told_by_one(12, 6, 3000, every=600, noise=2.0 * noise))
    assert np.logaddexp(0.0, -margins).mean() < np.log(2.0)


# -- Changes and drift --

SEEDS = range(20)


def clusters(seed: int, *phases: Phase) -> tuple[Events, int]:
    stream = DriftingClusters(phases, seed=seed)
    return stream.events(), stream.n_features


def test_most_changes_are_found_and_soon():
    """At least three of four are found within 150 rounds, and nothing is told before them."""
    found = 0
    for seed in SEEDS:
        events, n = clusters(seed, Phase("before", "A", 0.0, 700), Phase("after", "B", 0.0, 150))
        tracker = track_adaptive(n)
        tracker.replay(events)
        changes = tracker.bank.changes
        assert all(change.noticed > 700 for change in changes)
        assert all(change.round <= change.noticed and 0.9 < change.confidence < 1.0 for change in changes)
        found += any(change.round > 680 for change in changes)
    assert found >= 15


def test_no_changes_where_there_are_none():
    for seed in SEEDS:
        events, n = clusters(100 + seed, Phase("static", "A", 0.0, 2000))
        tracker = track_adaptive(n)
        tracker.replay(events)
        assert tracker.bank.changes == []


def test_memories_are_of_use_when_an_old_question_comes_back():
    """After a change answers are right sooner where the new question is one that was asked before."""
    new, old = [], []
    for seed in range(5):
        margins = track_adaptive(25).replay(told_by_one(seed, 25, 4000, every=1000))
        new.append(right(margins[1000:1060]))
        old += [right(margins[2000:2060]), right(margins[3000:3060])]
    assert np.mean(old) > np.mean(new) + 0.08


@pytest.mark.parametrize("n", [2, 6, 25])
def test_drift_is_larger_where_the_metric_moves(n):
    drifts = [[], []]
    for seed in range(5):
        for told, round_state in zip(drifts, (0.0, 0.01), strict=True):
            tracker = track_adaptive(n)
            tracker.replay(logistic_answers(seed, n, 2000, round_state))
            told.append(tracker.bank.drift(tracker.round_state))
    still, moving = drifts
    assert np.median(moving) > 1.5 * np.median(still)
    assert min(moving) > np.median(still)
