"""Answers that others imply: what trackers learn from them, and what they must not change.

With NUMBA_DISABLE_JIT=1 the kernels run as plain Python, on fewer rounds.
"""

from __future__ import annotations

import json
import pickle
from copy import copy

import numpy as np
import pytest
from engine_cases import COMPILED
from numpy.testing import assert_allclose

from ocelad import implied_answers
from ocelad.adaptive.adaptive_tracker import PLAIN_ROUNDS, AdaptiveTracker
from ocelad.adaptive.changes import MIN_ROUND
from ocelad.adaptive.curved_tracker import MAP_ROUNDS, CurvedTracker
from ocelad.adaptive.decisions import DecisionThresholds
from ocelad.adaptive.group_discriminant import Grouping, linear_discriminant
from ocelad.adaptive.mixture import Mixture
from ocelad.adaptive.precompile import precompile_adaptive
from ocelad.adaptive.rehearsal import draw_item_pairs
from ocelad.comparison_graph import ComparisonGraph
from ocelad.engines.kernel_loading import mark_kernels_ready
from ocelad.estimators.learning_method import resume_tracker
from ocelad.implied_answers import (
    FADING,
    LEARNED_WEIGHT,
    MAX_ITEMS,
    N_LEARNED,
    N_WEIGHED,
    Answer,
    ImpliedAnswers,
    TableItems,
    _Groups,
)
from ocelad.metric import Metric
from ocelad.pairs import Events, PointPairs

RTOL = 1e-9  # same mathematics, different arithmetic
ROUNDS = 100 if COMPILED else 40
only_compiled = pytest.mark.skipif(not COMPILED, reason="too many rounds for plain Python")
# Linear trackers; curved ones with items, and without: their maps are drawn from the points of the answers.
KINDS = ["linear", "curved", "curved without items"]
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module", autouse=True)
def _compiled_kernels():
    """Compile all kernels first: until they are ready, the definition computes, with other last bits."""
    if COMPILED:
        precompile_adaptive()
        mark_kernels_ready()


