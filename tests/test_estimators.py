"""MetricTracker: chunks, predictions, refused input, and the conventions of scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ocelad import LearnerError, MetricTracker, Rice, track_metric
from ocelad.pairs import Event


def some_pairs(count=1000, n_features=4, seed=0):
    rng = np.random.default_rng(seed)
    pairs = rng.normal(size=(count, 2, n_features))
    y = np.where(np.abs(pairs[:, 0, 0] - pairs[:, 1, 0]) < 1, 1, -1)
    return pairs, y


METHODS = {"adaptive": "adaptive", "rice": Rice(step_size=0.05)}
both_methods = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


def state(tracker):
    """Return all that a user can see."""
    return (tracker.metric_, tracker.n_rounds_, tracker.weights_.tolist(), tracker.n_features_in_)


@both_methods
def test_chunks_do_not_change_the_result(method):
    pairs, y = some_pairs()
    whole = MetricTracker(method=method).partial_fit(pairs, y)
    one_by_one, single = MetricTracker(method=method), MetricTracker(method=method)
    for pair, label in zip(pairs, y, strict=True):
        one_by_one.partial_fit(pair[None], [label])
        single.learn_one(pair[0], pair[1], label)
    fitted = MetricTracker(method=method).fit(pairs, y)
    assert state(whole) == state(one_by_one) == state(single) == state(fitted)


@both_methods
@given(sizes=st.lists(st.integers(1, 7), min_size=1, max_size=6))
def test_chunks_of_any_sizes_do_not_change_the_result(method, sizes):
    pairs, y = some_pairs(sum(sizes))
    whole, parts = MetricTracker(method=method).partial_fit(pairs, y), MetricTracker(method=method)
    for size, end in zip(sizes, np.cumsum(sizes), strict=True):
        parts.partial_fit(pairs[end - size : end], y[end - size : end])
    assert state(whole) == state(parts)


def test_is_track_metric_with_the_same_settings():
    settings = {
        "loss": "hinge",
        "step_size": 0.02,
        "shrinkage": 0.01,
        "regularizer": "l1",
        "divergence": "von_neumann",
        "shortest_interval": 3,
        "n_scales": 4,
        "finest": "ensemble",
        "initial_scale": 0.4,
        "initial_threshold": 1.2,
        "max_norm": 2.0,
        "engine": "dense",
        "max_rank": None,
        "diagonal": False,
        "l1_tolerance": 1e-10,
    }
    pairs, y = some_pairs(40)
    tracker, core = MetricTracker(method=Rice(**settings)).fit(pairs, y), track_metric(4, **settings)
    for pair, label in zip(pairs, y, strict=True):
        core.step(Event(pair[0] - pair[1], float(label)))
    assert tracker.metric_ == core.play()
    assert tracker.method.get_params() == settings


@both_methods
def test_outputs_agree_with_the_metric(method):
    pairs, y = some_pairs(600)
    tracker = MetricTracker(method=method).fit(pairs, y)
    x, z = pairs[:, 0], pairs[:, 1]
    M = tracker.get_mahalanobis_matrix()
    np.testing.assert_allclose(M, tracker.components_.T @ tracker.components_, atol=1e-12)
    expected = np.sqrt(np.einsum("ij,jk,ik->i", x - z, M, x - z))
    np.testing.assert_allclose(tracker.pair_distance(pairs), expected)
    np.testing.assert_allclose(np.linalg.norm(tracker.transform(x) - tracker.transform(z), axis=1), expected)
    assert tracker.threshold_ == pytest.approx(np.sqrt(tracker.metric_.threshold))
    assert np.mean(tracker.predict(pairs) == y) > 0.85
    tracker.set_threshold(tracker.threshold_)  # a fixed threshold decides with either method
    np.testing.assert_array_equal(tracker.predict(pairs), np.where(expected <= tracker.threshold_, 1, -1))
    assert tracker.weights_.sum() == pytest.approx(1)
    assert len(tracker.weights_) == len(tracker.experts_)
    if tracker.method_ == "rice":
        assert tracker.experts_ == tuple(str(2**j) for j in range(10))  # interval lengths up to round 601
    assert tracker.n_rounds_ == 600
    assert tracker.metric_.round == 600


@both_methods
def test_follows_a_change(method):
    pairs, y = some_pairs(1500)
    changed = np.where(np.abs(pairs[:, 0, 1] - pairs[:, 1, 1]) < 1, 1, -1)
    tracker = MetricTracker(method=method).fit(pairs, y)
    assert np.abs(tracker.components_[0]).argmax() == 0
    tracker.partial_fit(pairs, changed)
    assert np.abs(tracker.components_[0]).argmax() == 1


@both_methods
def test_distance_and_threshold_separate_similar_and_dissimilar_pairs(method):
    pairs, y = some_pairs(600)
    tracker = MetricTracker(method=method).fit(pairs, y)
    assert np.mean((tracker.pair_distance(pairs) <= tracker.threshold_) == (y > 0)) > 0.85


def test_fit_discards_what_was_learned():
    pairs, y = some_pairs(50)
    tracker = MetricTracker().fit(pairs, -y)
    assert state(tracker.fit(pairs, y)) == state(MetricTracker().fit(pairs, y))
    assert tracker.fit(pairs[:, :, :2], y).n_features_in_ == 2


def test_predictions_change_nothing():
    pairs, y = some_pairs(30)
    tracker = MetricTracker().fit(pairs, y)
    before = dict(tracker.__dict__)
    tracker.predict(pairs), tracker.pair_distance(pairs), tracker.transform(pairs[:, 0]), tracker.metric_
    assert tracker.__dict__ == before
    tracker.get_mahalanobis_matrix()[:] = 0
    assert np.abs(tracker.get_mahalanobis_matrix()).max() > 0


@both_methods
def test_clones_pickles_and_prints(method):
    pairs, y = some_pairs(30)
    tracker = MetricTracker(method=method).fit(pairs, y)
    copy = pickle.loads(pickle.dumps(tracker))
    assert state(copy.partial_fit(pairs, y)) == state(tracker.partial_fit(pairs, y))
    assert clone(tracker).get_params() == tracker.get_params()
    assert repr(tracker) == (
        "MetricTracker()" if method == "adaptive" else "MetricTracker(method=Rice(step_size=0.05))"
    )
    with pytest.raises(NotFittedError):
        clone(tracker).predict(pairs)


@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.predict([[[1.0], [2.0]]]),
        lambda t: t.pair_distance([[[1.0], [2.0]]]),
        lambda t: t.transform([[1.0]]),
        lambda t: t.get_mahalanobis_matrix(),
        lambda t: t.components_,
        lambda t: t.threshold_,
        lambda t: t.metric_,
        lambda t: t.n_rounds_,
        lambda t: t.weights_,
        lambda t: t.predict_proba([[[1.0], [2.0]]]),
        lambda t: t.method_,
        lambda t: t.drift_,
        lambda t: t.changes_,
    ],
)
def test_before_the_first_pair_everything_raises_not_fitted(read):
    with pytest.raises(NotFittedError, match="has seen no pairs yet"):
        read(MetricTracker())


BAD_PAIRS = [
    ([[[1.0, np.nan], [0.0, 0.0]]], [1], r"pairs holds nan at index \(0, 0, 1\)"),
    ([[[1.0, np.inf], [0.0, 0.0]]], [1], "pairs holds inf"),
    (np.zeros((0, 2, 2)), [], "pairs is empty"),
    ([], [], "pairs has shape"),
    (np.zeros((3, 2)), [1, 1, 1], r"pairs has shape \(3, 2\); accepted: numbers of shape \(n_pairs, 2, n_features\)"),
    (np.zeros((1, 3, 2)), [1], r"pairs has shape \(1, 3, 2\)"),
    (np.zeros((1, 2, 3)), [1], "pairs has 3 features; 2 are expected"),
    (np.zeros((2, 2, 2)), [1], "y has 1 labels for 2 pairs"),
    (np.zeros((1, 2, 2)), [2], r"y holds 2 at position 0; accepted: \+1 \(or True\) for similar, -1 \(or 0 or False\)"),
    (np.zeros((2, 2, 2)), [1, 2], "y holds 2 at position 1"),
    (np.zeros((1, 2, 2)), [np.nan], "y holds nan at position 0"),
    (np.zeros((1, 2, 2)), ["same"], "y holds 'same' at position 0; accepted"),
    (np.zeros((1, 2, 2)), [[1]], r"y has shape \(1, 1\)"),
    (np.zeros((1, 2, 2)), 1, r"y has shape \(\)"),
    (np.zeros((1, 2, 2)), None, "y is None"),
    (np.zeros((1, 2, 2)), np.ma.masked_array([1], mask=[True]), "y has masked entries"),
    (np.zeros((1, 2, 2)), np.array([None], dtype=object), "y holds None"),
    ([[["a", "b"], ["c", "d"]]], [1], r"pairs holds 'a' at index \(0, 0, 0\)"),
    ([[[1.0, "b"], [0.0, 0.0]]], [1], r"pairs holds 'b' at index \(0, 0, 1\)"),
    (np.array([[[1.0, "b"], [0.0, 0.0]]], dtype=object), [1], r"pairs holds 'b' at index \(0, 0, 1\)"),
    ([[[1.0, None], [0.0, 0.0]]], [1], "pairs holds"),
    ([[[1.0, 2.0], [0.0]]], [1], "pairs is ragged"),
    (np.zeros((1, 2, 2), dtype=complex), [1], "pairs holds values of type complex128"),
    (np.array([[["2026-01-01", "2026-01-02"]] * 2], dtype="datetime64[D]").reshape(1, 2, 2), [1], "datetime64"),
    ([[[1e200, 0.0], [-1e200, 0.0]]], [1], "too far apart"),
    (None, [1], "pairs is None"),
    ({"a": 1}, [1], "pairs is a dict"),
    ((pair for pair in [1]), [1], "pairs is a generator"),
    (csr_matrix(np.zeros((2, 2))), [1], "pairs is one sparse matrix"),
    (np.ma.masked_array(np.zeros((1, 2, 2)), mask=[[[True, False], [False, False]]]), [1], "pairs has masked entries"),
    ([[[10**400, 0.0], [0.0, 0.0]]], [1], "pairs holds a number that is too large"),
]


@pytest.mark.parametrize(("pairs", "y", "sentence"), BAD_PAIRS)
@pytest.mark.parametrize("call", ["fit", "partial_fit"])
def test_a_refused_call_changes_nothing(call, pairs, y, sentence):
    if call == "fit" and "3 features" in sentence:
        pytest.skip("fit may change the number of features")
    good, labels = some_pairs(20, n_features=2)
    tracker = MetricTracker().fit(good, labels)
    before, attributes = state(tracker), dict(tracker.__dict__)
    with pytest.raises((ValueError, TypeError), match=sentence):
        getattr(tracker, call)(pairs, y)
    assert state(tracker) == before
    assert tracker.__dict__ == attributes
    fresh = MetricTracker()
    if "3 features" not in sentence:
        with pytest.raises((ValueError, TypeError)):
            getattr(fresh, call)(pairs, y)
        assert not hasattr(fresh, "n_features_in_")


@pytest.mark.parametrize(("pairs", "y", "sentence"), [case for case in BAD_PAIRS if case[2].startswith("pairs")])
@pytest.mark.parametrize("method", ["predict", "predict_proba", "pair_distance"])
def test_predictions_refuse_invalid_pairs(method, pairs, y, sentence):
    good, labels = some_pairs(20, n_features=2)
    with pytest.raises((ValueError, TypeError), match=sentence):
        getattr(MetricTracker().fit(good, labels), method)(pairs)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([1.0, np.nan], [0.0, 0.0], 1), "x holds nan at position 1"),
        (([1.0, 2.0], [0.0], 1), "z has 1 features; 2 are expected"),
        (([1.0], [0.0], 1), "x has 1 features; 2 are expected"),
        (([1.0, 2.0], [0.0, 0.0], 2), "y is 2; accepted"),
        (([1.0, 2.0], [0.0, 0.0], [1]), r"y is \[1\]; accepted"),
        (([1.0, 2.0], [0.0, 0.0], "yes"), "y is 'yes'; accepted"),
        (([1.0, 2.0], [0.0, 0.0], None), "y is None; accepted"),
        ((1.0, 0.0, 1), r"x has shape \(\)"),
        (([], [], 1), "x is empty"),
    ],
)
def test_learn_one_refuses(arguments, sentence):
    good, labels = some_pairs(20, n_features=2)
    tracker = MetricTracker().fit(good, labels)
    before = state(tracker)
    with pytest.raises((ValueError, TypeError), match=sentence):
        tracker.learn_one(*arguments)
    assert state(tracker) == before


def test_transform_refuses():
    good, labels = some_pairs(20, n_features=2)
    tracker = MetricTracker().fit(good, labels)
    for X, sentence in (([1.0, 2.0], "X has shape"), ([[1.0]], "X has 1 features"), ([[np.inf, 0.0]], "X holds inf")):
        with pytest.raises(ValueError, match=sentence):
            tracker.transform(X)


def test_a_pair_that_overflows_changes_nothing():
    good, labels = some_pairs(20, n_features=2)
    tracker = MetricTracker(method=Rice(loss="squared_hinge")).fit(good, labels)
    before = state(tracker)
    wild = np.concatenate([good, [[[1e149, 0.0], [0.0, 0.0]]]])
    with pytest.raises(LearnerError, match=r"in round 41 the learner of scale 0"):
        tracker.partial_fit(wild, [*labels, 1])
    assert state(tracker) == before
    tracker.partial_fit(good, labels)
    assert tracker.n_rounds_ == 40


@pytest.mark.parametrize(
    "kind",
    [
        lambda a: a.tolist(),
        lambda a: a.astype(np.float32),
        lambda a: np.asfortranarray(a),
        lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
        lambda a: _read_only(a),
        lambda a: a.astype(object),
    ],
)
def test_the_type_of_the_numbers_does_not_matter(kind):
    pairs, y = some_pairs(30)
    pairs = np.round(pairs * 8) / 8  # exact in float32 too
    expected = MetricTracker().fit(pairs, y)
    assert state(MetricTracker().fit(kind(pairs), kind(y))) == state(expected)
    given_pairs = kind(pairs)
    kept = np.array(given_pairs, copy=True)
    MetricTracker().fit(given_pairs, y).predict(given_pairs)
    assert (np.asarray(given_pairs) == kept).all()


def test_integers_and_booleans():
    pairs = np.random.default_rng(0).integers(-3, 4, size=(30, 2, 3))
    y = np.random.default_rng(1).choice([1, -1], size=30)
    expected = state(MetricTracker().fit(pairs.astype(float), y.astype(float)))
    for dtype in (np.int8, np.int64):
        assert state(MetricTracker().fit(pairs.astype(dtype), y.astype(np.int8))) == expected
    assert state(MetricTracker().fit(pairs, y > 0)) == expected
    assert state(MetricTracker().fit(pairs, (y > 0).astype(object))) == expected
    assert (
        MetricTracker().learn_one([1, 2], [0, 0], True).metric_ == MetricTracker().learn_one([1, 2], [0, 0], 1).metric_
    )


def test_settings_are_checked_by_fit():
    pairs, y = some_pairs(5)
    for settings in ({"loss": "hing"}, {"step_size": -1}, {"regularizer": None, "shrinkage": 1}, {"n_scales": 0}):
        tracker = MetricTracker(method=Rice(**settings))
        for learn in (lambda t: t.fit(pairs, y), lambda t: t.learn_one(pairs[0, 0], pairs[0, 1], 1)):
            with pytest.raises((ValueError, TypeError), match=next(iter(settings)) + "|shrinkage"):
                learn(tracker)
            assert not hasattr(tracker, "n_features_in_")


def _read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def test_a_pair_exactly_at_the_threshold_is_similar():
    tracker = MetricTracker(method=Rice(initial_scale=1.0, loss="hinge", step_size=1e-9)).fit([[[0.0], [2.0]]], [-1])
    edge = tracker.threshold_ / tracker.components_[0, 0]
    metric = tracker.metric_
    assert metric.squared_distance([edge], [0.0]) == metric.threshold
    assert tracker.predict([[[edge], [0.0]]]).tolist() == [1]
    assert tracker.predict([[[np.nextafter(edge, 9)], [0.0]]]).tolist() == [-1]


def test_knows_whether_it_is_fitted():
    pairs, y = some_pairs(5)
    with pytest.raises(NotFittedError):
        check_is_fitted(MetricTracker())
    check_is_fitted(MetricTracker().fit(pairs, y))


def test_changed_settings_are_refused_until_fit():
    pairs, y = some_pairs(20)
    tracker = MetricTracker(method=Rice()).fit(pairs, y)
    before = state(tracker)
    tracker.set_params(method__step_size=0.5)
    for learn in (lambda: tracker.partial_fit(pairs, y), lambda: tracker.learn_one(pairs[0, 0], pairs[0, 1], 1)):
        with pytest.raises(ValueError, match=r"step_size was changed from 0.01 to 0.5 .* call fit"):
            learn()
    assert state(tracker) == before
    assert state(tracker.fit(pairs, y)) == state(MetricTracker(method=Rice(step_size=0.5)).fit(pairs, y))


def test_subclasses_may_have_more_parameters():
    class Named(MetricTracker):
        def __init__(self, *, name="x", method="adaptive"):
            super().__init__(method=method)
            self.name = name

    pairs, y = some_pairs(5)
    assert Named(name="mine").fit(pairs, y).metric_ == MetricTracker().fit(pairs, y).metric_


def test_numpy_numbers_as_settings():
    pairs, y = some_pairs(10)
    plain = MetricTracker(method=Rice(step_size=0.5, shortest_interval=2, n_scales=3)).fit(pairs, y)
    settings = {"step_size": np.float32(0.5), "shortest_interval": np.int8(2), "n_scales": np.int64(3)}
    assert plain.metric_ == MetricTracker(method=Rice(**settings)).fit(pairs, y).metric_


@pytest.mark.parametrize(("strategy", "min_rate", "expected"), [("max_tpr", 0.5, 3.0), ("max_tnr", 0.5, 1.0)])
def test_a_calibrated_threshold_may_reach_the_minimal_rate_exactly(strategy, min_rate, expected):
    # Similar pairs at the distances 1 and 3, dissimilar ones at 2 and 4: at 3 half of the dissimilar pairs are
    # recognized, at 1 half of the similar ones.
    pairs, y = [[[0.0], [d]] for d in (1.0, 2.0, 3.0, 4.0)], [1, -1, 1, -1]
    tracker = MetricTracker(method=Rice(initial_scale=1.0)).start(1)
    tracker.calibrate_threshold(pairs, y, strategy=strategy, min_rate=min_rate)
    assert tracker.threshold_ == expected
    tracker.calibrate_threshold(pairs, y, strategy=strategy, min_rate=min_rate + 1e-9)
    assert tracker.threshold_ == {"max_tpr": 1.0, "max_tnr": 3.0}[strategy]


def test_calibration_prefers_the_smallest_of_the_best_thresholds():
    pairs, y = [[[0.0], [d]] for d in (1.0, 2.0, 3.0)], [1, -1, 1]  # both 1 and 3 are right about two pairs
    tracker = MetricTracker(method=Rice(initial_scale=1.0)).start(1)
    assert tracker.calibrate_threshold(pairs, y).threshold_ == 1.0
    assert tracker.calibrate_threshold(pairs, [-1, -1, 1]).threshold_ == -1.0  # no pair is predicted similar
    # F_beta weighs recall more with a large beta.
    assert tracker.calibrate_threshold(pairs, y, strategy="f_beta", beta=0.1).threshold_ == 1.0
    assert tracker.calibrate_threshold(pairs, y, strategy="f_beta", beta=9.0).threshold_ == 3.0


def test_features_with_equal_weights_keep_their_order():
    tracker = MetricTracker(method="rice").start(3, ["c", "a", "b"])
    rows = tracker.feature_weights()
    assert [row.feature for row in rows] == ["c", "a", "b"]
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert len(tracker.feature_weights(2)) == 2
    with pytest.raises(ValueError, match="n_features must be"):
        tracker.feature_weights(0)
