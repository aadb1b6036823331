"""Known items before the first answer: scales and moments learn from pairs of them, and nothing else changes.

With NUMBA_DISABLE_JIT=1 the kernels run as plain Python, on fewer rounds.
"""

from __future__ import annotations

import json
import pickle
from copy import copy, deepcopy
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from adaptive_streams import logistic_answers
from curved_streams import replay_in_chunks, scaled, sparse_points
from engine_cases import COMPILED
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array

from ocelad import MetricTracker, Rice
from ocelad.adaptive.adaptive_tracker import PLAIN_ROUNDS, AdaptiveTracker
from ocelad.adaptive.curved_tracker import CurvedTracker
from ocelad.adaptive.mixture import Mixture
from ocelad.adaptive.own_experts import OwnExpert
from ocelad.adaptive.precompile import precompile_adaptive
from ocelad.adaptive.rehearsal import N_REHEARSED, draw_item_pairs
from ocelad.adaptive.track_adaptive import track_adaptive
from ocelad.engines.kernel_loading import mark_kernels_ready
from ocelad.estimators import known_items
from ocelad.estimators.tracker_state import TrackerState
from ocelad.feature_maps import LandmarkMap
from ocelad.metric import Metric
from ocelad.pairs import Events, PointPairs, Relatives

RTOL = 1e-9  # same mathematics, different arithmetic
# The definition computes the first rounds, and compiled code computes them again.
HANDED_OVER = 1e-6
only_compiled = pytest.mark.skipif(not COMPILED, reason="too many rounds for plain Python")
# Linear and curved trackers, of dense and sparse points, with and without moments.
KINDS = ["linear", "linear sparse", "curved", "curved sparse"] + ["linear wide", "curved wide"] * COMPILED
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module", autouse=True)
def _compiled_kernels():
    """Compile all kernels first: until they are ready, the definition computes, with other last bits."""
    if COMPILED:
        precompile_adaptive()
        mark_kernels_ready()


def count_features(kind):
    return 140 if "wide" in kind else 4


