"""The margins that replay returns: those of the plays before each event.

With NUMBA_DISABLE_JIT=1 the kernels run as plain Python, on fewer rounds.
"""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import ENGINES, ROUNDS, RTOL, SAME_BITS, as_batch, difficult_events, make, supports

from ocelad import LearnerBank, LearnerError, Metric, Ocelad, Pair, track_metric
from ocelad.pairs import Event, Events, as_sparse

N = 4


def make_any(engine, **settings):
    settings = {"step_size": 0.05, **settings}
    return track_metric(N, diagonal=True, **settings) if engine == "diagonal" else make(engine, N, **settings)


def margins_by_steps(engine, events, **settings):
    """Return ``y (mu - u'Mu)`` of the play before each event, and ``mu + u'Mu``, the scale of its rounding error."""
    tracker, margins, sizes = make_any(engine, **settings), [], []
    for event in events:
        play = tracker.play()
        margins.append(event.y * (play.threshold - play.squared_length(event.u)))
        sizes.append(play.threshold + play.squared_length(event.u))
        tracker.step(event)
    return np.array(margins), np.array(sizes)


def assert_margins(margins, expected):
    values, sizes = expected
    assert margins.shape == values.shape
    assert (np.abs(margins - values) <= RTOL * sizes).all()


@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
@pytest.mark.parametrize("shrinkage", [0.0, 0.02])
@pytest.mark.parametrize("engine", ["dense", "auto", "diagonal", *ENGINES])
def test_margins_are_those_of_the_plays_before_each_event(engine, finest, shrinkage):
    if not supports(engine, shrinkage):
        pytest.skip("needs shrinkage 0")
    settings = {"finest": finest, "shrinkage": shrinkage, "shortest_interval": 2}
    events = difficult_events(3, N, ROUNDS // 3)
    expected = margins_by_steps(engine, events, **settings)
    assert (expected[0] > 0).any()
    assert (expected[0] < 0).any()
    assert_margins(make_any(engine, **settings).replay(as_batch(events)), expected)
    assert_margins(make_any(engine, **settings).replay(events), expected)


@pytest.mark.parametrize("engine", [*SAME_BITS, "diagonal"])
def test_margins_do_not_depend_on_the_division_into_calls(engine):
    events = as_batch(difficult_events(4, N, ROUNDS // 2))
    whole, parts, single = (make_any(engine) for _ in range(3))
    margins = whole.replay(events)
    assert (np.concatenate([parts.replay(events[i : i + 29]) for i in range(0, len(events), 29)]) == margins).all()
    assert (np.concatenate([single.replay(events[i : i + 1]) for i in range(len(events))]) == margins).all()


@pytest.mark.parametrize("engine", ["dense", "auto", "diagonal", *ENGINES])
def test_the_margin_is_positive_for_correct_plays(engine):
    # With M = I / 4 and the threshold 1, the first pair is close and the second is distant.
    for u, close in (([1.0, 0.0, 0.0, 0.0], True), ([3.0, 0.0, 0.0, 0.0], False)):
        for label in (1.0, -1.0):
            (margin,) = make_any(engine).replay(Events([u], [label]))
            assert (margin > 0) == (close == (label > 0))
            assert margin == pytest.approx(label * (1.0 - u[0] ** 2 / 4))


@pytest.mark.parametrize("engine", ["dense", "fullrank", "blocked, 4"])
def test_a_rejected_event_in_a_replay_raises(engine):
    events = difficult_events(1, N, 12)
    events[7] = Event(np.full(N, 1e149), 1.0)
    tracker = make_any(engine, loss="squared_hinge")
    with pytest.raises(LearnerError, match="in round 8"):
        tracker.replay(as_batch(events))
    assert tracker.n_rounds == 7
    assert_margins(
        tracker.replay(as_batch(events[8:])),
        [part[7:] for part in margins_by_steps(engine, events[:7] + events[8:], loss="squared_hinge")],
    )


def test_margins_of_pairs_and_sparse_events():
    pairs = [Pair([1.0, 2.0, 0.0, 0.0], [0.0] * 4, similar=t % 2 == 0) for t in range(20)]
    events = [Event(as_sparse(pair.event().u), pair.event().y) for pair in pairs]
    expected = margins_by_steps("dense", [pair.event() for pair in pairs])
    for engine in ("dense", "auto", "lowrank"):
        for stream in (pairs, events):
            assert_margins(make_any(engine).replay(stream), expected)
    metric = Metric(np.diag([1.0, 2.0, 3.0, 4.0]), threshold=5.0)
    assert [metric.margin(event) for event in events[:2]] == [-4.0, 4.0]
    with pytest.raises(ValueError, match="has 3 features; 4 are expected"):
        metric.margin(Event(np.ones(3), 1.0))


def test_no_events_give_no_margins():
    assert make_any("auto").replay([]).shape == (0,)
    assert make_any("fullrank").replay(Events(np.ones((1, N)), [1])[:0]).shape == (0,)


def test_replay_returns_none_for_plays_without_a_margin():
    class Mean:
        def __init__(self, scale, start):
            self.value = 0.0 if start is None else start

        def play(self):
            return self.value

        def loss(self, event):
            return (self.value - event) ** 2

        def update(self, event):
            self.value += 0.1 * (event - self.value)

    assert Ocelad(LearnerBank(Mean)).replay([1.0, 2.0]) is None
