"""Curved distances: the ensemble with curved features, the stored pairs, and the tracker that draws the map.

With NUMBA_DISABLE_JIT=1 the kernels run as plain Python, on fewer rounds.
"""

from __future__ import annotations

import json
import pickle
from copy import copy, deepcopy
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from adaptive_streams import accuracy
from curved_streams import disk, in_disk, replay_in_chunks, scaled, sparse_points
from engine_cases import COMPILED
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ocelad.adaptive.adaptive_tracker import MAX_DIFFERENCE, PLAIN_ROUNDS, AdaptiveTracker
from ocelad.adaptive.aligned_rows import apply_to_rows
from ocelad.adaptive.bases import Kinds
from ocelad.adaptive.calibration import WARMUP
from ocelad.adaptive.compiled_bases import CompiledBases
from ocelad.adaptive.config import AdaptiveConfig
from ocelad.adaptive.curved_tracker import MAP_ROUNDS, TEST_PERIOD, CurvedTracker
from ocelad.adaptive.extended_bases import CURVED_RANK
from ocelad.adaptive.mixture import Mixture
from ocelad.adaptive.precompile import precompile_adaptive
from ocelad.adaptive.recent_pairs import MAX_NUMBERS, MAX_SINGLE, MIN_PAIRS, RecentPairs
from ocelad.adaptive.split_metric import SplitMetric, relative_change, weighted_sum
from ocelad.engines.kernel_loading import mark_kernels_ready
from ocelad.ensemble.state_reader import StateReader, add_prefix
from ocelad.feature_maps import LandmarkMap, to_unit_length
from ocelad.metric import Metric
from ocelad.pairs import Events, PointPairs, Relatives

RTOL = 1e-9  # same mathematics, different arithmetic
# The definition computes the first rounds, and compiled code computes them again.
HANDED_OVER = 1e-6
only_compiled = pytest.mark.skipif(not COMPILED, reason="too many rounds for plain Python")
# In this stream the last map is drawn from the first points. A test then finds that the points have moved away, and the
# map is renewed twice: the first one may still come from both places.
LAST_MAP = MAP_ROUNDS[-1]
MOVED = LAST_MAP + 10
RENEWED = (MOVED // TEST_PERIOD + 1) * TEST_PERIOD
RENEWED_AGAIN = RENEWED + TEST_PERIOD
ROUNDS = RENEWED_AGAIN + 50


@pytest.fixture(scope="module", autouse=True)
def _compiled_kernels():
    """Compile all kernels first: until they are ready, the definition computes, with other last bits."""
    if COMPILED:
        precompile_adaptive()
        mark_kernels_ready()


def some_weights(seed, rounds):
    return np.random.default_rng(seed).choice([0.0, 0.3, 1.0, 4.0], size=rounds)


# -- PointPairs --


def test_point_pairs_are_their_differences_and_labels():
    X, Z, y = sparse_points(0, 12, 5)
    for as_rows in (np.asarray, csr_array):
        pairs = PointPairs(as_rows(X), as_rows(Z), y > 0)
        U = pairs.events().U
        assert ((U if isinstance(U, np.ndarray) else U.toarray()) == X - Z).all()
        assert (pairs.events().y == y).all()
        assert (len(pairs), pairs.n_features, len(pairs[3:7])) == (12, 5, 4)
        assert (pairs[3:7].y == y[3:7]).all()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([[1.0]], [[1.0], [2.0]], [1]), "X has 1 rows and Z has 2"),
        (([[1.0]], [[1.0, 2.0]], [1]), "Z has 2 features; 1 are expected"),
        (([[np.nan]], [[1.0]], [1]), "only finite numbers are accepted"),
        (([[1.0]], csr_array([[1.0]]), [1]), "Z is sparse and X is not"),
        (([[1.0]], [[2.0]], [0.5]), "y holds 0.5 at position 0"),
        (([[1.0]], [[2.0]], [1, 1]), "y has 2 labels for 1 pairs"),
    ],
)
def test_wrong_point_pairs_are_refused(arguments, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        PointPairs(*arguments)


# -- SplitMetric --


def split_metric(seed, threshold=1.5, round=3):
    rng = np.random.default_rng(seed)
    A, rows = rng.normal(size=(2, 3, 3))
    curved = Metric.low_rank(0.5, rows, np.ones(3), 0.0, round)
    return SplitMetric(Metric(A @ A.T, 0.0, round), curved, threshold, round)


def joined_matrix(metric):
    """Return the matrix of points and curved features together."""
    n = metric.linear.n_features
    M = np.zeros((metric.n_features, metric.n_features))
    M[:n, :n], M[n:, n:] = metric.linear.matrix, metric.curved.matrix
    return M


def test_a_split_metric_is_a_metric_of_both_kinds_of_features():
    one, other, U = split_metric(1), split_metric(2), np.random.default_rng(3).normal(size=(4, 5, 6))
    M, before = joined_matrix(one), joined_matrix(other)
    np.testing.assert_allclose(one.squared_length(U), np.einsum("abi,ij,abj->ab", U, M, U), rtol=RTOL)
    rows = csr_array(U.reshape(20, 6))
    np.testing.assert_allclose(one.squared_length(rows), one.squared_length(U).reshape(20), rtol=RTOL)
    mixed = weighted_sum([one, other], np.array([2.0, 0.5]), 4.0, 9)
    np.testing.assert_allclose(joined_matrix(mixed), 2.0 * M + 0.5 * before, rtol=RTOL, atol=RTOL)
    assert (mixed.threshold, mixed.round) == (4.0, 9)
    squares = np.random.default_rng(4).uniform(0.5, 2.0, size=6)
    unit = np.sqrt(np.outer(squares, squares))
    expected = np.linalg.norm((M - before) * unit) / np.linalg.norm(M * unit)
    assert relative_change(one, other, squares) == pytest.approx(expected, rel=RTOL)
    assert relative_change(one, one, squares) == pytest.approx(0.0, abs=1e-7)


def test_split_metrics_are_stored_with_the_same_bits():
    metric = split_metric(1)
    restored = SplitMetric.restore(StateReader(metric.arrays(), {}), metric.threshold, metric.round)
    assert restored == metric
    assert hash(restored) == hash(metric)
    assert deepcopy(metric) == metric
    for other in (split_metric(2), split_metric(1, threshold=1.6), split_metric(1, round=4), metric.linear):
        assert metric != other
    assert metric.with_curved_rank(1).linear == metric.linear
    assert len(metric.with_curved_rank(1).curved.arrays()["rows"]) == 1
    with pytest.raises(FrozenInstanceError):
        metric.threshold = 2.0


# -- The ensemble with curved features --

KINDS = ("pairs", "sparse", "relatives")


def curved_events(seed, n, rounds, kind="pairs", change=None):
    """Return differences of points followed by those of curved features, and the number of the latter.

    Answers are about a disk, and after ``change`` about the first feature.
    """
    rng = np.random.default_rng(seed)
    X, Z, other = rng.normal(size=(3, rounds, n))
    if kind == "sparse":
        X, Z = (np.where(rng.random(points.shape) < 0.5, points, 0.0) for points in (X, Z))
    feature_map = LandmarkMap.from_points(rng.normal(size=(40, n)), 40, rng, max_outputs=30)
    classes = [np.where(np.arange(rounds) < (change or rounds), in_disk(A), A[:, 0] < 0.0) for A in (X, Z, other)]

    def differences(A, B):
        return np.hstack([A - B, feature_map(A) - feature_map(B)])

    U, V, same = differences(X, Z), differences(X, other), classes[0] == classes[1]
    U[[3, 20]] = 0.0  # equal points
    if kind == "relatives":
        swap = (~same & (classes[0] == classes[2]))[:, None]
        return Relatives(np.where(swap, V, U), np.where(swap, U, V)), feature_map.n_outputs
    return Events(csr_array(U) if kind == "sparse" else U, np.where(same, 1.0, -1.0)), feature_map.n_outputs


def new_mixture(n, n_curved, kind, compiled):
    events = "relatives" if kind == "relatives" else "pairs"
    return Mixture(n + n_curved, sparse=kind == "sparse", events=events, compiled=compiled, n_curved=n_curved)


def assert_metrics_agree(metric, expected):
    assert (metric is None) == (expected is None)
    if expected is not None:
        assert metric.round == expected.round
        assert metric.threshold == pytest.approx(expected.threshold, rel=RTOL, abs=RTOL)
        difference = np.linalg.norm(joined_matrix(metric) - joined_matrix(expected))
        assert difference <= RTOL * np.linalg.norm(joined_matrix(expected))


AGREEING = [
    *((n, kind, 140, None) for n in ((1, 3, 60) if COMPILED else (3,)) for kind in KINDS),
    *((140, kind, 70, None) for kind in KINDS if COMPILED),
    *((n, kind, 480, 290) for n, kind in ((2, "pairs"), (5, "sparse"), (2, "relatives")) if COMPILED),
]


@pytest.mark.parametrize(("n", "kind", "rounds", "change"), AGREEING)
def test_compiled_code_agrees_with_the_definition(n, kind, rounds, change):
    events, n_curved = curved_events(n, n, rounds if COMPILED else 70, kind, change)
    weights = None if change else np.random.default_rng(n).choice([0.0, 0.5, 1.0, 3.0], size=len(events))
    compiled, definition = (new_mixture(n, n_curved, kind, compiled) for compiled in (True, False))
    for first in range(0, len(events), 50):
        part = slice(first, first + 50)
        part_weights = None if weights is None else weights[part]
        expected = definition.play(events[part], part_weights)
        np.testing.assert_allclose(compiled.play(events[part], part_weights), expected, rtol=RTOL, atol=RTOL)
    one, other = compiled.aggregator, definition.aggregator
    np.testing.assert_allclose(one.log_odds, other.log_odds, rtol=RTOL, atol=RTOL)
    np.testing.assert_allclose(one.shares, other.shares, rtol=RTOL, atol=1e-12)
    np.testing.assert_allclose(one.coefficients, other.coefficients, rtol=RTOL)
    assert [found[:2] for found in one.changes] == [found[:2] for found in other.changes]
    assert_metrics_agree(compiled.metric(), definition.metric())
    for name in ("snapshot", "anchor"):
        assert_metrics_agree(getattr(compiled, name), getattr(definition, name))
    for memory, expected in zip(compiled.memories, definition.memories, strict=True):
        assert_metrics_agree(memory, expected)
    assert compiled.drift == pytest.approx(definition.drift, rel=1e-6, abs=1e-9)
    np.testing.assert_allclose(compiled.bases.mean_squares, definition.bases.mean_squares, rtol=RTOL)
    if change and kind == "pairs":
        assert any(memory is not None for memory in compiled.memories)


@pytest.mark.parametrize("kind", ["pairs", "relatives"])
def test_a_weight_of_zero_changes_no_learner(kind):
    """Once a step on ``near`` has cut an eigenvalue at 0."""
    differences = np.random.default_rng(11).normal(size=(2, 12, 3))[:, :2]
    kinds, config = Kinds(3, False, AdaptiveConfig()), AdaptiveConfig()
    bases, squares = CompiledBases(kinds, 3, config, sparse=False, events=kind), np.empty((1, len(kinds.names)))
    sizes, matrices = np.empty_like(squares) if kind == "relatives" else squares, []
    for t, weight in enumerate([1.0, 0.0]):
        near, far = differences[:, t : t + 1]
        event = Relatives(near, far) if kind == "relatives" else Events(near, [1])
        bases.measure_and_learn(event, np.array([weight]), t + 1, squares, sizes)
        matrices.append([bases._comid.learner(j).matrix for j in range(len(kinds.comid_steps))])
    np.testing.assert_allclose(matrices[1], matrices[0], rtol=RTOL, atol=RTOL)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [3, 140] if COMPILED else [3])