def some_points(seed, count, n):
    """Return points of mostly nonzero features in different units."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random((count, n)) < 0.7, rng.normal(size=(count, n)), 0.0) * 3.0 ** (np.arange(n) % 3)


def some_pairs(kind, rounds, seed=1):
    n = count_features(kind)
    X, Z = some_points(seed, rounds, n), some_points(seed + 1, rounds, n)
    pairs = PointPairs(X, Z, np.where(np.abs(X - Z)[:, 0] < 0.8, 1.0, -1.0))
    return PointPairs(csr_array(X), csr_array(Z), pairs.y) if "sparse" in kind else pairs


def some_items(kind, seed=0, count=30):
    return some_points(seed, count, count_features(kind))


def make(kind, items=None):
    start = track_adaptive if kind.startswith("linear") else CurvedTracker
    return start(count_features(kind), sparse="sparse" in kind, items=items)


def replay(tracker, pairs, *arguments):
    """Let a linear or curved tracker learn; return the margins."""
    return tracker.replay(pairs if isinstance(tracker, CurvedTracker) else pairs.events(), *arguments)


def squared_distances(metric, pairs):
    return metric.squared_distance(pairs.X, pairs.Z)


def assert_same(one, other):
    """Check that two trackers have the same bits: all that can be read and all that is saved."""
    assert one.play() == other.play()
    assert (one.expert_weights == other.expert_weights).all()
    assert (one.sums_of_squares == other.sums_of_squares).all()
    assert (one.changes, one.drift, one.n_rounds) == (other.changes, other.drift, other.n_rounds)
    (arrays, metadata), (expected, expected_metadata) = one.state(), other.state()
    assert metadata == expected_metadata
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        assert np.array_equal(array, expected[name]), name


# -- Pairs of items --


@given(st.integers(2, 60), st.booleans())
def test_drawn_pairs_are_of_different_items(count, sparse):
    items = np.arange(1.0, count + 1.0)[:, None]
    pairs = draw_item_pairs(csr_array(items) if sparse else items)
    X, Z = (points.toarray() if sparse else points for points in (pairs.X, pairs.Z))
    assert len(pairs) == N_REHEARSED
    assert set(X.ravel()) | set(Z.ravel()) <= set(items.ravel())
    assert (X != Z).all()
    again = draw_item_pairs(items)
    assert (again.X == X).all()
    assert (again.Z == Z).all()


def test_drawn_pairs_come_from_all_items():
    """Each of few items is drawn; there is no pair of one item."""
    pairs = draw_item_pairs(np.arange(20.0)[:, None])
    assert len(set(pairs.X.ravel()) | set(pairs.Z.ravel())) == 20
    assert draw_item_pairs(np.ones((1, 3))) is None


# -- Before the first answer --


@kinds
def test_a_rehearsal_plays_no_round(kind):
    items = some_items(kind)
    tracker, unknown = make(kind, items), make(kind)
    for each in (tracker, unknown):
        assert (each.n_rounds, each.play().round, each.drift, each.changes) == (0, 0, 0.0, [])
        assert each.expert_weights.sum() == pytest.approx(1.0)
    assert (unknown.sums_of_squares == 0.0).all()
    assert (tracker.sums_of_squares > 0.0).all()
    if kind.startswith("linear"):  # otherwise there are curved experts now
        assert (tracker.expert_weights == unknown.expert_weights).all()
        assert tracker.expert_names == unknown.expert_names
    log_odds = np.linspace(-9.0, 9.0, 19)
    assert (tracker.decide(log_odds, 0.1) == unknown.decide(log_odds, 0.1)).all()


@kinds
def test_the_first_distance_predicts_the_first_pair(kind):
    """Scales are known, so even the first pair is predicted without them learning from it."""
    pairs, tracker = some_pairs(kind, 12), make(kind, some_items(kind))
    for t in range(len(pairs)):
        metric = tracker.play()
        assert metric.round == t
        log_odds = metric.threshold - squared_distances(metric, pairs[t : t + 1])
        margin = replay(tracker, pairs[t : t + 1])
        np.testing.assert_allclose(margin, pairs.y[t] * log_odds, rtol=RTOL, atol=RTOL)


def test_features_that_are_equal_for_all_items_are_not_known():
    items = some_items("linear")
    items[:, 2] = 7.0
    for tracker in (track_adaptive(4, items=items), CurvedTracker(4, items=items)):
        np.testing.assert_array_equal(tracker.sums_of_squares > 0.0, [True, True, False, True])


@pytest.mark.parametrize("kind", ["linear", "curved"])
def test_scales_are_those_of_the_items(kind):
    """Sums of squares grow with the square of a feature's unit."""
    items, unit = some_items(kind), np.array([1.0, 8.0, 2.0**-4, 1.0])
    sums, scaled_sums = (make(kind, X).sums_of_squares for X in (items, items * unit))
    if kind == "linear":
        np.testing.assert_allclose(scaled_sums[0] / sums[0], 1.0, rtol=0.5)
    np.testing.assert_allclose(np.log(scaled_sums / sums), 2.0 * np.log(unit), atol=0.7)


@kinds
def test_answers_of_rehearsed_pairs_have_no_meaning(kind):
    """Whatever labels they have, every later round has the same bits."""
    n, pairs = count_features(kind), some_pairs(kind, 100 if COMPILED else 40)
    rehearsed, n_curved = draw_item_pairs(some_items(kind)).events(), 2 if kind.startswith("curved") else 0
    events, trackers = pairs.events(), []
    for y in (rehearsed.y, -rehearsed.y, np.where(np.arange(N_REHEARSED) % 3 == 0, 1.0, -1.0)):
        tracker = AdaptiveTracker(n, sparse="sparse" in kind, n_curved=n_curved, rehearsal=Events(rehearsed.U, y))
        trackers.append((tracker, tracker.replay(events)))
    (first, margins), *others = trackers
    for tracker, same in others:
        assert (same == margins).all()
        assert (tracker.expert_weights == first.expert_weights).all()
        metric, expected = (each.split_metric() if n_curved else each.play() for each in (tracker, first))
        assert metric == expected


