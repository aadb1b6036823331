"""The methods of MetricTracker: settings, probabilities, drift and changes, and files that predate the choice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ocelad import LabelMetricTracker, MetricTracker, Rice, TripletTracker, track_metric
from ocelad.adaptive.calibration import WARMUP
from ocelad.estimators.learning_method import method_from_settings, method_settings
from ocelad.service.learning import check_settings
from ocelad.service.learning.learning_state import Answers, LearningState

METHODS = {"adaptive": "adaptive", "rice": Rice(step_size=0.05)}
both_methods = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
OF_RICE = {
    "loss": "hinge",
    "step_size": 0.02,
    "shrinkage": 0.01,
    "regularizer": None,
    "divergence": "burg",
    "shortest_interval": 3,
    "n_scales": 4,
    "finest": "ensemble",
    "initial_scale": 0.4,
    "initial_threshold": 1.2,
    "max_norm": 2.0,
    "engine": "dense",
    "max_rank": 2,
    "diagonal": True,
    "l1_tolerance": 1e-10,
}


def some_pairs(count=200, seed=0):
    pairs = np.random.default_rng(seed).normal(size=(count, 2, 4))
    return pairs, np.where(np.abs(pairs[:, 0, 0] - pairs[:, 1, 0]) < 1, 1, -1)


def test_accepted_methods():
    pairs, y = some_pairs(5)
    with pytest.raises(ValueError, match="method must be 'adaptive', 'rice' or a Rice; got 'paper'"):
        MetricTracker(method="paper").fit(pairs, y)
    assert MetricTracker().fit(pairs, y).method_ == "adaptive"
    assert set(MetricTracker().get_params()) == {"method", "preprocessor", "curved", "transitive", "n_components"}
    assert set(TripletTracker().get_params()) == {"method", "preprocessor", "n_components"}
    of_rice = {f"method__{name}" for name in OF_RICE}
    assert set(TripletTracker(method=Rice()).get_params()) == {"method", "preprocessor", "n_components", *of_rice}


@pytest.mark.parametrize("name", OF_RICE)
def test_flat_settings_of_the_adaptive_method(name):
    default = Rice().get_params()[name]
    assert method_from_settings({"method": "adaptive", name: default}) == "adaptive"  # files list the defaults
    sentence = f"^{name} is a setting of method='rice', but method is 'adaptive'; set method='rice' or omit {name}$"
    with pytest.raises(ValueError, match=sentence):
        method_from_settings({"method": "adaptive", name: OF_RICE[name]})


def test_flat_settings_describe_the_method():
    assert method_settings("adaptive") == {"method": "adaptive"}
    assert method_settings(Rice(**OF_RICE)) == {"method": "rice", **OF_RICE}
    assert method_settings("rice") == method_settings(Rice())
    assert method_from_settings({"method": "rice", **OF_RICE}) == Rice(**OF_RICE)
    assert method_from_settings(OF_RICE) == Rice(**OF_RICE)  # files without a method predate the choice
    assert method_from_settings({}) == Rice()
    with pytest.raises(ValueError, match="colour is a setting"):
        method_from_settings({"method": "adaptive", "colour": None})
    with pytest.raises(TypeError, match="colour"):
        method_from_settings({"method": "rice", "colour": None})


def test_an_invalid_setting_does_not_change_the_tracker():
    pairs, y = some_pairs(30)
    tracker = MetricTracker().fit(pairs, y).set_threshold(0.5)
    before = tracker.metric_
    tracker.set_params(method=Rice(step_size=-1))
    for learn in (lambda: tracker.fit(pairs, y), lambda: tracker.start(4)):
        with pytest.raises(ValueError, match=r"step_size must be .* above 0; got -1"):
            learn()
    assert tracker.metric_ == before
    assert tracker.threshold_ == 0.5
    tracker.set_params(method="rice")
    with pytest.raises(ValueError, match="method was changed from 'adaptive' to 'rice' after the first pairs"):
        tracker.partial_fit(pairs, y)
    assert tracker.fit(pairs, y).method_ == "rice"


@both_methods
def test_margins_are_the_log_odds_before_each_update(method):
    """With the method "adaptive" after the warm-up, in which the scales include the pair that is predicted."""
    pairs, y = some_pairs(60)
    tracker = MetricTracker(method=method).start(4)
    if method == "adaptive":
        tracker.partial_fit(pairs[:WARMUP], y[:WARMUP])
        pairs, y = pairs[WARMUP:], y[WARMUP:]
    for pair, label in zip(pairs, y, strict=True):
        said = tracker.log_odds(pair[None])[0]
        assert tracker.test_then_train(pair[None], [label])[0] == pytest.approx(label * said, rel=1e-6, abs=1e-9)


@both_methods
def test_probabilities_and_predictions_are_consistent(method):
    pairs, y = some_pairs(400)
    tracker = MetricTracker(method=method).fit(pairs, y)
    probabilities, log_odds = tracker.predict_proba(pairs), tracker.log_odds(pairs)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_allclose(np.log(probabilities[:, 1]) - np.log(probabilities[:, 0]), log_odds, atol=1e-9)
    np.testing.assert_array_equal(tracker.predict(pairs), tracker.classes_[(log_odds >= 0).astype(int)])
    tracker.set_threshold(0.0)
    assert (tracker.predict(pairs) == -1).all()
    np.testing.assert_array_equal(tracker.predict_proba(pairs), probabilities)


def test_probabilities_of_rice_are_those_of_its_logistic_loss():
    pairs, y = some_pairs(100)
    tracker = MetricTracker(method=Rice(step_size=0.05)).fit(pairs, y)
    metric = tracker.metric_
    expected = 1 / (1 + np.exp(metric.squared_length(pairs[:, 0] - pairs[:, 1]) - metric.threshold))
    np.testing.assert_allclose(tracker.predict_proba(pairs)[:, 1], expected)


@both_methods
def test_assigned_components_apply_until_the_next_pair(method):
    pairs, y = some_pairs()
    tracker = MetricTracker(method=method).fit(pairs, y)
    tracker.components_ = [[0.0, 2.0, 0.0, 0.0]]
    near = 2 * np.abs(pairs[:, 0, 1] - pairs[:, 1, 1]) <= tracker.threshold_
    np.testing.assert_array_equal(tracker.predict(pairs) == 1, near)
    np.testing.assert_array_equal(tracker.predict_proba(pairs)[:, 1] >= 0.5, near)
    one_more = pairs[0, 0], pairs[0, 1], y[0]
    expected = MetricTracker(method=method).fit(pairs, y).learn_one(*one_more).predict_proba(pairs)
    np.testing.assert_array_equal(tracker.learn_one(*one_more).predict_proba(pairs), expected)


def test_only_the_adaptive_method_reports_changes():
    pairs, y = some_pairs(100)
    adaptive, rice = MetricTracker().fit(pairs, y), MetricTracker(method="rice").fit(pairs, y)
    assert adaptive.drift_ >= 0
    inverted = MetricTracker().fit(*some_pairs(400)).partial_fit(pairs, y)
    inverted.partial_fit(*(lambda pairs, y: (pairs, -y))(*some_pairs(300, seed=1)))
    assert adaptive.changes_ == []
    assert inverted.changes_
    for change in inverted.changes_:
        assert 500 < change.round <= change.detected <= 800
        assert change.evidence > 0
    for asked in ("drift_", "changes_"):
        assert not hasattr(rice, asked)
        with pytest.raises(AttributeError, match=f"{asked} needs method='adaptive'; this tracker uses 'rice'"):
            getattr(rice, asked)


def test_files_without_a_method_are_read_as_rice():
    pairs, y = some_pairs(50)
    tracker = MetricTracker(method=Rice(step_size=0.05)).fit(pairs, y)
    arrays, metadata = tracker.state()
    del metadata["settings"]["method"]
    loaded = MetricTracker.from_state(arrays, metadata)
    assert loaded.get_params() == tracker.get_params()
    assert loaded.partial_fit(pairs, y).metric_ == tracker.partial_fit(pairs, y).metric_

    X, kind = pairs[:, 0], (pairs[:, 0, 0] > 0).astype(int)
    labels = LabelMetricTracker(MetricTracker(method=Rice(step_size=0.05)), random_state=0).fit(X, kind)
    arrays, metadata = labels.state()
    del metadata["tracker_settings"]["method"], metadata["tracker"]["settings"]["method"]
    loaded = LabelMetricTracker.from_state(arrays, metadata)
    assert loaded.partial_fit(X, kind).metric_ == labels.partial_fit(X, kind).metric_


def test_a_file_with_a_contradictory_method_is_rejected():
    arrays, metadata = MetricTracker(method="rice").fit(*some_pairs(20)).state()
    metadata["settings"] = {"method": "adaptive"}
    with pytest.raises(ValueError, match="it has learned by the method 'rice', but its settings say 'adaptive'"):
        MetricTracker.from_state(arrays, metadata)


@both_methods
def test_label_tracker_works_with_both_methods(method):
    pairs, _ = some_pairs(300)
    X, kind = pairs[:, 0], (pairs[:, 0, 0] > 0).astype(int)
    labels = LabelMetricTracker(MetricTracker(method=method), random_state=0).fit(X, kind)
    assert labels.tracker_.method_ == ("rice" if isinstance(method, Rice) else "adaptive")
    assert labels.feature_weights(1)[0].feature == "x0"
    loaded = LabelMetricTracker.from_state(*labels.state())
    assert loaded.partial_fit(X, kind).metric_ == labels.partial_fit(X, kind).metric_
    assert LabelMetricTracker(random_state=0).fit(X, kind).tracker_.method_ == "adaptive"


@pytest.mark.parametrize("curved", [False, True])
@given(st.lists(st.integers(1, 9), min_size=2, max_size=5))
def test_a_project_of_the_adaptive_method_is_restored_bit_for_bit(curved, sizes):
    settings = check_settings(4, {"method": "adaptive", "curved": curved, "transitive": False})
    rng = np.random.default_rng(0)
    points, n = rng.normal(size=(20, 4)), sum(sizes)
    left = rng.integers(20, size=n)
    right = (left + rng.integers(1, 20, size=n)) % 20
    same = np.abs(points[left, 0] - points[right, 0]) < 1
    answers = Answers(left, right, np.where(same, 1.0, -1.0), np.zeros(n, dtype=bool))
    whole = LearningState(4, settings).learn(answers, points)
    state, done = LearningState(4, settings), 0
    for size in sizes:
        some = Answers(*(None if part is None else part[done : done + size] for part in answers))
        state = LearningState(4, settings).with_state(*state.learn(some, points).state())
        done += size
    assert state.tracker.play() == whole.tracker.play()
    pairs = np.stack([points[left], points[right]], axis=1)
    assert whole.tracker.play() == MetricTracker(curved=curved).fit(pairs, answers.y).metric_


def test_stored_settings_of_a_project_without_a_method_mean_rice():
    assert check_settings(4, {}) == {"method": "adaptive", "curved": True, "transitive": True}
    assert check_settings(4, {"method": "rice"})["method"] == "rice"
    assert LearningState(4, {"step_size": 0.5}).tracker.settings == track_metric(4, step_size=0.5).settings
    with pytest.raises(ValueError, match="step_size is a setting of method='rice'"):
        check_settings(4, {"method": "adaptive", "step_size": 0.1})
    with pytest.raises(ValueError, match="these settings select the engine 'blocked'"):
        check_settings(1000, {"method": "rice", "engine": "auto", "shrinkage": 0.1})


@pytest.mark.parametrize("seed", range(4))
def test_random_labels_give_a_finite_metric(seed):
    rng = np.random.default_rng(seed)
    tracker = MetricTracker()
    for pair, label in zip(rng.normal(size=(60, 2, 1 + seed % 2)), rng.choice([1, -1], size=60), strict=True):
        assert np.isfinite(tracker.learn_one(*pair, label).metric_.matrix).all()


@pytest.mark.parametrize(("n_features", "sparse"), [(200, False), (4, True)])
def test_many_features_and_sparse_features(n_features, sparse):
    pairs = np.random.default_rng(0).normal(size=(60, 2, n_features))
    y = np.where(np.abs(pairs[:, 0, 0] - pairs[:, 1, 0]) < 1, 1, -1)
    given_pairs = (csr_array(pairs[:, 0]), csr_array(pairs[:, 1])) if sparse else pairs
    tracker = MetricTracker().fit(given_pairs, y)
    assert tracker.predict_proba(given_pairs).shape == (60, 2)
    loaded = MetricTracker.from_state(*tracker.state())
    assert loaded.partial_fit(given_pairs, y).metric_ == tracker.partial_fit(given_pairs, y).metric_
