"""The adaptive method through its interfaces: same bits, one answer, units, weights, refused input, long streams."""

from __future__ import annotations

import pickle
from copy import copy, deepcopy

import numpy as np
import pytest
from adaptive_streams import accuracy, logistic_answers, one_informative_feature
from engine_cases import COMPILED
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.special import expit

from ocelad import MetricTracker, QuadrupletTracker, TripletTracker, track_metric
from ocelad.adaptive.adaptive_tracker import MAX_DIFFERENCE, PLAIN_ROUNDS
from ocelad.adaptive.calibration import WARMUP
from ocelad.adaptive.precompile import precompile_adaptive
from ocelad.adaptive.track_adaptive import track_adaptive
from ocelad.engines.kernel_loading import mark_kernels_ready
from ocelad.estimators.learning_method import resume_tracker
from ocelad.pairs import Event, Events, Pair, Relative, Relatives

# With NUMBA_DISABLE_JIT=1 kernels run as plain Python, and the tests use fewer rounds.
ROUNDS = 300 if COMPILED else 90
only_compiled = pytest.mark.skipif(not COMPILED, reason="too many rounds for plain Python")
# The definition computes the first rounds and compiled code computes them again: same mathematics, other arithmetic.
RTOL = 1e-6


@pytest.fixture(scope="module", autouse=True)
def _compiled_kernels():
    """Compile all kernels first: until they are ready, the definition computes, with other last bits."""
    if COMPILED:
        precompile_adaptive()
        mark_kernels_ready()