@kinds
def test_items_change_what_is_learned_and_how(kind):
    """Otherwise the tests of this file would hold for a rehearsal that does nothing."""
    pairs = some_pairs(kind, 20)
    margins = [replay(make(kind, items), pairs) for items in (None, some_items(kind), some_items(kind, seed=5))]
    assert np.isfinite(margins).all()
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(margins[i] - margins[j]).max() > 1e-3


@only_compiled
@pytest.mark.parametrize("start", [track_adaptive, CurvedTracker])
def test_the_first_answers_are_predicted_better_if_items_are_known(start):
    """The features have very different units; the loss of the first rounds is lower, and no later one higher."""
    losses = []
    for seed in range(12):
        rng, unit = np.random.default_rng(seed), 10.0 ** np.array([-1.0, 1.0, 0.0, 1.0, -1.0])
        classes, means = rng.integers(4, size=300), rng.normal(size=(4, 5))
        X = (means[classes] + 0.4 * rng.normal(size=(300, 5))) * unit
        left, right = rng.integers(300, size=(2, 200))
        pairs = PointPairs(X[left], X[right], classes[left] == classes[right])
        both = [replay(start(5, items=items), pairs) for items in (None, X)]
        losses.append([np.logaddexp(0.0, -margins) for margins in both])
    unknown, known = np.mean(losses, axis=0)
    assert known[:40].mean() < unknown[:40].mean() - 0.01
    assert known[40:].mean() < unknown[40:].mean() + 0.01


# -- The definition and compiled code --


AGREEING = [(n, kind) for n in ((1, 3, 60, 140) if COMPILED else (3,)) for kind in ("dense", "sparse", "curved")]


@pytest.mark.parametrize(("n", "kind"), AGREEING)
def test_compiled_code_agrees_with_the_definition(n, kind):
    rng, rounds = np.random.default_rng(n), 150 if COMPILED else 20
    U, weights = logistic_answers(n, n, rounds), rng.choice([0.0, 0.5, 1.0, 3.0], size=rounds)
    items, n_curved = some_points(n, 25, n), 0
    rehearsed = draw_item_pairs(items)
    V, events = rehearsed.events().U, U
    if kind == "curved":
        feature_map = LandmarkMap.from_points(items, 20, rng)
        X = rng.normal(size=(rounds, n))
        V = np.hstack([V, feature_map(rehearsed.X) - feature_map(rehearsed.Z)])
        events = Events(np.hstack([U.U, feature_map(X) - feature_map(X - U.U)]), U.y)
        n_curved = feature_map.n_outputs
    as_rows = csr_array if kind == "sparse" else np.asarray
    events, rehearsal = Events(as_rows(events.U), events.y), Events(as_rows(V), rehearsed.y)
    compiled, definition = (
        Mixture(n + n_curved, sparse=kind == "sparse", compiled=compiled, n_curved=n_curved)
        for compiled in (True, False)
    )
    for mixture in (compiled, definition):
        mixture.rehearse(rehearsal)
        assert (mixture.round, mixture.drift, mixture.snapshot, mixture.anchor) == (0, 0.0, None, None)
        assert mixture.memories == [None] * len(mixture.memories)
    for part in (slice(0, 0), slice(0, 70), slice(70, None)):
        played = [mixture.play(events[part], weights[part]) for mixture in (compiled, definition)] if part.stop else []
        if played:
            np.testing.assert_allclose(*played, rtol=RTOL, atol=RTOL)
        one, other = compiled.aggregator, definition.aggregator
        np.testing.assert_allclose(one.shares, other.shares, rtol=RTOL, atol=1e-12)
        np.testing.assert_allclose(one.coefficients, other.coefficients, rtol=RTOL)
        assert one.threshold == pytest.approx(other.threshold, rel=RTOL, abs=RTOL)
        np.testing.assert_allclose(compiled.bases.mean_squares, definition.bases.mean_squares, rtol=RTOL)
    assert compiled.drift == pytest.approx(definition.drift, rel=1e-6, abs=1e-9)
    assert [change[:2] for change in one.changes] == [change[:2] for change in other.changes]