def test_the_exported_metric_predicts_the_next_event(n, kind, compiled):
    """The metric is positive semidefinite, and depends on curved features."""
    events, n_curved = curved_events(10 + n, n, 130 if COMPILED else 40, kind)
    mixture = new_mixture(n, n_curved, kind, compiled)
    mixture.play(events[: WARMUP + 4])
    for t in range(WARMUP + 4, len(events) - 11, 11):
        metric, event = mixture.metric(), events[t : t + 1]
        if kind == "relatives":
            expected = metric.squared_length(event.far) - metric.squared_length(event.near)
        else:
            expected = metric.threshold - metric.squared_length(event.U)
        assert metric.round == t
        assert mixture.play(events[t : t + 11])[0] == pytest.approx(expected[0], rel=RTOL, abs=RTOL)
    metric = mixture.metric()
    for part in (metric.linear, metric.curved):
        eigenvalues = np.linalg.eigvalsh(part.matrix)
        assert eigenvalues[0] >= -RTOL * eigenvalues[-1]
        assert eigenvalues[-1] > 0.0
    assert (metric.linear.n_features, metric.curved.n_features) == (n, n_curved)


def test_curved_experts_have_names():
    mixture = Mixture(8, n_curved=5)
    curved = [name for name in mixture.expert_names if name.startswith("curved ")]
    assert curved == ["curved Euclidean", "curved COMID 30", "curved COMID 10", "curved COMID 3", "curved COMID 1"]
    assert len(set(mixture.expert_names)) == len(mixture.expert_names) == len(mixture.aggregator.shares)
    others = [name for name in mixture.expert_names if name not in curved]
    assert tuple(others) == Mixture(3).expert_names


@only_compiled
def test_curved_features_have_the_same_bits_however_a_stream_is_divided():
    events, n_curved = curved_events(20, 4, 300, change=200)
    whole = new_mixture(4, n_curved, "pairs", True)
    expected = whole.play(events)
    for size in (1, 7, 100):
        parts = new_mixture(4, n_curved, "pairs", True)
        predictions = [parts.play(events[first : first + size]) for first in range(0, len(events), size)]
        assert (np.concatenate(predictions) == expected).all()
        assert parts.metric() == whole.metric()


@only_compiled
def test_rotated_features_carry_over_what_was_learned():
    """A rotation of the curved features is a new map whose transport is exact: nothing but rounding may change."""
    events, n_curved = curved_events(21, 3, 480, change=290)
    mixture = new_mixture(3, n_curved, "pairs", True)
    mixture.play(events)
    stored = [*mixture.memories, mixture.snapshot, mixture.anchor]
    shares, metric = mixture.aggregator.shares.copy(), mixture.metric()
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(n_curved, n_curved)))[0]
    rotated = np.hstack([events.U[:, :3], events.U[:, 3:] @ rotation])
    mixture.renew_curved(Events(rotated, events.y), np.ones(len(events)), rotation)
    assert any(before is not None for before in stored[:-2])
    for before, after in zip(stored, [*mixture.memories, mixture.snapshot, mixture.anchor], strict=True):
        assert (before is None) == (after is None)
        if before is not None:
            np.testing.assert_allclose(after.squared_length(rotated), before.squared_length(events.U), rtol=1e-7)
            assert (after.threshold, after.round) == (before.threshold, before.round)
            assert len(after.curved.arrays()["rows"]) <= CURVED_RANK
    assert (mixture.aggregator.shares == shares).all()
    # All rounds are learned from again, in features that have the same distances.
    np.testing.assert_allclose(mixture.metric().squared_length(rotated), metric.squared_length(events.U), rtol=1e-6)


# -- AdaptiveTracker with curved features --


def new_adaptive(n, n_curved, kind):
    events = "relatives" if kind == "relatives" else "pairs"
    return AdaptiveTracker(n + n_curved, sparse=kind == "sparse", events=events, n_curved=n_curved)


def assert_same_state(one, other):
    """Check that everything that is saved has the same bits."""
    (arrays, metadata), (expected, expected_metadata) = one.state(), other.state()
    assert metadata == expected_metadata
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        assert np.array_equal(array, expected[name]), name


def test_metrics_of_the_other_kind_are_refused_with_a_sentence():
    events, n_curved = curved_events(29, 3, 30)
    curved, linear = new_adaptive(3, n_curved, "pairs"), AdaptiveTracker(3)
    curved.replay(events)
    with pytest.raises(TypeError, match="a metric of curved features is not linear; split_metric returns it"):
        curved.play()
    with pytest.raises(TypeError, match="this tracker has no curved features; play returns its metric"):
        linear.split_metric()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("saved_at", [0, 10, PLAIN_ROUNDS, PLAIN_ROUNDS + 1, 230] if COMPILED else [10, 70])
def test_the_ensemble_resumes_from_its_state(kind, saved_at):
    events, n_curved = curved_events(30, 3, 260 if COMPILED else 80, kind)
    tracker, resumed = new_adaptive(3, n_curved, kind), new_adaptive(3, n_curved, kind)
    if saved_at:
        tracker.replay(events[:saved_at], some_weights(1, saved_at))
    arrays, metadata = tracker.state()
    resumed.restore(arrays, json.loads(json.dumps(metadata)))
    for array in arrays.values():  # the saved and the restored arrays must be copies
        array[...] = 0
    assert (resumed.replay(events[saved_at:]) == tracker.replay(events[saved_at:])).all()
    assert resumed.split_metric() == tracker.split_metric()
    assert_same_state(resumed, tracker)


@pytest.mark.parametrize("rounds", [10, 100] if COMPILED else [10])
@pytest.mark.parametrize("duplicate", [copy, deepcopy, lambda tracker: pickle.loads(pickle.dumps(tracker))])
def test_copies_of_the_ensemble_are_independent(rounds, duplicate):
    events, n_curved = curved_events(31, 3, rounds + 60)
    tracker = new_adaptive(3, n_curved, "pairs")
    tracker.replay(events[:rounds])
    metric, twin = tracker.split_metric(), duplicate(tracker)
    margins = twin.replay(events[rounds:])
    assert tracker.split_metric() == metric
    assert (tracker.replay(events[rounds:]) == margins).all()
    assert_same_state(tracker, twin)


def test_states_of_other_numbers_of_curved_features_are_refused():
    events, n_curved = curved_events(32, 3, 80)
    tracker = new_adaptive(3, n_curved, "pairs")
    tracker.replay(events)
    arrays, metadata = tracker.state()
    for other in (AdaptiveTracker(3 + n_curved), AdaptiveTracker(3 + n_curved, n_curved=n_curved - 1)):
        with pytest.raises(ValueError, match="the saved tracker has the settings"):
            other.restore(arrays, metadata)
    with pytest.raises(ValueError, match="n_curved must be a whole number of at most 2"):
        AdaptiveTracker(3, n_curved=3)


