"""Saved estimators: a loaded estimator is the same and continues to the same bits."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from scipy import sparse
from sklearn.exceptions import NotFittedError

from ocelad import LabelMetricTracker, Metric, MetricTracker, QuadrupletTracker, Rice
from ocelad.estimators.file_tracker import FileTracker
from ocelad.estimators.history import MAX_ROWS
from ocelad.estimators.saved_metric import load_metric
from ocelad.io import state_files


def some_pairs(count=60, n_features=4, seed=0):
    pairs = np.random.default_rng(seed).normal(size=(count, 2, n_features))
    return pairs, np.where(np.abs(pairs[:, 0, 0] - pairs[:, 1, 0]) < 1, 1, -1)


METHODS = [
    "adaptive",
    Rice(),
    Rice(shrinkage=0.05, loss="hinge", finest="ensemble"),
    Rice(engine="dense", divergence="von_neumann"),
    Rice(engine="blocked", shrinkage=0.05, max_rank=3),
    Rice(diagonal=True, shrinkage=0.01),
    Rice(step_size=np.float64(0.02), n_scales=np.int64(3), max_norm=2),
]


@pytest.mark.parametrize("method", METHODS, ids=repr)
@pytest.mark.parametrize("count", [1, 8, 60])
def test_a_loaded_tracker_continues_to_the_same_bits(tmp_path, method, count):
    pairs, y = some_pairs()
    tracker = MetricTracker(method=method).fit(pairs[:count], y[:count])
    tracker.save(tmp_path / "tracker")
    first = (tmp_path / "tracker").read_bytes()
    loaded = MetricTracker.load(tmp_path / "tracker")
    assert loaded.metric_ == tracker.metric_
    assert loaded.get_params() == tracker.get_params()
    assert (loaded.engine_, loaded.n_rounds_) == (tracker.engine_, tracker.n_rounds_)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == first
    for other in (tracker, loaded):
        other.partial_fit(pairs, y)
    assert loaded.metric_ == tracker.metric_
    np.testing.assert_array_equal(loaded.weights_, tracker.weights_)


def test_the_engine_selected_by_sparse_pairs_is_saved(tmp_path):
    X, Z = (sparse.random_array((80, 3000), density=0.01, rng=seed, format="csr") for seed in (0, 1))
    y = np.where(np.arange(80) % 2, 1, -1)
    tracker = MetricTracker(method=Rice(shrinkage=0.05, step_size=1.0)).fit((X, Z), y)
    assert tracker.engine_ == "sparse"
    tracker.save(tmp_path / "tracker")
    loaded = MetricTracker.load(tmp_path / "tracker")
    assert loaded.engine_ == "sparse"
    assert loaded.partial_fit((X, Z), y).metric_ == tracker.partial_fit((X, Z), y).metric_


def test_names_and_a_fixed_threshold_are_saved(tmp_path):
    pairs, y = some_pairs()
    tables = tuple(pd.DataFrame(pairs[:, k], columns=["α", "b", "c", "d"]) for k in range(2))
    tracker = MetricTracker().fit(tables, y).set_threshold(0.3)
    tracker.save(tmp_path / "tracker")
    loaded = MetricTracker.load(tmp_path / "tracker")
    assert loaded.threshold_ == 0.3
    assert loaded.feature_names_in_.tolist() == ["α", "b", "c", "d"]
    with pytest.raises(ValueError, match="another order"):
        loaded.partial_fit(tuple(table[["b", "α", "c", "d"]] for table in tables), y)
    assert load_metric(tmp_path / "tracker")[:3] == (tracker.metric_, 0.3, ("α", "b", "c", "d"))


def test_the_file_names_its_format_and_estimator(tmp_path):
    MetricTracker().fit(*some_pairs()).save(tmp_path / "tracker")
    with safe_open(tmp_path / "tracker", framework="numpy") as file:
        metadata = json.loads(file.metadata()["ocelad"])
    assert metadata["format"] == "ocelad.tracker/1"
    assert metadata["estimator"] == "MetricTracker"
    assert metadata["core"]["n_rounds"] == 60


def test_a_started_tracker_can_be_saved_before_the_first_pair(tmp_path):
    with pytest.raises(NotFittedError):
        MetricTracker().save(tmp_path / "tracker")
    assert not (tmp_path / "tracker").exists()
    tracker = MetricTracker().start(4, ["a", "b", "c", "d"])
    assert tracker.metric_.round == 0
    tracker.save(tmp_path / "tracker")
    pairs, y = some_pairs()
    assert (
        MetricTracker.load(tmp_path / "tracker").partial_fit(pairs, y).metric_ == MetricTracker().fit(pairs, y).metric_
    )
    for wrong in ((0, None), (2, ["a"]), (2, [1, 2]), (1.5, None)):
        with pytest.raises((ValueError, TypeError)):
            MetricTracker().start(*wrong)


def some_points(kind, count=90, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, size=count)
    X = rng.normal(size=(count, 4))
    X[:, 0] += 3 * y
    names = {"text": ["pear", "apple", "plum"], "number": [3, 1, 2], "flag": [True, False, True]}[kind]
    return X.round(3), np.array(names)[y]


@pytest.mark.parametrize("kind", ["text", "number", "flag"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, lambda X: pd.DataFrame(X, columns=list("abcd"))])
@pytest.mark.parametrize("count", [1, 40])
def test_a_loaded_label_tracker_continues_to_the_same_bits(tmp_path, kind, form, count):
    X, y = some_points(kind)
    tracker = LabelMetricTracker(MetricTracker(method=Rice(step_size=0.02)), reservoir_size=20, random_state=3)
    tracker.fit(form(X[:count]), y[:count])
    tracker.save(tmp_path / "tracker")
    loaded = LabelMetricTracker.load(tmp_path / "tracker")
    np.testing.assert_array_equal(loaded.classes_, tracker.classes_)
    assert loaded.classes_.dtype == tracker.classes_.dtype
    for other in (tracker, loaded):
        other.partial_fit(form(X[count:]), y[count:])
    assert loaded.metric_ == tracker.metric_
    assert loaded.n_rounds_ == tracker.n_rounds_
    np.testing.assert_array_equal(loaded.transform(form(X)), tracker.transform(form(X)))


def test_each_class_loads_only_its_own_files(tmp_path):
    LabelMetricTracker().fit(*some_points("text")).save(tmp_path / "labels")
    MetricTracker().fit(*some_pairs()).save(tmp_path / "pairs")
    Metric(np.eye(2)).save(tmp_path / "metric")
    for load, name, sentence in (
        (MetricTracker.load, "labels", r"; LabelMetricTracker.load reads it"),
        (FileTracker.load, "labels", r"holds a LabelMetricTracker, not a MetricTracker"),
        (QuadrupletTracker.load, "pairs", r"holds a MetricTracker, not a QuadrupletTracker"),
        (LabelMetricTracker.load, "pairs", r"holds a MetricTracker"),
        (MetricTracker.load, "metric", "holds a metric, not a tracker"),
        (Metric.load, "pairs", "holds a tracker, not a metric"),
    ):
        with pytest.raises(ValueError, match=sentence):
            load(tmp_path / name)


def test_the_settings_at_the_first_points_are_saved(tmp_path):
    X, y = some_points("text")
    tracker = LabelMetricTracker(MetricTracker(method=Rice(regularizer=None)), reservoir_size=30, random_state=0).fit(
        X, y
    )
    tracker.set_params(scale=2.0, reservoir_size=5).save(tmp_path / "tracker")
    loaded = LabelMetricTracker.load(tmp_path / "tracker")
    assert (loaded.scale, loaded.reservoir_size, loaded.tracker.method.regularizer) == ("auto", 30, None)
    assert loaded.partial_fit(X, y).n_rounds_ > tracker.n_rounds_


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("reservoir.slots", lambda slots: slots + 500),
        ("reservoir.slots", lambda slots: 0 * slots),
        ("reservoir.counts", lambda counts: counts + 1),
        ("reservoir.points", lambda points: np.nan * points),
        ("reservoir.points", lambda points: points[:2]),
    ],
)
def test_an_inconsistent_reservoir_is_refused(tmp_path, name, wrong):
    arrays, metadata = LabelMetricTracker(random_state=0).fit(*some_points("text")).state()
    state_files.write(tmp_path / "tracker", state_files.TRACKER, {**arrays, name: wrong(arrays[name])}, metadata)
    with pytest.raises(ValueError, match="is not a valid tracker file"):
        LabelMetricTracker.load(tmp_path / "tracker")


def test_given_classes_are_saved(tmp_path):
    X, y = some_points("text")
    given = ["apple", "pear", "plum", "quince"]
    LabelMetricTracker(random_state=0).partial_fit(X, y, classes=given).save(tmp_path / "given")
    LabelMetricTracker(random_state=0).partial_fit(X, y).save(tmp_path / "free")
    loaded = LabelMetricTracker.load(tmp_path / "given")
    assert loaded.classes_.tolist() == given
    with pytest.raises(ValueError, match="y holds 'fig'; accepted: the given classes"):
        loaded.partial_fit(X[:1], ["fig"])
    with pytest.raises(ValueError, match=r"classes is .*; it can be given with the first points"):
        loaded.partial_fit(X[:1], y[:1], classes=["apple", "fig"])
    assert loaded.partial_fit(X[:1], ["quince"], classes=given).classes_.tolist() == given
    free = LabelMetricTracker.load(tmp_path / "free").partial_fit(X[:1], ["fig"])
    assert free.classes_.tolist() == ["apple", "fig", "pear", "plum"]


def test_pairs_per_point_and_the_scale_are_saved(tmp_path):
    X, y = some_points("number")
    settings = {"pairs_per_point": 3, "scale": 2.0, "reservoir_size": 7}
    for of_pairs, scale in ((None, 1.0), (MetricTracker(), 2.0)):  # a curved distance is of points in their own unit
        tracker = LabelMetricTracker(of_pairs, random_state=0, **settings).fit(X[:40], y[:40])
        tracker.save(tmp_path / "tracker")
        loaded = LabelMetricTracker.load(tmp_path / "tracker")
        assert {name: getattr(loaded, name) for name in settings} == settings
        assert (loaded.tracker is None) == (of_pairs is None)
        assert loaded.scale_ == tracker.scale_ == scale
        assert loaded.partial_fit(X[40:], y[40:]).metric_ == tracker.partial_fit(X[40:], y[40:]).metric_


def test_a_full_history_is_saved(tmp_path):
    file_tracker = FileTracker(MetricTracker(method="rice").fit(*some_pairs()))
    for i in range(MAX_ROWS):
        file_tracker.history.add(i + 1, 1.0, 1, 0.1, 1.0, np.array([0.5, 0.5]))
    file_tracker.position = {"row": 7}
    file_tracker.save(tmp_path / "tracker")
    loaded = FileTracker.load(tmp_path / "tracker")
    assert len(loaded.history) == MAX_ROWS
    assert loaded.history.rows() == file_tracker.history.rows()
    assert loaded.position == {"row": 7}
    plain = MetricTracker.load(tmp_path / "tracker")
    assert plain.metric_ == file_tracker.tracker.metric_
    plain.save(tmp_path / "plain")
    without = FileTracker.load(tmp_path / "plain")
    assert (len(without.history), without.position) == (0, None)


@pytest.mark.parametrize("names", [["a", "b", "c"], ["a", "b", "c", 4]])
def test_names_that_do_not_fit_the_features_are_refused(names):
    arrays, metadata = MetricTracker().fit(*some_pairs()).state()
    with pytest.raises(ValueError, match="a name for each of its 4 features"):
        MetricTracker.from_state(arrays, {**metadata, "feature_names": names})