@pytest.mark.parametrize("compiled", [False, True])
def test_rounds_without_weight_do_not_advance_the_intervals(compiled):
    """Intervals are those of weighted rounds: with other rounds between them, weights of the experts stay."""
    mixture, events = Mixture(3, compiled=compiled), logistic_answers(0, 3, 60)
    mixture.play(events[:20])
    shares = mixture.aggregator.shares.copy()
    other = logistic_answers(1, 3, 45)
    mixture.play(other, np.zeros(45))
    np.testing.assert_allclose(mixture.aggregator.shares, shares, rtol=RTOL, atol=1e-12)
    assert mixture.round == 65
    clock = mixture.aggregator._state.numbers if compiled else mixture.aggregator.insurance
    before = deepcopy(clock)
    mixture.play(events[20:21], np.zeros(1))
    if compiled:
        from ocelad.adaptive.kernels.aggregation import PROD_ROUND

        assert clock[PROD_ROUND] == before[PROD_ROUND] == 21.0
    mixture.play(events[20:21])
    assert np.abs(mixture.aggregator.shares - shares).max() > 1e-6
    if compiled:
        assert clock[PROD_ROUND] == 22.0


# -- Same bits --


@only_compiled
@kinds
@pytest.mark.parametrize("sizes", [[1], [11], [PLAIN_ROUNDS, 1, 30]])
def test_a_stream_can_be_cut_anywhere(kind, sizes):
    pairs, items = some_pairs(kind, 140), some_items(kind)
    whole, parts = make(kind, items), make(kind, items)
    stream = pairs if kind.startswith("curved") else pairs.events()
    margins = replay(whole, pairs)
    divided = replay_in_chunks(parts, stream, sizes)
    np.testing.assert_allclose(divided, margins, rtol=HANDED_OVER, atol=HANDED_OVER)
    if "sparse" not in kind and "wide" not in kind:  # others agree up to rounding
        assert (divided[PLAIN_ROUNDS:] == margins[PLAIN_ROUNDS:]).all()
        assert_same(parts, whole)


SAVED_AT = [0, 10, PLAIN_ROUNDS, 100] if COMPILED else [0, 10]


@kinds
@pytest.mark.parametrize("saved_at", SAVED_AT)
def test_resumes_from_its_state_at_any_round(kind, saved_at):
    """In a new tracker that knows no items, and in one that knows others."""
    pairs, tracker = some_pairs(kind, saved_at + 50 if COMPILED else 25), make(kind, some_items(kind))
    if saved_at:
        replay(tracker, pairs[:saved_at], np.random.default_rng(0).choice([0.0, 0.4, 1.0, 3.0], size=saved_at))
    arrays, metadata = tracker.state()
    for resumed in (make(kind), make(kind, some_items(kind, seed=9))):
        resumed.restore({name: array.copy() for name, array in arrays.items()}, json.loads(json.dumps(metadata)))
        assert_same(resumed, tracker)
        original = copy(tracker)
        assert (replay(resumed, pairs[saved_at:]) == replay(original, pairs[saved_at:])).all()
        assert_same(resumed, original)


@kinds
def test_a_tracker_with_items_can_restore_one_that_knew_none(kind):
    pairs, tracker = some_pairs(kind, 25), make(kind)
    for rounds in (0, 10):
        resumed = make(kind, some_items(kind))
        if rounds:
            replay(tracker, pairs[:rounds])
        resumed.restore(*tracker.state())
        assert_same(resumed, tracker)
        assert (replay(resumed, pairs[rounds:]) == replay(copy(tracker), pairs[rounds:])).all()


@kinds
def test_saved_arrays_are_copies(kind):
    tracker, pairs = make(kind, some_items(kind)), some_pairs(kind, 20)
    expected = replay(copy(tracker), pairs)
    for array in tracker.state()[0].values():
        array[...] = 0
    assert (replay(tracker, pairs) == expected).all()


