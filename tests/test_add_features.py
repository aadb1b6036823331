"""add_features: the learned metrics stay, and new features behave as if they had been zero before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocelad import LearnerBank, Ocelad, track_metric
from ocelad.engines.grow import add_features
from ocelad.pairs import Event, Events

SETTINGS = [
    {},
    {"engine": "dense", "loss": "hinge"},
    {"engine": "fullrank", "finest": "reset"},
    {"engine": "lowrank", "finest": "ensemble", "n_scales": 3},
    {"engine": "blocked"},
    {"engine": "dense", "divergence": "von_neumann"},
    {"diagonal": True, "shortest_interval": 3},
    {"diagonal": True, "engine": "dense", "finest": "ensemble"},
]


def stream(rounds, sizes, seed):
    """Return differences whose later features are zero at first, labels, and the number of features in each round."""
    rng = np.random.default_rng(seed)
    U, y = rng.normal(size=(rounds, max(sizes))), rng.choice([-1.0, 1.0], size=rounds)
    appeared = np.repeat(sizes, -(-rounds // len(sizes)))[:rounds]
    U[np.arange(max(sizes)) >= appeared[:, None]] = 0.0
    return U, y, appeared


def assert_same_state(tracker, other):
    assert tracker.n_rounds == other.n_rounds
    np.testing.assert_allclose(tracker.round_state.weights, other.round_state.weights, rtol=1e-9)
    pairs = zip(tracker.bank.metrics(tracker.round_state), other.bank.metrics(other.round_state), strict=True)
    for mine, theirs in [*pairs, (tracker.play(), other.play())]:
        np.testing.assert_allclose(mine.matrix, theirs.matrix, rtol=1e-9, atol=1e-9 * np.linalg.norm(theirs.matrix))
        assert mine.threshold == pytest.approx(theirs.threshold, rel=1e-9)


# 70 features are beyond the warm-up, and only some engines are fast enough for them.
FAST = [settings for settings in SETTINGS if settings.get("engine") not in ("dense", "blocked")]


@pytest.mark.parametrize(
    ("settings", "sizes"), [(each, (2, 5)) for each in SETTINGS] + [(each, (3, 4, 70)) for each in FAST], ids=str
)
def test_new_features_behave_as_if_they_had_been_zero(settings, sizes):
    settings = {"step_size": 0.05, "initial_scale": 0.4, **settings}
    U, y, appeared = stream(90, sizes, seed=1)
    tracker, other = track_metric(sizes[0], **settings), track_metric(sizes[-1], **settings)
    for u, label, n in zip(U, y, appeared, strict=True):
        if n > tracker.play().n_features:
            tracker = add_features(tracker, int(n))
        tracker.step(Event(u[:n], label))
        other.step(Event(u, label))
    assert tracker.bank.engine == other.bank.engine
    assert_same_state(tracker, other)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 40), st.integers(0, 1000))
def test_new_features_at_any_round(sizes, rounds, seed):
    sizes = sorted(sizes)
    settings = {"step_size": 0.05, "initial_scale": 0.4}
    U, y, appeared = stream(max(rounds, len(sizes)), sizes, seed)
    tracker, other = track_metric(sizes[0], **settings), track_metric(sizes[-1], **settings)
    for u, label, n in zip(U, y, appeared, strict=True):
        tracker = add_features(tracker, int(n))  # the same number of features is allowed
        tracker.step(Event(u[:n], label))
        other.step(Event(u, label))
    tracker = add_features(tracker, sizes[-1])
    assert_same_state(tracker, other)


def test_the_given_tracker_does_not_change():
    settings = {"step_size": 0.05, "initial_scale": 0.4}
    U, y, _ = stream(50, (3,), seed=2)
    tracker = track_metric(3, **settings)
    tracker.replay(Events(U, y))
    before = tracker.play()
    wider = add_features(tracker, 4)
    wider.replay(Events(np.pad(U, ((0, 0), (0, 1)), constant_values=1.0), y))
    assert tracker.play() == before
    assert tracker.n_rounds == 50
    assert wider.n_rounds == 100


def test_new_features_have_the_initial_weight_with_shrinkage():
    settings = {"step_size": 0.05, "initial_scale": 0.4, "shrinkage": 0.1}
    U, y, _ = stream(50, (3,), seed=3)
    tracker = track_metric(3, **settings)
    tracker.replay(Events(U, y))
    M = add_features(tracker, 5).play().matrix
    np.testing.assert_allclose(M[3:, 3:], 0.4 * np.eye(2), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(M[:3, :3], tracker.play().matrix, rtol=1e-12, atol=1e-12)
    assert not M[:3, 3:].any()


@pytest.mark.parametrize(
    ("n_features", "settings", "message"),
    [
        (2, {}, "n_features must be a whole number of at least 3; got 2"),
        (4, {"max_rank": 2}, "max_rank must be None: every new feature is a new direction"),
    ],
)
def test_invalid_arguments_are_rejected(n_features, settings, message):
    with pytest.raises(ValueError, match=message):
        add_features(track_metric(3, initial_scale=0.4, **settings), n_features)


def test_other_trackers_are_rejected():
    class Mean:
        def __init__(self, scale, start):
            self.value = start or 0.0

        def play(self):
            return self.value

    for tracker in (Ocelad(LearnerBank(Mean)), None):
        with pytest.raises(TypeError, match="tracker must come from track_metric; got"):
            add_features(tracker, 3)
