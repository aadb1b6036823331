"""The choice of pairs: no repetition while others are left, and random pairs independent of the metric."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from threading import Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from ocelad import Metric, MetricTracker, Rice
from ocelad._typing import Floats
from ocelad.adaptive.changes import Change
from ocelad.choice import Choice, NoPairsLeft, PairChooser, pair_ranking
from ocelad.choice.chooser import RESERVATION_SECONDS
from ocelad.choice.pair_codes import decode_pair, draw_codes, encode_pair, n_pairs
from ocelad.choice.pair_ranking import PairRanking, rank_pairs


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