@pytest.mark.parametrize("kind", ["linear", "curved", "linear sparse"])
def test_items_may_be_changed_afterwards(kind):
    """Until compiled code takes over, the rehearsal is played again."""
    items, pairs = some_items(kind), some_pairs(kind, 90 if COMPILED else 20)
    expected, tracker = make(kind, items.copy()), make(kind, items)
    items[:] = 0.0
    assert (replay(tracker, pairs[:10]) == replay(expected, pairs[:10])).all()
    assert (replay(tracker, pairs[10:]) == replay(expected, pairs[10:])).all()
    assert_same(tracker, expected)


@kinds
@pytest.mark.parametrize("rounds", [0, 100] if COMPILED else [0, 10])
@pytest.mark.parametrize("duplicate", [copy, deepcopy, lambda tracker: pickle.loads(pickle.dumps(tracker))])
def test_copies_are_equal_and_independent(kind, rounds, duplicate):
    pairs, tracker = some_pairs(kind, rounds + 20), make(kind, some_items(kind))
    if rounds:
        replay(tracker, pairs[:rounds])
    metric, twin = tracker.play(), duplicate(tracker)
    assert_same(twin, tracker)
    margins = replay(twin, pairs[rounds:])
    assert (tracker.play(), tracker.n_rounds) == (metric, rounds)
    assert (replay(tracker, pairs[rounds:]) == margins).all()
    assert_same(tracker, twin)


@pytest.mark.parametrize(
    "change", [{"n_rehearsed": -1}, {"n_rehearsed": 129}, {"n_rehearsed": 0}, {"n_rehearsed": 2.5}]
)
def test_damaged_numbers_of_rehearsed_pairs_are_refused(change):
    tracker, fresh = make("linear", some_items("linear")), make("linear")
    arrays, metadata = tracker.state()
    before = fresh.state()
    with pytest.raises(ValueError, match="saved value 'n_"):
        fresh.restore(arrays, {**metadata, **change})
    assert fresh.state()[1] == before[1]
    assert fresh.n_rounds == 0


def test_comparisons_have_no_rehearsed_pairs():
    tracker = track_adaptive(3, events="relatives")
    tracker.replay(Relatives(*np.random.default_rng(0).normal(size=(2, 5, 3))))
    arrays, metadata = tracker.state()
    assert metadata["n_rehearsed"] == 0
    with pytest.raises(ValueError, match="saved value 'n_rehearsed'"):
        track_adaptive(3, events="relatives").restore(arrays, {**metadata, "n_rehearsed": 2})


def test_states_without_the_number_of_rehearsed_pairs_are_those_of_no_items():
    """Files of earlier versions."""
    pairs, tracker, resumed = some_pairs("linear", 30), make("linear"), make("linear")
    replay(tracker, pairs[:10])
    arrays, metadata = tracker.state()
    assert metadata.pop("n_rehearsed") == 0
    resumed.restore(arrays, metadata)
    assert (replay(resumed, pairs[10:]) == replay(tracker, pairs[10:])).all()
    assert_same(resumed, tracker)


# -- Kinds of items --


@pytest.mark.parametrize("kind", ["linear", "curved"])
@pytest.mark.parametrize("power", [-60, 40])
def test_a_power_of_two_gives_the_same_margins(kind, power):
    pairs, items, factor = some_pairs(kind, 100 if COMPILED else 20), some_items(kind), 2.0**power
    margins = replay(make(kind, items), pairs)
    assert (replay(make(kind, factor * items), scaled(pairs, factor)) == margins).all()


@kinds
def test_sparse_items_are_the_same_as_dense_ones(kind):
    items, pairs = some_items(kind), some_pairs(kind, 20)
    one, *others = (make(kind, rows) for rows in (items, csr_array(items), coo_array(items), items.tolist()))
    for other in others:
        assert_same(other, copy(one))
        assert (replay(other, pairs) == replay(copy(one), pairs)).all()


@kinds
def test_one_item_teaches_nothing(kind):
    pairs, items = some_pairs(kind, 80 if COMPILED else 20), some_items(kind, count=1)
    tracker, unknown = make(kind, items), make(kind)
    assert_same(tracker, unknown)
    assert (replay(tracker, pairs) == replay(unknown, pairs)).all()


