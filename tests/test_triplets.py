"""TripletTracker and QuadrupletTracker: the interface of metric-learn, and what they learn."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

from ocelad import MetricTracker, QuadrupletTracker, Rice, TripletTracker, track_metric
from ocelad.pairs import Relatives


def some_triplets(count=400, seed=0, feature=0):
    """Return triplets whose order agrees with one feature."""
    triplets = np.random.default_rng(seed).normal(size=(count, 3, 4))
    x, a, b = triplets[:, :, feature].T
    wrong = np.abs(x - a) > np.abs(x - b)
    triplets[wrong] = triplets[wrong][:, [0, 2, 1]]
    return triplets


TRIPLETS, HELD_OUT = some_triplets(), some_triplets(seed=1)


@pytest.fixture
def tracker():
    return TripletTracker(method=Rice(step_size=0.05)).fit(TRIPLETS)


def test_agrees_with_the_core_on_the_same_comparisons(tracker):
    core = track_metric(4, step_size=0.05, events="relatives")
    core.replay(Relatives(TRIPLETS[:, 0] - TRIPLETS[:, 1], TRIPLETS[:, 0] - TRIPLETS[:, 2]))
    assert tracker.metric_ == core.play()
    parts = TripletTracker(method=Rice(step_size=0.05))
    for first in range(0, 400, 37):
        parts.partial_fit(TRIPLETS[first : first + 37])
    assert parts.metric_ == tracker.metric_
    assert tracker.n_rounds_ == 400


def test_triplets_are_a_special_case_of_quadruplets(tracker):
    quadruplets = TRIPLETS[:, [0, 1, 0, 2]]
    other = QuadrupletTracker(method=Rice(step_size=0.05)).fit(quadruplets)
    assert other.metric_ == tracker.metric_
    np.testing.assert_array_equal(other.decision_function(quadruplets), tracker.decision_function(TRIPLETS))
    assert other.score(quadruplets) == tracker.score(TRIPLETS)


def test_scores_and_predictions_are_consistent(tracker):
    near, far = tracker.pair_distance(HELD_OUT[:, [0, 1]]), tracker.pair_distance(HELD_OUT[:, [0, 2]])
    np.testing.assert_allclose(tracker.decision_function(HELD_OUT), far - near)
    np.testing.assert_array_equal(tracker.predict(HELD_OUT), np.where(far > near, 1, -1))
    assert tracker.score(HELD_OUT) == np.mean(far > near) > 0.85
    swapped = HELD_OUT[:, [0, 2, 1]]
    np.testing.assert_array_equal(tracker.predict(swapped), -tracker.predict(HELD_OUT))
    np.testing.assert_array_equal(tracker.pair_score(HELD_OUT[:, [0, 1]]), -near)
    assert tracker.transform(HELD_OUT[:, 0]).shape == (400, tracker.metric_.rank)
    metric = tracker.get_metric()
    assert metric(HELD_OUT[0, 0], HELD_OUT[0, 1]) == pytest.approx(near[0])
    assert tracker.predict(np.zeros((1, 3, 4))).tolist() == [-1]  # equal distances are not in the right order


def test_follows_a_change(tracker):
    assert tracker.feature_weights(1)[0].feature == "x0"
    tracker.partial_fit(some_triplets(seed=2, feature=2))
    assert tracker.feature_weights(1)[0].feature == "x2"


def test_margins_precede_learning():
    tracker, margins = TripletTracker(method=Rice(step_size=0.05)), []
    for triplet in TRIPLETS[:60]:
        if margins:
            near, far = (tracker.pair_distance(triplet[None, [0, k]])[0] ** 2 for k in (1, 2))
        else:
            near, far = (np.square(triplet[0] - triplet[k]).sum() / 4 for k in (1, 2))
        margins.append(far - near)
        tracker.partial_fit(triplet[None])
    np.testing.assert_allclose(
        TripletTracker(method=Rice(step_size=0.05)).test_then_train(TRIPLETS[:60]), margins, rtol=1e-9
    )


def test_tables_indices_and_names(tracker):
    names = list("abcd")
    tables = tuple(pd.DataFrame(TRIPLETS[:, k], columns=names) for k in range(3))
    named = TripletTracker(method=Rice(step_size=0.05)).fit(tables)
    assert named.metric_ == tracker.metric_
    assert named.feature_names_in_.tolist() == names
    X = pd.DataFrame(TRIPLETS.reshape(-1, 4), columns=names)
    indices = np.arange(1200).reshape(400, 3)
    assert TripletTracker(method=Rice(step_size=0.05), preprocessor=X).fit(indices).metric_ == tracker.metric_


def test_scikit_learn_tools(tracker, tmp_path):
    assert clone(tracker).fit(TRIPLETS).metric_ == tracker.metric_
    assert pickle.loads(pickle.dumps(tracker)).partial_fit(HELD_OUT).metric_ == tracker.partial_fit(HELD_OUT).metric_
    assert cross_val_score(TripletTracker(method=Rice(step_size=0.05)), TRIPLETS, cv=3).min() > 0.85
    search = GridSearchCV(TripletTracker(method=Rice()), {"method__step_size": [1e-9, 0.05]}, cv=3).fit(TRIPLETS)
    assert search.best_params_ == {"method__step_size": 0.05}
    tracker.save(tmp_path / "tracker")
    loaded = TripletTracker.load(tmp_path / "tracker")
    assert loaded.partial_fit(TRIPLETS).metric_ == tracker.partial_fit(TRIPLETS).metric_
    with pytest.raises(ValueError, match=r"holds a TripletTracker, not a MetricTracker; TripletTracker.load reads it"):
        MetricTracker.load(tmp_path / "tracker")


@pytest.mark.parametrize(
    ("triplets", "sentence"),
    [
        (
            np.zeros((2, 2, 4)),
            r"triplets has shape \(2, 2, 4\); accepted: numbers of shape \(n_triplets, 3, n_features\)",
        ),
        (np.zeros((2, 3, 3)), "triplets has 3 features; 4 are expected"),
        (np.full((1, 3, 4), np.nan), r"triplets holds nan at index \(0, 0, 0\)"),
        (np.zeros((0, 3, 4)), "triplets is empty"),
        ((sparse.csr_array(np.eye(4)),) * 3, "triplets are sparse; accepted: arrays"),
        (np.array([[[1e200] * 4, [-1e200] * 4, [0.0] * 4]]), "too far apart"),
    ],
)
def test_a_refused_call_changes_nothing(tracker, triplets, sentence):
    before = tracker.metric_
    with pytest.raises((ValueError, TypeError), match=sentence):
        tracker.partial_fit(triplets)
    assert tracker.metric_ is before
    assert tracker.n_rounds_ == 400


def test_before_the_first_triplet_predict_raises_not_fitted():
    with pytest.raises(NotFittedError, match="this TripletTracker has seen no triplets yet"):
        TripletTracker().predict(TRIPLETS)


def test_methods_that_learn_from_pairs_only_are_refused():
    for engine in ("blocked", "sparse"):
        with pytest.raises(ValueError, match="learns from pairs only"):
            TripletTracker(method=Rice(engine=engine)).fit(TRIPLETS)
    for estimator, tuples in ((TripletTracker, TRIPLETS), (QuadrupletTracker, TRIPLETS[:, [0, 1, 0, 2]])):
        assert estimator().fit(tuples).metric_ == estimator(method="adaptive").fit(tuples).metric_
        with pytest.raises(ValueError, match="method must be 'adaptive', 'rice' or a Rice; got 3"):
            estimator(method=3).fit(tuples)
        assert estimator(method="rice").fit(tuples).metric_ == estimator(method=Rice()).fit(tuples).metric_


def test_changed_settings_are_refused_until_fit(tracker):
    tracker.set_params(method__step_size=0.5)
    with pytest.raises(ValueError, match=r"step_size was changed from 0.05 to 0.5 .* call fit"):
        tracker.partial_fit(HELD_OUT)
    assert tracker.fit(HELD_OUT).metric_ == TripletTracker(method=Rice(step_size=0.5)).fit(HELD_OUT).metric_
