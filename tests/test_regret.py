"""Regret on every interval against brute force, and the theorem's bound on a real run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ocelad import Metric, track_metric
from ocelad.evaluation import regret
from ocelad.evaluation.prequential import Frozen
from ocelad.evaluation.streams import DriftingClusters, Phase
from ocelad.pairs import Event, Pair

T = 12
losses = arrays(np.float64, T, elements=st.floats(0, 10))
moves = arrays(np.float64, T - 1, elements=st.floats(0, 2))


@given(losses, losses, moves, st.sampled_from([0.0, 1.5]))
def test_worst_interval_of_each_length_is_the_worst_of_all(played, compared, movements, constant):
    run = regret.Regret(played, compared, movements)
    worst = run.worst(learner_constant=constant)
    for length in range(1, T + 1):
        intervals = [(q, q + length - 1) for q in range(1, T - length + 2)]
        regrets = [sum(played[q - 1 : s]) - sum(compared[q - 1 : s]) for q, s in intervals]
        paths = [sum(movements[q - 1 : s - 1]) for q, s in intervals]
        bounds = [
            (8 * constant * (1 + path) + 40 * np.log(s + 1)) * np.sqrt(s - q + 1)
            for (q, s), path in zip(intervals, paths, strict=True)
        ]
        at = length - 1
        assert worst.regret[at] == pytest.approx(max(regrets), abs=1e-9)
        assert worst.ratio[at] == pytest.approx(max(np.divide(regrets, bounds)), abs=1e-9)
        chosen = (worst.first[at], worst.last[at])
        assert run.on(*chosen) == pytest.approx(worst.regret[at], abs=1e-9)
        assert run.path_length(*chosen) == pytest.approx(worst.path_length[at], abs=1e-9)
        assert bounds[intervals.index(chosen)] == pytest.approx(worst.bound[at], rel=1e-9)
        assert regret.bound(*chosen, run.path_length(*chosen), constant) == pytest.approx(worst.bound[at], rel=1e-9)


@given(losses, arrays(np.float64, (T, 3), elements=st.floats(0, 10)))
def test_static_regret_is_against_the_best_candidate_of_each_interval(played, candidates):
    run = regret.Regret(played, candidates)
    worst = run.worst()
    for length in range(1, T + 1):
        expected = max(
            sum(played[q : q + length]) - min(candidates[q : q + length].sum(axis=0)) for q in range(T - length + 1)
        )
        assert worst.regret[length - 1] == pytest.approx(expected, abs=1e-9)
        q, s = worst.first[length - 1], worst.last[length - 1]
        assert run.on(q, s) == pytest.approx(expected, abs=1e-9)


def test_of_run_judges_what_was_played_before_the_event_was_seen():
    events = [Event(np.array([2.0]), 1.0), Event(np.array([1.0]), -1.0)]
    comparators = [Metric([[0.0]], 1.0), Metric([[3.0]], 1.0)]
    tracker, twin = track_metric(1, loss="hinge", step_size=0.1), track_metric(1, loss="hinge", step_size=0.1)
    loss = regret.margin_loss("hinge")
    run = regret.Regret.of_run(tracker, events, comparators, loss)
    expected = []
    for event in events:
        expected.append(loss(twin.play(), event))
        twin.step(event)
    np.testing.assert_array_equal(run.losses, expected)
    np.testing.assert_array_equal(run.comparator_losses, [0.0, 0.0])
    np.testing.assert_array_equal(run.movements, [3.0])


def test_plays_need_not_be_metrics():
    class Zero:
        def play(self):
            return np.zeros(2)

        def step(self, event):
            pass

    run = regret.Regret.of_run(
        Zero(), [1.0, 2.0], [np.ones(2), np.array([1.0, 3.0])], lambda play, event: abs(play.sum() - event)
    )
    assert run.on(1, 2) == (1 + 2) - (1 + 2)
    assert run.path_length(1, 2) == 2.0


def test_the_bound_of_theorem_1_holds_on_every_interval_of_a_drifting_stream():
    phases = [Phase("a", "A", 0.0, 800), Phase("b", "B", 0.06, 100), Phase("c", "A", 0.01, 100)]
    moments = list(DriftingClusters(phases, seed=11))
    # Scaled so that most pairs have the margin that the hinge asks for; otherwise learning nothing would do as well.
    truth = [Metric(3 * moment.true_metric().matrix, 3 * moment.true_metric().threshold) for moment in moments]

    def run(tracker):
        events = [moment.event() for moment in moments]
        return regret.Regret.of_run(tracker, events, truth, regret.margin_loss("hinge"))

    learned, frozen = run(track_metric(25, loss="hinge", step_size=3e-3)), run(Frozen(Metric(np.eye(25) / 25)))
    assert (learned.worst().ratio < 1).all()
    assert learned.on(601, 800) < 0.9 * frozen.on(601, 800)


def test_plot_shows_the_worst_regret_and_the_bound():
    rng = np.random.default_rng(0)
    worst = regret.Regret(rng.random(50), rng.random(50)).worst()
    ax = regret.plot(worst)
    curves = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
    shown = worst.regret > 0
    np.testing.assert_array_equal(curves["worst interval"], worst.regret[shown])
    np.testing.assert_array_equal(curves["Theorem 1's bound on it"], worst.bound[shown])
    assert ax.get_xlabel()
    assert ax.get_ylabel()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([1.0, 2.0], [1.0]), "as many"),
        (([1.0, np.nan], [1.0, 1.0]), "losses holds nan at position 1"),
        (([], []), "losses is empty"),
        ((["a"], [1.0]), "holds text"),
        (([1.0, 2.0], [1.0, 2.0], [1.0, 1.0]), "movements must be 1 distances"),
        (([1.0, 2.0], [1.0, 2.0], [-1.0]), "movements must be 1 distances"),
        (([[1.0]], [1.0]), "losses has shape"),
    ],
)
def test_refuses(arguments, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        regret.Regret(*arguments)


@pytest.mark.parametrize("interval", [(0, 1), (2, 1), (1, 3), (1.5, 2)])
def test_refuses_an_interval_outside_the_run(interval):
    with pytest.raises((ValueError, TypeError), match=r"interval|first|last"):
        regret.Regret([1.0, 2.0], [1.0, 2.0]).on(*interval)


def test_refuses_an_unknown_loss_and_unequal_lengths():
    with pytest.raises(ValueError, match="loss must be one of"):
        regret.margin_loss("zero-one")
    tracker, events = track_metric(1), [Event(np.ones(1), 1.0)] * 2
    with pytest.raises(ValueError, match="2 events and 1 comparators"):
        regret.Regret.of_run(tracker, events, [Metric([[1.0]])], regret.margin_loss("hinge"))
    assert tracker.n_rounds == 0


def test_one_round():
    worst = regret.Regret([2.0], [0.5], []).worst()
    assert worst.regret.tolist() == [1.5]


def test_differences_are_taken_before_they_are_summed():
    worst = regret.Regret([1e17, 1.0], [1e17, 0.0]).worst()
    assert worst.regret.tolist() == [1.0, 1.0]


def test_distance_between_comparators():
    M, N = Metric(np.eye(2)), Metric(np.diag([4.0, 5.0]))
    assert regret.frobenius_distance(M, N) == 5.0
    with pytest.raises(ValueError, match="plays of one shape"):
        regret.frobenius_distance(np.ones(2), np.ones(3))
    events = [Event(np.ones(2), 1.0)] * 2
    run = regret.Regret.of_run(track_metric(2), events, [M, N], regret.margin_loss("hinge"), distance=lambda a, b: 7.0)
    assert run.movements.tolist() == [7.0]


def test_pairs_are_events_too():
    pair = Pair([2.0], [0.0], similar=True)
    run = regret.Regret.of_run(track_metric(1), [pair], [Metric([[1.0]])], regret.margin_loss("hinge"))
    assert run.comparator_losses.tolist() == [4.0]


def test_bound_refuses_what_is_no_interval():
    np.testing.assert_allclose(regret.bound([1, 1], [1, 100]), [40 * np.log(2), 400 * np.log(101)])
    for first, last in ((5, 1), (0, 3), (-5, -2)):
        with pytest.raises(ValueError, match="an interval must go"):
            regret.bound(first, last)


def test_plot_of_a_run_and_of_one_that_never_regrets():
    assert len(regret.plot(regret.Regret([2.0, 1.0], [1.0, 1.0])).get_lines()) == 2
    ax = regret.plot(regret.Regret([1.0, 1.0], [2.0, 2.0]))
    assert "no interval has a positive regret" in [text.get_text() for text in ax.texts]