@kinds
@pytest.mark.parametrize("value", [0.0, 2.5])
def test_equal_items_are_accepted(kind, value):
    """Their differences are zero, so nothing is known about scales, and the first pairs still set them."""
    pairs, items = some_pairs(kind, 100 if COMPILED else 20), np.full((6, count_features(kind)), value)
    tracker = make(kind, items)
    assert (tracker.sums_of_squares == 0.0).all()
    assert tracker.n_rounds == 0
    margins, expected = replay(tracker, pairs), replay(make(kind), pairs)
    assert np.isfinite(margins).all()
    assert np.isfinite(squared_distances(tracker.play(), pairs)).all()
    # The distance is as good as without items.
    assert np.mean(margins[-15:] > 0) >= np.mean(expected[-15:] > 0) - 0.2


@kinds
@pytest.mark.parametrize("count", [2, 3])
def test_few_items_are_accepted(kind, count):
    pairs, tracker = some_pairs(kind, 80 if COMPILED else 20), make(kind, some_items(kind, count=count))
    assert np.isfinite(replay(tracker, pairs)).all()
    assert np.isfinite(squared_distances(tracker.play(), pairs)).all()


@settings(max_examples=15 if COMPILED else 5, deadline=None)
@given(st.integers(-60, 60), st.integers(-60, 60), st.booleans())
def test_items_of_any_size_give_finite_distances(size, size_of_pairs, curved):
    kind = "curved" if curved else "linear"
    tracker, pairs = make(kind, 10.0**size * some_items(kind)), scaled(some_pairs(kind, 10), 10.0**size_of_pairs)
    assert np.isfinite(replay(tracker, pairs)).all()
    assert np.isfinite(squared_distances(tracker.play(), pairs)).all()


REFUSED = [
    ([[np.nan, 0.0, 0.0, 0.0]], r"items holds nan at index \(0, 0\); only finite numbers are accepted"),
    (np.full((3, 4), np.inf), "only finite numbers are accepted"),
    (csr_array([[0.0, np.nan, 0.0, 0.0]]), "only finite numbers are accepted"),
    (np.zeros((5, 3)), "items has 3 features; 4 are expected"),
    (csr_array(np.ones((5, 3))), "items has 3 features; 4 are expected"),
    (np.zeros((0, 4)), "items is empty"),
    (np.zeros(4), r"items has shape \(4,\); accepted: numbers of shape"),
    (np.full((2, 4), 1e200), r"items holds a number of size 1e\+200; accepted: up to 1e\+75"),
    ([["a", "b", "c", "d"]], "items holds 'a' at index"),
]


@pytest.mark.parametrize("kind", ["linear", "linear sparse", "curved", "curved sparse"])
@pytest.mark.parametrize(("items", "sentence"), REFUSED)
def test_wrong_items_are_refused(kind, items, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence) as error:
        make(kind, items)
    assert "\n" not in str(error.value)


def test_comparisons_refuse_items():
    with pytest.raises(ValueError, match="items are used for pairs only; omit them, or events='relatives'"):
        track_adaptive(4, events="relatives", items=some_items("linear"))


