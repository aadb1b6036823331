"""Regret on every interval against brute force, and the bound of Theorem 1 on a run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ocelad import Metric, track_metric
from ocelad.evaluation import regret
from ocelad.evaluation.prequential import FixedMetric, SingleLearner
from ocelad.evaluation.streams import DriftingClusters, Phase
from ocelad.pairs import Event, Pair

T = 12
losses = arrays(np.float64, T, elements=st.floats(0, 10))
moves = arrays(np.float64, T - 1, elements=st.floats(0, 2))


@given(losses, losses, moves, st.sampled_from([0.0, 1.5]))
def test_the_worst_interval_of_each_length_is_found_exactly(played, compared, movements, constant):
    run = regret.Regret(played, compared, movements)
    worst = run.worst_intervals(learner_constant=constant)
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
        assert run.on_interval(*chosen) == pytest.approx(worst.regret[at], abs=1e-9)
        assert run.path_length(*chosen) == pytest.approx(worst.path_length[at], abs=1e-9)
        assert bounds[intervals.index(chosen)] == pytest.approx(worst.bound[at], rel=1e-9)
        assert regret.regret_bound(*chosen, run.path_length(*chosen), constant) == pytest.approx(
            worst.bound[at], rel=1e-9
        )


@given(losses, arrays(np.float64, (T, 3), elements=st.floats(0, 10)))
def test_static_regret_is_against_the_best_candidate_of_each_interval(played, candidates):
    run = regret.Regret(played, candidates)
    worst = run.worst_intervals()
    for length in range(1, T + 1):
        expected = max(
            sum(played[q : q + length]) - min(candidates[q : q + length].sum(axis=0)) for q in range(T - length + 1)
        )
        assert worst.regret[length - 1] == pytest.approx(expected, abs=1e-9)
        q, s = worst.first[length - 1], worst.last[length - 1]
        assert run.on_interval(q, s) == pytest.approx(expected, abs=1e-9)


def test_from_run_evaluates_each_play_before_its_event_is_learned():
    events = [Event(np.array([2.0]), 1.0), Event(np.array([1.0]), -1.0)]
    comparators = [Metric([[0.0]], 1.0), Metric([[3.0]], 1.0)]
    tracker, twin = track_metric(1, loss="hinge", step_size=0.1), track_metric(1, loss="hinge", step_size=0.1)
    loss = regret.margin_loss("hinge")
    run = regret.Regret.from_run(tracker, events, comparators, loss)
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

    run = regret.Regret.from_run(
        Zero(), [1.0, 2.0], [np.ones(2), np.array([1.0, 3.0])], lambda play, event: abs(play.sum() - event)
    )
    assert run.on_interval(1, 2) == (1 + 2) - (1 + 2)
    assert run.path_length(1, 2) == 2.0


def test_the_bound_of_theorem_1_holds_on_every_interval_of_a_drifting_stream():
    phases = [Phase("a", "A", 0.0, 800), Phase("b", "B", 0.06, 100), Phase("c", "A", 0.01, 100)]
    steps = list(DriftingClusters(phases, seed=11))
    # Scaled so that most pairs have zero hinge loss; otherwise a constant metric would be as good.
    truth = [Metric(3 * step.true_metric().matrix, 3 * step.true_metric().threshold) for step in steps]

    def run(tracker):
        events = [step.event() for step in steps]
        return regret.Regret.from_run(tracker, events, truth, regret.margin_loss("hinge"))

    learned, constant = run(track_metric(25, loss="hinge", step_size=3e-3)), run(FixedMetric(Metric(np.eye(25) / 25)))
    assert (learned.worst_intervals().ratio < 1).all()
    assert learned.on_interval(601, 800) < 0.9 * constant.on_interval(601, 800)


def test_plot_shows_the_worst_regret_and_the_bound():
    rng = np.random.default_rng(0)
    worst = regret.Regret(rng.random(50), rng.random(50)).worst_intervals()
    ax = regret.plot_worst_intervals(worst)
    curves = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
    positive = worst.regret > 0
    np.testing.assert_array_equal(curves["worst interval"], worst.regret[positive])
    np.testing.assert_array_equal(curves["bound of Theorem 1 (for losses in [0, 1])"], worst.bound[positive])
    assert ax.get_xlabel()
    assert ax.get_ylabel()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], [1.0]), "equally many"),
        (([1.0, np.nan], [1.0, 1.0]), "losses holds nan at position 1"),
        (([], []), "losses is empty"),
        ((["a"], [1.0]), "holds 'a' at position 0"),
        (([1.0, 2.0], [1.0, 2.0], [1.0, 1.0]), "movements must be 1 distances"),
        (([1.0, 2.0], [1.0, 2.0], [-1.0]), "movements must be 1 distances"),
        (([[1.0]], [1.0]), "losses has shape"),
    ],
)
def test_invalid_arguments_raise_an_error(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        regret.Regret(*arguments)


@pytest.mark.parametrize("interval", [(0, 1), (2, 1), (1, 3), (1.5, 2)])
def test_an_interval_outside_the_run_raises_an_error(interval):
    with pytest.raises((ValueError, TypeError), match=r"interval|first|last"):
        regret.Regret([1.0, 2.0], [1.0, 2.0]).on_interval(*interval)


def test_unknown_losses_and_unequal_lengths_raise_an_error():
    with pytest.raises(ValueError, match="loss must be one of"):
        regret.margin_loss("zero-one")
    tracker, events = track_metric(1), [Event(np.ones(1), 1.0)] * 2
    with pytest.raises(ValueError, match="2 events and 1 comparators"):
        regret.Regret.from_run(tracker, events, [Metric([[1.0]])], regret.margin_loss("hinge"))
    assert tracker.n_rounds == 0


class Mean:
    def __init__(self):
        self.value = 0.0

    def play(self):
        return self.value

    def loss(self, event):
        return (self.value - event) ** 2

    def update(self, event):
        self.value += 0.5 * (event - self.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"player": Mean()},
            r"player is a Mean without step; accepted: .* SingleLearner\(learner\) of ocelad.evaluation",
        ),
        (
            {"loss": "hinge"},
            r"loss is 'hinge'; accepted: a function loss\(play, event\), such as margin_loss\('hinge'\)",
        ),
        ({"comparators": np.eye(2)}, "a comparator is a ndarray, .*; accepted: one Metric for each event"),
        ({"comparators": Metric(np.eye(2))}, "comparators is a Metric; accepted: a list with one play for each event"),
    ],
)
def test_arguments_of_another_kind_are_refused_before_the_run(arguments, message):
    tracker, events = track_metric(2), [Event(np.ones(2), 1.0)] * 2
    accepted = {"player": tracker, "comparators": [Metric(np.eye(2))] * 2, "loss": regret.margin_loss("hinge")}
    with pytest.raises(TypeError, match=message):
        regret.Regret.from_run(**{"events": events, **accepted, **arguments})
    assert tracker.n_rounds == 0


def test_a_single_learner_can_be_measured():
    run = regret.Regret.from_run(SingleLearner(Mean()), [2.0, 4.0], [2.0, 3.0], lambda play, event: (play - event) ** 2)
    assert run.losses.tolist() == [4.0, 9.0]
    assert run.comparator_losses.tolist() == [0.0, 1.0]


def test_one_round():
    worst = regret.Regret([2.0], [0.5], []).worst_intervals()
    assert worst.regret.tolist() == [1.5]


def test_differences_of_losses_are_summed_not_losses():
    worst = regret.Regret([1e17, 1.0], [1e17, 0.0]).worst_intervals()
    assert worst.regret.tolist() == [1.0, 1.0]


def test_distance_between_comparators():
    M, N = Metric(np.eye(2)), Metric(np.diag([4.0, 5.0]))
    assert regret.frobenius_distance(M, N) == 5.0
    with pytest.raises(ValueError, match="accepted: equal shapes"):
        regret.frobenius_distance(np.ones(2), np.ones(3))
    events = [Event(np.ones(2), 1.0)] * 2
    run = regret.Regret.from_run(
        track_metric(2), events, [M, N], regret.margin_loss("hinge"), distance=lambda a, b: 7.0
    )
    assert run.movements.tolist() == [7.0]


def test_events_may_be_pairs():
    pair = Pair([2.0], [0.0], similar=True)
    run = regret.Regret.from_run(track_metric(1), [pair], [Metric([[1.0]])], regret.margin_loss("hinge"))
    assert run.comparator_losses.tolist() == [4.0]


def test_the_bound_of_an_invalid_interval_raises_an_error():
    np.testing.assert_allclose(regret.regret_bound([1, 1], [1, 100]), [40 * np.log(2), 400 * np.log(101)])
    for first, last in ((5, 1), (0, 3), (-5, -2)):
        with pytest.raises(ValueError, match="an interval must begin at a round of at least 1"):
            regret.regret_bound(first, last)


def test_plot_of_a_run_with_and_without_positive_regret():
    assert len(regret.plot_worst_intervals(regret.Regret([2.0, 1.0], [1.0, 1.0])).get_lines()) == 2
    ax = regret.plot_worst_intervals(regret.Regret([1.0, 1.0], [2.0, 2.0]))
    assert "no interval has a positive regret" in [text.get_text() for text in ax.texts]