def some_items(count=50, n=4, seed=0):
    """Return points of three classes, which differ in one feature of small variance, and the classes."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(3, size=count)
    points = rng.normal(size=(count, n)) * np.array([0.3, *[2.0] * (n - 1)])
    points[:, 0] += classes
    return points, classes


def some_answers(classes, count, seed=1):
    """Return correct answers about random pairs, with weights."""
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(len(classes), 2, replace=False) for _ in range(count)])
    weights = rng.choice([0.5, 1.0, 2.0], size=count)
    return [
        Answer(i, j, 1.0 if classes[i] == classes[j] else -1.0, w) for (i, j), w in zip(pairs, weights, strict=True)
    ]


def make(kind, points):
    if kind == "linear":
        return AdaptiveTracker(points.shape[1], rehearsal=draw_item_pairs(points).events(), grouped=True)
    return CurvedTracker(points.shape[1], items=points if kind == "curved" else None, grouped=True)


def learn(tracker, implied, answers, points, chunk=None):
    """Learn from answers; bring the discriminants up to date after every chunk. Returns the margins."""
    items, margins = TableItems(points), []
    for k, answer in enumerate(answers, start=1):
        margins.append(implied.learn(tracker, answer, items))
        if chunk and k % chunk == 0:
            implied.update(tracker, items)
    implied.update(tracker, items)
    return margins


def everything(tracker, implied):
    """Return all that later answers depend on, in a form that can be compared."""
    return [
        {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()} | {"json": metadata}
        for arrays, metadata in (tracker.state(), implied.state())
    ]


# -- What was learned is a function of the answers in their order --


@pytest.fixture(scope="module", params=KINDS if COMPILED else [])
def whole(request):
    """A kind of tracker, answers, and everything after all of them."""
    points, classes = some_items()
    answers = some_answers(classes, ROUNDS)
    tracker, implied = make(request.param, points), ImpliedAnswers()
    learn(tracker, implied, answers, points)
    return request.param, points, answers, everything(tracker, implied)


@only_compiled
@pytest.mark.parametrize("count", [0, 20, PLAIN_ROUNDS, 80])
def test_saved_pickled_and_copied_ones_continue_with_the_same_bits(whole, count):
    kind, points, answers, expected = whole
    tracker, implied = make(kind, points), ImpliedAnswers()
    learn(tracker, implied, answers[:count], points)
    copied, before = (copy(tracker), implied.copy()), pickle.dumps((tracker, implied))
    learn(*copied, answers[count:], points)
    assert everything(*copied) == expected
    assert pickle.dumps((tracker, implied)) == before  # the original does not change with its copy
    (arrays, metadata), (graph_arrays, graph_metadata) = tracker.state(), implied.state()
    loaded = (
        resume_tracker(arrays, json.loads(json.dumps(metadata))),
        ImpliedAnswers.from_state(graph_arrays, json.loads(json.dumps(graph_metadata))),
    )
    for others in (pickle.loads(before), loaded, (tracker, implied)):
        learn(*others, answers[count:], points)
        assert everything(*others) == expected


@only_compiled
@pytest.mark.parametrize("chunk", [1, 7])
def test_reading_between_answers_changes_no_bit(whole, chunk):
    kind, points, answers, expected = whole
    tracker, implied = make(kind, points), ImpliedAnswers()
    learn(tracker, implied, answers, points, chunk)
    assert everything(tracker, implied) == expected


def test_copies_are_independent():
    points, classes = some_items()
    answers = some_answers(classes, 30)
    tracker, implied = make("linear", points), ImpliedAnswers()
    learn(tracker, implied, answers[:20], points)
    copied, groups, recent = implied.copy(), implied.graph.groups(), implied.recent
    learn(copy(tracker), copied, answers[20:], points)
    assert copied.graph.n_answers == 30
    assert (implied.graph.n_answers, implied.graph.groups(), implied.recent) == (20, groups, recent)


@kinds
def test_compiled_code_plays_the_same_rounds_again(kind):
    """When compiled code takes over, it plays all answers and implied ones again, measured by the same distances."""
    points, classes = some_items()
    tracker, implied = make(kind, points), ImpliedAnswers()
    learn(tracker, implied, some_answers(classes, 50), points)
    metric, weights = tracker.play(), tracker.expert_weights
    inner = tracker if kind == "linear" else tracker._tracker
    assert not inner._is_compiled
    inner._hand_over(wait=True)
    assert inner._is_compiled
    assert_allclose(tracker.expert_weights, weights, rtol=1e-6, atol=1e-9)
    i, j = np.triu_indices(len(points), 1)
    if kind == "linear":
        distances = [one.squared_length(points[i] - points[j]) for one in (tracker.play(), metric)]
    else:
        distances = [one.squared_distance(points[i], points[j]) for one in (tracker.play(), metric)]
    assert_allclose(*distances, rtol=1e-6)


@pytest.mark.parametrize("n", [2, 5])
def test_compiled_code_agrees_with_the_definition(n):
    """The three uses of implied answers, in turn, with all experts, a memory and an anchor."""
    rng = np.random.default_rng(n)
    points, classes = some_items(40, n, seed=n)
    both = [Mixture(n, compiled=compiled, discriminants=["groups"]) for compiled in (False, True)]

    def pairs(count):
        i, j = rng.integers(40, size=(2, count))
        return Events(points[i] - points[j], np.where(classes[i] == classes[j], 1.0, -1.0))

    for t in range(ROUNDS):
        answer, learned, weighed = pairs(1), pairs(4), pairs(4)
        weights = rng.choice([0.0, 0.3, 1.0], size=4)
        some = rng.permutation(40)[: 3 + t % 30]
        groups = np.unique(classes[some], return_inverse=True)[1]
        grouping = Grouping(groups, ~np.eye(groups.max() + 1, dtype=bool))
        metric = linear_discriminant(points[some], grouping, points)
        predictions = []
        for mixture in both:
            mixture.discriminants = [metric]
            predictions.append(mixture.play(answer)[0])
            mixture.learn_implied(learned, weights)
            if t % 3 == 0:
                mixture.weigh_implied(weighed, weights)
        assert predictions[1] == pytest.approx(predictions[0], rel=RTOL, abs=RTOL)
    plain, compiled = both
    assert_allclose(compiled.aggregator.shares, plain.aggregator.shares, rtol=RTOL, atol=1e-12)
    assert_allclose(compiled.aggregator.coefficients, plain.aggregator.coefficients, rtol=RTOL)
    assert compiled.aggregator.evidence == pytest.approx(plain.aggregator.evidence, rel=RTOL, abs=RTOL)
    matrix = plain.metric().matrix
    assert_allclose(compiled.metric().matrix, matrix, rtol=RTOL, atol=RTOL * np.abs(matrix).max())
    assert plain.round == compiled.round == ROUNDS


# -- How implied answers are used --


class Spied:
    """A tracker whose calls are recorded, with the items that the discriminants come from."""

    def __init__(self, tracker, points):
        self.tracker, self.calls, self.found = tracker, [], None
        self._ids = {row.tobytes(): at for at, row in enumerate(points)}

    def ids(self, points):
        return [self._ids[row.tobytes()] for row in np.asarray(points)]

    def find_discriminants(self, points, grouping, reference):
        self.found = set(self.ids(points))
        return self.tracker.find_discriminants(points, grouping, reference)

    def set_discriminants(self, metrics):
        self.calls.append(("set", self.found))
        self.tracker.set_discriminants(metrics)

    def learn_implied(self, pairs, weights):
        self.calls.append(("learn", self.ids(pairs.X), self.ids(pairs.Z), pairs.y.tolist(), weights.tolist()))
        self.tracker.learn_implied(pairs, weights)

    def weigh_implied(self, pairs, weights):
        self.calls.append(("weigh", self.ids(pairs.X), self.ids(pairs.Z), pairs.y.tolist(), weights.tolist()))
        self.tracker.weigh_implied(pairs, weights)

    def replay(self, pairs, weights, **options):
        self.calls.append(("answer", self.n_rounds))
        return self.tracker.replay(pairs, weights, **options)

    def __getattr__(self, name):
        return getattr(self.tracker, name)


@pytest.fixture
def spied():
    points, classes = some_items(30)
    return Spied(AdaptiveTracker(4, grouped=True), points), points, classes


def test_a_pair_of_known_items_is_measured_by_the_discriminants_of_the_others(spied):
    tracker, points, classes = spied
    implied, items, n_both = ImpliedAnswers(), TableItems(points), 0
    for answer in some_answers(classes, 60):
        known, measured_by = set(implied.recent), None
        del tracker.calls[:]
        implied.learn(tracker, answer, items)
        names = [call[0] for call in tracker.calls]
        if {answer.left, answer.right} <= known:
            assert names[:2] == ["set", "answer"]
            measured_by = tracker.calls[0][1]
            n_both += 1
        elif names[0] == "set":
            measured_by = tracker.calls[0][1]
        if measured_by is not None:
            assert not {answer.left, answer.right} <= measured_by
        if measured_by is not None and {answer.left, answer.right} <= known:
            assert measured_by.isdisjoint({answer.left, answer.right})
            assert measured_by <= known
    assert n_both > 20
    implied.update(tracker, items)
    groups, _ = implied.graph.partition(implied.recent)
    assert tracker.found == {entry for entry, group in zip(implied.recent, groups, strict=True) if group >= 0}


def test_only_implied_pairs_are_used_each_with_its_answer(spied):
    tracker, points, classes = spied
    implied, items = ImpliedAnswers(), TableItems(points)
    weighed = []
    for answer in some_answers(classes, 80):
        del tracker.calls[:]
        implied.learn(tracker, answer, items)
        for name, left, right, y, weights in (call for call in tracker.calls if call[0] in ("learn", "weigh")):
            assert [implied.graph.implied(*pair) for pair in zip(left, right, strict=True)] == y
            assert y == [1.0 if classes[i] == classes[j] else -1.0 for i, j in zip(left, right, strict=True)]
            assert len(set(weights)) == 1
            if name == "learn":
                assert max(y.count(1.0), y.count(-1.0)) <= N_LEARNED // 2
            else:
                assert len(set(left)) == 1
                assert left[0] in answer[:2]
                assert not set(right) & set(answer[:2])
                assert N_WEIGHED // 2 <= len(y) <= N_WEIGHED
                weighed.append(left[0])
    assert len(weighed) == len(set(weighed)) > 15  # each item once


def test_implied_answers_do_not_reach_change_detection():
    """Even implied answers that contradict everything."""
    points, classes = some_items()
    count = MIN_ROUND + 70 if COMPILED else 40
    for compiled in (False, True):
        mixture = Mixture(4, compiled=compiled, discriminants=["groups"])
        i, j = np.random.default_rng(0).integers(50, size=(2, count))
        events = Events(points[i] - points[j], np.where(classes[i] == classes[j], 1.0, -1.0))
        mixture.play(events)
        before = mixture.aggregator.evidence, mixture.aggregator.changes, mixture.round, mixture.detected_change
        shares = mixture.aggregator.shares.copy()
        wrong = Events(events.U[:40], -events.y[:40])
        for _ in range(5):
            mixture.weigh_implied(wrong, np.full(40, 1.0))
            mixture.learn_implied(wrong, np.full(40, 1.0))
        assert before == (
            mixture.aggregator.evidence,
            mixture.aggregator.changes,
            mixture.round,
            mixture.detected_change,
        )
        assert mixture.memories.count(None) == len(mixture.memories)
        assert (mixture.aggregator.shares != shares).any()  # the weights did learn
        if COMPILED:  # as answers, these pairs are evidence of a change
            mixture.play(wrong)
            assert mixture.aggregator.evidence > before[0] or len(mixture.aggregator.changes) > len(before[1])


@pytest.mark.parametrize("handed_over", [False, True])
def test_decisions_count_answers_only(handed_over):
    points, classes = some_items()
    answers = some_answers(classes, 40)
    tracker, implied = make("linear", points), ImpliedAnswers()
    learn(tracker, implied, answers, points)
    if handed_over:
        tracker._hand_over(wait=True)
    expected = {name: array.copy() for name, array in tracker._decisions.arrays().items()}
    pairs = PointPairs.from_trusted(points[:20], points[20:40], np.where(classes[:20] == classes[20:40], -1.0, 1.0))
    tracker.weigh_implied(pairs, np.ones(20))
    tracker.learn_implied(pairs, np.ones(20))
    arrays = tracker._decisions.arrays()
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        assert (array == expected[name]).all()
    # The thresholds are those of the predictions of the answers, one by one.
    tracker, implied, alone = make("linear", points), ImpliedAnswers(), DecisionThresholds()
    for answer, margin in zip(answers, learn(tracker, implied, answers, points), strict=True):
        alone.update(margin * answer.y, answer.y, answer.weight)
    for name, array in alone.arrays().items():
        assert (array == tracker._decisions.arrays()[name]).all()


def test_weighing_changes_weights_and_learning_changes_distances():
    points, classes = some_items()
    i, j = np.random.default_rng(0).integers(50, size=(2, 40))
    pairs = PointPairs.from_trusted(points[i], points[j], np.where(classes[i] == classes[j], 1.0, -1.0))
    for name, changes_weights in (("learn_implied", False), ("weigh_implied", True)):
        tracker = AdaptiveTracker(4, grouped=True)
        tracker.replay(pairs.events())
        weights, before = tracker.expert_weights.copy(), copy(tracker)
        getattr(tracker, name)(pairs, np.full(40, 0.5))
        assert (tracker.expert_weights != weights).any() == changes_weights
        comid = [one._mixture.bases._comid[0].square(np.ones(4)) for one in (before, tracker)]
        assert (comid[0] != comid[1]) == (not changes_weights)
        assert tracker.n_rounds == 40


# -- Trust --


def test_pairs_of_small_groups_count_less():
    """n - 1 answers link n items: in a pair nothing is new, in ten items 36 of 45 pairs are."""

    def share(*groups):
        return _Groups(groups, np.zeros((len(groups),) * 2, dtype=bool), lambda left, right: False).share_of_new_pairs

    assert share() == share([1, 2], [3, 4]) == 0.0
    assert_allclose(share([1, 2, 3]), 1 / 3)
    assert_allclose(share(list(range(10))), 36 / 45)


def test_implied_pairs_fade_with_the_answers_unless_they_were_confirmed():
    """Items 0 to 39 are of two groups by parity; the confirmed ones have further answers about implied pairs."""
    plain, confirmed = ImpliedAnswers(), ImpliedAnswers()
    points = np.random.default_rng(0).normal(size=(40, 2))
    for i in range(2, 40):
        for implied in (plain, confirmed):
            implied.learn(AdaptiveTracker(2, grouped=True), Answer(i % 2, i, 1.0), TableItems(points))
    before = plain._fading
    assert before == confirmed._fading == 1.0 / (1.0 + FADING * 38)  # nothing shows that they are better than chance
    for i in range(2, 30):
        confirmed.learn(AdaptiveTracker(2, grouped=True), Answer(i, i + 2, 1.0), TableItems(points))
    assert confirmed.graph.n_confirmed == 28
    assert confirmed._fading > 0.9
    for i in range(10):
        confirmed.learn(AdaptiveTracker(2, grouped=True), Answer(i, i + 6, -1.0), TableItems(points))
    assert confirmed.graph.n_contradicted > 0
    assert confirmed._fading < 2 * before


def test_trust_falls_when_implied_pairs_are_contradicted():
    """Chains of three items whose ends are different; 4 answers are counted as agreement in advance."""
    points = np.random.default_rng(0).normal(size=(30, 2))
    implied, spied, items = ImpliedAnswers(), Spied(AdaptiveTracker(2, grouped=True), points), TableItems(points)
    for answer in (Answer(20, 21, 1.0), Answer(21, 22, 1.0), Answer(22, 23, -1.0), Answer(23, 24, 1.0)):
        implied.learn(spied, answer, items)
    assert implied.trust == 1.0
    trusts, weights = [], []
    for first in range(0, 15, 3):
        implied.learn(spied, Answer(first, first + 1, 1.0), items)
        implied.learn(spied, Answer(first + 1, first + 2, 1.0), items)
        del spied.calls[:]
        implied.learn(spied, Answer(first, first + 2, -1.0), items)
        trusts.append(implied.trust)
        share = implied._groups().share_of_new_pairs * implied._fading
        weights += [call[4][0] / share for call in spied.calls if call[0] == "learn"]
    assert_allclose(trusts, [2 * 4 / (4 + k) - 1 for k in range(1, 5)] + [0.0], atol=1e-15)
    assert_allclose(weights, [LEARNED_WEIGHT * trust for trust in trusts[:3]])  # from then on, none are used
    implied.update(spied, items)
    assert spied.tracker._mixture.discriminants == [None]
    del spied.calls[:]
    implied.learn(spied, Answer(20, 24, -1.0), items)
    assert [call[0] for call in spied.calls] == ["set", "answer"]
    assert spied.tracker._mixture.discriminants == [None]


def test_trust_is_that_of_the_less_reliable_kind():
    implied = ImpliedAnswers()
    for i in range(1, 10):
        implied.graph.add(0, i, True)
    implied.graph.add(0, 20, False)
    for i in range(1, 10):
        implied.graph.add(i, i % 9 + 1, True)  # confirm that pairs of the group are the same
    assert implied.graph.agreement(1)[0] > 0
    assert implied.trust == 1.0
    implied.graph.add(1, 20, True)
    assert implied.graph.agreement(-1) == (0, 1)
    assert implied.trust == pytest.approx(2 * 4 / 5 - 1)


# -- Answers that imply nothing --


@kinds
def test_answers_without_weight_and_about_one_item_imply_nothing(kind):
    points, classes = some_items()
    answers, both = some_answers(classes, 50), []
    idle = [Answer(1, 2, 1.0, 0.0), Answer(3, 3, 1.0), Answer(4, 4, -1.0, 0.0)]
    tracker, implied = make(kind, points), ImpliedAnswers()
    for k, answer in enumerate(answers):
        learn(tracker, implied, [answer, idle[k % 3]], points)
        both.append((implied.graph.n_answers, tracker.n_rounds))
    assert both == [(k, 2 * k) for k in range(1, 51)]
    graph = ComparisonGraph()
    for left, right, y, weight in answers:
        graph.add(left, right, y > 0.0, weight)
    assert implied.graph.groups() == graph.groups()
    assert np.isfinite(tracker.expert_weights).all()


def test_only_the_latest_items_imply_anything(monkeypatch):
    assert MAX_ITEMS == 256
    monkeypatch.setattr(implied_answers, "MAX_ITEMS", 20)
    points, classes = some_items(45)
    tracker, implied, items = Spied(AdaptiveTracker(4, grouped=True), points), ImpliedAnswers(), TableItems(points)
    first = [int(np.flatnonzero(classes == c)[0]) for c in range(3)]
    latest = list(first)
    for i in range(45):
        if i not in first:
            hub = first[int(classes[i])]
            implied.learn(tracker, Answer(i, hub, 1.0), items)
            latest = [entry for entry in latest if entry not in (i, hub)] + [i, hub]
    assert implied.recent == tuple(latest[-20:])
    del tracker.calls[:]
    implied.learn(tracker, Answer(first[1], first[0], -1.0), items)
    implied.update(tracker, items)
    latest = {*latest[-20:], *first[:2]}
    assert tracker.found <= latest
    used = {entry for call in tracker.calls if call[0] in ("learn", "weigh") for entry in (*call[1], *call[2])}
    assert used
    assert used <= latest
    old = [i for i in range(20) if i not in latest and classes[i] == 0]
    assert implied.graph.implied(old[0], old[1]) == 1  # the graph forgets nothing


# -- Changes of the question --


def two_questions(count, seed=0):
    """Return points of two independent binary attributes, and both."""
    rng = np.random.default_rng(seed)
    attributes = rng.integers(2, size=(2, count))
    return (rng.normal(size=(count, 4)) * 0.3 + 2.0 * np.vstack([attributes, attributes * 0.0]).T), attributes


@only_compiled
@pytest.mark.parametrize("kind", ["linear", "curved"])
@pytest.mark.parametrize("idle_share", [0.0, 0.3])
def test_after_a_change_earlier_answers_imply_nothing(kind, idle_share):
    """Also if not every round has an answer that the graph counts."""
    points, attributes = two_questions(60)
    rng, rounds = np.random.default_rng(1), 900
    tracker, implied, history = make(kind, points), ImpliedAnswers(), []
    for t in range(rounds):
        i, j = rng.choice(60, 2, replace=False).tolist()
        of_question = attributes[0 if t < 300 else 1]
        answer = Answer(i, j, 1.0 if of_question[i] == of_question[j] else -1.0)
        if rng.random() < idle_share:
            answer = answer._replace(weight=0.0) if rng.random() < 0.5 else Answer(i, i, 1.0)
        n_changes = len(tracker.changes)
        learn(tracker, implied, [answer], points)
        history.append(answer)
        if len(tracker.changes) > n_changes:
            change, graph = tracker.changes[-1], ComparisonGraph()
            assert change.detected == tracker.n_rounds == t + 1
            for left, right, y, weight in history[change.round - 1 :]:
                if weight > 0.0 and left != right:
                    graph.add(left, right, y > 0.0, weight)
            assert implied.graph.groups() == graph.groups()
            assert implied.graph.n_implied == graph.n_implied
            assert implied.graph.n_answers == sum(weight > 0.0 and left != right for left, right, _, weight in history)
            assert set(implied.recent) == {entry for answer in history[change.round - 1 :] for entry in answer[:2]} & {
                entry for group in graph.groups() for entry in group
            }
            break
    assert t < rounds - 1
    assert change.round > 250


@only_compiled
def test_a_change_among_pairs_without_ids_is_followed():
    points, attributes = two_questions(60)
    rng = np.random.default_rng(1)
    tracker, implied, items = make("linear", points), ImpliedAnswers(), TableItems(points)
    left, right = np.array([rng.choice(60, 2, replace=False) for _ in range(900)]).T
    y = np.where(
        [
            attributes[int(t >= 300)][i] == attributes[int(t >= 300)][j]
            for t, (i, j) in enumerate(zip(left, right, strict=True))
        ],
        1.0,
        -1.0,
    )
    learn(
        tracker,
        implied,
        [Answer(*answer) for answer in zip(left[:300].tolist(), right[:300].tolist(), y, strict=False)],
        points,
    )
    assert implied.graph.n_implied > 1000
    tracker.replay(Events(points[left[300:]] - points[right[300:]], y[300:]))
    assert tracker.changes
    implied.follow_points(tracker, since=300)
    assert tracker.changes[-1].round > 300
    assert implied.graph.n_implied == 0
    assert implied.recent == ()
    implied.update(tracker, items)
    assert tracker._mixture.discriminants == [None]
    # Changes that were followed already forget nothing more.
    learn(tracker, implied, [Answer(0, 1, 1.0)], points)
    implied.follow_points(tracker, since=tracker.n_rounds)
    assert implied.graph.groups() == [[0, 1]]


# -- Trackers --


def test_only_dense_pairs_without_own_experts_can_have_groups():
    tracker = AdaptiveTracker(3)
    assert tracker.with_groups().n_discriminants == 1
    assert tracker.n_discriminants == 0
    assert CurvedTracker(3, items=np.eye(3)).with_groups().n_discriminants == 2
    assert CurvedTracker(3).with_groups().n_discriminants == 1
    assert AdaptiveTracker(3, grouped=True).with_groups().n_discriminants == 1
    sentence = "groups are for dense pairs without experts of your own, before the first round"
    for wrong in (AdaptiveTracker(3, sparse=True), AdaptiveTracker(3, events="relatives")):
        with pytest.raises(ValueError, match=sentence):
            wrong.with_groups()
    tracker.replay(Events(np.eye(3), np.ones(3)))
    with pytest.raises(ValueError, match=sentence):
        tracker.with_groups()


def test_groups_can_be_added_before_the_first_round():
    points, classes = some_items()
    answers = some_answers(classes, 30)
    for curved in (False, True):
        if curved:
            grouped, plain = CurvedTracker(4, items=points, grouped=True), CurvedTracker(4, items=points)
        else:
            rehearsal = draw_item_pairs(points).events()
            grouped = AdaptiveTracker(4, rehearsal=rehearsal, grouped=True)
            plain = AdaptiveTracker(4, rehearsal=rehearsal)
        both = []
        for tracker in (grouped, plain.with_groups()):
            both.append(learn(tracker, ImpliedAnswers(), answers, points))
            both.append(tracker.expert_weights.tolist())
        assert both[:2] == both[2:]
        assert plain.n_rounds == plain.n_discriminants == 0


def test_without_discriminants_the_expert_is_the_euclidean_distance():
    points, classes = some_items()
    tracker = AdaptiveTracker(4, grouped=True)
    i, j = np.random.default_rng(0).integers(50, size=(2, 40))
    events = Events(points[i] - points[j], np.where(classes[i] == classes[j], 1.0, -1.0))
    twin = copy(tracker)
    twin.set_discriminants([Metric.low_rank(1.0, np.zeros((0, 4)), np.zeros(0), 0.0)])
    assert_allclose(twin.replay(events), tracker.replay(events), rtol=RTOL)
    assert_allclose(twin.play().matrix, tracker.play().matrix, rtol=1e-7)


# -- Saved state --


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("recent", [["a", True], ["b"]], "a list of items, each with a flag"),
        ("recent", 3, "a list of items, each with a flag"),
        ("recent", [["unknown", True]], "at most 256 items that answers are about"),
        ("rounds", np.array([2, 1]), "ascending numbers, one for each answer at most"),
        ("rounds", np.arange(1, 9), "ascending numbers, one for each answer at most"),
        ("is_current", "yes", "is_current"),
        ("more", 1, "more"),
    ],
)
def test_wrong_states_are_refused(name, value, sentence):
    implied, tracker = ImpliedAnswers(), AdaptiveTracker(2, grouped=True)
    points = np.random.default_rng(0).normal(size=(4, 2))
    learn(tracker, implied, [Answer(0, 1, 1.0), Answer(1, 2, -1.0)], points)
    arrays, metadata = implied.state()
    assert ImpliedAnswers.from_state(dict(arrays), dict(metadata)).recent == implied.recent
    (arrays if name in arrays else metadata)[name] = value
    with pytest.raises(ValueError, match=sentence):
        ImpliedAnswers.from_state(arrays, metadata)


@pytest.mark.parametrize("entry", [("a", 1), frozenset("a"), b"a", np.datetime64("2020-01-01")])
def test_ids_that_json_cannot_store_are_refused(entry):
    implied = ImpliedAnswers()
    implied.graph.add(entry, "b", True)
    with pytest.raises(ValueError, match="cannot be saved; accepted: texts and numbers") as error:
        implied.state()
    assert "\n" not in str(error.value)


def test_numbers_of_numpy_are_saved_as_numbers():
    implied = ImpliedAnswers()
    implied.graph.add(np.int64(3), np.str_("b"), True)
    arrays, metadata = implied.state()
    loaded = ImpliedAnswers.from_state(arrays, json.loads(json.dumps(metadata)))
    assert loaded.graph.groups() == [[3, "b"]]


def test_maps_that_are_drawn_again_get_new_discriminants():
    """Without known items the map is drawn from the answers, and the number of discriminants grows with it."""
    points, classes = some_items()
    tracker, implied = make("curved without items", points), ImpliedAnswers()
    answers = some_answers(classes, MAP_ROUNDS[0] + 5)
    learn(tracker, implied, answers[: MAP_ROUNDS[0] - 1], points)
    assert tracker.n_discriminants == 1
    learn(tracker, implied, [Answer(1, 1, 1.0)], points)  # it adds no answer to the graph
    assert tracker.n_discriminants == 2
    assert None not in tracker._tracker._mixture.discriminants