def sparse_pairs(seed: int, rounds: int, n: int = 300) -> Events:
    """Return sparse pairs of which dissimilar ones also differ in the first three features."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], size=rounds)
    U = np.zeros((rounds, n))
    for t in range(rounds):
        U[t, rng.choice(np.arange(3, n), size=8, replace=False)] = 0.3 * rng.normal(size=8)
        if y[t] < 0.0:
            U[t, :3] = 2.0 * rng.choice([-1.0, 1.0], size=3)
    return Events(csr_array(U), y)


def relatives(seed: int, rounds: int, n: int = 3) -> Relatives:
    """Return comparisons whose order agrees with the first feature."""
    near, far = np.random.default_rng(seed).normal(size=(2, rounds, n))
    wrong = np.abs(near[:, 0]) > np.abs(far[:, 0])
    return Relatives(np.where(wrong[:, None], far, near), np.where(wrong[:, None], near, far))


# By the part of the method that computes them: one feature, full-rank and low-rank learners, a diagonal plus few
# directions, sparse pairs, relative comparisons.
STREAMS = {
    "1 feature": lambda seed, rounds: one_informative_feature(seed, 1, rounds, period=rounds // 2),
    "3 features": lambda seed, rounds: one_informative_feature(seed, 3, rounds, period=rounds // 2),
    "40 features": lambda seed, rounds: one_informative_feature(seed, 40, rounds, period=rounds // 2),
    "200 features": lambda seed, rounds: one_informative_feature(seed, 200, rounds, period=rounds // 2),
    "sparse": sparse_pairs,
    "relatives": relatives,
    "200 features, relatives": lambda seed, rounds: relatives(seed, rounds, 200),
}
streams = pytest.mark.parametrize("stream", STREAMS)
# With many features, products of several rows with a low-rank metric are rounded differently from those of one row.
UP_TO_ROUNDING = ("200 features", "sparse", "200 features, relatives")


def new_tracker(events):
    if isinstance(events, Relatives):
        return track_adaptive(events.n_features, events="relatives")
    return track_adaptive(events.n_features, sparse=events.sparse)


def split_weights(weights, *cuts):
    return [None] * (len(cuts) + 1) if weights is None else np.split(weights, cuts)


def some_weights(seed, rounds):
    return np.random.default_rng(seed).choice([0.0, 0.3, 1.0, 4.0], size=rounds)


def assert_same(one, other):
    """Check that two trackers have the same bits: metric, weights, changes, drift and everything that is saved."""
    assert one.play() == other.play()
    assert (one.expert_weights == other.expert_weights).all()
    assert one.changes == other.changes
    assert one.drift == other.drift
    (arrays, metadata), (expected, expected_metadata) = one.state(), other.state()
    assert metadata == expected_metadata
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        assert np.array_equal(array, expected[name]), name


def assert_close(one, other):
    """Check that two trackers are the same up to rounding."""
    metric, expected = one.play(), other.play()
    size = np.abs(expected.matrix).max()
    np.testing.assert_allclose(metric.matrix, expected.matrix, rtol=RTOL, atol=RTOL * size)
    assert metric.threshold == pytest.approx(expected.threshold, rel=RTOL, abs=RTOL)
    assert (metric.round, [change[:2] for change in one.changes]) == (
        expected.round,
        [change[:2] for change in other.changes],
    )
    np.testing.assert_allclose(one.expert_weights, other.expert_weights, rtol=RTOL, atol=RTOL)


def as_pairs(events):
    """Return the events as ``MetricTracker.fit`` takes them."""
    if events.sparse:
        return events.U, csr_array(events.U.shape)
    return np.stack([events.U, np.zeros_like(events.U)], axis=1)


# -- Same bits --


@streams
@pytest.mark.parametrize("weighted", [False, True])
def test_a_stream_can_be_cut_anywhere(stream, weighted):
    events = STREAMS[stream](1, ROUNDS)
    weights = some_weights(1, ROUNDS) if weighted else None
    whole = new_tracker(events)
    margins = whole.replay(events, weights)
    for cuts in ([1, 5, 64, 65, 70], [63, 80], [PLAIN_ROUNDS + 17], list(range(3, ROUNDS, 7))):
        parts, tracker = [], new_tracker(events)
        for first, last, part in zip([0, *cuts], [*cuts, ROUNDS], split_weights(weights, *cuts), strict=True):
            parts.append(tracker.replay(events[first:last], part))
        np.testing.assert_allclose(np.concatenate(parts), margins, rtol=RTOL, atol=RTOL)
        if stream in UP_TO_ROUNDING:
            assert_close(tracker, whole)
        else:
            assert_same(tracker, whole)
            assert (np.concatenate(parts)[PLAIN_ROUNDS:] == margins[PLAIN_ROUNDS:]).all()


@streams
def test_steps_give_the_same_bits_as_a_replay(stream):
    events = STREAMS[stream](2, ROUNDS)
    weights = some_weights(2, ROUNDS)
    whole, stepped = new_tracker(events), new_tracker(events)
    margins = whole.replay(events, weights)
    steps = [stepped.step(event, weight) for event, weight in zip(events, weights, strict=True)]
    (assert_close if stream in UP_TO_ROUNDING else assert_same)(stepped, whole)
    np.testing.assert_allclose(steps, margins, rtol=RTOL, atol=RTOL)


def test_arrays_may_be_reused_after_a_step():
    events = one_informative_feature(2, 3, ROUNDS)
    whole, stepped, u = track_adaptive(3), track_adaptive(3), np.zeros(3)
    whole.replay(events)
    for event in events:
        u[:] = event.u
        stepped.step(Event(u, event.y))
    assert_same(stepped, whole)


@streams
@pytest.mark.parametrize("saved_at", [0, 1, 30, PLAIN_ROUNDS, PLAIN_ROUNDS + 1, ROUNDS - 10])
def test_resumes_from_its_state(stream, saved_at):
    events = STREAMS[stream](3, ROUNDS)
    weights = some_weights(3, ROUNDS)
    tracker = new_tracker(events)
    if saved_at:
        tracker.replay(events[:saved_at], weights[:saved_at])
    arrays, metadata = tracker.state()
    resumed = resume_tracker(arrays, metadata)
    for array in arrays.values():  # the saved and the restored arrays must be copies
        array[...] = 0
    assert_close(tracker, resumed)  # the last bit of the threshold may differ until the next round
    margins = tracker.replay(events[saved_at:], weights[saved_at:])
    assert (resumed.replay(events[saved_at:], weights[saved_at:]) == margins).all()
    assert_same(tracker, resumed)


@streams
@pytest.mark.parametrize("rounds", [10, PLAIN_ROUNDS + 40])
@pytest.mark.parametrize("duplicate", [copy, deepcopy, lambda tracker: pickle.loads(pickle.dumps(tracker))])
def test_copies_are_equal_and_independent(stream, rounds, duplicate):
    events = STREAMS[stream](4, ROUNDS)
    tracker = new_tracker(events)
    tracker.replay(events[:rounds])
    state, metric = deepcopy(tracker.state()), tracker.play()
    twin = duplicate(tracker)
    margins = twin.replay(events[rounds:])
    assert tracker.play() == metric
    for name, array in tracker.state()[0].items():
        assert np.array_equal(array, state[0][name]), name
    assert (tracker.replay(events[rounds:]) == margins).all()
    assert_same(tracker, twin)


@settings(max_examples=8 if COMPILED else 3)
@given(st.lists(st.integers(1, 120), min_size=1, max_size=4), st.sampled_from([None, 0, 1, 2]))
def test_estimators_give_the_same_bits_in_any_chunks_and_after_saving(sizes, saved_after):
    events = one_informative_feature(5, 3, sum(sizes))
    pairs = as_pairs(events)
    whole, parts, done = MetricTracker().fit(pairs, events.y), MetricTracker(), 0
    for i, size in enumerate(sizes):
        parts.partial_fit(pairs[done : done + size], events.y[done : done + size])
        done += size
        if i == saved_after:
            parts = MetricTracker.from_state(*parts.state())
    one_by_one = MetricTracker()
    for (x, z), label in zip(pairs, events.y, strict=True):
        one_by_one.learn_one(x, z, label)
    for other in (parts, one_by_one):
        assert other.metric_ == whole.metric_
        assert (other.predict_proba(pairs) == whole.predict_proba(pairs)).all()
        assert other.changes_ == whole.changes_


def test_reading_changes_nothing():
    events = one_informative_feature(6, 3, 100)
    read, unread = track_adaptive(3), track_adaptive(3)
    for event in events:
        read.play(), read.log_odds(events.U), read.changes, read.state(), read.expert_weights, deepcopy(read)
        assert read.step(event) == unread.step(event)
    assert_same(read, unread)


# -- Damaged state --


def damaged_states(arrays):
    """Yield the arrays with each one missing, of another shape, of another type, or with a NaN."""
    for name, array in arrays.items():
        yield name, {key: value for key, value in arrays.items() if key != name}
        yield name, {**arrays, name: array[..., None]}
        if array.dtype == np.float64 and array.size:
            yield name, {**arrays, name: array.astype(np.float32)}
            wrong = array.copy()
            wrong.flat[-1] = np.nan
            yield name, {**arrays, name: wrong}


@streams
@pytest.mark.parametrize("rounds", [5, PLAIN_ROUNDS + 20])
def test_damaged_states_are_refused(stream, rounds):
    events = STREAMS[stream](3, ROUNDS)
    tracker = new_tracker(events)
    tracker.replay(events[:rounds])
    arrays, metadata = tracker.state()
    for name, damaged in damaged_states(arrays):
        fresh = new_tracker(events)
        with pytest.raises(ValueError, match=r"\w+ \w+") as error:
            fresh.restore(damaged, metadata)
        assert "\n" not in str(error.value), name
        assert fresh.n_rounds == 0
    with pytest.raises(ValueError, match="saved state holds 'more', which is unknown"):
        resume_tracker({**arrays, "more": np.zeros(1)}, metadata)
    with pytest.raises(ValueError, match="n_rounds"):
        resume_tracker(arrays, {**metadata, "n_rounds": -1})
    with pytest.raises(ValueError, match=f"this tracker has played {rounds} rounds"):
        tracker.restore(arrays, metadata)


@pytest.mark.parametrize(
    "change", [{"method": "another"}, {"n_features": 4}, {"n_features": "3"}, {"sparse": None}, {"unknown": 1}]
)
def test_settings_of_something_else_are_refused(change):
    tracker = track_adaptive(3)
    tracker.replay(one_informative_feature(1, 3, 100))
    arrays, metadata = tracker.state()
    with pytest.raises(ValueError, match=r"\S+ \S+ \S+"):
        resume_tracker(arrays, {**metadata, "settings": {**metadata["settings"], **change}})


@pytest.mark.parametrize("missing", ["n_features", "sparse", "events"])
def test_missing_settings_are_reported(missing):
    arrays, metadata = track_adaptive(3).state()
    del metadata["settings"][missing]
    with pytest.raises(ValueError, match=f"the saved settings are not those of track_adaptive: '{missing}'"):
        resume_tracker(arrays, metadata)


# -- Units --


def scaled(events, factor):
    if isinstance(events, Relatives):
        return Relatives(factor * events.near, factor * events.far)
    return Events(factor * events.U, events.y)


@streams
@pytest.mark.parametrize("factor", [1e-30, 0.1, 3.0, 1e7, 1e30])
def test_a_common_factor_of_the_data_does_not_matter(stream, factor):
    events = STREAMS[stream](7, ROUNDS)
    one, other = new_tracker(events), new_tracker(events)
    np.testing.assert_allclose(other.replay(scaled(events, factor)), one.replay(events), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(other.expert_weights, one.expert_weights, rtol=1e-4, atol=1e-6)
    assert [change[:2] for change in one.changes] == [change[:2] for change in other.changes]
    metric, same = one.play(), other.play()
    assert same.threshold == pytest.approx(metric.threshold, rel=1e-5, abs=1e-5)
    U = events.near if isinstance(events, Relatives) else events.U
    np.testing.assert_allclose(same.squared_length(factor * U), metric.squared_length(U), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("power", [3, 100])
def test_a_power_of_two_gives_the_same_predictions(power):
    events = logistic_answers(2, 4, ROUNDS)
    margins = track_adaptive(4).replay(events)
    np.testing.assert_allclose(track_adaptive(4).replay(scaled(events, 2.0**power)), margins, rtol=1e-9, atol=1e-9)


# -- One answer --


@pytest.mark.parametrize("stream", ["1 feature", "3 features", "40 features", "200 features", "sparse"])
@pytest.mark.parametrize("rounds", [10, ROUNDS])
def test_all_interfaces_give_one_answer(stream, rounds):
    """The log odds are the threshold minus the squared distance, in all methods and in the metric."""
    events = STREAMS[stream](8, ROUNDS)
    pairs = as_pairs(events)
    first = (pairs[0][:rounds], pairs[1][:rounds]) if events.sparse else pairs[:rounds]
    tracker = MetricTracker().fit(first, events.y[:rounds])
    metric, log_odds = tracker.metric_, tracker.log_odds(pairs)
    squares = metric.squared_length(events.U)
    np.testing.assert_allclose(log_odds, metric.threshold - squares, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(tracker.pair_distance(pairs) ** 2, squares, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(tracker.decision_function(pairs), log_odds)
    np.testing.assert_array_equal(tracker.predict_proba(pairs), np.stack([expit(-log_odds), expit(log_odds)], axis=1))
    np.testing.assert_array_equal(tracker.predict(pairs), np.where(log_odds >= 0.0, 1, -1))
    np.testing.assert_array_equal(tracker._fitted.tracker.log_odds(events.U), log_odds)
    clear = np.abs(log_odds) > 1e-9
    near = tracker.pair_distance(pairs) <= tracker.threshold_
    np.testing.assert_array_equal(near[clear], (log_odds >= 0.0)[clear])
    U = events.U.toarray() if events.sparse else events.U
    np.testing.assert_array_equal(metric.similar(U, np.zeros_like(U))[clear], (log_odds >= 0.0)[clear])
    np.testing.assert_allclose(np.square(tracker.transform(U)).sum(axis=1), squares, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(np.einsum("ij,jk,ik->i", U, tracker.get_mahalanobis_matrix(), U), squares, rtol=1e-6)
    assert tracker.threshold_ == metric.distance_threshold
    assert np.linalg.eigvalsh(metric.matrix)[0] >= -1e-9 * np.abs(metric.matrix).max()


@pytest.mark.parametrize("stream", ["3 features", "40 features", "200 features", "sparse"])
def test_margins_are_the_log_odds_before_each_update(stream):
    """After the warm-up, in which the scales include the pair that is predicted."""
    events = STREAMS[stream](9, 150)
    tracker = new_tracker(events)
    for t, event in enumerate(events):
        if t >= WARMUP and (t % 7 == 0 or 60 < t < 70):
            said = tracker.log_odds(events.U[t : t + 1])[0]
            assert tracker.replay(events[t : t + 1])[0] == pytest.approx(event.y * said, rel=RTOL, abs=1e-9)
        else:
            tracker.step(event)


def test_with_a_negative_threshold_no_pair_is_similar():
    """The answers are almost always "different", also for equal points."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(400) < 0.03, 1.0, -1.0)
    pairs = np.stack([rng.normal(size=(400, 2)), np.zeros((400, 2))], axis=1) * (rng.random((400, 1, 1)) < 0.7)
    tracker = MetricTracker().fit(pairs, y)
    assert tracker.metric_.threshold < 0.0
    assert tracker.threshold_ == -np.sqrt(-tracker.metric_.threshold)
    assert (tracker.predict(pairs) == -1).all()
    assert (tracker.predict_proba(pairs)[:, 1] < 0.5).all()
    assert not tracker.metric_.similar([0.0, 0.0], [0.0, 0.0])


