"""Files that earlier versions wrote can still be loaded, and what was saved continues to learn.

Trackers of the method "adaptive" are an exception: that method was replaced, and they are refused.
``saved_before/expected.json`` lists the results of the version that wrote the files.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from ocelad import LabelMetricTracker, Metric, MetricTracker, QuadrupletTracker, TripletTracker
from ocelad.estimators.file_tracker import FileTracker
from ocelad.estimators.saved_metric import load_metric
from ocelad.io import open_comparisons

FOLDER = Path(__file__).parent / "saved_before"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())["files"]
# Other processors round differently.
RTOL = 1e-9
CLASSES = {each.__name__: each for each in (LabelMetricTracker, MetricTracker, QuadrupletTracker, TripletTracker)}
PAIR_LABELS = [1, -1, 1]
# The method "adaptive" was replaced: its earlier state means nothing to the present method.
REPLACED = [name for name in EXPECTED if "adaptive" in name]


def files(*estimators):
    return [
        name for name, expected in EXPECTED.items() if expected.get("estimator") in estimators and name not in REPLACED
    ]


def some_tuples(size, n_features):
    """Return three tuples of points, by the formula in ``expected.json``."""
    j, k = np.arange(n_features), np.arange(3)[:, None]
    points = [
        ((7 * j + 3 * k + 1) % 11 - 5) / 4,
        ((5 * j + 2 * k) % 13 - 6) / 4,
        ((3 * j + 5 * k + 2) % 7 - 3) / 2,
        ((2 * j + k) % 5 - 2) / 2,
    ]
    return np.stack(points[:size], axis=1)


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, np.array(expected, dtype=np.float64), rtol=RTOL, atol=1e-12)


def assert_state(tracker, expected, tuples):
    """Compare what a tracker of pairs, triplets or quadruplets predicts."""
    assert tracker.n_rounds_ == expected["n_rounds"]
    assert len(tracker.weights_) == expected["n_weights"]
    assert_close(tracker.pair_distance(tuples[:, :2]), expected["distances"])
    assert tracker.predict(tuples).tolist() == expected["predictions"]
    if isinstance(tracker, MetricTracker):
        assert_close(tracker.threshold_, expected["threshold"])
        assert_close(tracker.log_odds(tuples), expected["log_odds"])
    else:
        assert_close(tracker.decision_function(tuples), expected["decisions"])


@pytest.mark.parametrize("name", files("MetricTracker", "TripletTracker", "QuadrupletTracker"))
def test_trackers_load_and_continue(name):
    expected = EXPECTED[name]
    tracker = CLASSES[expected["estimator"]].load(FOLDER / name)
    tuples = some_tuples(tracker._tuple_size, expected["n_features"])
    assert_state(tracker, expected, tuples)
    if isinstance(tracker, MetricTracker):
        names = getattr(tracker, "feature_names_in_", None)
        assert (None if names is None else names.tolist()) == expected["feature_names"]
        saved = load_metric(FOLDER / name)
        assert_close(saved.metric(*tuples[0]), expected["distance_by_load_metric"])
    sparse = "sparse" in name
    given = (csr_array(tuples[:, 0]), csr_array(tuples[:, 1])) if sparse else tuples
    labels = [PAIR_LABELS] if isinstance(tracker, MetricTracker) else []
    assert_close(tracker.test_then_train(given, *labels), expected["margins_of_three_more"])
    assert_state(tracker, expected["after_three_more"], tuples)


@pytest.mark.parametrize("name", files("LabelMetricTracker"))
def test_trackers_of_labelled_points_load_and_continue(name):
    expected = EXPECTED[name]
    tracker = LabelMetricTracker.load(FOLDER / name)
    tuples = some_tuples(2, expected["n_features"])
    X = (
        tuples[:, 0]
        if expected["feature_names"] is None
        else pd.DataFrame(tuples[:, 0], columns=expected["feature_names"])
    )

    def assert_label_state(expected):
        assert tracker.n_rounds_ == expected["n_rounds"]
        assert_close([tracker.metric_(x, z) for x, z in tuples], expected["distances"])
        assert_close(tracker.threshold_, expected["threshold"])
        assert_close(tracker.scale_, expected["scale"])
        assert_close(np.linalg.norm(tracker.transform(X), axis=1), expected["transformed_lengths"])

    assert tracker.classes_.tolist() == expected["classes"]
    names = getattr(tracker, "feature_names_in_", None)
    assert (None if names is None else names.tolist()) == expected["feature_names"]
    assert_label_state(expected)
    first, last = tracker.classes_[0], tracker.classes_[-1]
    tracker.partial_fit(X, [first, last, first])
    assert_label_state(expected["after_three_more"])


@pytest.mark.parametrize("name", REPLACED)
def test_trackers_of_the_replaced_method_are_refused(name):
    sentence = (
        "it was learned by another version of the method 'adaptive', which this version cannot continue; learn from "
        "the pairs again"
    )
    loads = [CLASSES[EXPECTED[name]["estimator"]].load, load_metric]
    if EXPECTED[name]["estimator"] == "MetricTracker":
        loads.append(FileTracker.load)
    for load in loads:
        with pytest.raises(ValueError, match=re.escape(sentence)) as error:
            load(FOLDER / name)
        assert "\n" not in str(error.value)


def history_rows(tracking):
    return [list(row) for row in tracking.history.rows()]


@pytest.mark.parametrize(
    "name", [name for name, expected in EXPECTED.items() if "resumed" in expected and name not in REPLACED]
)
def test_files_of_ocelad_track_load_and_resume(name, tmp_path):
    expected = EXPECTED[name]
    tracking = FileTracker.load(FOLDER / name)
    assert_close(history_rows(tracking), expected["history"])
    with open_comparisons(FOLDER / "track_pairs.csv", resume=tracking.position) as stream:
        for _ in tracking.follow(stream, tmp_path / "output"):
            pass
    tracker, resumed = tracking.tracker, expected["resumed"]
    assert tracker.n_rounds_ == resumed["n_rounds"]
    assert_close(tracker.threshold_, resumed["threshold"])
    assert_close(tracker.pair_distance(some_tuples(2, expected["n_features"])), resumed["distances"])
    assert_close(history_rows(tracking), resumed["history"])


@pytest.mark.parametrize("name", [name for name in EXPECTED if name.endswith(".metric")])
def test_metrics_load(name):
    expected = EXPECTED[name]
    metric = Metric.load(FOLDER / name)
    assert (metric.n_features, metric.round) == (expected["n_features"], expected["n_rounds"])
    assert metric.is_diagonal == expected["is_diagonal"]
    assert_close(metric.threshold, expected["threshold"])
    assert_close(metric(*some_tuples(2, expected["n_features"])[0]), expected["distance"])
    assert_close(metric.eigenvalues()[: len(expected["spectrum"])], expected["spectrum"])