class Squares:
    """An expert of one's own: the Euclidean distance."""

    name = "mine"

    def square(self, u):
        return float(u @ u)

    def learn(self, u, y, weight):
        pass

    def metric(self):
        return Metric(np.eye(5))


def test_experts_of_ones_own_with_curved_features_are_refused():
    with pytest.raises(ValueError, match="experts of your own"):
        AdaptiveTracker(5, n_curved=2, experts=[Squares()])


# -- apply_to_rows --


@given(st.integers(1, 40), st.integers(0, 20), st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_the_bits_of_products_do_not_depend_on_the_division(count, t, sizes):
    rng = np.random.default_rng(count)
    rows, M = rng.normal(size=(count, 7)), rng.normal(size=(7, 5))
    whole, parts, done, i = apply_to_rows(lambda stack: stack @ M, rows, t), [], 0, 0
    np.testing.assert_allclose(whole, rows @ M, rtol=RTOL, atol=RTOL)
    while done < count:
        part = rows[done : done + sizes[i % len(sizes)]]
        parts.append(apply_to_rows(lambda stack: stack @ M, part, t + done))
        done, i = done + len(part), i + 1
    assert (np.concatenate(parts) == whole).all()


# -- RecentPairs --


def whole_points(seed, rounds, n):
    """Return points that single precision holds exactly, with zero points at the beginning."""
    X, Z = np.random.default_rng(seed).integers(-9, 10, size=(2, rounds, n)).astype(float)
    X[:2] = Z[:2] = 0.0
    y, weights = np.random.default_rng(seed).choice([-1.0, 1.0], size=rounds), some_weights(seed, rounds)
    return X, Z, y, weights


def stored(recent):
    """Return the stored points as arrays, labels and weights."""
    pairs, weights = recent.pairs()
    X, Z = (points if isinstance(points, np.ndarray) else points.toarray() for points in (pairs.X, pairs.Z))
    return X, Z, pairs.y, weights


def assert_same_pairs(recent, expected):
    for array, of_stream in zip(stored(recent), expected, strict=True):
        assert array.dtype == np.float64
        assert np.array_equal(array, of_stream)
    assert len(recent) == len(expected[2])


@settings(max_examples=40)
@given(
    seed=st.integers(0, 100),
    sizes=st.lists(st.integers(1, 25), min_size=1, max_size=12),
    capacity=st.integers(1, 30),
    sparse=st.booleans(),
    saved_after=st.integers(0, 12),
)
def test_exactly_the_last_pairs_are_stored(seed, sizes, capacity, sparse, saved_after):
    """Whatever the chunks, also after saving; a plain list is the oracle."""
    stream, as_rows = whole_points(seed, sum(sizes), 3), csr_array if sparse else np.asarray
    recent, done = RecentPairs(3, capacity), 0
    for i, size in enumerate(sizes):
        if i == saved_after:
            arrays = recent.arrays()
            recent = RecentPairs.restore(StateReader(arrays, {}), 3, capacity, sparse)
            for array in arrays.values():
                array[...] = 0
        X, Z, y, weights = (array[done : done + size].copy() for array in stream)
        before = copy(recent)
        recent.add(PointPairs(as_rows(X), as_rows(Z), y), weights)
        for array in (X, Z, y, weights):  # callers may use their arrays again
            array[...] = 7.0
        assert len(before) == min(done, capacity)
        done += size
        assert_same_pairs(recent, [list(array[:done])[-capacity:] for array in stream])


def test_fewer_pairs_of_many_features_are_stored():
    for n in (1, 100, 3000, 10**6):
        capacity = RecentPairs(n, 512).capacity
        assert capacity <= 512
        assert capacity == MIN_PAIRS or 2 * n * capacity <= MAX_NUMBERS
    assert RecentPairs(1, 512).capacity == 512
    assert RecentPairs(10**6, 512).capacity == MIN_PAIRS
    assert RecentPairs(10**6, 20).capacity == 20


@pytest.mark.parametrize("as_rows", [np.asarray, csr_array])
@pytest.mark.parametrize("power", [-900, -40, 1, 900])
def test_a_power_of_two_only_changes_the_exponent(as_rows, power):
    X, Z = np.random.default_rng(1).normal(size=(2, 30, 3))
    y, weights, one, other = np.ones(30), np.ones(30), RecentPairs(3, 20), RecentPairs(3, 20)
    one.add(PointPairs(as_rows(X), as_rows(Z), y), weights)
    other.add(PointPairs(as_rows(2.0**power * X), as_rows(2.0**power * Z), y), weights)
    arrays, expected = other.arrays(), one.arrays()
    assert arrays.pop("exponent") == expected.pop("exponent") + power
    if as_rows is np.asarray:
        assert (arrays.pop("origin") == 2.0**power * expected.pop("origin")).all()
    for name, array in arrays.items():
        assert np.array_equal(array, expected[name]), name
    assert (stored(other)[0] == 2.0**power * stored(one)[0]).all()


@pytest.mark.parametrize("as_rows", [np.asarray, csr_array])
@pytest.mark.parametrize("size", [1e-300, 1e-200, 1.0, 1e200, 1e300])
def test_points_of_any_size_keep_the_digits_of_single_precision(as_rows, size):
    X, Z = size * np.random.default_rng(2).uniform(0.1, 2.0, size=(2, 30, 3))
    recent = RecentPairs(3, 40)
    recent.add(PointPairs(as_rows(X), as_rows(Z), np.ones(30)), np.ones(30))
    for points, expected in zip(stored(recent), (X, Z), strict=False):
        np.testing.assert_allclose(points, expected, rtol=0.0, atol=2.0**-23 * size)


@pytest.mark.parametrize("as_rows", [np.asarray, csr_array])
@pytest.mark.parametrize(
    ("first", "size"),
    [(1.0, 1e100), (1e-200, 1e200)],
)
def test_points_that_become_enormous_are_cut(as_rows, first, size):
    recent = RecentPairs(1, 4)
    for value in (first, size, -size):
        recent.add(PointPairs(as_rows([[value]]), as_rows([[0.0]]), [1]), np.ones(1))
    arrays = recent.arrays()
    points = np.concatenate([arrays[name].ravel() for name in ("X", "X_data") if name in arrays])
    assert points[1] == np.float32(MAX_SINGLE)
    assert points[2] == np.float32(-MAX_SINGLE)
    assert np.isfinite(stored(recent)[0]).all()


def recent_arrays(sparse):
    X, Z, y, weights = whole_points(3, 8, 3)
    as_rows, recent = csr_array if sparse else np.asarray, RecentPairs(3, 10)
    recent.add(PointPairs(as_rows(X), as_rows(Z), y), weights)
    return recent.arrays()


def damaged_arrays(arrays):
    """Yield the arrays with each one missing, of another shape, of another type, or with a NaN."""
    for name, array in arrays.items():
        yield name, {key: value for key, value in arrays.items() if key != name}
        yield name, {**arrays, name: array[..., None]}
        yield name, {**arrays, name: array.astype(np.float16)}
        if array.dtype.kind == "f" and array.size:
            wrong = array.copy()
            wrong.flat[-1] = np.nan
            yield name, {**arrays, name: wrong}


@pytest.mark.parametrize("sparse", [False, True])
def test_damaged_pairs_are_refused(sparse):
    arrays = recent_arrays(sparse)
    damaged = list(damaged_arrays(arrays))
    damaged += [
        ("y", {**arrays, "y": np.full(8, 0.5)}),
        ("weights", {**arrays, "weights": -arrays["weights"]}),
        ("exponent", {**arrays, "exponent": np.array([5000])}),
    ]
    if sparse:
        for name, at, value in (("X_indices", 0, 3), ("Z_indices", 0, -1), ("X_indptr", 1, 99), ("Z_indptr", 0, 1)):
            wrong = arrays[name].copy()
            wrong[at] = value
            damaged.append((name, {**arrays, name: wrong}))
        rows = arrays["X_indptr"].copy()
        rows[3] = rows[-1]
        damaged.append(("X_indptr", {**arrays, "X_indptr": rows}))
    for name, wrong in damaged:
        saved = StateReader(wrong, {})
        with pytest.raises(ValueError, match=r"saved (array|state)") as error:  # noqa: PT012
            RecentPairs.restore(saved, 3, 10, sparse)
            saved.expect_end()
        assert "\n" not in str(error.value), name
    with pytest.raises(ValueError, match="at most 7 answers"):
        RecentPairs.restore(StateReader(arrays, {}), 3, 7, sparse)


def test_no_pairs_can_be_saved():
    recent = RecentPairs(3, 10)
    assert (len(recent), recent.arrays()) == (0, {})
    assert len(RecentPairs.restore(StateReader({}, {}), 3, 10, False)) == 0


# -- CurvedTracker: same bits --


def assert_same(one, other):
    """Check that two trackers have the same bits: distance, weights, changes, drift and everything that is saved."""
    assert one.play() == other.play()
    assert (one.expert_weights == other.expert_weights).all()
    assert (one.changes, one.drift) == (other.changes, other.drift)
    assert_same_state(one, other)


def n_maps(tracker):
    return tracker.state()[1]["n_maps"]


@pytest.fixture(scope="module")
def moving():
    """Return a stream whose points move away after the last map, its weights, and what one call returns."""
    pairs, weights, tracker = disk(1, ROUNDS, moved_from=MOVED), some_weights(1, ROUNDS), CurvedTracker(2)
    return pairs, weights, tracker.replay(pairs, weights), tracker


def assert_same_margins(margins, expected):
    """Check margins: some of those until compiled code has taken over are the definition's, or the kernels'."""
    plain = slice(MAP_ROUNDS[0], PLAIN_ROUNDS)
    np.testing.assert_allclose(margins[plain], expected[plain], rtol=HANDED_OVER, atol=HANDED_OVER)
    for part in (slice(None, MAP_ROUNDS[0]), slice(PLAIN_ROUNDS, None)):
        assert (margins[part] == expected[part]).all()


@only_compiled
@pytest.mark.parametrize("sizes", [[1], [7], [1, 30, 200], [MAP_ROUNDS[0], 1], [RENEWED - 1, TEST_PERIOD, 1]])
def test_a_stream_can_be_cut_anywhere(sizes, moving):
    """Across all rounds with a new map, and after the map was renewed in place."""
    pairs, weights, margins, whole = moving
    tracker = CurvedTracker(2)
    assert_same_margins(replay_in_chunks(tracker, pairs, sizes, weights), margins)
    assert_same(tracker, whole)
    assert n_maps(tracker) == len(MAP_ROUNDS) + 2


@only_compiled
@pytest.mark.parametrize(("n", "rounds"), [(1, 300), (25, 300), (128, 140)])
def test_streams_of_any_number_of_features_can_be_cut(n, rounds):
    pairs, whole, parts = disk(n, rounds, n), CurvedTracker(n), CurvedTracker(n)
    margins = whole.replay(pairs)
    assert_same_margins(replay_in_chunks(parts, pairs, [3, 40]), margins)
    assert_same(parts, whole)


@only_compiled
def test_known_items_do_not_change_that():
    pairs = disk(2, 300, moved_from=200)
    whole, parts = (CurvedTracker(2, items=pairs.X[:150]) for _ in range(2))
    margins = whole.replay(pairs)
    divided = replay_in_chunks(parts, pairs, [11])
    np.testing.assert_allclose(divided[:PLAIN_ROUNDS], margins[:PLAIN_ROUNDS], rtol=HANDED_OVER, atol=HANDED_OVER)
    assert (divided[PLAIN_ROUNDS:] == margins[PLAIN_ROUNDS:]).all()
    assert_same(parts, whole)


SAVED_AT = sorted(
    {0, 5, PLAIN_ROUNDS, PLAIN_ROUNDS + 1}
    | {t + d for t in (*MAP_ROUNDS, TEST_PERIOD, RENEWED, RENEWED_AGAIN) for d in (-1, 0, 1)}
)


@pytest.fixture(scope="module")
def stopped(moving):
    """Return the tracker as it was after each of these rounds."""
    pairs, weights, _, _ = moving
    tracker, trackers = CurvedTracker(2), {}
    for t in SAVED_AT:
        if t > tracker.n_rounds:
            part = slice(tracker.n_rounds, t)
            tracker.replay(pairs[part], weights[part])
        trackers[t] = copy(tracker)
    return trackers


@only_compiled
@pytest.mark.parametrize("saved_at", SAVED_AT)
def test_resumes_from_its_state_at_any_round(saved_at, moving, stopped):
    """Before the first map, and right before and after each of them."""
    pairs, weights, _, _ = moving
    original, resumed = copy(stopped[saved_at]), CurvedTracker(2)
    arrays, metadata = original.state()
    resumed.restore({name: array.copy() for name, array in arrays.items()}, json.loads(json.dumps(metadata)))
    part = slice(saved_at, saved_at + 45)
    assert (resumed.replay(pairs[part], weights[part]) == original.replay(pairs[part], weights[part])).all()
    assert_same(resumed, original)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("saved_at", [20, 110] if COMPILED else [20])
def test_resumes_with_items(sparse, saved_at):
    X, Z, y = sparse_points(3, 170 if COMPILED else 60, 6)
    pairs = PointPairs(csr_array(X), csr_array(Z), y) if sparse else PointPairs(X, Z, y)
    tracker, resumed = CurvedTracker(6, sparse=sparse, items=X), CurvedTracker(6, sparse=sparse)
    tracker.replay(pairs[:saved_at])
    resumed.restore(*tracker.state())
    assert (resumed.replay(pairs[saved_at:]) == tracker.replay(pairs[saved_at:])).all()
    assert_same(resumed, tracker)
    assert n_maps(resumed) == 1


@only_compiled
def test_a_resumed_tracker_knows_what_its_map_does_not_see():
    """Of many features a map sees a part only; that this part is no smaller than before renews no map.

    The part is that of all points: a map sees its landmarks better than others.
    """
    pairs, tracker, resumed = disk(4, LAST_MAP + TEST_PERIOD + 5, 25), CurvedTracker(25), CurvedTracker(25)
    tracker.replay(pairs[: LAST_MAP + 5])
    assert tracker.state()[1]["mean_residual"] > 0.2
    resumed.restore(*tracker.state())
    assert (resumed.replay(pairs[LAST_MAP + 5 :]) == tracker.replay(pairs[LAST_MAP + 5 :])).all()
    assert n_maps(resumed) == n_maps(tracker) == len(MAP_ROUNDS)


def test_saved_arrays_are_copies():
    tracker = CurvedTracker(2)
    tracker.replay(disk(4, 40))
    expected, metric = deepcopy(tracker.state()[0]), deepcopy(tracker).play()
    for array in tracker.state()[0].values():
        array[...] = 0
    for name, array in tracker.state()[0].items():
        assert np.array_equal(array, expected[name]), name
    assert tracker.play() == metric


@pytest.mark.parametrize("duplicate", [copy, deepcopy, lambda tracker: pickle.loads(pickle.dumps(tracker))])
@pytest.mark.parametrize("rounds", [10, 40, MAP_ROUNDS[1] - 10] if COMPILED else [10])
def test_copies_are_equal_and_independent(rounds, duplicate):
    pairs = disk(5, rounds + 40)
    tracker = CurvedTracker(2)
    tracker.replay(pairs[:rounds])
    metric, maps, twin = tracker.play(), n_maps(tracker), duplicate(tracker)
    margins = twin.replay(pairs[rounds:])
    assert (tracker.play(), n_maps(tracker), tracker.n_rounds) == (metric, maps, rounds)
    assert (tracker.replay(pairs[rounds:]) == margins).all()
    assert_same(tracker, twin)


@only_compiled
@pytest.mark.parametrize("reused", ["y", "weights"])
def test_arrays_may_be_reused_after_a_call(reused):
    pairs, ones = disk(6, 100), np.ones(100)
    expected, tracker = CurvedTracker(2), CurvedTracker(2)
    expected.replay(pairs)
    tracker.replay(pairs[:32])
    X, Z, y, weights = (array[32:50].copy() for array in (pairs.X, pairs.Z, pairs.y, ones))
    tracker.replay(PointPairs(X, Z, y), weights)
    {"y": y, "weights": weights}[reused][:] = -1.0
    X[:] = Z[:] = 0.0
    tracker.replay(pairs[50:])
    assert_same(tracker, expected)


def test_a_weight_of_zero_teaches_no_answer():
    """Also not when all rounds are played again with another map."""
    pairs = disk(6, MAP_ROUNDS[1] + 20 if COMPILED else 50)
    unknown = np.arange(len(pairs)) % 3 == 0
    other = PointPairs(pairs.X, pairs.Z, np.where(unknown, -pairs.y, pairs.y))
    weights, one, same = np.where(unknown, 0.0, 1.0), CurvedTracker(2), CurvedTracker(2)
    assert (one.replay(pairs, weights) * pairs.y == same.replay(other, weights) * other.y).all()
    assert one.play() == same.play()


def test_reading_changes_nothing():
    pairs = disk(7, 45)
    read, unread = CurvedTracker(2), CurvedTracker(2)
    for first in range(0, 45, 5):
        read.play(), read.changes, read.state(), read.expert_weights, read.drift, copy(read)
        part = pairs[first : first + 5]
        assert (read.replay(part) == unread.replay(part)).all()
    assert_same(read, unread)


# -- CurvedTracker: sides, units, sparse points --


def swapped(pairs, rows):
    """Return the pairs, with the two points of some of them exchanged."""
    X, Z = (np.where(rows[:, None], a, b) for a, b in ((pairs.Z, pairs.X), (pairs.X, pairs.Z)))
    return PointPairs(X, Z, pairs.y)


@only_compiled
@pytest.mark.parametrize("share", [0.5, 1.0])
@pytest.mark.parametrize(
    "rounds",
    [MAP_ROUNDS[1], MAP_ROUNDS[1] + 60],
)
def test_the_order_of_points_does_not_matter(rounds, share):
    pairs = disk(8, rounds)
    other = swapped(pairs, np.random.default_rng(8).random(rounds) < share)
    np.testing.assert_allclose(CurvedTracker(2).replay(other), CurvedTracker(2).replay(pairs), rtol=1e-6, atol=1e-6)


@only_compiled
@pytest.mark.parametrize("power", [-200, 30])
def test_a_power_of_two_gives_the_same_margins(power, moving):
    pairs, weights, margins, whole = moving
    factor, tracker = 2.0**power, CurvedTracker(2)
    assert (tracker.replay(scaled(pairs, factor), weights) == margins).all()
    assert n_maps(tracker) == n_maps(whole)
    distances = tracker.play().squared_distance(factor * pairs.X, factor * pairs.Z)
    np.testing.assert_allclose(distances, whole.play().squared_distance(pairs.X, pairs.Z), rtol=1e-12)


@pytest.mark.parametrize("factor", [1e-100, 0.3, 1e70] if COMPILED else [0.3])
def test_a_common_factor_does_not_matter(factor):
    """Stored points are rounded to single precision, which depends on the factor."""
    pairs = disk(9, 180 if COMPILED else 50)
    margins = CurvedTracker(2).replay(scaled(pairs, factor))
    np.testing.assert_allclose(margins, CurvedTracker(2).replay(pairs), rtol=1e-4, atol=1e-4)


@only_compiled
@pytest.mark.parametrize("distance", [2.0**8, 2.0**26])
def test_a_common_offset_does_not_matter(distance):
    """For example of times in seconds."""
    pairs = disk(9, 180)
    X, Z = (np.round(points * 2.0**12) / 2.0**12 for points in (pairs.X, pairs.Z))
    margins = CurvedTracker(2).replay(PointPairs(X + distance, Z + distance, pairs.y))
    np.testing.assert_allclose(margins, CurvedTracker(2).replay(PointPairs(X, Z, pairs.y)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("known", [False, True])
def test_a_map_of_one_point_does_not_depend_on_units(known):
    """All first pairs are of one point, or only one item is known; then other points come."""
    pairs, margins = disk(10, 60), []
    pairs.X[:40] = pairs.Z[:40] = 1.0
    for factor in (1.0, 2.0**20):
        items = np.full((1, 2), factor) if known else None
        margins.append(CurvedTracker(2, items=items).replay(scaled(pairs, factor)))
    np.testing.assert_allclose(*margins, rtol=1e-6, atol=1e-6)


@only_compiled
def test_sparse_pairs_agree_with_dense_ones_of_many_features():
    """With more than 128 features, both have the same experts."""
    X, Z, y = sparse_points(11, 180, 140)
    dense, sparse = CurvedTracker(140), CurvedTracker(140, sparse=True)
    margins = dense.replay(PointPairs(X, Z, y))
    np.testing.assert_allclose(sparse.replay(PointPairs(csr_array(X), csr_array(Z), y)), margins, rtol=1e-6, atol=1e-6)
    expected = dense.play().distance(X, Z)
    np.testing.assert_allclose(sparse.play().distance(csr_array(X), csr_array(Z)), expected, rtol=1e-6)
    np.testing.assert_allclose(sparse.play().distance(X, Z), expected, rtol=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_tracker_accepts_dense_and_sparse_points(sparse):
    X, Z, y = sparse_points(12, 150 if COMPILED else 40, 8)
    one, other = (CurvedTracker(8, sparse=sparse) for _ in range(2))
    margins = one.replay(PointPairs(X, Z, y))
    assert (other.replay(PointPairs(csr_array(X), csr_array(Z), y)) == margins).all()
    assert_same(one, other)


@only_compiled
def test_sparse_pairs_agree_however_a_stream_is_divided():
    X, Z, y = sparse_points(13, 300, 20)
    pairs = PointPairs(csr_array(X), csr_array(Z), y)
    margins = CurvedTracker(20, sparse=True).replay(pairs)
    for sizes in ([1, 60], [17]):
        divided = replay_in_chunks(CurvedTracker(20, sparse=True), pairs, sizes)
        np.testing.assert_allclose(divided, margins, rtol=HANDED_OVER, atol=HANDED_OVER)


# -- CurvedTracker: items, few points, renewals --


@pytest.mark.parametrize("as_rows", [np.asarray, csr_array, list])
@pytest.mark.parametrize("sparse", [False, True])
def test_items_give_a_map_before_the_first_pair(as_rows, sparse):
    X, Z, y = sparse_points(14, 40, 5)
    tracker, unknown = CurvedTracker(5, sparse=sparse, items=as_rows(X)), CurvedTracker(5, sparse=sparse)
    assert n_maps(tracker) == 1
    assert n_maps(unknown) == 0
    assert tracker.play().feature_map is not None
    assert unknown.play().feature_map is None
    assert "curved Euclidean" in tracker.expert_names
    assert "curved Euclidean" not in unknown.expert_names
    assert len(tracker.expert_weights) == len(tracker.expert_names)
    for each in (tracker, unknown):
        each.replay(PointPairs(X, Z, y))
        assert each.play().round == each.n_rounds == 40
        assert each.expert_weights.sum() == pytest.approx(1.0)
        assert "curved Euclidean" in each.expert_names
        assert n_maps(each) == 1


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_items", [1, 2, 3])
@pytest.mark.parametrize("known", [False, True])
def test_few_items_are_enough(sparse, n_items, known):
    items = sparse_points(15, 3, 4)[0][:n_items]
    rng = np.random.default_rng(n_items)
    left, right = rng.integers(0, n_items, size=(2, 200 if COMPILED else 50))
    tracker = CurvedTracker(4, sparse=sparse, items=items if known else None)
    margins = tracker.replay(PointPairs(items[left], items[right], left == right))
    assert np.isfinite(margins).all()
    assert np.isfinite(tracker.play().distance(items[left], items[right])).all()
    assert accuracy(margins[-20:]) > 0.8
    tracker.replay(PointPairs(*sparse_points(16, 10, 4)))
    assert np.isfinite(tracker.play().distance(*sparse_points(16, 10, 4)[:2])).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_constant_points_are_accepted(sparse):
    rounds = 140 if COMPILED else 40
    points, y = np.full((rounds, 3), 2.0), np.random.default_rng(0).choice([-1.0, 1.0], size=rounds)
    tracker = CurvedTracker(3, sparse=sparse)
    assert np.isfinite(tracker.replay(PointPairs(points, points, y))).all()
    metric = tracker.play()
    assert metric.distance(points[0], points[1]) == 0.0
    assert np.isfinite(metric.distance(np.zeros(3), points[0]))
    assert metric.feature_map is None  # all points are equal, so the distance is linear
    assert n_maps(tracker) == 0


@only_compiled
@pytest.mark.parametrize(("n", "n_equal"), [(2, MAP_ROUNDS[-1]), (5000, MAP_ROUNDS[0])])
def test_a_first_map_that_comes_too_late_is_not_drawn(n, n_equal):
    """The first different points come after more rounds than are stored."""
    rounds = n_equal + 200
    X, Z, y = (array.copy() for array in sparse_points(17, rounds, n))
    X[:n_equal] = Z[:n_equal] = X[0]
    tracker, linear = CurvedTracker(n, sparse=True), AdaptiveTracker(n, sparse=True)
    pairs = PointPairs(csr_array(X), csr_array(Z), y)
    as_measured = PointPairs(*(to_unit_length(P) if n > 128 else P for P in (pairs.X, pairs.Z)), y)
    expected = linear.replay(as_measured.events())
    np.testing.assert_allclose(tracker.replay(pairs), expected, rtol=HANDED_OVER, atol=HANDED_OVER)
    assert (n_maps(tracker), tracker.n_rounds) == (0, rounds)
    assert tracker.play().feature_map is None


@only_compiled
@pytest.mark.parametrize("tracker_type", [AdaptiveTracker, CurvedTracker])
def test_resumes_with_more_than_4000_features(tracker_type):
    X, Z, y = sparse_points(17, 232, 5000)
    pairs = PointPairs(csr_array(X), csr_array(Z), y)
    tracker, resumed = (tracker_type(5000, sparse=True) for _ in range(2))
    tracker.replay(pairs if tracker_type is CurvedTracker else pairs.events())
    resumed.restore(*tracker.state())
    assert_same(resumed, tracker)


@only_compiled
def test_points_that_move_away_renew_the_map(moving):
    """Before, the map is drawn at the rounds of the plan only; what was stored is carried over to the new features."""
    pairs, weights, _, _ = moving
    tracker = CurvedTracker(2)
    tracker.replay(pairs[: RENEWED - 1], weights[: RENEWED - 1])
    assert n_maps(tracker) == len(MAP_ROUNDS)
    before = copy(tracker)
    tracker.replay(pairs[RENEWED - 1 : RENEWED], weights[RENEWED - 1 : RENEWED])
    assert n_maps(tracker) == len(MAP_ROUNDS) + 1
    assert tracker.n_rounds == RENEWED
    old, new = before.play().feature_map, tracker.play().feature_map
    latest = pairs.X[MOVED:RENEWED]
    seen = [np.square(feature_map(latest)).sum(axis=1).mean() for feature_map in (old, new)]
    assert seen[0] < 0.1 < 0.8 < seen[1]
    one, other = before._tracker._mixture, tracker._tracker._mixture
    assert [memory is None for memory in other.memories] == [memory is None for memory in one.memories]
    for metric in (*other.memories, other.anchor, other.snapshot):
        assert metric is None or metric.curved.n_features == new.n_outputs
    for memory, memory_before in zip(other.memories, one.memories, strict=True):
        assert memory is None or memory.linear == memory_before.linear
    assert tracker.expert_names == before.expert_names
    tracker.replay(pairs[RENEWED : RENEWED_AGAIN - 1])
    assert n_maps(tracker) == len(MAP_ROUNDS) + 1
    more = disk(29, 2 * TEST_PERIOD + 1, moved_from=0)
    tracker.replay(more[:1])
    assert n_maps(tracker) == len(MAP_ROUNDS) + 2
    tracker.replay(more[1:])  # the points stay where they are
    assert n_maps(tracker) == len(MAP_ROUNDS) + 2


@only_compiled
def test_stored_metrics_keep_their_distances_in_a_new_map(monkeypatch):
    """Half of the points move a little. Those that stay have about the same curved distances by both maps."""
    pairs, before = disk(31, RENEWED), []
    moved = np.arange(RENEWED) % 2 == 1
    moved[:MOVED] = False
    for points in (pairs.X, pairs.Z):
        points[moved] += 2.5
    renew = AdaptiveTracker.renew_curved

    def recorded(self, *arguments):
        before.append(self._mixture.snapshot)
        renew(self, *arguments)

    monkeypatch.setattr(AdaptiveTracker, "renew_curved", recorded)
    tracker = CurvedTracker(2)
    tracker.replay(pairs[: RENEWED - 1])
    old = tracker.play().feature_map
    tracker.replay(pairs[RENEWED - 1 :])
    new, after = tracker.play().feature_map, tracker._tracker._mixture.snapshot
    X, Z = pairs.X[MOVED:][~moved[MOVED:]], pairs.Z[MOVED:][~moved[MOVED:]]
    squares = [
        metric.curved.squared_length(feature_map(X) - feature_map(Z))
        for metric, feature_map in ((before[0], old), (after, new))
    ]
    assert len(before) == 1
    assert np.corrcoef(*squares)[0, 1] > 0.9
    assert squares[1].mean() == pytest.approx(squares[0].mean(), rel=0.2)
    assert after.linear == before[0].linear


@only_compiled
@pytest.mark.parametrize("n", [2, 12, 60])
def test_points_that_stay_never_renew_the_map(n):
    rounds, items = RENEWED + TEST_PERIOD + 1, disk(18, 300, n).X
    tracker, of_items = CurvedTracker(n), CurvedTracker(n, items=items)
    tracker.replay(disk(17, rounds, n))
    assert n_maps(tracker) == len(MAP_ROUNDS)
    left, right = np.random.default_rng(19).integers(0, 300, size=(2, rounds))
    of_items.replay(PointPairs(items[left], items[right], in_disk(items[left]) == in_disk(items[right])))
    assert n_maps(of_items) == 1


# -- CurvedTracker: predictions --


@pytest.mark.parametrize("sparse", [False, True])
def test_the_distance_predicts_the_next_pair(sparse):
    """``threshold - d^2`` are the log odds, also right after a new map; after the warm-up of scales."""
    X, Z, y = sparse_points(19, 290 if COMPILED else 60, 6)
    pairs, tracker, done = PointPairs(X, Z, y), CurvedTracker(6, sparse=sparse), 0
    stops = {*range(WARMUP + 1, len(y), 23), *(t + d for t in MAP_ROUNDS for d in (-1, 0, 1) if t + 1 < len(y))}
    for t in sorted(stops):
        if t > done:
            tracker.replay(pairs[done:t])
        metric, done = tracker.play(), t + 1
        log_odds = metric.threshold - metric.squared_distance(X[t], Z[t])
        assert metric.round == t
        assert tracker.replay(pairs[t:done])[0] == pytest.approx(y[t] * log_odds, rel=HANDED_OVER, abs=HANDED_OVER)
    assert (tracker.play().linear_part.n_features, tracker.play().n_features) == (6, 6)


@only_compiled
@pytest.mark.parametrize("known", [False, True])
def test_learns_a_disk_that_no_linear_distance_can(known):
    for seed in (20, 21):
        pairs = disk(seed, 700)
        tracker = CurvedTracker(2, items=disk(seed + 10, 200).X if known else None)
        curved, linear = tracker.replay(pairs), AdaptiveTracker(2).replay(pairs.events())
        assert accuracy(curved[350:]) > 0.75
        assert accuracy(curved[350:]) > accuracy(linear[350:]) + 0.2
        new = disk(seed + 20, 400)
        same = tracker.play().similar(new.X, new.Z)
        assert np.mean(same == (new.y > 0)) > 0.75
        weights = dict(zip(tracker.expert_names, tracker.expert_weights, strict=True))
        assert set(tracker.decide(np.array([-9.0, 0.0, 9.0]), 0.1)) <= {-1, 0, 1}
        assert weights["Euclidean"] < 0.1


@only_compiled
def test_a_changed_question_is_detected_and_learned():
    """Of the same points, first the disk is asked for, then the sign of the first feature."""
    pairs = disk(22, 1000)
    signs = np.where((pairs.X[:, 0] > 0) == (pairs.Z[:, 0] > 0), 1.0, -1.0)
    tracker = CurvedTracker(2)
    margins = tracker.replay(PointPairs(pairs.X, pairs.Z, np.where(np.arange(1000) < 500, pairs.y, signs)))
    assert any(480 <= change.round <= change.detected for change in tracker.changes)
    assert accuracy(margins[-200:]) > 0.75


# -- CurvedTracker: refused input --


def enormous(factor):
    pairs = disk(23, 20)
    pairs.X[7] = factor
    return pairs


REFUSED = {
    "NaN": lambda: PointPairs.from_trusted(np.full((1, 2), np.nan), np.zeros((1, 2)), np.ones(1)),
    "infinite": lambda: PointPairs.from_trusted(np.zeros((1, 2)), np.full((1, 2), np.inf), np.ones(1)),
    "features": lambda: disk(23, 5, 3),
    "sparse features": lambda: PointPairs(csr_array(np.eye(3)), csr_array(np.eye(3)), np.ones(3)),
    "type": lambda: disk(23, 5).events(),
    "tuple": lambda: (np.zeros((1, 2)), np.zeros((1, 2)), np.ones(1)),
    "too far": lambda: enormous(10.0 * MAX_DIFFERENCE),
    "overflow": lambda: enormous(1e200),
}


@pytest.fixture(scope="module")
def trained():
    """Return trackers before and after the first map, and the next pairs."""
    pairs, tracker = disk(24, 60), CurvedTracker(2)
    tracker.replay(pairs[:5])
    with_map = copy(tracker)
    with_map.replay(pairs[5:40])
    return {5: (tracker, pairs[5:10]), 40: (with_map, pairs[40:45])}


@pytest.mark.parametrize("rounds", [5, 40])
@pytest.mark.parametrize("wrong", REFUSED)
def test_wrong_pairs_are_refused_and_change_nothing(wrong, rounds, trained):
    untouched, next_pairs = trained[rounds]
    tracker = copy(untouched)
    with pytest.raises((ValueError, TypeError), match=r"\w+ \w+ \w+") as error:
        tracker.replay(REFUSED[wrong]())
    assert "\n" not in str(error.value)
    assert_same(tracker, untouched)
    assert (tracker.replay(next_pairs) == copy(untouched).replay(next_pairs)).all()


@pytest.mark.parametrize("weights", [np.ones(4), -np.ones(5), np.full(5, 11.0), np.full(5, np.nan)])
def test_wrong_weights_are_refused(weights):
    tracker = CurvedTracker(2)
    with pytest.raises(ValueError, match="sample_weight"):
        tracker.replay(disk(25, 5), weights)
    assert tracker.n_rounds == 0


@pytest.mark.parametrize(
    ("x", "z", "sentence"),
    [
        (1e80, 0.0, r"X holds a number of size 1e\+80; accepted: up to 1e\+75"),
        (0.0, -1e200, r"Z holds a number of size 1e\+200; accepted: up to 1e\+75"),
        (9e74, -9e74, r"the points of pair 40 are too far apart: they differ by 1.8e\+75"),
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_enormous_points_late_in_a_call_change_nothing(x, z, sentence, sparse):
    """Although the first map would be drawn before that pair."""
    pairs, tracker = disk(26, 50), CurvedTracker(2, sparse=sparse)
    pairs.X[40], pairs.Z[40] = x, z
    with pytest.raises(ValueError, match=sentence):
        tracker.replay(pairs)
    assert tracker.n_rounds == n_maps(tracker) == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n_features": 0}, "n_features must be a whole number of at least 1"),
        ({"sparse": 1}, "sparse must be one of False, True"),
        ({"items": np.zeros((2, 3))}, "items has 3 features; 2 are expected"),
        ({"items": csr_array(np.ones((2, 3)))}, "items has 3 features; 2 are expected"),
        ({"items": [[np.nan, 1.0]]}, "only finite numbers are accepted"),
        ({"items": np.zeros((0, 2))}, "items is empty"),
        ({"items": [[1e200, 0.0], [0.0, 1.0], [1.0, 1.0]]}, "items holds a number of size 1e\\+200; accepted: up to"),
        ({"items": csr_array([[-1e200, 0.0]])}, "items holds a number of size 1e\\+200; accepted: up to"),
    ],
)
def test_wrong_arguments_are_refused(arguments, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        CurvedTracker(**{"n_features": 2, **arguments})


# -- CurvedTracker: refused states --


@pytest.fixture(scope="module")
def saved_states():
    """Return the states of a dense and a sparse tracker with a map, and of one with an anchor."""
    X, Z, y = sparse_points(27, 45, 3)
    states = []
    for sparse in (False, True):
        tracker = CurvedTracker(3, sparse=sparse)
        tracker.replay(PointPairs(X, Z, y))
        states.append(tracker.state())
    if COMPILED:
        tracker = CurvedTracker(3)
        tracker.replay(disk(27, 200, 3))
        states.append(tracker.state())
    return states


@pytest.mark.parametrize("i", range(3 if COMPILED else 2))
def test_damaged_states_are_refused(i, saved_states):
    arrays, metadata = saved_states[i]
    sparse = metadata["settings"]["sparse"]
    for name, damaged in damaged_arrays(arrays):
        fresh = CurvedTracker(3, sparse=sparse)
        with pytest.raises(ValueError, match=r"\w+ \w+") as error:
            fresh.restore(damaged, metadata)
        assert "\n" not in str(error.value), name
        assert fresh.n_rounds == 0
    with pytest.raises(ValueError, match="saved state holds 'more', which is unknown"):
        CurvedTracker(3, sparse=sparse).restore({**arrays, "more": np.zeros(1)}, metadata)
    without_map = {name: array for name, array in arrays.items() if not name.startswith("map.")}
    with pytest.raises(ValueError, match="settings"):
        CurvedTracker(3, sparse=sparse).restore(without_map, metadata)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("settings", {"method": "adaptive"}),
        ("n_maps", -1),
        ("n_maps", "one"),
        ("tracker", {}),
        ("more", 1),
        ("mean_residual", "many"),
        ("mean_residual", None),
        ("mean_residual", float("nan")),
        ("has_items", "no"),
        ("has_items", None),
        ("has_moved", "no"),
        ("has_moved", 1),
    ],
)
def test_damaged_values_are_refused(name, value, saved_states):
    arrays, metadata = saved_states[0]
    fresh = CurvedTracker(3)
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        fresh.restore(arrays, {**metadata, name: value})
    assert fresh.n_rounds == 0
    if name in metadata:
        with pytest.raises(ValueError, match=r"\w+ \w+"):
            fresh.restore(arrays, {key: kept for key, kept in metadata.items() if key != name})


def test_a_state_with_too_few_pairs_is_refused(saved_states):
    """Otherwise the next map learns from the remaining rounds only, and the number of rounds falls."""
    arrays, metadata = saved_states[0]
    without = {name: array for name, array in arrays.items() if not name.startswith("recent.")}
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        CurvedTracker(3).restore(without, metadata)


def test_a_map_of_the_other_kind_is_refused(saved_states):
    arrays, metadata = saved_states[0]
    of_map = {name.removeprefix("map."): array for name, array in arrays.items() if name.startswith("map.")}
    dense = LandmarkMap.from_arrays(of_map)
    sparse = LandmarkMap(csr_array(dense.landmarks), dense.width, dense.projection).arrays()
    others = {name: array for name, array in arrays.items() if not name.startswith("map.")}
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        CurvedTracker(3).restore({**others, **add_prefix("map", sparse)}, metadata)


@only_compiled
@pytest.mark.parametrize(("at", "value"), [(0, None), (0, "high"), (0, float("nan")), (1, -1), (1, 2.5), (1, 10**6)])
def test_a_stored_metric_with_a_wrong_threshold_or_round_is_refused(at, value, saved_states):
    arrays, metadata = deepcopy(saved_states[2])
    metadata["tracker"]["mixture"]["metrics"]["anchor"][at] = value
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        CurvedTracker(3).restore(arrays, metadata)


def test_a_tracker_that_has_played_is_not_restored(saved_states):
    tracker = CurvedTracker(3)
    tracker.replay(disk(28, 5, 3))
    with pytest.raises(ValueError, match="this tracker has played 5 rounds"):
        tracker.restore(*saved_states[0])
    with pytest.raises(ValueError, match="settings"):
        CurvedTracker(4).restore(*saved_states[0])
    with pytest.raises(ValueError, match="settings"):
        CurvedTracker(3, sparse=True).restore(*saved_states[0])


# -- Points of many features: cosine --

# Few features suffice with this configuration: more than four are many.
FEW_MOMENTS = AdaptiveConfig(max_moment_features=4)


def directions(seed, rounds, n):
    """Return pairs that are similar if their first two features are on the same side; lengths of points differ."""
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(2, rounds, n))
    y = np.where((X[:, 0] > X[:, 1]) == (Z[:, 0] > Z[:, 1]), 1.0, -1.0)
    X, Z = (points * rng.uniform(0.1, 10.0, size=(rounds, 1)) for points in (X, Z))
    X[3] = Z[7] = 0.0
    return PointPairs(X, Z, y)


def stretched(pairs, factors):
    """Return the pairs with each point multiplied by its factor."""
    return PointPairs(factors[0][:, None] * pairs.X, factors[1][:, None] * pairs.Z, pairs.y)


def cosine_distances(X, Z):
    """Return 1 - cos, for zero points 1/2: half the squared distance of points of unit length."""
    X, Z = (P / np.maximum(np.linalg.norm(P, axis=1, keepdims=True), 1e-300) for P in (X, Z))
    return np.square(X - Z).sum(axis=1) / 2.0


@pytest.mark.parametrize(
    ("n", "config", "expected"),
    [(128, None, False), (129, None, True), (4, FEW_MOMENTS, False), (5, FEW_MOMENTS, True)],
)
def test_points_of_many_features_are_divided_by_their_lengths(n, config, expected):
    assert CurvedTracker(n, config=config).play().unit_length is expected
    assert CurvedTracker(n, config=config, items=np.eye(3, n)).play().unit_length is expected
    assert not CurvedTracker(n, config=config, own_map=np.square).play().unit_length


@pytest.mark.parametrize(("n", "config"), [(5, FEW_MOMENTS), (140, None)])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_distance_begins_as_cosine(n, config, sparse):
    pairs = directions(50, 60, n)
    expected = cosine_distances(pairs.X, pairs.Z)
    metric = CurvedTracker(n, sparse=sparse, config=config).play()
    squares = metric.squared_distance(pairs.X, pairs.Z)
    np.testing.assert_allclose(squares / squares.max(), expected / expected.max(), rtol=RTOL)
    others = expected > 0.0
    order = np.argsort(expected[others])
    assert (np.diff(squares[others][order]) >= -1e-12).all()
    # If items are known, there are some curved experts, too.
    metric = CurvedTracker(n, sparse=sparse, config=config, items=pairs.X).play()
    assert np.corrcoef(metric.squared_distance(pairs.X, pairs.Z), expected)[0, 1] > 0.99


@pytest.mark.parametrize(("n", "config"), [(6, FEW_MOMENTS), *([(140, None)] if COMPILED else [])])
@pytest.mark.parametrize("known", [False, True])
def test_lengths_of_points_do_not_matter(n, config, known):
    """Powers of two change no bit, other positive numbers only the last ones."""
    rounds = 150 if COMPILED else 40
    pairs, rng = directions(51, rounds, n), np.random.default_rng(0)
    items = directions(52, 40, n).X if known else None
    tracker = CurvedTracker(n, config=config, items=items)
    margins = tracker.replay(pairs)
    powers = 2.0 ** rng.integers(-180, 180, size=(2, rounds))
    of_items = items * 2.0 ** rng.integers(-180, 180, size=(40, 1)) if known else None
    exact = CurvedTracker(n, config=config, items=of_items)
    assert (exact.replay(stretched(pairs, powers)) == margins).all()
    assert_same(exact, tracker)
    factors = rng.uniform(0.3, 3.0, size=(2, rounds)) * 10.0 ** rng.choice([-60, 0, 60], size=(2, rounds))
    other = CurvedTracker(n, config=config, items=None if items is None else 1e60 * items)
    # Stored points are rounded to single precision.
    np.testing.assert_allclose(other.replay(stretched(pairs, factors)), margins, rtol=1e-4, atol=1e-4)
    metric = tracker.play()
    distances = metric.distance(pairs.X, pairs.Z)
    assert np.isfinite(distances).all()
    changed = stretched(pairs, factors)
    np.testing.assert_allclose(metric.distance(changed.X, changed.Z), distances, rtol=1e-7, atol=1e-7)


def test_lengths_of_few_features_matter():
    """Otherwise the tests above would hold for nothing."""
    pairs = directions(51, 40, 4)
    factors = np.random.default_rng(0).uniform(0.3, 3.0, size=(2, 40))
    one, other = (CurvedTracker(4, config=FEW_MOMENTS).replay(each) for each in (pairs, stretched(pairs, factors)))
    assert np.abs(one - other).max() > 0.1


@pytest.mark.parametrize(("n", "config"), [(6, FEW_MOMENTS), *([(140, None)] if COMPILED else [])])
@pytest.mark.parametrize("known", [False, True])
def test_sparse_points_of_many_features_agree_with_dense_ones(n, config, known):
    pairs, items = directions(53, 100 if COMPILED else 40, n), directions(54, 30, n).X if known else None
    for points in (pairs.X, pairs.Z):
        points[np.abs(points) < 0.5] = 0.0
    dense, sparse = (CurvedTracker(n, sparse=sparse, config=config, items=items) for sparse in (False, True))
    rows = PointPairs(csr_array(pairs.X), csr_array(pairs.Z), pairs.y)
    np.testing.assert_allclose(sparse.replay(rows), dense.replay(pairs), rtol=1e-6, atol=1e-6)
    expected = dense.play().distance(pairs.X, pairs.Z)
    for metric in (sparse.play(), dense.play()):
        np.testing.assert_allclose(metric.distance(rows.X, rows.Z), expected, rtol=1e-6, atol=1e-6)


def test_zero_points_of_many_features():
    """They are equal to each other, and equally far from all others at first."""
    tracker = CurvedTracker(6, config=FEW_MOMENTS)
    zeros, points = np.zeros((20, 6)), directions(55, 40, 6).X[10:30]
    distances = tracker.play().distance(zeros, points)
    np.testing.assert_allclose(distances, distances[0], rtol=RTOL)
    assert distances[0] > 0.0
    assert np.isfinite(tracker.replay(PointPairs(zeros, points, np.ones(20)))).all()
    assert np.isfinite(tracker.replay(PointPairs(zeros, zeros, np.ones(20)))).all()
    assert (tracker.play().distance(zeros, zeros) == 0.0).all()
    assert np.isfinite(tracker.play().distance(zeros, points)).all()


@pytest.mark.parametrize("known", [False, True])
def test_unit_length_is_resumed(known):
    pairs, items = directions(56, 80 if COMPILED else 45, 140), directions(57, 30, 140).X if known else None
    tracker, resumed = CurvedTracker(140, items=items), CurvedTracker(140)
    tracker.replay(pairs[:40])
    resumed.restore(*tracker.state())
    assert resumed.play().unit_length
    assert (resumed.replay(pairs[40:]) == tracker.replay(pairs[40:])).all()
    assert_same(resumed, tracker)


# -- Maps of one's own --


def products(X):
    """Return all products of two features."""
    rows = X.toarray() if hasattr(X, "toarray") else X
    return np.einsum("ij,ik->ijk", rows, rows).reshape(len(rows), -1)


def test_an_own_map_is_known_from_the_first_pair_on():
    pairs, tracker = disk(60, 40), CurvedTracker(2, own_map=products)
    assert tracker.play().feature_map is None
    tracker.replay(pairs[:1])
    assert tracker.play().feature_map.function is products
    assert tracker.play().curved_part.n_features == 4
    assert "curved Euclidean" in tracker.expert_names
    tracker.replay(pairs[1:])
    of_items = CurvedTracker(2, own_map=products, items=pairs.X)
    assert of_items.play().feature_map.function is products
    assert (of_items.sums_of_squares > 0.0).all()
    assert of_items.n_rounds == 0
    assert np.isfinite(of_items.replay(pairs)).all()


def soft_disk(X):
    """Return nearly -1 in the disk and nearly 1 outside."""
    return np.tanh(4.0 * (np.square(X[:, :2]).mean(axis=1, keepdims=True) - 0.69))


@only_compiled
def test_an_own_map_learns_what_it_can_express():
    pairs = disk(61, 500)
    own, linear = CurvedTracker(2, own_map=soft_disk), AdaptiveTracker(2)
    margins = own.replay(pairs)
    assert accuracy(margins[200:]) > 0.75
    assert accuracy(margins[200:]) > accuracy(linear.replay(pairs.events())[200:]) + 0.2
    new = disk(62, 400)
    assert np.mean(own.play().similar(new.X, new.Z) == (new.y > 0)) > 0.75


@only_compiled
def test_landmarks_as_an_own_map():
    """The map that items give, given by hand, learns the same."""
    pairs, items = disk(63, 250), disk(64, 100).X
    known = CurvedTracker(2, items=items)
    own = CurvedTracker(2, items=items, own_map=known.play().feature_map)
    np.testing.assert_allclose(own.replay(pairs), known.replay(pairs), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        own.play().distance(pairs.X, pairs.Z), known.play().distance(pairs.X, pairs.Z), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_an_own_map_in_any_division(sparse):
    """Up to rounding: the function is free to compute in blocks."""
    X, Z, y = sparse_points(65, 150 if COMPILED else 40, 5)
    pairs = PointPairs(csr_array(X), csr_array(Z), y) if sparse else PointPairs(X, Z, y)
    whole, parts = (CurvedTracker(5, sparse=sparse, own_map=products) for _ in range(2))
    margins = whole.replay(pairs)
    np.testing.assert_allclose(replay_in_chunks(parts, pairs, [1, 30]), margins, rtol=HANDED_OVER, atol=HANDED_OVER)
    metric = whole.play()
    np.testing.assert_allclose(parts.play().distance(X, Z), metric.distance(X, Z), rtol=HANDED_OVER, atol=HANDED_OVER)
    assert (whole.play().round, parts.n_rounds) == (len(y), len(y))


@only_compiled
def test_an_own_map_stays_when_points_move():
    pairs, tracker = disk(66, 2 * TEST_PERIOD + 50, moved_from=100), CurvedTracker(2, own_map=np.tanh)
    assert np.isfinite(tracker.replay(pairs)).all()
    assert tracker.play().feature_map.function is np.tanh
    assert tracker.n_rounds == len(pairs)


@pytest.mark.parametrize("duplicate", [copy, deepcopy, lambda tracker: pickle.loads(pickle.dumps(tracker))])
@pytest.mark.parametrize("rounds", [0, 20, *([100] if COMPILED else [])])
@pytest.mark.parametrize("known", [False, True])
def test_copies_with_an_own_map_continue_with_the_same_bits(duplicate, rounds, known):
    pairs = disk(67, rounds + 30)
    tracker = CurvedTracker(2, own_map=products, items=disk(68, 20).X if known else None)
    if rounds:
        tracker.replay(pairs[:rounds])
    twin, names = duplicate(tracker), tracker.expert_names
    margins = twin.replay(pairs[rounds:])
    assert (tracker.n_rounds, tracker.expert_names) == (rounds, names)
    assert (tracker.replay(pairs[rounds:]) == margins).all()
    assert (tracker.expert_weights == twin.expert_weights).all()
    assert (tracker.play().distance(pairs.X, pairs.Z) == twin.play().distance(pairs.X, pairs.Z)).all()


@pytest.mark.parametrize("rounds", [0, 10])
def test_a_tracker_with_an_own_map_cannot_be_saved(rounds):
    tracker = CurvedTracker(2, own_map=products)
    if rounds:
        tracker.replay(disk(69, rounds))
    with pytest.raises(ValueError, match="a feature map of your own cannot be saved in a file; pickle it") as error:
        tracker.state()
    assert "\n" not in str(error.value)


class Failing:
    """A map whose outputs are wrong from some call on."""

    def __init__(self, wrong, good_calls):
        self.wrong, self.left = wrong, good_calls

    def __call__(self, X):
        self.left -= 1
        return self.wrong(X) if self.left < 0 else np.square(X)


WRONG = {
    "NaN": lambda X: X * np.nan,
    "shape": lambda X: X[:, :1],
    "rows": lambda X: X[:-1],
    "strings": lambda X: X.astype(str),
    "far": lambda X: np.cumsum(np.full(X.shape, 1e75), axis=0) * np.sign(X),
    "error": lambda X: [][0],
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("good_calls", [1, 2])
@pytest.mark.parametrize("rounds", [0, 20])
def test_wrong_outputs_change_nothing(wrong, good_calls, rounds):
    """Also in the first call, after the number of outputs is known."""
    pairs, own_map = disk(70, 40), Failing(WRONG[wrong], 10**9)
    tracker, expected = CurvedTracker(2, own_map=own_map), CurvedTracker(2, own_map=np.square)
    for each in (tracker, expected) if rounds else ():
        each.replay(pairs[:rounds])
    own_map.left = good_calls if rounds == 0 else good_calls - 1
    with pytest.raises((ValueError, IndexError), match=r"\w+ \w+ \w+") as error:
        tracker.replay(pairs[rounds:])
    assert "\n" not in str(error.value)
    assert (tracker.n_rounds, tracker.expert_names) == (rounds, expected.expert_names)
    assert (tracker.play().feature_map is None) == (rounds == 0)
    own_map.left = 10**9
    assert (tracker.replay(pairs[rounds:]) == expected.replay(pairs[rounds:])).all()


def test_an_own_map_with_wrong_items_is_refused():
    for items, sentence in (([[np.nan, 1.0]], "only finite numbers"), (np.zeros((3, 5)), "items has 5 features")):
        with pytest.raises(ValueError, match=sentence):
            CurvedTracker(2, own_map=products, items=items)
    with pytest.raises(ValueError, match="returned values that are not finite numbers"):
        CurvedTracker(2, own_map=lambda X: X * np.nan, items=np.eye(2))