@pytest.mark.parametrize("stream", ["200 features", "sparse"])
def test_with_many_features_the_metric_is_a_diagonal_plus_few_directions(stream):
    events = STREAMS[stream](10, ROUNDS)
    tracker = new_tracker(events)
    tracker.replay(events)
    arrays = tracker.play().arrays()
    assert arrays.keys() == {"diagonal", "rows", "scales"}
    assert len(arrays["rows"]) <= 64


# -- Sample weights --


def test_a_smaller_weight_teaches_less():
    """The log odds of one more pair move toward its label, the further the larger its weight."""
    events = logistic_answers(3, 4, 120)
    pairs = as_pairs(events)
    moves = []
    for weight in (0.0, 0.1, 0.5, 1.0, 3.0, 10.0):
        tracker = MetricTracker().fit(pairs[:100], events.y[:100])
        before = events.y[100] * tracker.log_odds(pairs[100:101])[0]
        for _ in range(3):
            tracker.partial_fit(pairs[100:101], events.y[100:101], sample_weight=[weight])
        moves.append(events.y[100] * tracker.log_odds(pairs[100:101])[0] - before)
    assert moves == sorted(moves)
    assert moves[-1] > moves[3] > moves[1] > moves[0]


def test_half_of_the_answers_with_a_small_weight_are_random():
    """With their weights the tracker is nearly as accurate as without these pairs."""
    events = one_informative_feature(4, 10, 1600)
    random = np.arange(1600) % 2 == 1
    y = np.where(random, np.random.default_rng(4).choice([-1.0, 1.0], size=1600), events.y)
    weights = np.where(random, 0.05, 1.0)
    margins = track_adaptive(10).replay(Events(events.U, y), weights)
    unweighted = track_adaptive(10).replay(Events(events.U, y))
    assert accuracy(margins[800:][~random[800:]]) > accuracy(unweighted[800:][~random[800:]])


