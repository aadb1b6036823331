"""Trackers as bytes: the same bits as single trackers, or nearly the same predictions in a third of the space."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from ocelad._compile import numba_config
from ocelad.adaptive.adaptive_tracker import PLAIN_ROUNDS, AdaptiveTracker
from ocelad.adaptive.shared_prior import SharedPrior
from ocelad.adaptive.tracker_worker import TrackerWorker
from ocelad.engines.kernel_loading import waiting_for_kernels
from ocelad.fleet.keyed_pairs import MAX_COMPACT_DIFFERENCE
from ocelad.fleet.packed_trackers import NO_PRIOR, PackedTrackers
from ocelad.fleet.stored_tracker import StoredTracker
from ocelad.metric import Metric
from ocelad.pairs import Events

# The differences of probabilities that the compact form states: the mean, and the largest; one that few keys exceed
# within some hundred answers; and the most bytes at 25 features.
MEAN_TOLERANCE, LARGEST, TOLERANCE, MAX_BYTES = 0.001, 0.1, 0.01, 20_000
LOG_ODDS = np.linspace(-10.0, 10.0, 401)
needs_compiler = pytest.mark.skipif(bool(numba_config.DISABLE_JIT), reason="thousands of rounds need compiled code")


@pytest.fixture(autouse=True)
def compiled():
    """Single trackers compute by kernels, too, from the round at which they may."""
    with waiting_for_kernels():
        yield


def answers(count, n_features, seed=0, switch=None):
    """Return differences and answers about one feature; from ``switch`` on about another."""
    rng = np.random.default_rng(seed)
    U, units = rng.normal(size=(count, n_features)), 10.0 ** rng.integers(-3, 4, n_features)
    feature = np.where(np.arange(count) < (count if switch is None else switch), 0, n_features - 1)
    return units * U, np.where(abs(U[np.arange(count), feature]) < 0.7, 1.0, -1.0)


def single(U, y, prior=None):
    """Return a tracker of its own that has learned from answers."""
    tracker = AdaptiveTracker(U.shape[1], prior=prior)
    if len(y):
        tracker.replay(Events(U, y))
    return tracker


def assert_same_bits(metric, expected):
    assert_array_equal(metric.matrix, expected.matrix)
    assert (metric.threshold, metric.round) == (expected.threshold, expected.round)


def a_prior(n_features, log_weight=1.0):
    metric = single(*answers(200, n_features, seed=99)).play()
    return SharedPrior(metric, log_weight)


@pytest.mark.parametrize("n_features", [1, 2, 5, 25])
@pytest.mark.parametrize("with_prior", [False, True])
def test_exact_states_have_the_bits_of_single_trackers(n_features, with_prior):
    """Whatever the number of answers, the division into calls, and the neighbours in the same call.

    The metric of at most 64 answers, which a single tracker computes by the definition, is the same up to rounding.
    """
    priors = [a_prior(n_features)] if with_prior else []
    packed = PackedTrackers(n_features, priors=priors)
    lengths = [0, 1, 63, 64, 65, 128, 200] if numba_config.DISABLE_JIT else [0, 1, 63, 64, 65, 128, 400, 701]
    streams = [answers(length, n_features, seed, switch=length // 2) for seed, length in enumerate(lengths)]
    states = [None] * len(streams)
    done = [0] * len(streams)
    rng = np.random.default_rng(1)
    while any(at < length for at, length in zip(done, lengths, strict=True)):
        ends = [min(length, at + int(rng.integers(0, 150))) for at, length in zip(done, lengths, strict=True)]
        U = np.concatenate([U[at:end] for (U, _), at, end in zip(streams, done, ends, strict=True)])
        y = np.concatenate([y[at:end] for (_, y), at, end in zip(streams, done, ends, strict=True)])
        states = packed.learn(states, U, y, np.cumsum(np.subtract(ends, done)))
        done = ends
    expected = [single(U, y, *priors) for U, y in streams]
    for state, metric, tracker in zip(states, packed.metrics(states), expected, strict=True):
        summary, of_its_own = packed.summary(state), packed.tracker(state)
        if tracker.n_rounds > PLAIN_ROUNDS:
            assert_same_bits(metric, tracker.play())
        else:
            scale = abs(tracker.play().matrix).max()
            assert_allclose(metric.matrix, tracker.play().matrix, rtol=1e-9, atol=1e-9 * scale)
            assert metric.threshold == pytest.approx(tracker.play().threshold, rel=1e-9)
        assert_same_bits(of_its_own.play(), tracker.play())
        assert summary == (tracker.n_rounds, tracker.drift, tuple(tracker.changes), 0 if with_prior else NO_PRIOR)
        for error in (0.01, 0.1):
            assert_array_equal(of_its_own.decide(LOG_ODDS, error), tracker.decide(LOG_ODDS, error))
        assert packed.pack(of_its_own, summary.prior) == state


@needs_compiler
def test_a_change_is_detected_and_its_answers_are_learned_with_the_same_bits():
    U, y = answers(1500, 6, switch=700)
    packed, tracker = PackedTrackers(6), single(U, y)
    state = packed.learn_one(packed.learn_one(None, U[:705], y[:705]), U[705:], y[705:])
    assert tracker.changes
    assert packed.summary(state).changes == tuple(tracker.changes)
    assert_same_bits(packed.metric(state), tracker.play())


@needs_compiler
def test_directions_that_have_to_be_orthonormalised_are_left_to_the_definition():
    """Kernels refuse those rounds; a single tracker plays them, and the kernels go on."""
    U, y = answers(4300, 3)
    packed, state = PackedTrackers(3), None
    for first in range(0, 4300, 1000):
        state = packed.learn_one(state, U[first : first + 1000], y[first : first + 1000])
    assert_same_bits(packed.metric(state), single(U, y).play())


@needs_compiler
def test_many_features_are_learned_by_single_trackers():
    U, y = answers(150, 130)
    packed = PackedTrackers(130)
    state = packed.learn_one(packed.learn_one(None, U[:70], y[:70]), U[70:], y[70:])
    assert_same_bits(packed.metric(state), single(U, y).play())
    assert packed.summary(state).n_answers == 150
    with pytest.raises(ValueError, match="form='compact' is for at most 128 features; got 130"):
        PackedTrackers(130, form="compact")


@pytest.mark.parametrize("form", ["exact", "compact"])
def test_predictions_are_made_before_learning(form):
    U, y = answers(100, 4)
    packed = PackedTrackers(4, form=form, priors=[a_prior(4)])
    state = packed.learn_one(None, U[:70], y[:70], NO_PRIOR)
    log_odds = packed.predictions([None, state], np.concatenate([U, U[70:]]), np.concatenate([y, y[70:]]), [100, 130])
    expected = single(U[:0], y[:0]).replay(Events(U, y)) * y
    bound = 0.0 if form == "exact" else TOLERANCE
    assert_allclose(expit(log_odds), expit([*expected, *expected[70:]]), atol=bound, rtol=0.0)
    expected = packed.metric(state)
    assert_array_equal(packed.log_odds(state, U), expected.threshold - expected.squared_length(U))


def differences(streams, per_call):
    """Return the differences between probabilities of the two forms: a row for each stream, learned side by side."""
    n_features, count = streams[0][0].shape[1], len(streams[0][1])
    forms = PackedTrackers(n_features), PackedTrackers(n_features, form="compact")
    states, ends, found = [[None] * len(streams)] * 2, per_call * np.arange(1, len(streams) + 1), []
    for first in range(0, count, per_call):
        U, y = (
            np.concatenate([part[first : first + per_call] for part in parts]) for parts in zip(*streams, strict=True)
        )
        log_odds = [form.predictions(of_form, U, y, ends) for form, of_form in zip(forms, states, strict=True)]
        found.append(abs(expit(log_odds[0]) - expit(log_odds[1])).reshape(len(streams), -1))
        states = [form.learn(of_form, U, y, ends) for form, of_form in zip(forms, states, strict=True)]
    return np.concatenate(found, axis=1)


def assert_within_tolerance(found):
    """A pair that is on another side of a bound in one of the forms makes a difference for some time."""
    assert found.mean() < MEAN_TOLERANCE
    assert found.max() < LARGEST


def in_one_unit(kind, count, n_features, seed):
    """Return answers about the first of features that have the same unit, and may be redundant."""
    rng = np.random.default_rng(seed)
    U = rng.normal(size=(count, n_features))
    if kind == "constant":
        U[:, n_features // 2 :] = 0.0
    if kind == "duplicate":
        U[:, -1] = U[:, 0]
    if kind == "categories":
        U = np.subtract(*np.eye(n_features)[rng.integers(n_features, size=(2, count))])
    near = abs(U[:, 0]) < 0.7
    return U, np.where(near ^ (rng.random(count) < 0.05), 1.0, -1.0)


@needs_compiler
@pytest.mark.parametrize("n_features", [4, 8, 25])
@pytest.mark.parametrize("kind", ["normal", "constant", "duplicate", "categories"])
def test_the_compact_form_predicts_nearly_the_same(kind, n_features):
    found = differences([in_one_unit(kind, 600, n_features, seed) for seed in range(20)], per_call=10)
    assert_within_tolerance(found)
    assert (found.max(axis=1) > TOLERANCE).mean() <= 0.05


@needs_compiler
@pytest.mark.slow
def test_the_compact_form_predicts_nearly_the_same_over_ten_thousand_answers():
    """States are stored a thousand times; features have different units, and the question changes twice, or never."""
    streams = []
    for seed in range(10, 13):
        U, y = answers(10_000, 25, seed, switch=4000)
        y[7000:] = answers(10_000, 25, seed)[1][7000:]
        streams += [(U, y), in_one_unit("normal", 10_000, 25, seed)]
    assert_within_tolerance(differences(streams, per_call=10))


@needs_compiler
@pytest.mark.parametrize("switch", [None, 500, 950])
def test_the_compact_form_takes_20_kilobytes_after_a_thousand_answers(switch):
    U, y = answers(1000, 25, switch=switch)
    packed = PackedTrackers(25, form="compact")
    state = packed.learn_one(None, U, y)
    assert len(state) <= MAX_BYTES
    assert len(state) < 0.45 * len(PackedTrackers(25).learn_one(None, U, y))


@pytest.mark.parametrize("form", ["exact", "compact"])
def test_few_answers_are_stored_as_they_are(form):
    U, y = answers(64, 5)
    packed = PackedTrackers(5, form=form)
    state = packed.learn_one(packed.learn_one(None, U[:10], y[:10]), U[10:], y[10:])
    assert len(state) < 20 + 64 * 6 * (8 if form == "exact" else 4)
    stored_U, stored_y = packed.answers(state)
    assert_array_equal(stored_U, U if form == "exact" else U.astype(np.float32))
    assert_array_equal(stored_y, y)
    assert packed.answers(packed.learn_one(state, U[:1], y[:1])) is None


@needs_compiler
def test_threads_and_pickles_do_not_matter():
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 90, 600)
    U, y = answers(int(lengths.sum()), 3)
    results = []
    for packed in (
        PackedTrackers(3, n_threads=1),
        PackedTrackers(3, n_threads=4),
        pickle.loads(pickle.dumps(PackedTrackers(3))),
    ):
        states = packed.learn([None] * 600, U, y, np.cumsum(lengths))
        results.append((states, [metric.matrix.tobytes() for metric in packed.metrics(states)]))
    assert results[0] == results[1] == results[2]


@needs_compiler
@given(rows=st.integers(1, 130), values=st.floats(-1e60, 1e60), scale=st.sampled_from([1e-60, 1.0, 1e14]))
@settings(max_examples=40, deadline=None)
def test_a_record_is_restored_to_the_same_bytes(rows, values, scale):
    """Of any tracker, also of one with huge, tiny or constant features."""
    U, y = answers(rows, 3)
    U[:, 0] = values
    U *= scale
    tracker = single(U, y)
    for compact in (False, True) if np.abs(U).max() <= MAX_COMPACT_DIFFERENCE else (False,):
        worker = TrackerWorker(3, compact)
        record = worker.record(tracker)
        if compact:  # rounded once
            record = worker.record(worker.tracker(record))
        again = worker.record(worker.tracker(record))
        assert record.integers.tobytes() == again.integers.tobytes()
        if compact:  # rounded directions are made orthonormal again, which may change their last bit
            assert_allclose(again.numbers, record.numbers, rtol=0.0, atol=1.2e-7)
        else:
            assert record.numbers.tobytes() == again.numbers.tobytes()


def test_bytes_that_are_no_state_are_refused():
    U, y = answers(80, 3)
    packed = PackedTrackers(3)
    few, many = packed.learn_one(None, U[:5], y[:5]), packed.learn_one(None, U, y)
    for state in (few, many):
        for size in (0, 3, 15, 20, len(state) // 2, len(state) - 1):
            with pytest.raises(ValueError, match="truncated"):
                packed.metric(state[:size])
        with pytest.raises(ValueError, match="truncated, or of the other form"):
            packed.metric(state + b"0")
        with pytest.raises(ValueError, match="no state of a tracker"):
            packed.metric(b"OCEL" + state[4:])
        with pytest.raises(ValueError, match="version 9 of the format; this version of ocelad reads 1"):
            packed.metric(state[:4] + b"\x09" + state[5:])
        with pytest.raises(ValueError, match=r"of the other form|not in the compact form"):
            PackedTrackers(3, form="compact").metric(state)
    with pytest.raises(ValueError, match="began with prior 0; there are 0 priors"):
        packed.metric(PackedTrackers(3, priors=[a_prior(3)]).learn_one(None, U, y))
    with pytest.raises(ValueError, match="n_features must be a whole number of at least 1"):
        PackedTrackers(0)
    assert packed.summary(many).n_answers == 80


@pytest.mark.parametrize(("n_features", "others"), [(3, (2, 4, 40, 130)), (130, (3, 129, 131))])
@pytest.mark.parametrize("n_answers", [0, 5, 80])
def test_a_state_of_other_features_is_refused(n_features, others, n_answers):
    """Compiled code has no bounds: it would read and write beyond its arrays."""
    U, y = answers(n_answers, n_features)
    state = PackedTrackers(n_features).learn_one(None, U, y)
    for other in others:
        packed = PackedTrackers(other)
        of_other = answers(5, other)
        for read in (
            packed.metric,
            packed.summary,
            packed.tracker,
            packed.answers,
            lambda state, of_other=of_other, packed=packed: packed.learn_one(state, *of_other),
            lambda state, of_other=of_other, packed=packed: packed.predictions([state], *of_other, np.array([5])),
            lambda state, packed=packed: StoredTracker.from_bytes(state).checked(packed, []),
        ):
            with pytest.raises(ValueError, match=f"the state has {n_features} features; {other} are expected"):
                read(state)
        with pytest.raises(ValueError, match=f"the tracker has {n_features} features; {other} are expected"):
            packed.pack(single(U, y))


def test_a_state_of_another_kind_is_refused():
    """A state of few features is a record, and one of many features is a general one."""
    record = PackedTrackers(3).learn_one(None, *answers(80, 3))
    general = PackedTrackers(130).learn_one(None, *answers(80, 130))
    kind = 5  # the position in the header
    for packed, state, other in ((PackedTrackers(3), record, general), (PackedTrackers(130), general, record)):
        for value in (other[kind], 2, 9):
            changed = state[:kind] + bytes([value]) + state[kind + 1 :]
            for read in (packed.metric, packed.summary, packed.tracker):
                with pytest.raises(ValueError, match="not in the exact form"):
                    read(changed)


def test_a_tracker_of_sparse_pairs_has_no_state():
    from scipy.sparse import csr_array

    tracker = AdaptiveTracker(3, sparse=True)
    tracker.replay(Events(csr_array(np.eye(3)), np.array([1.0, -1.0, 1.0])))
    with pytest.raises(ValueError, match="sparse pairs or comparisons; accepted: dense pairs"):
        PackedTrackers(3).pack(tracker)


def test_a_weight_of_the_prior_decides_how_much_it_counts():
    """The prior sees the first feature only, and a new tracker without one sees both alike."""
    prior, shares = Metric(np.diag([1.0, 0.0]), threshold=1.0), []
    for weight in (-20.0, -2.0, 0.0, 2.0, 20.0):
        matrix = PackedTrackers(2, priors=[SharedPrior(prior, weight)]).metric(None).matrix
        shares.append(matrix[1, 1] / matrix[0, 0])
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.99
    assert shares[-1] < 0.3
