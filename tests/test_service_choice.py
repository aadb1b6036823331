"""Which pair is asked next: never one twice while others are left, and some at random, whatever the metric is."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from threading import Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from ocelad import Metric, MetricTracker, Rice
from ocelad._typing import Floats
from ocelad.service.choice import Choice, Chooser, NothingToAsk
from ocelad.service.choice.chooser import HELD
from ocelad.service.choice.pair_codes import code_of, draw, n_pairs, pair_of
from ocelad.service.choice.rule import most_wanted


class Seen:
    """What a chooser asks of a view."""

    def __init__(self, points: Floats, learners: list[Metric], shares: Floats) -> None:
        self.points, self.learners, self.shares = points, learners, shares
        self.metric = Metric.average(learners, shares)

    def margins(self, left: np.ndarray, right: np.ndarray) -> Floats:
        return self.metric.threshold - self.metric.squared_length(self.points[left] - self.points[right])


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def euclidean(points: Floats, threshold: float = 1.0) -> Seen:
    return Seen(points, [Metric(np.eye(points.shape[1]), threshold)], np.ones(1))


def some_points(n_items: int, n_features: int = 3, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=(n_items, n_features))


def asked(choice: Choice) -> frozenset[int]:
    return frozenset((choice.left, choice.right))


def until_done(chooser: Chooser, view: Seen, kind: str = "same") -> list[frozenset[int]]:
    """All that is asked, each answered at once, until nothing is left."""
    pairs = []
    while True:
        try:
            choice = chooser.next(view)
        except NothingToAsk:
            return pairs
        chooser.note(choice.right, choice.left, kind)
        pairs.append(asked(choice))


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_pair_is_one_number_whichever_comes_first(one: int, other: int) -> None:
    if one != other:
        assert code_of(one, other) == code_of(other, one)
        assert pair_of(code_of(one, other)) == (min(one, other), max(one, other))


def test_numbers_of_pairs_have_no_gaps() -> None:
    assert sorted(code_of(i, j) for i, j in combinations(range(9), 2)) == list(range(n_pairs(9)))


@given(st.integers(2, 7), st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)), st.integers(0, 9))
def test_draws_are_of_what_is_left(n_items: int, gone: set[int], more: set[int], seed: int) -> None:
    left = set(range(n_pairs(n_items))) - gone - more
    drawn = draw(np.random.default_rng(seed), n_items, 20, gone, more)
    assert set(drawn) <= left
    assert len(set(drawn)) == len(drawn)
    assert bool(drawn) == bool(left)


@pytest.mark.parametrize("most", [1, 3, 50])
def test_the_first_that_is_drawn_is_any_of_those_left(most: int) -> None:
    generator, gone = np.random.default_rng(1), {0, 1, 2, 5, 6, 7, 8}
    firsts = Counter(draw(generator, 5, most, gone)[0] for _ in range(3000))
    assert set(firsts) == {3, 4, 9}
    assert chisquare(list(firsts.values())).pvalue > 1e-3


@pytest.mark.parametrize("kind", ["same", "different", "skip"])
@pytest.mark.parametrize("n_items", [2, 3, 9])
@pytest.mark.parametrize("random_share", [0.0, 0.2, 1.0])
def test_every_pair_is_asked_once(n_items: int, random_share: float, kind: str) -> None:
    chooser = Chooser(n_items, random_share=random_share, seed=3)
    pairs = until_done(chooser, euclidean(some_points(n_items)), kind)
    assert sorted(map(sorted, pairs)) == sorted(map(list, combinations(range(n_items), 2)))
    with pytest.raises(NothingToAsk, match=f"all {n_pairs(n_items)} pairs of the {n_items} items have been answered"):
        chooser.next(euclidean(some_points(n_items)))


@pytest.mark.parametrize("n_items", [0, 1])
def test_fewer_than_two_items_are_nothing_to_ask_about(n_items: int) -> None:
    with pytest.raises(NothingToAsk, match=f"too few items to ask about: {n_items}; at least 2"):
        Chooser(n_items).next(euclidean(np.zeros((n_items, 2))))


def test_what_was_undone_is_asked_again_and_what_was_answered_twice_is_not() -> None:
    view, chooser = euclidean(some_points(3)), Chooser(3, seed=0)
    for left, right, kind in [(0, 1, "same"), (1, 2, "skip"), (2, 0, "same"), (0, 2, "different")]:
        chooser.note(left, right, kind)
    chooser.note(2, 0, "undo")
    with pytest.raises(NothingToAsk):
        chooser.next(view)
    chooser.note(1, 2, "undo")
    assert asked(chooser.next(view)) == {1, 2}


def test_new_items_are_asked_about_once_the_view_has_them() -> None:
    chooser = Chooser(3, seed=0)
    until_done(chooser, euclidean(some_points(3)))
    chooser.grow(5)
    with pytest.raises(NothingToAsk):
        chooser.next(euclidean(some_points(3)))
    chooser.note(3, 4, "same")  # before there is a view of them
    assert len(until_done(chooser, euclidean(some_points(5)))) == n_pairs(5) - n_pairs(3) - 1


def test_answers_about_items_that_a_view_does_not_have_yet_are_no_trouble() -> None:
    chooser = Chooser(4, random_share=0.0, seed=0)
    chooser.grow(6)
    chooser.note(5, 0, "same")
    assert max(asked(chooser.next(euclidean(some_points(4))))) < 4


def test_a_pair_is_handed_out_again_after_a_while_or_when_nothing_else_is_left() -> None:
    clock = Clock()
    chooser, view = Chooser(3, seed=0, clock=clock), euclidean(some_points(3))
    assert len({asked(chooser.next(view)) for _ in range(3)}) == 3
    again = asked(chooser.next(view))
    clock.now += HELD / 2
    assert asked(chooser.next(view)) != again


def test_the_best_pair_is_the_best_again_when_nobody_has_answered_for_a_while() -> None:
    clock = Clock()
    chooser, view = Chooser(9, random_share=0.0, seed=0, clock=clock), euclidean(some_points(9))
    best = asked(chooser.next(view))
    clock.now += HELD - 1
    assert asked(chooser.next(view)) != best
    clock.now += HELD + 1
    assert asked(chooser.next(view)) == best


def test_those_at_random_are_uniform_over_what_is_left_whatever_the_metric_is() -> None:
    n_items, answered = 6, [(0, 1), (4, 2), (3, 5)]
    left = {frozenset(pair) for pair in combinations(range(n_items), 2)} - {frozenset(pair) for pair in answered}
    points, firsts = some_points(n_items), Counter()
    sides: Counter[bool] = Counter()
    for seed in range(600):
        pairs = []
        for weight in (1e-3, 30.0):
            chooser = Chooser(n_items, random_share=0.9, seed=seed)
            for pair in answered:
                chooser.note(*pair, "same")
            choice = chooser.next(Seen(points, [Metric(weight * np.eye(3))], np.ones(1)))
            if choice.source == "random":
                pairs.append((choice.left, choice.right))
        assert (len(pairs), len(set(pairs))) in ((0, 0), (2, 1))  # the same coin and pair under both metrics
        firsts.update(map(frozenset, pairs[:1]))
        sides.update(left < right for left, right in pairs[:1])
    assert set(firsts) == left
    assert chisquare(list(firsts.values())).pvalue > 1e-3
    assert 0.86 < firsts.total() / 600 < 0.94
    assert min(sides[True], sides[False]) > 0.3 * sides.total()


def test_the_share_at_random_is_what_was_asked_for() -> None:
    view = euclidean(some_points(60))
    for share, count, off in ((0.0, 20, 0), (0.3, 200, 15), (1.0, 20, 0)):
        chooser = Chooser(60, random_share=share, seed=2)
        kinds = Counter(chooser.next(view).source for _ in range(count))
        assert abs(kinds["random"] - share * count) <= off
    with pytest.raises(ValueError, match="random_share must be a finite number of at least 0 and of at most 1"):
        Chooser(3, random_share=1.5)


def test_the_same_seed_and_log_give_the_same_pairs_after_a_restart() -> None:
    view = euclidean(some_points(30))
    one, other = Chooser(30, seed=7), Chooser(30, seed=7)
    first = [one.next(view) for _ in range(20)]
    assert [other.next(view) for _ in range(20)] == first
    log = [(choice.left, choice.right, "same") for choice in first] + [(first[3].left, first[3].right, "undo")]
    again = [Chooser(30, random_share=0.0, seed=1), Chooser(30, random_share=0.0, seed=1)]
    for chooser in again:
        for entry in log:
            chooser.note(*entry)
    assert again[0].next(view) == again[1].next(view)


def test_an_unsure_pair_is_preferred_and_the_sentence_says_how_unsure() -> None:
    line = np.array([[0.0], [0.1], [5.0], [5.9]])  # the last two are 0.9 of the threshold apart
    choice = Chooser(4, random_share=0.0, seed=0).next(euclidean(line))
    assert asked(choice) == {2, 3}
    assert choice.distance == pytest.approx(0.9)
    assert choice.reason.startswith("The metric is unsure about these two: their distance is 0.90 of the threshold")
    assert "random" in Chooser(4, random_share=1.0, seed=0).next(euclidean(line)).reason


def test_the_sentence_names_what_else_speaks_for_a_pair() -> None:
    corner = np.array([[0.0, 0.0], [0.9, -0.5], [0.0, -0.9]])
    learners = [Metric(np.diag([1.0, 0.8])), Metric(np.diag([1.0, 1.2]))]  # disagree about what is up or down
    chooser = Chooser(3, random_share=0.0, seed=0)
    chooser.note(0, 1, "same")
    assert chooser.next(Seen(corner, learners, np.array([0.5, 0.5]))).reason == (
        "The metric is unsure about these two: their distance is 0.90 of the threshold, its scales disagree more "
        "than about most pairs, and pairs that were asked lately tell less of them than of most."
    )


def test_of_pairs_that_are_as_unsure_the_one_unlike_those_asked_lately_is_preferred() -> None:
    corner = np.array([[0.0, 0.0], [0.9, 0.0], [7.0, 7.0], [7.0, 7.9], [15.0, 0.0], [15.9, 0.0]])
    pairs = np.array([[0, 1], [2, 3]])
    ranked = most_wanted(euclidean(corner), pairs, np.array([[4, 5]]), np.zeros(2))
    assert ranked.rows.tolist() == [1, 0]
    assert ranked.novel.tolist() == [True, False]


def test_of_pairs_that_are_as_unsure_the_one_that_scales_disagree_about_is_preferred() -> None:
    corner = np.array([[0.0, 0.0], [1.0, 0.0], [7.0, 7.0], [7.0, 8.0]])
    learners = [Metric(np.diag([0.9, 0.2])), Metric(np.diag([0.9, 1.6]))]
    ranked = most_wanted(
        Seen(corner, learners, np.array([0.5, 0.5])), np.array([[0, 1], [2, 3]]), np.empty((0, 2), int), np.zeros(2)
    )
    assert ranked.rows.tolist() == [1, 0]
    assert ranked.disputed.tolist() == [True, False]


def test_of_pairs_that_are_as_unsure_the_one_of_items_less_often_asked_is_preferred() -> None:
    corner = np.array([[0.0], [0.9], [7.0], [7.9]])
    ranked = most_wanted(euclidean(corner), np.array([[0, 1], [2, 3]]), np.empty((0, 2), int), np.array([3, 0]))
    assert ranked.rows.tolist() == [1, 0]


@pytest.mark.parametrize("n_features", [1, 4])
@pytest.mark.parametrize(
    "made", [np.zeros, np.ones, lambda shape: np.repeat([[0.0], [1e6]], shape[0] // 2, axis=0) * np.ones(shape)]
)
@pytest.mark.parametrize("weight", [0.0, 1e-300, 1.0, 1e12])
def test_items_that_are_alike_and_metrics_that_are_zero_are_no_trouble(n_features, made, weight) -> None:
    points = made((6, n_features))
    view = Seen(
        points, [Metric(weight * np.eye(n_features)), Metric(np.zeros((n_features,) * 2))], np.array([0.3, 0.7])
    )
    assert len(until_done(Chooser(6, random_share=0.1, seed=0), view)) == n_pairs(6)


def test_threads_are_never_handed_the_same_pair() -> None:
    view, chooser = euclidean(some_points(40)), Chooser(40, seed=0)
    handed: list[list[frozenset[int]]] = [[] for _ in range(8)]

    def ask(pairs: list[frozenset[int]]) -> None:
        for round_state in range(40):
            choice = chooser.next(view)
            pairs.append(asked(choice))
            if round_state % 2:
                chooser.note(choice.left, choice.right, "different")

    threads = [Thread(target=ask, args=(pairs,)) for pairs in handed]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = [pair for pairs in handed for pair in pairs]
    assert len(everything) == 8 * 40
    assert len(set(everything)) == len(everything)


def test_a_view_of_a_tracker_will_do() -> None:
    points = some_points(50, 4)
    tracker = MetricTracker(method=Rice(engine="dense", initial_scale=0.1)).start(4)
    chooser = Chooser(50, seed=5)
    kinds = set()
    for _ in range(30):
        ocelad = tracker._fitted.ocelad
        learners = [learner.play() for learner in ocelad.bank.learners]
        choice = chooser.next(Seen(points, learners, ocelad.round_state.probabilities))
        kinds.add(choice.source)
        x, z = points[choice.left], points[choice.right]
        assert choice.distance == pytest.approx(tracker.metric_.distance(x, z))
        similar = abs(x[0] - z[0]) < 1
        chooser.note(choice.left, choice.right, "same" if similar else "different")
        tracker.learn_one(x, z, similar)
    assert kinds == {"active", "random"}