@pytest.mark.parametrize("label", [1, -1])
def test_a_weight_of_zero_teaches_no_answer(label):
    """Only the scales of the features and of the distances follow, which need no labels."""
    events = logistic_answers(5, 4, 400)
    pairs = as_pairs(events)
    learned, opposite = (MetricTracker().fit(pairs[:300], events.y[:300]) for _ in range(2))
    learned.partial_fit(pairs[300:], np.full(100, label), sample_weight=np.zeros(100))
    opposite.partial_fit(pairs[300:], np.full(100, -label), sample_weight=np.zeros(100))
    np.testing.assert_array_equal(learned.predict_proba(pairs), opposite.predict_proba(pairs))
    assert learned.n_rounds_ == 400


def test_pairs_with_a_weight_of_zero_make_it_forget_nothing():
    """Mean squares of features and moments of all pairs follow, as they need no answers; a third of them is new."""
    events = logistic_answers(5, 4, 400)
    pairs = as_pairs(events)
    tracker = MetricTracker().fit(pairs[:300], events.y[:300])
    before = tracker.predict_proba(pairs)
    tracker.partial_fit(pairs[300:], events.y[300:], sample_weight=np.zeros(100))
    changes = np.abs(tracker.predict_proba(pairs) - before)
    assert changes.max() < 0.1
    assert changes.mean() < 0.02


