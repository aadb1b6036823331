"""MetricTracker satisfies metric-learn's documented contract of pair learners and works with scikit-learn's tools."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score, fbeta_score, get_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from ocelad import Metric, MetricTracker, Rice
from ocelad.estimators.saved_metric import load_metric
from ocelad.estimators.threshold_calibration import ThresholdCalibration


def some_pairs(count=600, seed=0):
    pairs = np.random.default_rng(seed).normal(size=(count, 2, 4))
    return pairs, np.where(np.abs(pairs[:, 0, 0] - pairs[:, 1, 0]) < 1, 1, -1)


PAIRS, Y = some_pairs()
HELD_OUT, Y_HELD_OUT = some_pairs(seed=1)


@pytest.fixture(params=["adaptive", Rice(step_size=0.05)], ids=["adaptive", "rice"])
def method(request):
    return request.param


@pytest.fixture
def tracker(method):
    return MetricTracker(method=method).fit(PAIRS, Y)


def test_scores_and_predictions_are_consistent(tracker):
    distances = tracker.pair_distance(HELD_OUT)
    np.testing.assert_array_equal(tracker.pair_score(HELD_OUT), -distances)
    decisions = tracker.decision_function(HELD_OUT)
    lowest = 0.0 if tracker.method_ == "adaptive" else -tracker.threshold_
    np.testing.assert_array_equal(tracker.predict(HELD_OUT), np.where(decisions >= lowest, 1, -1))
    assert tracker.score(HELD_OUT, Y_HELD_OUT) == roc_auc_score(Y_HELD_OUT, decisions)
    tracker.set_threshold(tracker.threshold_)  # a fixed threshold applies to distances, with every method
    np.testing.assert_array_equal(tracker.decision_function(HELD_OUT), -distances)
    np.testing.assert_array_equal(tracker.predict(HELD_OUT), np.where(distances <= tracker.threshold_, 1, -1))
    assert tracker.classes_.tolist() == [-1, 1]
    assert is_classifier(tracker)


def test_get_metric_is_a_frozen_function(tracker):
    metric = tracker.get_metric()
    u, v = HELD_OUT[0]
    before = metric(u, v)
    assert before == pytest.approx(tracker.pair_distance(HELD_OUT[:1])[0])
    assert metric(u, v, squared=True) == pytest.approx(before**2)
    tracker.partial_fit(PAIRS, -Y)
    assert metric(u, v) == before != tracker.get_metric()(u, v)
    assert pickle.loads(pickle.dumps(metric))(u, v) == before


def test_get_metric_accepts_the_shapes_of_metric_learn(tracker):
    metric = tracker.get_metric()
    u, v = HELD_OUT[0]
    expected = metric(u, v)
    for shape in ((1, 4), (4, 1), (1, 4, 1)):
        found = metric(u.reshape(shape), v.tolist())
        assert isinstance(found, float)
        assert found == expected
    with pytest.raises(ValueError, match=r"v has shape \(2, 4\); accepted: one point; distance\(x, z\)"):
        metric(u, HELD_OUT[0])
    with pytest.raises(ValueError, match="features"):
        metric(u[:3], v[:3])


@pytest.mark.parametrize("classes", [[-1, 1], [0, 1], [False, True]])
def test_predictions_have_the_labels_of_y(method, classes, tmp_path):
    classes = np.array(classes)
    y, y_held_out = (classes[(labels > 0).astype(int)] for labels in (Y, Y_HELD_OUT))
    tracker = MetricTracker(method=method)
    right = np.mean(MetricTracker(method=method).fit(PAIRS, Y).predict(HELD_OUT) == Y_HELD_OUT)
    assert right > 0.5
    for fitted in (tracker.fit(PAIRS, y), tracker.partial_fit(PAIRS[:1], y[:1])):
        assert fitted.classes_.dtype == fitted.predict(HELD_OUT).dtype == classes.dtype
        assert fitted.classes_.tolist() == classes.tolist()
    scores = [
        get_scorer(name)(tracker.fit(PAIRS, y), HELD_OUT, y_held_out) for name in ("accuracy", "f1", "neg_log_loss")
    ]
    assert scores[0] == right
    assert np.isfinite(scores).all()
    tracker.save(tmp_path / "a.tracker")
    loaded = MetricTracker.load(tmp_path / "a.tracker")
    np.testing.assert_array_equal(loaded.predict(HELD_OUT), tracker.predict(HELD_OUT))
    similar = load_metric(tmp_path / "a.tracker").predict(HELD_OUT)
    np.testing.assert_array_equal(similar, np.where(tracker.predict(HELD_OUT) == classes[1], 1, -1))


def test_labels_that_are_not_all_booleans_are_numbers():
    tracker = MetricTracker().fit(PAIRS, Y > 0)
    assert tracker.classes_.tolist() == [False, True]
    assert tracker.learn_one(*PAIRS[0], 0).classes_.tolist() == [0, 1]
    assert MetricTracker().start(PAIRS.shape[2]).classes_.tolist() == [-1, 1]


def test_transform_of_indices_and_ids(method):
    items = HELD_OUT[:, 0]
    by_index = MetricTracker(method=method, preprocessor=items).fit(PAIRS, Y)
    np.testing.assert_array_equal(by_index.transform([3, 0, 3]), by_index.transform(items[[3, 0, 3]]))
    by_id = MetricTracker(method=method, preprocessor={"a": items[0], "b": items[1]}).fit(PAIRS, Y)
    np.testing.assert_array_equal(by_id.transform(["b", "a"]), by_id.transform(items[[1, 0]]))
    with pytest.raises(ValueError, match=f"X holds the index {len(items)}"):
        by_index.transform([len(items)])
    with pytest.raises(ValueError, match="X has shape"):
        MetricTracker(method=method).fit(PAIRS, Y).transform([3, 0, 3])


def test_get_metric_in_scikit_learn(tracker):
    X, y = HELD_OUT[:60, 0], (HELD_OUT[:60, 0, 0] > 0).astype(int)
    ours = NearestNeighbors(n_neighbors=3, metric=tracker.get_metric()).fit(X)
    embedded = NearestNeighbors(n_neighbors=3).fit(tracker.transform(X))
    np.testing.assert_array_equal(
        ours.kneighbors(X, return_distance=False), embedded.kneighbors(tracker.transform(X), return_distance=False)
    )
    assert KNeighborsClassifier(metric=tracker.get_metric(), algorithm="brute").fit(X, y).score(X, y) > 0.8


def test_setting_components_changes_distances(tracker, method):
    tracker.components_ = [[0.0, 2.0, 0.0, 0.0]]
    np.testing.assert_allclose(tracker.pair_distance(HELD_OUT), 2 * np.abs(HELD_OUT[:, 0, 1] - HELD_OUT[:, 1, 1]))
    np.testing.assert_allclose(tracker.get_mahalanobis_matrix(), np.diag([0.0, 4.0, 0.0, 0.0]))
    assert tracker.transform(HELD_OUT[:, 0]).shape == (600, 1)
    untouched = MetricTracker(method=method).fit(PAIRS, Y)
    assert tracker.partial_fit(PAIRS, Y).metric_ == untouched.partial_fit(PAIRS, Y).metric_
    for wrong, message in (([[1.0]], "components_ has 1 features; 4"), ([[np.nan] * 4], "components_ holds nan")):
        with pytest.raises(ValueError, match=message):
            tracker.components_ = wrong


def test_reading_does_not_change_the_attributes(tracker):
    before = {name: id(value) for name, value in tracker.__dict__.items()}
    tracker.predict(HELD_OUT), tracker.score(HELD_OUT, Y_HELD_OUT), tracker.get_metric(), tracker.feature_weights()
    assert {name: id(value) for name, value in tracker.__dict__.items()} == before


def test_the_threshold_follows_the_metric_unless_it_is_fixed(tracker):
    assert tracker.threshold_ == pytest.approx(np.sqrt(tracker.metric_.threshold))
    tracker.set_threshold(0.25).partial_fit(PAIRS, Y)
    assert tracker.threshold_ == 0.25
    assert (tracker.predict(HELD_OUT) == np.where(tracker.pair_distance(HELD_OUT) <= 0.25, 1, -1)).all()
    assert pickle.loads(pickle.dumps(tracker)).threshold_ == 0.25
    tracker.set_threshold(None)
    assert tracker.threshold_ == pytest.approx(np.sqrt(tracker.metric_.threshold))
    tracker.threshold_ = 3
    assert tracker.fit(PAIRS, Y).threshold_ == pytest.approx(np.sqrt(tracker.metric_.threshold))
    for wrong in (np.nan, "far", True, np.inf):
        with pytest.raises((ValueError, TypeError), match="threshold must be a finite number"):
            tracker.set_threshold(wrong)
    with pytest.raises(NotFittedError):
        MetricTracker().set_threshold(1.0)
    with pytest.raises(NotFittedError):
        MetricTracker().calibrate_threshold(PAIRS, Y)


distances_and_labels = (
    st.integers(2, 12)
    .flatmap(
        lambda n: st.tuples(
            arrays(float, n, elements=st.integers(0, 5).map(float)),
            arrays(float, n, elements=st.sampled_from([-1.0, 1.0])),
        )
    )
    .filter(lambda both: abs(both[1].sum()) < len(both[1]))
)


def rates(distances, labels, threshold):
    similar = distances <= threshold
    return np.mean(similar[labels > 0]), np.mean(~similar[labels < 0])


@given(
    distances_and_labels,
    st.sampled_from(["accuracy", "f_beta", "max_tpr", "max_tnr"]),
    st.floats(0, 1),
    st.sampled_from([0.0, 0.5, 2.0]),
)
def test_no_threshold_is_better_than_the_calibrated_one(both, strategy, min_rate, beta):
    distances, labels = both

    def objective(threshold):
        predicted = np.where(distances <= threshold, 1.0, -1.0)
        if strategy == "accuracy":
            return np.mean(predicted == labels)
        if strategy == "f_beta":
            return fbeta_score(labels, predicted, beta=beta, zero_division=0.0)
        true_positive, true_negative = rates(distances, labels, threshold)
        if strategy == "max_tpr":
            return true_positive if true_negative >= min_rate else -1
        return true_negative if true_positive >= min_rate else -1

    chosen = ThresholdCalibration(strategy, min_rate, beta=beta).threshold(distances, labels)
    best = max(objective(threshold) for threshold in np.arange(-0.5, 6))
    assert objective(chosen) == pytest.approx(best)
    assert best >= 0


def test_calibration_through_the_tracker(tracker, method):
    tracker.calibrate_threshold(HELD_OUT, Y_HELD_OUT, strategy="f_beta")
    best = max(
        f1_score(Y_HELD_OUT, np.where(tracker.pair_distance(HELD_OUT) <= t, 1, -1))
        for t in tracker.pair_distance(HELD_OUT)
    )
    assert f1_score(Y_HELD_OUT, tracker.predict(HELD_OUT)) == best
    other = MetricTracker(method=method).fit(PAIRS, Y, calibration_params={"strategy": "max_tpr", "min_rate": 0.9})
    true_positive, true_negative = rates(other.pair_distance(PAIRS), Y, other.threshold_)
    assert true_negative >= 0.9
    assert true_positive > 0.5  # by chance it is 0.1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"strategy": "best"}, "strategy must be one of 'accuracy', 'f_beta', 'max_tpr', 'max_tnr'; got 'best'"),
        ({"strategy": "max_tpr"}, "strategy 'max_tpr' needs min_rate"),
        ({"strategy": "max_tnr", "min_rate": 2}, "min_rate must be a finite number"),
        ({"strategy": "f_beta", "beta": -1}, "beta must be a finite number of at least 0"),
        ({"rate": 1}, "calibration_params must be a dict of strategy, min_rate, beta"),
        ("accuracy", "calibration_params must be a dict"),
    ],
)
def test_invalid_calibrations_are_rejected_before_learning(tracker, parameters, message):
    before = tracker.metric_
    with pytest.raises(ValueError, match=message):
        tracker.fit(HELD_OUT, Y_HELD_OUT, calibration_params=parameters)
    assert tracker.metric_ is before


def test_a_rejected_calibration_changes_nothing(tracker):
    tracker.set_threshold(0.5)
    before = tracker.metric_
    with pytest.raises(ValueError, match="calibration needs similar and dissimilar pairs"):
        tracker.fit(HELD_OUT, np.ones(600), calibration_params={})
    assert tracker.metric_ is before
    assert tracker.threshold_ == 0.5


def test_start_resets_the_threshold(tracker):
    assert tracker.set_threshold(5.0).start(3).threshold_ == tracker.metric_.distance_threshold != 5.0


def test_calibration_and_score_need_both_labels(tracker):
    with pytest.raises(ValueError, match=r"y holds only \+1; calibration needs similar and dissimilar pairs"):
        tracker.calibrate_threshold(HELD_OUT, np.ones(600))
    with pytest.raises(ValueError, match="y holds only -1; a ROC curve needs"):
        tracker.score(HELD_OUT, -np.ones(600))


def test_pipeline_cross_validation_and_grid_search():
    shrink = FunctionTransformer(lambda pairs: pairs / 10)
    scaled = make_pipeline(shrink, MetricTracker(method=Rice(step_size=0.05 * 10**4, initial_scale=25)))
    scores = cross_val_score(scaled, PAIRS, Y, cv=TimeSeriesSplit(3))
    assert scores.shape == (3,)
    assert scores.min() > 0.85
    search = GridSearchCV(MetricTracker(method=Rice()), {"method__step_size": [1e-9, 0.05]}, cv=3).fit(PAIRS, Y)
    assert search.best_params_ == {"method__step_size": 0.05}
    assert search.predict(HELD_OUT).shape == (600,)
    search = GridSearchCV(MetricTracker(), {"method": ["adaptive", "rice"]}, cv=3).fit(PAIRS, Y)
    assert search.cv_results_["mean_test_score"].min() > 0.8


@pytest.mark.parametrize(
    ("scoring", "lowest"), [("roc_auc", 0.9), ("accuracy", 0.8), ("neg_log_loss", -0.5), ("neg_brier_score", -0.2)]
)
def test_scores_of_scikit_learn(method, scoring, lowest):
    assert cross_val_score(MetricTracker(method=method), PAIRS, Y, cv=3, scoring=scoring).min() > lowest


def test_cross_validation_on_indices(method):
    X = np.concatenate([PAIRS[:, 0], PAIRS[:, 1]])
    indices = np.column_stack([np.arange(600), 600 + np.arange(600)])
    with_points = cross_val_score(MetricTracker(method=method), PAIRS, Y, cv=3)
    by_function = MetricTracker(method=method, preprocessor=X.__getitem__, transitive=False)
    np.testing.assert_array_equal(cross_val_score(by_function, indices, Y, cv=3), with_points)
    of_indices = cross_val_score(MetricTracker(method=method, preprocessor=X, transitive=False), indices, Y, cv=3)
    params = {"items": X} if method == "adaptive" else {}  # a table of points tells the method "adaptive" the items
    known = cross_val_score(MetricTracker(method=method), PAIRS, Y, cv=3, params=params)
    np.testing.assert_array_equal(of_indices, known)
    tracker = MetricTracker(method=method, preprocessor=X).fit(indices, Y)
    np.testing.assert_array_equal(tracker.predict(indices), tracker.predict(PAIRS))
    assert clone(tracker).fit(indices, Y).metric_ == tracker.metric_
    assert isinstance(tracker.get_metric(), Metric)
