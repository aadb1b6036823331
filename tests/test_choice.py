"""The choice of pairs: no repetition while others are left, and random pairs independent of the metric."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from random import Random
from threading import Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from ocelad import Metric, MetricTracker, Rice
from ocelad._typing import Floats
from ocelad.adaptive.changes import Change
from ocelad.choice import Choice, NoPairsLeft, PairChooser, TrackerView, pair_ranking
from ocelad.choice.chooser import RESERVATION_SECONDS
from ocelad.choice.pair_codes import decode_pair, draw_codes, encode_pair, n_pairs
from ocelad.choice.pair_ranking import PairRanking, rank_pairs
from ocelad.comparison_graph import ComparisonGraph
from ocelad.implied_answers import MAX_ITEMS


class StubView:
    """A view of the method "rice" with given metrics of the scales."""

    method = "rice"
    changes: tuple[Change, ...] = ()

    def __init__(self, points: Floats, scale_metrics: list[Metric], shares: Floats) -> None:
        self.points, self.scale_metrics, self.shares = points, scale_metrics, shares
        self.metric = Metric.average(scale_metrics, shares)

    def margins(self, left: np.ndarray, right: np.ndarray) -> Floats:
        return self.metric.threshold - self.metric.squared_length(self.points[left] - self.points[right])


class CalibratedView(StubView):
    """A view of the method "adaptive", which has one metric."""

    method = "adaptive"

    def __init__(self, points: Floats, metric: Metric) -> None:
        self.points, self.metric, self.scale_metrics, self.shares = points, metric, [], np.ones(1)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def euclidean(points: Floats, threshold: float = 1.0) -> StubView:
    return StubView(points, [Metric(np.eye(points.shape[1]), threshold)], np.ones(1))


def random_points(n_items: int, n_features: int = 3, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=(n_items, n_features))


def pair_of(choice: Choice) -> frozenset[int]:
    return frozenset((choice.left, choice.right))


def ask_all(chooser: PairChooser, view: StubView, kind: str = "same") -> list[frozenset[int]]:
    """Answer every proposed pair until none is left, and return the pairs."""
    pairs = []
    while True:
        try:
            choice = chooser.next(view)
        except NoPairsLeft:
            return pairs
        chooser.record(choice.right, choice.left, kind)
        pairs.append(pair_of(choice))


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_pair_has_one_code_in_either_order(one: int, other: int) -> None:
    if one != other:
        assert encode_pair(one, other) == encode_pair(other, one)
        assert decode_pair(encode_pair(one, other)) == (min(one, other), max(one, other))


def test_codes_have_no_gaps() -> None:
    assert sorted(encode_pair(i, j) for i, j in combinations(range(9), 2)) == list(range(n_pairs(9)))


@given(st.integers(2, 7), st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)), st.integers(0, 9))
def test_draws_are_distinct_and_from_what_is_left(n_items: int, used: set[int], reserved: set[int], seed: int) -> None:
    left = set(range(n_pairs(n_items))) - used - reserved
    drawn = draw_codes(np.random.default_rng(seed), n_items, 20, used, reserved)
    assert set(drawn) <= left
    assert len(set(drawn)) == len(drawn)
    assert bool(drawn) == bool(left)


@pytest.mark.parametrize("max_codes", [1, 3, 50])
def test_the_first_draw_is_uniform_over_what_is_left(max_codes: int) -> None:
    generator, used = np.random.default_rng(1), {0, 1, 2, 5, 6, 7, 8}
    firsts = Counter(draw_codes(generator, 5, max_codes, used)[0] for _ in range(3000))
    assert set(firsts) == {3, 4, 9}
    assert chisquare(list(firsts.values())).pvalue > 1e-3


@pytest.mark.parametrize("kind", ["same", "different", "skip"])
@pytest.mark.parametrize("n_items", [2, 3, 9])
@pytest.mark.parametrize("random_share", [0.0, 0.2, 1.0])
def test_every_pair_is_asked_once(n_items: int, random_share: float, kind: str) -> None:
    chooser = PairChooser(n_items, transitive=False, random_share=random_share, seed=3)
    pairs = ask_all(chooser, euclidean(random_points(n_items)), kind)
    assert sorted(map(sorted, pairs)) == sorted(map(list, combinations(range(n_items), 2)))
    with pytest.raises(NoPairsLeft, match=f"all {n_pairs(n_items)} pairs of the {n_items} items have been answered"):
        chooser.next(euclidean(random_points(n_items)))


@pytest.mark.parametrize("n_items", [0, 1])
def test_fewer_than_two_items_have_no_pairs(n_items: int) -> None:
    with pytest.raises(NoPairsLeft, match=f"too few items to ask about: {n_items}; at least 2"):
        PairChooser(n_items, transitive=False).next(euclidean(np.zeros((n_items, 2))))


def test_an_undone_pair_is_asked_again_unless_it_was_answered_twice() -> None:
    view, chooser = euclidean(random_points(3)), PairChooser(3, transitive=False, seed=0)
    for left, right, kind in [(0, 1, "same"), (1, 2, "skip"), (2, 0, "same"), (0, 2, "different")]:
        chooser.record(left, right, kind)
    chooser.record(2, 0, "undo")
    with pytest.raises(NoPairsLeft):
        chooser.next(view)
    chooser.record(1, 2, "undo")
    assert pair_of(chooser.next(view)) == {1, 2}


def test_new_items_are_asked_about_when_the_view_has_them() -> None:
    chooser = PairChooser(3, transitive=False, seed=0)
    ask_all(chooser, euclidean(random_points(3)))
    chooser.grow(5)
    with pytest.raises(NoPairsLeft):
        chooser.next(euclidean(random_points(3)))
    chooser.record(3, 4, "same")  # before a view has them
    assert len(ask_all(chooser, euclidean(random_points(5)))) == n_pairs(5) - n_pairs(3) - 1


def test_answers_about_items_that_the_view_does_not_have_yet_are_accepted() -> None:
    chooser = PairChooser(4, transitive=False, random_share=0.0, seed=0)
    chooser.grow(6)
    chooser.record(5, 0, "same")
    assert max(pair_of(chooser.next(euclidean(random_points(4))))) < 4


def test_a_reserved_pair_is_proposed_again_when_no_other_is_left() -> None:
    clock = Clock()
    chooser, view = PairChooser(3, transitive=False, seed=0, clock=clock), euclidean(random_points(3))
    assert len({pair_of(chooser.next(view)) for _ in range(3)}) == 3
    again = pair_of(chooser.next(view))
    clock.now += RESERVATION_SECONDS / 2
    assert pair_of(chooser.next(view)) != again


def test_a_reservation_expires() -> None:
    clock = Clock()
    chooser, view = PairChooser(9, transitive=False, random_share=0.0, seed=0, clock=clock), euclidean(random_points(9))
    best = pair_of(chooser.next(view))
    clock.now += RESERVATION_SECONDS - 1
    assert pair_of(chooser.next(view)) != best
    clock.now += RESERVATION_SECONDS + 1
    assert pair_of(chooser.next(view)) == best


def test_a_reservation_lasts_exactly_its_time() -> None:
    clock = Clock()
    chooser, view = PairChooser(9, transitive=False, random_share=0.0, seed=0, clock=clock), euclidean(random_points(9))
    best = pair_of(chooser.next(view))
    clock.now += RESERVATION_SECONDS
    assert pair_of(chooser.next(view)) == best


def test_an_undone_pair_is_not_reserved() -> None:
    view, proposed = euclidean(random_points(3)), set()
    for seed in range(30):
        chooser = PairChooser(3, transitive=False, random_share=1.0, seed=seed)
        first = chooser.next(view)
        (other,) = {0, 1, 2} - pair_of(first)
        chooser.record(first.left, first.right, "same")
        chooser.record(first.left, first.right, "undo")
        chooser.record(first.left, other, "same")
        proposed.add(pair_of(chooser.next(view)) == pair_of(first))
    assert proposed == {True, False}


def test_recent_pairs_are_those_that_were_answered_or_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked: list[set[frozenset[int]]] = []

    def rank(view: StubView, pairs: np.ndarray, recent: np.ndarray, counts: np.ndarray) -> PairRanking:
        ranked.append(set(map(frozenset, recent.tolist())))
        assert len(recent) == len(ranked[-1])
        return rank_pairs(view, pairs, recent, counts)

    monkeypatch.setattr("ocelad.choice.chooser.rank_pairs", rank)
    view, chooser = euclidean(random_points(9)), PairChooser(9, transitive=False, random_share=0.0, seed=0)
    chooser.record(0, 1, "same")
    chooser.record(0, 1, "undo")
    first = pair_of(chooser.next(view))
    chooser.next(view)
    assert ranked == [{frozenset((0, 1))}, {frozenset((0, 1)), first}]


@pytest.mark.parametrize(("n_features", "n_candidates"), [(128, 300), (129, 100)])
def test_there_are_fewer_candidates_with_many_features(
    n_features: int, n_candidates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_ranked = []

    def rank(view: StubView, pairs: np.ndarray, recent: np.ndarray, counts: np.ndarray) -> PairRanking:
        n_ranked.append(len(pairs))
        return rank_pairs(view, pairs, recent, counts)

    monkeypatch.setattr("ocelad.choice.chooser.rank_pairs", rank)
    PairChooser(25, transitive=False, random_share=0.0, seed=0).next(
        euclidean(random_points(25, n_features))
    )  # 300 pairs
    assert n_ranked == [n_candidates]


def test_random_pairs_are_uniform_over_what_is_left_for_any_metric() -> None:
    n_items, answered = 6, [(0, 1), (4, 2), (3, 5)]
    left = {frozenset(pair) for pair in combinations(range(n_items), 2)} - {frozenset(pair) for pair in answered}
    points, firsts = random_points(n_items), Counter()
    sides: Counter[bool] = Counter()
    for seed in range(600):
        pairs = []
        for weight in (1e-3, 30.0):
            chooser = PairChooser(n_items, transitive=False, random_share=0.9, seed=seed)
            for pair in answered:
                chooser.record(*pair, "same")
            choice = chooser.next(StubView(points, [Metric(weight * np.eye(3))], np.ones(1)))
            if choice.source == "random":
                pairs.append((choice.left, choice.right))
        assert (len(pairs), len(set(pairs))) in ((0, 0), (2, 1))  # the metric changes neither the kind nor the pair
        firsts.update(map(frozenset, pairs[:1]))
        sides.update(left < right for left, right in pairs[:1])
    assert set(firsts) == left
    assert chisquare(list(firsts.values())).pvalue > 1e-3
    assert 0.86 < firsts.total() / 600 < 0.94
    assert min(sides[True], sides[False]) > 0.3 * sides.total()


def test_the_share_of_random_pairs_is_as_configured() -> None:
    view = euclidean(random_points(60))
    for share, count, tolerance in ((0.0, 20, 0), (0.3, 200, 15), (1.0, 20, 0)):
        chooser = PairChooser(60, transitive=False, random_share=share, seed=2)
        kinds = Counter(chooser.next(view).source for _ in range(count))
        assert abs(kinds["random"] - share * count) <= tolerance
    with pytest.raises(ValueError, match="random_share must be a finite number of at least 0 and of at most 1"):
        PairChooser(3, transitive=False, random_share=1.5)


def test_the_same_seed_and_log_give_the_same_pairs_after_a_restart() -> None:
    view = euclidean(random_points(30))
    one, other = PairChooser(30, transitive=False, seed=7), PairChooser(30, transitive=False, seed=7)
    first = [one.next(view) for _ in range(20)]
    assert [other.next(view) for _ in range(20)] == first
    log = [(choice.left, choice.right, "same") for choice in first] + [(first[3].left, first[3].right, "undo")]
    again = [
        PairChooser(30, transitive=False, random_share=0.0, seed=1),
        PairChooser(30, transitive=False, random_share=0.0, seed=1),
    ]
    for chooser in again:
        for entry in log:
            chooser.record(*entry)
    assert again[0].next(view) == again[1].next(view)


def test_an_uncertain_pair_is_preferred_and_the_reason_gives_its_distance() -> None:
    line = np.array([[0.0], [0.1], [5.0], [5.9]])  # the last two are 0.9 of the threshold apart
    choice = PairChooser(4, transitive=False, random_share=0.0, seed=0).next(euclidean(line))
    assert pair_of(choice) == {2, 3}
    assert choice.distance == pytest.approx(0.9)
    assert choice.reason.startswith("The metric is unsure about these two: their distance is 0.90 of the threshold")
    assert "random" in PairChooser(4, transitive=False, random_share=1.0, seed=0).next(euclidean(line)).reason


def test_the_reason_lists_disagreement_and_novelty() -> None:
    corner = np.array([[0.0, 0.0], [0.9, -0.5], [0.0, -0.9]])
    scale_metrics = [Metric(np.diag([1.0, 0.8])), Metric(np.diag([1.0, 1.2]))]  # they disagree about the second feature
    chooser = PairChooser(3, transitive=False, random_share=0.0, seed=0)
    chooser.record(0, 1, "same")
    assert chooser.next(StubView(corner, scale_metrics, np.array([0.5, 0.5]))).reason == (
        "The metric is unsure about these two: their distance is 0.90 of the threshold, its scales disagree more "
        "than about most pairs, and recent answers say less about them than about most pairs."
    )


@pytest.mark.parametrize(("threshold", "pair", "probability"), [(1.0, {2, 3}, 55), (-3.0, {0, 1}, 5)])
def test_with_calibrated_log_odds_the_pair_nearest_to_even_odds_is_preferred(
    threshold: float, pair: set[int], probability: int
) -> None:
    """If no pair is predicted to be the same, because the threshold is negative, this is the closest pair."""
    line = np.array([[0.0], [0.1], [5.0], [5.9], [20.0]])
    choice = PairChooser(5, transitive=False, random_share=0.0, seed=0).next(
        CalibratedView(line, Metric([[1.0]], threshold))
    )
    assert pair_of(choice) == pair
    assert choice.distance == pytest.approx(0.9 if threshold > 0 else 0.1)
    assert choice.reason.startswith(
        f"The metric is unsure about these two: the probability that they are the same is {probability} %"
    )


def test_of_equally_uncertain_pairs_the_one_unlike_recent_ones_is_preferred() -> None:
    corner = np.array([[0.0, 0.0], [0.9, 0.0], [7.0, 7.0], [7.0, 7.9], [15.0, 0.0], [15.9, 0.0]])
    pairs = np.array([[0, 1], [2, 3]])
    ranking = rank_pairs(euclidean(corner), pairs, np.array([[4, 5]]), np.zeros(2))
    assert ranking.rows.tolist() == [1, 0]
    assert ranking.novel.tolist() == [True, False]


def test_of_equally_uncertain_pairs_the_one_that_scales_disagree_about_is_preferred() -> None:
    corner = np.array([[0.0, 0.0], [1.0, 0.0], [7.0, 7.0], [7.0, 8.0]])
    scale_metrics = [Metric(np.diag([0.9, 0.2])), Metric(np.diag([0.9, 1.6]))]
    ranking = rank_pairs(
        StubView(corner, scale_metrics, np.array([0.5, 0.5])),
        np.array([[0, 1], [2, 3]]),
        np.empty((0, 2), int),
        np.zeros(2),
    )
    assert ranking.rows.tolist() == [1, 0]
    assert ranking.disputed.tolist() == [True, False]


def test_of_equally_uncertain_pairs_the_one_with_items_asked_less_often_is_preferred() -> None:
    corner = np.array([[0.0], [0.9], [7.0], [7.9]])
    ranking = rank_pairs(euclidean(corner), np.array([[0, 1], [2, 3]]), np.empty((0, 2), int), np.array([3, 0]))
    assert ranking.rows.tolist() == [1, 0]


@pytest.mark.parametrize("n_features", [1, 4])
@pytest.mark.parametrize(
    "make_points", [np.zeros, np.ones, lambda shape: np.repeat([[0.0], [1e6]], shape[0] // 2, axis=0) * np.ones(shape)]
)
@pytest.mark.parametrize("weight", [0.0, 1e-300, 1.0, 1e12])
def test_equal_items_and_zero_metrics_are_accepted(n_features, make_points, weight) -> None:
    points = make_points((6, n_features))
    view = StubView(
        points, [Metric(weight * np.eye(n_features)), Metric(np.zeros((n_features,) * 2))], np.array([0.3, 0.7])
    )
    assert len(ask_all(PairChooser(6, transitive=False, random_share=0.1, seed=0), view)) == n_pairs(6)


def test_threads_never_receive_the_same_pair() -> None:
    view, chooser = euclidean(random_points(40)), PairChooser(40, transitive=False, seed=0)
    received: list[list[frozenset[int]]] = [[] for _ in range(8)]

    def ask(pairs: list[frozenset[int]]) -> None:
        for turn in range(40):
            choice = chooser.next(view)
            pairs.append(pair_of(choice))
            if turn % 2:
                chooser.record(choice.left, choice.right, "different")

    threads = [Thread(target=ask, args=(pairs,)) for pairs in received]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = [pair for pairs in received for pair in pairs]
    assert len(everything) == 8 * 40
    assert len(set(everything)) == len(everything)


@pytest.mark.parametrize("method", ["adaptive", Rice(engine="dense", initial_scale=0.1)])
def test_a_chooser_works_with_a_tracker(method: Any) -> None:
    points = random_points(50, 4)
    tracker = MetricTracker(method=method).start(4)
    chooser = PairChooser(50, transitive=False, seed=5)
    kinds = set()
    for _ in range(30):
        view: StubView = CalibratedView(points, tracker.metric_)
        if isinstance(method, Rice):
            learners = tracker._fitted.tracker.ocelad.bank.learners
            view = StubView(points, [learner.play() for learner in learners], tracker.weights_)
        choice = chooser.next(view)
        kinds.add(choice.source)
        x, z = points[choice.left], points[choice.right]
        assert choice.distance == pytest.approx(tracker.metric_.distance(x, z))
        similar = abs(x[0] - z[0]) < 1
        chooser.record(choice.left, choice.right, "same" if similar else "different")
        tracker.learn_one(x, z, similar)
    assert kinds == {"active", "random"}


@pytest.mark.parametrize("method", ["rice", "adaptive"])
def test_the_ranking_agrees_with_its_definition(method: str) -> None:
    """Every term is computed pair by pair, with loops and covariances instead of matrix products."""
    rng = np.random.default_rng(5)
    points, shares = rng.normal(size=(30, 3)), np.array([0.5, 0.2, 0.3])
    scale_metrics = [Metric.from_factors(rng.normal(size=(2, 3)), threshold) for threshold in (0.5, 2.0, 5.0)]
    view = StubView(points, scale_metrics, shares)
    unit = view.metric.threshold
    if method == "adaptive":
        view, unit = CalibratedView(points, view.metric), 1.0
    pairs = np.array(list(combinations(range(12), 2)))
    recent, counts = np.array([[20, 21], [22, 23], [24, 25]]), rng.integers(0, 9, size=len(pairs))
    directions = [(points[a] - points[b]) / np.linalg.norm(points[a] - points[b]) for a, b in recent]
    noisy = np.array([[(d @ e) ** 2 + (d is e) for e in directions] for d in directions])
    scores, explained, disagreement, margin_values = [], [], [], []
    for (a, b), asked in zip(pairs, counts, strict=True):
        u = points[a] - points[b]
        covariance = np.array([(u @ d / np.linalg.norm(u)) ** 2 for d in directions])
        explained.append(covariance @ np.linalg.inv(noisy) @ covariance)
        margins = [metric.threshold - metric.squared_distance(points[a], points[b]) for metric in scale_metrics]
        variance = np.cov(margins, aweights=shares, ddof=0) if method == "rice" else 0.0
        disagreement.append(np.sqrt(variance) / unit)
        margin = view.metric.threshold - view.metric.squared_distance(points[a], points[b])
        margin_values.append(margin)
        scores.append(
            -abs(margin / unit - pair_ranking.TARGET)
            - pair_ranking.NOVELTY_WEIGHT * explained[-1]
            - pair_ranking.COVERAGE_WEIGHT * np.log2(1 + asked)
        )
    shortlist = sorted(range(len(pairs)), key=lambda i: -scores[i])[: pair_ranking.SHORTLIST_SIZE]
    final = [scores[i] + pair_ranking.DISAGREEMENT_WEIGHT * disagreement[i] for i in range(len(pairs))]
    ranking = rank_pairs(view, pairs, recent, counts)
    assert len(shortlist) < len(pairs)
    assert ranking.rows.tolist() == sorted(shortlist, key=lambda i: -final[i])
    np.testing.assert_allclose(ranking.margins, [margin_values[i] for i in ranking.rows], rtol=1e-9, atol=1e-12)
    assert ranking.novel.tolist() == [explained[i] < np.quantile(explained, 0.25) for i in ranking.rows]
    limit = np.quantile([disagreement[i] for i in shortlist], 0.75)
    assert ranking.disputed.tolist() == [disagreement[i] > limit for i in ranking.rows]


# Questions that link items with groups.


def similar_view(labels: Sequence[int], seed: int = 0) -> CalibratedView:
    """Return a view of items with classes, whose metric knows roughly which ones are the same."""
    points = np.eye(max(labels) + 1)[list(labels)] + 0.3 * random_points(len(labels), max(labels) + 1, seed)
    return CalibratedView(points, Metric(2.0 * np.eye(max(labels) + 1), 2.0))


def truth(labels: Sequence[int]) -> Callable[[int, int], str]:
    return lambda left, right: "same" if labels[left] == labels[right] else "different"


def choices_until_the_end(chooser: PairChooser, view: StubView) -> Iterator[Choice]:
    """Yield choices until no pair is left, and check the message."""
    n_items = len(view.points)
    for _ in range(20 * n_pairs(n_items)):
        try:
            yield chooser.next(view)
        except NoPairsLeft:
            break
    message = f"^all {n_pairs(n_items)} pairs of the {n_items} items have been answered or skipped, or other answers im"
    with pytest.raises(NoPairsLeft, match=message):
        chooser.next(view)


def implied_by(log: Iterable[tuple[int, int, str]]) -> ComparisonGraph:
    """Return the graph of the answers of a log without undo."""
    graph = ComparisonGraph()
    for left, right, kind in log:
        if kind != "skip":
            graph.add(left, right, kind == "same")
    return graph


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=14), st.integers(0, 99), st.randoms(use_true_random=False))
def test_only_checks_and_contradictions_are_implied_and_every_pair_is_asked_or_implied_in_the_end(
    labels: list[int], seed: int, random: Random
) -> None:
    """Also with wrong answers and skips."""
    view, chooser, log = similar_view(labels, seed), PairChooser(len(labels), seed=seed), []
    for choice in choices_until_the_end(chooser, view):
        implied = implied_by(log).implied(choice.left, choice.right)
        asked = pair_of(choice) in {frozenset(entry[:2]) for entry in log}
        if choice.source in ("link", "active", "random"):
            assert implied == 0
            assert not asked
        elif choice.source == "check":
            assert implied != 0
            assert not asked
        kind = random.choices([truth(labels)(choice.left, choice.right), "same", "different", "skip"], [8, 1, 1, 1])[0]
        log.append((choice.left, choice.right, kind))
        chooser.record(*log[-1])
    graph, asked_pairs = implied_by(log), {frozenset(entry[:2]) for entry in log}
    for pair in combinations(range(len(labels)), 2):
        assert frozenset(pair) in asked_pairs or graph.implied(*pair) != 0


def test_a_few_groups_need_hardly_more_answers_than_items() -> None:
    labels = [i % 3 for i in range(60)]
    view, chooser, n_asked = similar_view(labels), PairChooser(60, seed=0), 0
    for choice in choices_until_the_end(chooser, view):
        chooser.record(choice.left, choice.right, truth(labels)(choice.left, choice.right))
        n_asked += 1
    assert n_asked < 120
    assert chooser._asked.graph.n_implied == n_pairs(60)


def test_the_shares_of_random_pairs_and_checks_are_as_configured() -> None:
    labels = [i % 4 for i in range(3000)]
    view, chooser = similar_view(labels), PairChooser(3000, seed=1)
    sources, checks, one_sided = Counter(), Counter(), PairChooser(3000, random_share=0.0, check_share=1.0, seed=1)
    for _ in range(1000):
        choice = chooser.next(view)
        kind = truth(labels)(choice.left, choice.right)
        sources[choice.source] += 1
        checks[kind] += choice.source == "check"
        chooser.record(choice.left, choice.right, kind)
        one_sided.record(choice.left, choice.right, kind)
    assert 90 <= sources["random"] <= 150
    assert 75 <= sources["check"] <= 125
    assert sources["link"] > 650
    assert min(checks.values()) > 0.35 * checks.total()
    assert {one_sided.next(view).source for _ in range(50)} == {"check"}
    with pytest.raises(ValueError, match="check_share must be a finite number of at least 0 and of at most 1"):
        PairChooser(3, check_share=-0.1)


def test_without_checks_and_random_pairs_there_are_none() -> None:
    labels = [i % 4 for i in range(300)]
    view, chooser = similar_view(labels), PairChooser(300, random_share=0.0, check_share=0.0, seed=1)
    for _ in range(100):
        choice = chooser.next(view)
        assert choice.source in ("link", "active")
        chooser.record(choice.left, choice.right, truth(labels)(choice.left, choice.right))


def test_random_pairs_are_uniform_over_what_is_neither_asked_nor_implied() -> None:
    log = [(0, 1, "same"), (1, 2, "same"), (3, 4, "skip")]  # implied: 0, 2
    view, firsts = similar_view([0] * 6), Counter()
    for seed in range(1200):
        chooser = PairChooser(6, random_share=1.0, seed=seed)
        for entry in log:
            chooser.record(*entry)
        choice = chooser.next(view)
        assert choice.source == "random"
        firsts[pair_of(choice)] += 1
    excluded = {frozenset(pair) for pair in ((0, 1), (1, 2), (0, 2), (3, 4))}
    assert set(firsts) == {frozenset(pair) for pair in combinations(range(6), 2)} - excluded
    assert chisquare(list(firsts.values())).pvalue > 1e-3


@pytest.mark.parametrize("n_items", [40, 120, 1600])
def test_the_last_pairs_are_found_among_many_that_are_implied(n_items: int) -> None:
    chooser = PairChooser(n_items, random_share=1.0, seed=0)
    for i in range(1, n_items - 1):
        chooser.record(0, i, "same")
    choice = chooser.next(similar_view([0] * n_items))
    assert choice.source == "random"
    assert n_items - 1 in pair_of(choice)


def test_pairs_of_two_groups_that_were_not_compared_are_found() -> None:
    """Nearly all pairs are implied: only those of the two small groups are not."""
    chooser, labels = PairChooser(400, random_share=1.0, seed=0), [0] * 396 + [1, 1, 2, 2]
    for i in range(1, 396):
        chooser.record(0, i, "same")
    for left, right, kind in ((396, 397, "same"), (398, 399, "same"), (0, 396, "different"), (0, 398, "different")):
        chooser.record(left, right, kind)
    assert {min(pair_of(chooser.next(similar_view(labels)))) for _ in range(4)} == {396, 397}


def test_a_fresh_item_is_compared_with_its_most_probable_group() -> None:
    labels = [0, 0, 0, 1, 1, 1, 1]
    chooser = PairChooser(7, random_share=0.0, check_share=0.0, seed=0)
    for left, right, kind in ((0, 1, "same"), (1, 2, "same"), (3, 4, "same"), (4, 5, "same"), (0, 3, "different")):
        chooser.record(left, right, kind)
    choice = chooser.next(similar_view(labels))
    assert choice.source == "link"
    assert 6 in pair_of(choice)
    assert pair_of(choice) < {3, 4, 5, 6}
    assert re.fullmatch(
        r"One of these two most probably belongs to the group of 3 items of the other \(\d\d %\)\.", choice.reason
    )


def test_two_groups_that_may_be_the_same_are_compared() -> None:
    chooser, labels = PairChooser(5, random_share=0.0, check_share=0.0, seed=0), [0] * 5
    for left, right in ((0, 1), (1, 2), (3, 4)):
        chooser.record(left, right, "same")
    choice = chooser.next(similar_view(labels))
    assert choice.source == "link"
    assert len(pair_of(choice) & {3, 4}) == 1
    assert choice.reason.startswith("These two are of groups of 2 and 3 items, which may be the same group (")


def test_if_no_group_is_probable_the_most_informative_pair_is_asked() -> None:
    view = CalibratedView(random_points(50), Metric(np.eye(3), -5.0))  # all probabilities are below 1 %
    chooser = PairChooser(50, random_share=0.0, check_share=0.0, seed=0)
    chooser.record(0, 1, "different")
    choice = chooser.next(view)
    assert choice.source == "active"
    assert choice.reason.startswith("The metric is unsure about these two")


def test_a_link_with_the_method_rice_gives_no_probability() -> None:
    """Its margins are not calibrated."""
    view, chooser = euclidean(0.1 * random_points(5)), PairChooser(5, random_share=0.0, check_share=0.0, seed=0)
    chooser.record(0, 1, "same")
    assert chooser.next(view).reason == "One of these two most probably belongs to the group of 2 items of the other."


def test_a_check_does_not_say_which_answer_is_implied() -> None:
    view, texts = similar_view([0, 0, 0, 0, 1, 1, 1]), set()
    for seed in range(20):
        chooser = PairChooser(7, random_share=0.0, check_share=1.0, seed=seed)
        for left, right, kind in ((0, 1, "same"), (1, 2, "same"), (4, 5, "same"), (1, 4, "different")):
            chooser.record(left, right, kind)
        choice = chooser.next(view)
        assert choice.source == "check"
        texts.add((choice.reason, chooser._asked.graph.implied(choice.left, choice.right)))
    reason = "Other answers imply the answer about these two; asking shows whether answers agree."
    assert texts == {(reason, 1), (reason, -1)}


@pytest.mark.parametrize("answer_was_wrong", [True, False])
def test_a_contradiction_is_asked_again_until_it_is_settled(answer_was_wrong: bool) -> None:
    """Either the answer "different" was wrong, or an earlier answer "same" had joined two groups."""
    labels = [0] * 6 if answer_was_wrong else [0, 0, 0, 1, 1, 1]
    chooser = PairChooser(6, random_share=0.0, check_share=0.0, seed=0)
    log = [(0, 1, "same"), (1, 2, "same"), (2, 3, "same"), (3, 4, "same"), (4, 5, "same"), (0, 5, "different")]
    for entry in log:
        chooser.record(*entry)
    view, sources = similar_view(labels), []
    for choice in choices_until_the_end(chooser, view):
        sources.append(choice.source)
        if choice.source == "settle" and pair_of(choice) == {0, 5}:
            assert choice.reason.startswith("The answer about these two contradicts others")
        chooser.record(choice.left, choice.right, truth(labels)(choice.left, choice.right))
    assert "settle" in sources
    graph = chooser._asked.graph
    for left, right in combinations(range(6), 2):
        assert graph.implied(left, right) == (1 if labels[left] == labels[right] else -1)


def test_contradictions_are_a_tenth_of_the_questions() -> None:
    labels = [i % 4 for i in range(3000)]
    view, chooser, rng = similar_view(labels), PairChooser(3000, seed=1), np.random.default_rng(0)
    sources = Counter()
    for _ in range(1000):
        choice = chooser.next(view)
        sources[choice.source] += 1
        right = truth(labels)(choice.left, choice.right)
        wrong = "same" if right == "different" else "different"
        chooser.record(choice.left, choice.right, wrong if rng.random() < 0.1 else right)
    assert 30 <= sources["settle"] <= 130
    assert sources["link"] > 500


def test_a_skipped_contradiction_is_not_asked_again() -> None:
    chooser, view = PairChooser(4, random_share=0.0, check_share=0.0, seed=0), similar_view([0] * 4)
    for left, right in ((0, 1), (1, 2), (0, 3), (3, 2)):
        chooser.record(left, right, "same")
    chooser.record(0, 2, "different")
    choice = chooser.next(view)
    assert (choice.source, pair_of(choice)) == ("settle", {0, 2})
    chooser.record(0, 2, "skip")
    with pytest.raises(NoPairsLeft):
        chooser.next(view)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 7), st.integers(0, 7), st.sampled_from(["same", "different", "skip"]), st.booleans()
        ).filter(lambda entry: entry[0] != entry[1]),
        max_size=25,
    ),
    st.sets(st.integers(0, 24)),
    st.integers(0, 9),
)
def test_undo_restores(entries: list[tuple[int, int, str, bool]], undone: set[int], seed: int) -> None:
    """A chooser that has seen entries and their undo is like one that has never seen them."""
    view = similar_view([i % 3 for i in range(8)])
    one, other = PairChooser(8, seed=seed), PairChooser(8, seed=seed)
    waiting = []
    for number, (left, right, kind, at_once) in enumerate(entries):
        one.record(left, right, kind, number=number)
        if number % 5 == 0:
            one._asked.update(0)
        if number in undone:
            if at_once:
                one.record(right, left, "undo")
            else:
                waiting.append((left, right, number))
        else:
            other.record(left, right, kind)
    for left, right, number in waiting:
        one.record(left, right, "undo", undoes=number)
    for chooser in (one, other):
        chooser._asked.recent.clear()  # also of pairs that were undone
    assert outcome(one, view) == outcome(other, view)
    assert one._asked.graph.groups() == other._asked.graph.groups()
    assert list(one._asked.known) == list(other._asked.known)
    assert one._asked.item_counts.tolist() == other._asked.item_counts.tolist()


def outcome(chooser: PairChooser, view: StubView) -> list[Choice | str]:
    """Return the next three choices, or why there are none."""
    try:
        return [chooser.next(view) for _ in range(3)]
    except NoPairsLeft as error:
        return [str(error)]


def test_an_undo_without_an_entry_is_refused() -> None:
    chooser = PairChooser(3, seed=0)
    chooser.record(0, 1, "same", number=4)
    for pair, undoes in (((0, 2), None), ((0, 1), 5)):
        with pytest.raises(ValueError, match="there is nothing to undo"):
            chooser.record(*pair, "undo", undoes=undoes)
    chooser.record(0, 1, "undo", undoes=4)
    assert chooser._asked.item_counts.tolist() == [0, 0, 0]


def test_after_a_change_of_the_question_earlier_answers_imply_nothing() -> None:
    chooser, view = PairChooser(5, random_share=0.0, check_share=1.0, seed=0), similar_view([0, 0, 0, 1, 1])
    for left, right, kind in ((0, 1, "same"), (1, 2, "same"), (3, 4, "same"), (3, 0, "same")):
        chooser.record(left, right, kind)
    chooser.next(view)
    assert chooser._asked.graph.implied(0, 2) == 1
    view.changes = (Change(round=3, detected=4, evidence=9.0),)  # with the third answer
    chooser.next(view)
    assert chooser._asked.graph.implied(0, 2) == 0
    assert chooser._asked.graph.groups() == [[3, 4, 0]]
    chooser.record(1, 2, "undo")  # the change is then one answer earlier
    view.changes = (Change(round=2, detected=3, evidence=9.0),)
    chooser.next(view)
    assert chooser._asked.graph.groups() == [[3, 4, 0]]
    view.changes = ()  # an undo may also undo the change
    chooser.next(view)
    assert chooser._asked.graph.groups() == [[0, 1], [3, 4]]  # one answer "same" does not join two groups


def test_only_the_last_items_are_linked_with() -> None:
    n = MAX_ITEMS + 10
    chooser = PairChooser(n + 50, random_share=0.0, check_share=0.0, seed=0)
    for i in range(1, n):
        chooser.record(i - 1, i, "same")
    view = similar_view([0] * (n + 50))
    partners = set()
    for _ in range(40):
        choice = chooser.next(view)
        assert choice.source == "link"
        partners.add(min(pair_of(choice)))
    assert len(chooser._asked.known) == MAX_ITEMS
    assert min(partners) >= n - MAX_ITEMS


def test_the_same_seed_and_entries_give_the_same_questions() -> None:
    labels = [i % 3 for i in range(200)]
    view, results = similar_view(labels), []
    for _ in range(2):
        chooser = PairChooser(200, seed=3)
        results.append([])
        for _ in range(60):
            choice = chooser.next(view)
            results[-1].append(choice)
            chooser.record(choice.left, choice.right, truth(labels)(choice.left, choice.right))
    assert results[0] == results[1]
    assert {choice.source for choice in results[0]} >= {"random", "check", "link"}


def test_new_items_are_linked_when_the_view_has_them() -> None:
    chooser = PairChooser(3, random_share=0.0, check_share=0.0, seed=0)
    chooser.record(0, 1, "same")
    chooser.record(0, 2, "same")
    with pytest.raises(NoPairsLeft):
        chooser.next(similar_view([0] * 3))
    chooser.grow(5)
    with pytest.raises(NoPairsLeft):
        chooser.next(similar_view([0] * 3))
    chooser.record(0, 4, "same")  # before a view has it
    with pytest.raises(NoPairsLeft):
        chooser.next(similar_view([0] * 3))
    assert 3 in pair_of(chooser.next(similar_view([0] * 5)))


def test_an_item_that_is_being_linked_is_not_proposed_to_another_person() -> None:
    clock, labels = Clock(), [0] * 10
    chooser = PairChooser(10, random_share=0.0, check_share=0.0, seed=0, clock=clock)
    chooser.record(0, 1, "same")
    view = similar_view(labels)
    choices = [chooser.next(view) for _ in range(8)]  # one for each fresh item
    assert {choice.source for choice in choices} == {"link"}
    assert {max(pair_of(choice)) for choice in choices} == set(range(2, 10))
    assert chooser.next(view).source == "active"  # then pairs that link nothing more
    clock.now += RESERVATION_SECONDS
    assert chooser.next(view).source == "link"


def test_threads_receive_different_pairs_and_link_different_items() -> None:
    labels = [i % 4 for i in range(400)]
    view, chooser = similar_view(labels), PairChooser(400, seed=0)
    received: list[list[Choice]] = [[] for _ in range(8)]
    errors = []

    def ask(choices: list[Choice]) -> None:
        try:
            for _ in range(40):
                choice = chooser.next(view)
                choices.append(choice)
                chooser.record(choice.left, choice.right, truth(labels)(choice.left, choice.right))
                if len(choices) % 9 == 0:
                    chooser.record(choice.left, choice.right, "undo")
        except Exception as error:
            errors.append(error)

    threads = [Thread(target=ask, args=(choices,)) for choices in received]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    undone = [choice for choices in received for choice in choices[8::9]]
    standing = [choice for choices in received for i, choice in enumerate(choices) if i % 9 != 8]
    assert len({pair_of(choice) for choice in standing}) == len(standing) == 8 * 36
    assert len(undone) == 8 * 4
    chooser.next(view)
    graph = chooser._asked.graph
    assert graph.n_contradicted == 0
    wrong = [-1 if labels[choice.left] == labels[choice.right] else 1 for choice in standing]
    implied = [graph.implied(choice.left, choice.right) for choice in standing]
    assert not any(a == b for a, b in zip(implied, wrong, strict=True))
    # One answer does not join two groups. An item may have got a group of its own while it was asked about.
    assert implied.count(0) <= 4


def test_a_view_of_a_tracker() -> None:
    points = random_points(30, 4)
    tracker = MetricTracker(preprocessor=points).start(4, items=points)
    chooser = PairChooser(30, seed=0)
    for _ in range(20):
        choice = chooser.next(TrackerView(tracker, points))
        assert choice.distance == pytest.approx(tracker.metric_.distance(points[choice.left], points[choice.right]))
        same = (points[choice.left, 0] > 0) == (points[choice.right, 0] > 0)
        chooser.record(choice.left, choice.right, "same" if same else "different")
        tracker.partial_fit([[choice.left, choice.right]], [same])
    rice = TrackerView(MetricTracker(method="rice").start(4), points)
    assert (rice.method, list(rice.changes)) == ("rice", [])
    assert PairChooser(30, transitive=False, random_share=0.0).next(rice).source == "active"
    with pytest.raises(ValueError, match="points"):
        TrackerView(tracker, points[:, :3])


def test_without_transitivity_questions_are_random_or_active():
    """Chains of neighbours on a line: their ends are different, although they are implied to be the same."""
    chooser, points = PairChooser(60, seed=0), np.arange(60.0)[:, None]
    view = TrackerView(MetricTracker(preprocessor=points).start(1), points)
    for first in range(0, 60, 3):
        chooser.record(first, first + 1, "same")
        chooser.record(first + 1, first + 2, "same")
    assert "link" in {chooser.next(view).source for _ in range(10)}
    for first in range(0, 60, 3):
        chooser.record(first, first + 2, "different")
    assert {chooser.next(view).source for _ in range(30)} == {"random", "active"}