def test_weights_of_one_change_nothing():
    events = one_informative_feature(6, 3, ROUNDS)
    pairs = as_pairs(events)
    tracker = MetricTracker().fit(pairs, events.y, sample_weight=np.ones(ROUNDS))
    assert tracker.metric_ == MetricTracker().fit(pairs, events.y).metric_


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (np.ones(3), "sample_weight has 3 numbers; accepted: 5, one for each pair"),
        ([1.0, -0.5, 1.0, 1.0, 1.0], "sample_weight holds -0.5 at position 1; accepted: numbers from 0 to 10"),
        ([1.0, 1.0, 11.0, 1.0, 1.0], "sample_weight holds 11 at position 2; accepted: numbers from 0 to 10"),
        ([1.0, np.nan, 1.0, 1.0, 1.0], "sample_weight holds nan at position 1"),
        (np.ones((5, 1)), r"sample_weight has shape \(5, 1\); accepted: numbers of shape \(n_pairs,\)"),
        (["a"] * 5, "sample_weight holds 'a' at position 0"),
    ],
)
def test_wrong_weights_are_refused(weights, sentence):
    events = one_informative_feature(1, 3, 5)
    pairs = as_pairs(events)
    tracker = MetricTracker().fit(pairs, events.y)
    before = tracker.metric_
    for learn in (tracker.fit, tracker.partial_fit, tracker.test_then_train):
        with pytest.raises((ValueError, TypeError), match=sentence):
            learn(pairs, events.y, sample_weight=weights)
    with pytest.raises((ValueError, TypeError), match=sentence):
        tracker._fitted.tracker.replay(events, weights)
    assert tracker.metric_ is before


@pytest.mark.parametrize("weight", [-1.0, 10.5, np.nan, "1", None])
def test_a_wrong_weight_of_one_pair_is_refused(weight):
    tracker = MetricTracker().fit(as_pairs(one_informative_feature(1, 3, 5)), np.ones(5))
    before = tracker.metric_
    with pytest.raises((ValueError, TypeError), match="weight must be a finite number"):
        tracker.learn_one(np.ones(3), np.zeros(3), 1, weight=weight)
    assert (tracker.metric_ is before, tracker.n_rounds_) == (True, 5)


def test_rice_has_no_weights():
    events = one_informative_feature(1, 3, 5)
    pairs = as_pairs(events)
    tracker = MetricTracker(method="rice").fit(pairs, events.y, sample_weight=np.ones(5))
    before = tracker.metric_
    sentence = "sample_weight needs method='adaptive'; the method 'rice' has no weights of pairs"
    for learn in (
        lambda: tracker.partial_fit(pairs, events.y, sample_weight=np.full(5, 0.5)),
        lambda: tracker.learn_one(pairs[0, 0], pairs[0, 1], 1, weight=0.5),
    ):
        with pytest.raises(ValueError, match=sentence):
            learn()
    assert (tracker.metric_ is before, tracker.n_rounds_) == (True, 5)


# -- Relative comparisons --


@pytest.mark.parametrize(("n", "lowest"), [(1, 0.99), (4, 0.74), (10, 0.7), (40, 0.62)])
def test_learns_which_point_is_nearer(n, lowest):
    margins = track_adaptive(n, events="relatives").replay(relatives(1, 1200, n))
    assert accuracy(margins[600:]) > lowest


def test_comparisons_are_learned_as_well_as_by_rice():
    events = relatives(1, 1200, 4)
    margins, of_rice = (
        tracker.replay(events) for tracker in (new_tracker(events), track_metric(4, events="relatives"))
    )
    assert accuracy(margins[600:]) > accuracy(of_rice[600:]) - 0.05