@pytest.mark.parametrize(
    ("rehearsal", "sentence"),
    [
        (Events(np.ones((3, 5)), np.ones(3)), "the events have 5 features; 4 are expected"),
        (Relatives(np.ones((3, 4)), np.zeros((3, 4))), "events must be Events; got Relatives"),
        (Events(np.full((3, 4), 1e90), np.ones(3)), "the points of pair 0 are too far apart"),
    ],
)
def test_wrong_rehearsals_are_refused(rehearsal, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        AdaptiveTracker(4, rehearsal=rehearsal)


class Weighted(OwnExpert):
    """An expert of one's own that records the weights of what it learns from."""

    name = "mine"

    def __init__(self):
        self.weights = []

    def square(self, u):
        return float(u @ u)

    def learn(self, u, y, weight):
        self.weights.append(weight)

    def metric(self):
        return Metric(np.eye(4))


def test_experts_of_ones_own_learn_no_answer_of_a_rehearsal():
    tracker = track_adaptive(4, items=some_items("linear"), experts=[Weighted()])
    assert sum(tracker._mixture.own_experts[0].weights) == 0.0
    replay(tracker, some_pairs("linear", 5))
    assert sum(tracker._mixture.own_experts[0].weights) == 5.0


# -- MetricTracker --

CURVED = pytest.mark.parametrize("curved", [False, True])


def of_estimator(tracker):
    """Return all that a user can see."""
    return tracker.metric_, tracker.n_rounds_, tracker.experts_, tracker.weights_.tolist(), tracker.drift_


def indexed_pairs(items, rounds, seed=3):
    at = np.random.default_rng(seed).integers(len(items), size=(rounds, 2))
    return at, np.where(np.abs(items[at[:, 0], 0] - items[at[:, 1], 0]) < 0.8, 1, -1)


@only_compiled
@CURVED
def test_every_way_of_giving_items_is_the_same(curved):
    items = some_items("linear", count=60)
    at, y = indexed_pairs(items, 150)
    fitted = MetricTracker(curved=curved).fit(items[at], y, items=items)
    core = CurvedTracker(4, items=items) if curved else track_adaptive(4, items=items)
    replay(core, PointPairs(items[at[:, 0]], items[at[:, 1]], y))
    assert core.play() == fitted.metric_
    started = MetricTracker(curved=curved).start(4, items=items).partial_fit(items[at], y)
    one_by_one = MetricTracker(curved=curved).start(4, items=items)
    for pair, label in zip(items[at], y, strict=True):
        one_by_one.learn_one(*pair, label)
    by_index = partial(MetricTracker, curved=curved, transitive=False)  # answers by index would imply others
    others = [
        started,
        one_by_one,
        by_index(preprocessor=items).fit(at, y),
        by_index(preprocessor=items).partial_fit(at[:1], y[:1]).partial_fit(at[1:], y[1:]),
        by_index(preprocessor=items.tolist()).fit(at, y),
        by_index(preprocessor=pd.DataFrame(items)).fit(at, y),
        MetricTracker(curved=curved, preprocessor=np.zeros((3, 4))).fit(items[at], y, items=items),
    ]
    for other in others:
        assert of_estimator(other) == of_estimator(fitted)
    unknown = MetricTracker(curved=curved).fit(items[at], y)
    by_function = by_index(preprocessor=lambda i: items[i]).fit(at, y)
    assert of_estimator(unknown) == of_estimator(by_function)
    assert unknown.metric_ != fitted.metric_


@CURVED
def test_distances_before_the_first_pair_know_the_items(curved):
    items = some_items("linear", count=60)
    tracker = MetricTracker(curved=curved).start(4, items=items)
    assert (tracker.n_rounds_, tracker.drift_, tracker.changes_) == (0, 0.0, [])
    assert tracker.metric_ != MetricTracker(curved=curved).start(4).metric_
    distances = tracker.pair_distance(np.stack([items[:30], items[30:]], axis=1))
    assert (distances > 0.0).all()
    assert np.isfinite(distances).all()
    assert len(tracker.decide(np.stack([items[:30], items[30:]], axis=1))) == 30
    named = MetricTracker(curved=curved).start(4, list("abcd"), items=pd.DataFrame(items, columns=list("abcd")))
    assert named.metric_ == tracker.metric_
    assert named.feature_names_in_.tolist() == list("abcd")


@only_compiled
@CURVED
@pytest.mark.parametrize("count", [0, 10, 100])
def test_files_continue_with_the_same_bits(curved, count, tmp_path):
    """The file needs no items."""
    items = some_items("linear", count=60)
    at, y = indexed_pairs(items, count + 60)
    tracker = MetricTracker(curved=curved).start(4, items=items)
    if count:
        tracker.partial_fit(items[at[:count]], y[:count])
    tracker.save(tmp_path / "tracker")
    loaded = MetricTracker.load(tmp_path / "tracker")
    assert of_estimator(loaded) == of_estimator(tracker)
    for each in (tracker, loaded):
        each.partial_fit(items[at[count:]], y[count:])
    assert of_estimator(loaded) == of_estimator(tracker)


@CURVED
def test_sparse_pairs_with_items(curved):
    X, Z, y = sparse_points(4, 30, 6)
    by_rows = [
        MetricTracker(curved=curved).fit((csr_array(X), csr_array(Z)), y, items=items)
        for items in (X, csr_array(X), coo_array(X))
    ]
    assert of_estimator(by_rows[0]) == of_estimator(by_rows[1]) == of_estimator(by_rows[2])
    assert by_rows[0].metric_ != MetricTracker(curved=curved).fit((csr_array(X), csr_array(Z)), y).metric_


@pytest.mark.parametrize("method", ["rice", Rice(loss="hinge")])
def test_rice_refuses_items_and_ignores_a_table_of_points(method):
    items = some_items("linear")
    at, y = indexed_pairs(items, 20)
    tracker = MetricTracker(method=method).fit(items[at], y)
    metric = tracker.metric_
    for start in (
        lambda: tracker.fit(items[at], y, items=items),
        lambda: tracker.start(4, items=items),
        lambda: MetricTracker(method=method, curved="auto").start(4, items=items),
    ):
        with pytest.raises(ValueError, match="items are used by method='adaptive' only: set it, or omit them"):
            start()
    assert tracker.metric_ == metric
    assert MetricTracker(method=method, preprocessor=items).fit(at, y).metric_ == metric


@CURVED
@pytest.mark.parametrize(("items", "sentence"), REFUSED)
def test_refused_items_change_nothing(items, sentence, curved):
    points = some_items("linear")
    at, y = indexed_pairs(points, 20)
    tracker = MetricTracker(curved=curved).fit(points[at], y)
    expected = of_estimator(tracker)
    for start in (lambda: tracker.fit(points[at], y, items=items), lambda: tracker.start(4, items=items)):
        with pytest.raises((ValueError, TypeError), match=sentence):
            start()
        assert of_estimator(tracker) == expected


@CURVED
def test_names_of_items_are_checked(curved):
    items = some_items("linear")
    table = pd.DataFrame(items, columns=list("abcd"))
    at, y = indexed_pairs(items, 20)
    pairs = [table.iloc[at[:, k]] for k in range(2)]
    expected = MetricTracker(curved=curved).fit(items[at], y, items=items)
    for rows in (table, pl.DataFrame(items, schema=list("abcd")), items):
        assert of_estimator(MetricTracker(curved=curved).fit(pairs, y, items=rows)) == of_estimator(expected)
    with pytest.raises(ValueError, match="items has its features in another order: 'b' where 'a' is expected"):
        MetricTracker(curved=curved).fit(pairs, y, items=table[list("bacd")])


@CURVED
def test_of_many_items_a_sample_is_used(curved, monkeypatch):
    """The same one for arrays, sparse matrices and tables; its rows are items."""
    limit, seen, start = known_items.MAX_ITEMS, [], TrackerState.start
    items = np.random.default_rng(0).normal(size=(limit + 900, 3))
    items[:, 0] = np.arange(len(items))  # marks the rows

    def recorded(*arguments, **options):
        seen.append(options["items"])
        return start(*arguments, **options)

    monkeypatch.setattr(TrackerState, "start", recorded)
    tables = (items, csr_array(items), coo_array(items), pd.DataFrame(items), pl.DataFrame(items), items.tolist())
    metrics = [MetricTracker(curved=curved).start(3, items=table).metric_ for table in tables]
    for metric, rows in zip(metrics, seen, strict=True):
        assert metric == metrics[0]
        rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
        assert len(rows) == limit
        at = rows[:, 0].astype(int)
        assert len(set(at)) == limit
        assert at[-1] > limit  # not simply the first ones
        assert (rows == items[at]).all()
    all_rows = MetricTracker(curved=curved).start(3, items=items[:limit])
    assert (seen[-1] == items[:limit]).all()
    assert all_rows.metric_ != metrics[0]