def test_comparisons_follow_a_change():
    first, second = relatives(2, 600, 4), relatives(3, 600, 4)
    turned = Relatives(second.near[:, [1, 0, 2, 3]], second.far[:, [1, 0, 2, 3]])  # now the second feature decides
    tracker = track_adaptive(4, events="relatives")
    tracker.replay(first)
    assert tracker.play().diagonal.argmax() == 0
    assert accuracy(tracker.replay(turned)[300:]) > 0.7
    assert tracker.play().diagonal.argmax() == 1


def test_triplets_and_quadruplets_learn_by_the_adaptive_method():
    triplets = np.random.default_rng(1).normal(size=(400, 3, 4))
    x, a, b = triplets[:, :, 0].T
    wrong = np.abs(x - a) > np.abs(x - b)
    triplets[wrong] = triplets[wrong][:, [0, 2, 1]]
    core = track_adaptive(4, events="relatives")
    margins = core.replay(Relatives(triplets[:, 0] - triplets[:, 1], triplets[:, 0] - triplets[:, 2]))
    tracker = TripletTracker()
    np.testing.assert_array_equal(tracker.test_then_train(triplets), margins)
    assert tracker.metric_ == core.play() == QuadrupletTracker().fit(triplets[:, [0, 1, 0, 2]]).metric_
    assert tracker.score(triplets) > 0.74
    parts = TripletTracker()
    for first in range(0, 400, 37):
        parts.partial_fit(triplets[first : first + 37])
    assert parts.metric_ == tracker.metric_
    loaded = TripletTracker.from_state(*tracker.state())
    assert loaded.method == "adaptive"
    assert loaded.partial_fit(triplets).metric_ == tracker.partial_fit(triplets).metric_


def test_equal_points_of_a_comparison_teach_nothing_wrong():
    same = Relatives(np.ones((50, 3)), np.ones((50, 3)))
    tracker = track_adaptive(3, events="relatives")
    assert np.isfinite(tracker.replay(same)).all()
    assert accuracy(tracker.replay(relatives(4, 800))[300:]) > 0.75


# -- Refused input --


def assert_refused(tracker, learn, kind, sentence):
    before, rounds = deepcopy(tracker.state()), tracker.n_rounds
    with pytest.raises(kind, match=sentence) as error:
        learn()
    assert "\n" not in str(error.value)
    assert tracker.n_rounds == rounds
    assert tracker.state()[1] == before[1]
    for name, array in tracker.state()[0].items():
        assert np.array_equal(array, before[0][name]), name


@pytest.mark.parametrize("rounds", [0, 7, 30, PLAIN_ROUNDS + 10])
def test_wrong_events_change_nothing(rounds):
    tracker, events = track_adaptive(3), one_informative_feature(1, 3, 100)
    if rounds:
        tracker.replay(events[:rounds])
    for event, kind, sentence in (
        (Event(np.ones(2), 1.0), ValueError, "3 are expected"),
        (Event(np.array([1.0, np.nan, 0.0]), 1.0), ValueError, "finite"),
        (Event(np.array([1.0, -np.inf, 0.0]), 1.0), ValueError, "finite"),
        (Event(np.ones(3), 0.5), ValueError, "accepted: "),
        (Event(np.ones(3), np.nan), ValueError, "accepted: "),
        (Event(np.array(["a", "b", "c"]), 1.0), TypeError, "holds 'a' at position 0"),
        (Relative(np.ones(3), np.ones(3)), TypeError, "Relative"),
        (
            Event(np.full(3, 1e140), 1.0),
            ValueError,
            r"too far apart: they differ by 1e\+140; accepted: .* up to 1e\+75",
        ),
        (Event(np.full(3, 1e200), 1.0), ValueError, "too far apart"),
        ("similar", TypeError, "an event must be a Pair"),
    ):
        assert_refused(tracker, lambda event=event: tracker.step(event), kind, sentence)
    assert_refused(tracker, lambda: tracker.replay(Events(np.ones((2, 4)), [1, 1])), ValueError, "4 features; 3 are")
    assert_refused(tracker, lambda: tracker.replay(Relatives(*np.ones((2, 2, 3)))), TypeError, "events must be Events")
    assert_refused(tracker, lambda: tracker.replay(list(events)), TypeError, "events must be Events; got list")
    U = events.U.copy()
    U[50, 1] = -1e90
    for form in (np.asarray, csr_array):
        assert_refused(
            tracker, lambda form=form: tracker.replay(Events(form(U), events.y)), ValueError, "pair 50 are too far"
        )


def test_wrong_comparisons_change_nothing():
    tracker, events = track_adaptive(3, events="relatives"), relatives(1, 100)
    tracker.replay(events)
    far = events.far.copy()
    far[7] = 1e80
    refused = Relatives(events.near, far)
    assert_refused(tracker, lambda: tracker.replay(refused), ValueError, "comparison 7 are too far apart")
    assert_refused(tracker, lambda: tracker.step(Event(np.ones(3), 1.0)), TypeError, "Relative")


@pytest.mark.parametrize("n", [3, 200])
@pytest.mark.parametrize("rounds", [5, PLAIN_ROUNDS + 20])
def test_a_refused_call_of_an_estimator_leaves_no_trace(n, rounds):
    events = one_informative_feature(1, n, 120)
    pairs, y = as_pairs(events), events.y
    tracker, twin = (MetricTracker().fit(pairs[:rounds], y[:rounds]) for _ in range(2))
    huge, infinite, missing = pairs[:20].copy(), pairs[:20].copy(), pairs[:20].copy()
    huge[10, 0], infinite[10, 0, 1], missing[3, 1, 0] = 1e140, np.inf, np.nan
    for wrong, labels, sentence in (
        (huge, y[:20], "pair 10 are too far apart"),
        (infinite, y[:20], r"pairs holds inf at index \(10, 0, 1\)"),
        (missing, y[:20], r"pairs holds nan at index \(3, 1, 0\)"),
        (pairs[:20, :, 1:], y[:20], f"pairs has {n - 1} features; {n} are expected"),
        (pairs[:20, 0], y[:20], "pairs has shape"),
        (pairs[:0], y[:0], "pairs is empty"),
        (pairs[:20], y[:19], "y has 19 labels for 20 pairs"),
        (pairs[:20], np.full(20, 0.5), "y holds 0.5 at position 0"),
        (pairs[:20], np.full(20, np.nan), "y holds nan at position 0"),
        (pairs[:20], ["same"] * 20, "y holds 'same' at position 0"),
    ):
        with pytest.raises((ValueError, TypeError), match=sentence) as error:
            tracker.partial_fit(wrong, labels)
        assert "\n" not in str(error.value)
        with pytest.raises((ValueError, TypeError)):
            MetricTracker().fit(wrong, labels) if "features" not in sentence else tracker.partial_fit(wrong, labels)
    with pytest.raises(ValueError, match="too far apart"):
        tracker.learn_one(huge[10, 0], huge[10, 1], 1)
    assert tracker.metric_ == twin.metric_
    margins = tracker.test_then_train(pairs[rounds:], y[rounds:])
    assert (margins == twin.test_then_train(pairs[rounds:], y[rounds:])).all()
    assert tracker.metric_ == twin.metric_


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "3", None])
def test_invalid_numbers_of_features(wrong):
    with pytest.raises((ValueError, TypeError), match="n_features"):
        track_adaptive(wrong)


def test_sparse_trackers_accept_arrays_and_others_accept_sparse_pairs():
    events = sparse_pairs(3, ROUNDS)
    dense = Events(events.U.toarray(), events.y)
    for sparse in (False, True):
        trackers = [track_adaptive(300, sparse=sparse) for _ in range(2)]
        for tracker, form in zip(trackers, (events, dense), strict=True):
            tracker.replay(form[:30])
            tracker.replay(form[30:])
        assert_same(*trackers)
    X, Z = as_pairs(events)
    tracker = MetricTracker().fit((X, Z), events.y)
    assert tracker.partial_fit(as_pairs(dense), events.y).n_rounds_ == 2 * ROUNDS


# -- Odd input --


@pytest.mark.parametrize("largest", [MAX_DIFFERENCE, 1e10])
@pytest.mark.parametrize("stream", ["3 features", "200 features", "sparse"])
def test_one_enormous_difference_leaves_a_finite_metric(stream, largest):
    events = STREAMS[stream](11, 200)
    U = (events.U.toarray() if events.sparse else events.U).copy()
    U[120, 0] = largest
    tracker = new_tracker(events)
    assert np.isfinite(tracker.replay(Events(csr_array(U) if events.sparse else U, events.y))).all()
    assert_valid(tracker)


@pytest.mark.parametrize("factor", [10.0, 1e3, 1e10])
def test_one_outlier_is_soon_forgotten(factor):
    events = one_informative_feature(5, 6, 3000)
    U = events.U.copy()
    U[2000] *= factor
    usual = accuracy(track_adaptive(6).replay(events)[2150:2400])
    assert accuracy(track_adaptive(6).replay(Events(U, events.y))[2150:2400]) > usual - 0.03


@pytest.mark.parametrize("n", [1, 3, 200])
def test_zero_differences(n):
    """Equal points first, in between and only: nothing is divided by zero, and learning goes on."""
    zeros, y = np.zeros((100, n)), np.random.default_rng(0).choice([-1.0, 1.0], size=100)
    tracker = track_adaptive(n)
    assert np.isfinite(tracker.replay(Events(zeros, y))).all()
    assert_valid(tracker)
    events = one_informative_feature(1, n, 600)
    assert accuracy(tracker.replay(events)[300:]) > (0.85 if n < 200 else 0.6)
    tracker.replay(Events(zeros, y))
    assert_valid(tracker)
    mixed = events.U * (np.arange(600) % 2)[:, None]
    tracker.replay(Events(mixed, events.y))
    assert_valid(tracker)


def test_tiny_differences_count_as_zero():
    events = one_informative_feature(1, 3, 100)
    tiny, zero = track_adaptive(3), track_adaptive(3)
    tiny.replay(Events(1e-170 * events.U, events.y))
    zero.replay(Events(0.0 * events.U, events.y))
    assert tiny.play() == zero.play()
    sparse = track_adaptive(3, sparse=True)
    sparse.replay(Events(csr_array(1e-170 * events.U), events.y))
    assert_valid(sparse)


def test_one_feature_needs_no_direction():
    """Only the threshold is learned: pairs nearer than 0.7 are similar."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(1500, 1))
    tracker = MetricTracker().fit(np.stack([u, 0.0 * u], axis=1), np.where(np.abs(u[:, 0]) < 0.7, 1, -1))
    boundary = tracker.threshold_ / tracker.metric_.distance([1.0], [0.0])
    assert boundary == pytest.approx(0.7, abs=0.15)


def test_swapped_points_give_the_same_bits():
    events = one_informative_feature(1, 3, ROUNDS)
    tracker, swapped = track_adaptive(3), track_adaptive(3)
    margins = tracker.replay(events)
    assert (swapped.replay(Events(-events.U, events.y)) == margins).all()
    assert swapped.play() == tracker.play()


def test_pairs_and_events_are_the_same():
    one, other = track_adaptive(2), track_adaptive(2)
    one.step(Pair([1.0, 2.0], [0.0, 5.0], True))
    other.step(Event(np.array([1.0, -3.0]), 1.0))
    assert_same(one, other)


def assert_valid(tracker):
    """Check that the metric is finite and positive semidefinite, and that all other results are in range."""
    metric = tracker.play()
    matrix = metric.matrix
    size = np.abs(matrix).max()
    assert np.isfinite(matrix).all()
    assert size > 0.0
    assert np.linalg.eigvalsh(matrix / size)[0] >= -1e-9
    assert np.isfinite(metric.threshold)
    assert np.isfinite(tracker.drift)
    assert tracker.drift >= 0.0
    assert (tracker.expert_weights >= 0.0).all()
    assert tracker.expert_weights.sum() == pytest.approx(1.0)


# -- Long streams --


def blocks_of(kind, n, sparse, rounds, block=10_000):
    """Yield a long stream of a kind in blocks."""
    rng = np.random.default_rng(0)
    for first in range(0, rounds, block):
        count = min(block, rounds - first)
        if sparse:
            indices = rng.integers(n, size=(count, 10))
            U = csr_array((rng.normal(size=10 * count), indices.ravel(), np.arange(0, 10 * count + 1, 10)), (count, n))
            U.sum_duplicates()
            similar = np.abs(U[:, [0]].toarray()[:, 0]) + np.abs(U[:, [1]].toarray()[:, 0]) < 0.1
        else:
            U = rng.normal(size=(count, n))
            similar = np.abs(U[:, 0]) < 0.7
        y = np.where(similar, 1.0, -1.0)
        if kind == "changing":
            y = y * (1.0 if first // block % 2 == 0 else -1.0)
        elif kind == "random labels":
            y = rng.choice([-1.0, 1.0], size=count)
        elif kind == "only similar":
            y = np.ones(count)
        elif kind == "growing":
            U = U * 1.01 ** (first / block)
        elif kind == "collinear":
            U = np.outer(U[:, 0], np.ones(n))
        elif kind == "heavy tails":
            U = rng.standard_t(1.5, size=(count, n))
        yield Events(U, y)


LONG_STREAMS = [
    ("learnable", 3, False, 200_000),
    ("changing", 3, False, 100_000),
    ("random labels", 3, False, 100_000),
    ("only similar", 3, False, 100_000),
    ("growing", 3, False, 100_000),
    ("collinear", 3, False, 100_000),
    ("heavy tails", 3, False, 100_000),
    ("learnable", 1, False, 100_000),
    ("changing", 40, False, 50_000),
    ("changing", 384, False, 20_000),
    ("changing", 2000, True, 30_000),
]


@pytest.mark.slow
@only_compiled
@pytest.mark.parametrize(("kind", "n", "sparse", "rounds"), LONG_STREAMS)
def test_long_streams_stay_finite_and_positive_semidefinite(kind, n, sparse, rounds):
    """A million rounds in all."""
    tracker = track_adaptive(n, sparse=sparse)
    for events in blocks_of(kind, n, sparse, rounds):
        assert np.isfinite(tracker.replay(events)).all()
    assert_valid(tracker)
    assert tracker.n_rounds == rounds
    assert_close(resume_tracker(*tracker.state()), tracker)
