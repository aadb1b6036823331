"""MetricTracker(curved=...): every way of learning gives the same results; items, files, and missing attributes."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from curved_streams import disk, in_disk, sparse_points
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from ocelad import Metric, MetricTracker, Rice
from ocelad.adaptive.curved_tracker import MAP_ROUNDS, CurvedTracker
from ocelad.adaptive.kernel_loading import mark_kernels_ready
from ocelad.adaptive.precompile import precompile_adaptive
from ocelad.curved_metric import CurvedMetric
from ocelad.pairs import PointPairs


@pytest.fixture(scope="module", autouse=True)
def _compiled_kernels():
    """Compile all kernels first: until they are ready, the definition computes, with other last bits."""
    precompile_adaptive()
    mark_kernels_ready()


def some_pairs(count=300, seed=0):
    """Return pairs that are similar if both points are inside a disk or both outside."""
    stream = disk(seed, count)
    return np.stack([stream.X, stream.Z], axis=1), stream.y.astype(int)


def some_items(count=200, rounds=300, seed=0):
    """Return items, pairs of their indices, and labels."""
    rng = np.random.default_rng(seed)
    items, at = rng.normal(size=(count, 2)), rng.integers(0, count, size=(rounds, 2))
    inside = in_disk(items)
    return items, at, np.where(inside[at[:, 0]] == inside[at[:, 1]], 1, -1)


def state(tracker):
    """Return all that a user can see."""
    return (
        tracker.metric_,
        tracker.n_rounds_,
        tracker.experts_,
        tracker.weights_.tolist(),
        tracker.drift_,
        tracker.changes_,
    )


@pytest.fixture(scope="module")
def trained():
    return MetricTracker(curved=True).fit(*some_pairs(700))


# -- Learning --


def test_every_way_of_learning_gives_the_same_bits():
    pairs, y = some_pairs()
    whole = MetricTracker(curved=True).fit(pairs, y)
    parts, single = MetricTracker(curved=True), MetricTracker(curved=True)
    for first in range(0, len(y), 70):
        parts.partial_fit(pairs[first : first + 70], y[first : first + 70])
    for (x, z), label in zip(pairs, y, strict=True):
        single.learn_one(x, z, label)
    tested = MetricTracker(curved=True)
    margins = tested.test_then_train(pairs, y)
    assert state(whole) == state(parts) == state(single) == state(tested)
    core = CurvedTracker(2)
    assert (core.replay(PointPairs(pairs[:, 0], pairs[:, 1], y)) == margins).all()
    assert core.play() == whole.metric_
    assert whole.fit(pairs, y).n_rounds_ == len(y)  # fit begins again


def test_learns_what_no_linear_distance_can(trained):
    pairs, y = some_pairs(500, seed=1)
    linear = MetricTracker().fit(*some_pairs(700))
    assert np.mean(trained.predict(pairs) == y) > np.mean(linear.predict(pairs) == y) + 0.2
    assert trained.score(pairs, y) > linear.score(pairs, y) + 0.2


def test_auto_is_curved_with_the_adaptive_method_only():
    pairs, y = some_pairs(60)
    auto = MetricTracker(curved="auto").fit(pairs, y)
    assert state(auto) == state(MetricTracker(curved=True).fit(pairs, y))
    rice = MetricTracker(method=Rice(step_size=0.05), curved="auto").fit(pairs, y)
    assert isinstance(rice.metric_, Metric)
    assert rice.metric_ == MetricTracker(method=Rice(step_size=0.05)).fit(pairs, y).metric_
    assert isinstance(MetricTracker().fit(pairs, y).metric_, Metric)


@pytest.mark.parametrize("method", ["rice", Rice()])
def test_rice_is_refused(method):
    pairs, y = some_pairs(20)
    with pytest.raises(ValueError, match="curved=True needs method='adaptive'; with RICE, curved must be False or"):
        MetricTracker(method=method, curved=True).fit(pairs, y)


@pytest.mark.parametrize("curved", ["yes", None, 2])
def test_other_values_are_refused(curved):
    with pytest.raises((ValueError, TypeError), match="curved must be one of False, True, 'auto'"):
        MetricTracker(curved=curved).fit(*some_pairs(20))


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True), (False, "auto")])
def test_curved_cannot_change_after_the_first_pairs(before, after):
    pairs, y = some_pairs(40)
    tracker = MetricTracker(curved=before).fit(pairs, y)
    expected = state(tracker)
    tracker.set_params(curved=after)
    for learn in (tracker.partial_fit, tracker.test_then_train):
        with pytest.raises(ValueError, match="curved was changed after the first pairs; call fit to start again"):
            learn(pairs, y)
    with pytest.raises(ValueError, match="curved was changed after the first pairs"):
        tracker.learn_one(pairs[0, 0], pairs[0, 1], y[0])
    assert state(tracker) == expected
    tracker.set_params(curved=before).partial_fit(pairs, y)
    assert tracker.n_rounds_ == 80
    assert isinstance(tracker.set_params(curved=after).fit(pairs, y).metric_, CurvedMetric) == bool(after)


# -- Items --


def test_items_and_a_preprocessor_give_the_same_landmarks():
    items, at, y = some_items()
    by_items = MetricTracker(curved=True).fit(items[at], y, items=items)
    by_index = MetricTracker(curved=True, preprocessor=items).fit(at, y)
    both = MetricTracker(curved=True, preprocessor=items).fit(at, y, items=items)
    assert state(by_items) == state(by_index) == state(both)
    unknown = MetricTracker(curved=True).fit(items[at], y)
    by_function = MetricTracker(curved=True, preprocessor=lambda i: items[i]).fit(at, y)
    assert state(unknown) == state(by_function)
    assert unknown.metric_ != by_items.metric_
    first = MetricTracker(curved=True, preprocessor=items).partial_fit(at[:1], y[:1])
    assert np.array_equal(first.metric_.feature_map.landmarks, by_index.metric_.feature_map.landmarks)
    assert MetricTracker(curved=True).fit(items[at[: MAP_ROUNDS[0] - 1]], y[:31]).metric_.feature_map is None


def test_a_linear_distance_refuses_items():
    items, at, y = some_items(rounds=60)
    tracker = MetricTracker().fit(items[at], y)
    before = state(tracker)
    with pytest.raises(ValueError, match="items are used by a curved distance only: set curved=True, or omit them"):
        tracker.fit(items[at], y, items=items)
    assert state(tracker) == before
    assert state(MetricTracker(preprocessor=items).fit(at, y)) == before  # a preprocessor is accepted


def test_items_may_be_sparse_or_tables():
    items, at, y = some_items(rounds=60)
    expected = MetricTracker(curved=True).fit(items[at], y, items=items)
    assert state(MetricTracker(curved=True).fit(items[at], y, items=csr_array(items))) == state(expected)
    named = [pd.DataFrame(items[at[:, k]], columns=["a", "b"]) for k in range(2)]
    for table in (pd.DataFrame(items, columns=["a", "b"]), pl.DataFrame(items, schema=["a", "b"])):
        tracker = MetricTracker(curved=True).fit(named, y, items=table)
        assert state(tracker) == state(expected)
        assert tracker.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="items has its features in another order: 'b' where 'a' is expected"):
        MetricTracker(curved=True).fit(named, y, items=pd.DataFrame(items, columns=["b", "a"]))


@pytest.mark.parametrize(
    ("items", "sentence"),
    [
        (np.zeros((3, 5)), "items has 5 features; 2 are expected"),
        ([[np.nan, 0.0]], "only finite numbers are accepted"),
        ([[1e200, 0.0], [0.0, 1.0]], "items holds a number of size 1e"),
    ],
)
def test_wrong_items_are_refused_and_change_nothing(items, sentence):
    pairs, y = some_pairs(20)
    tracker = MetricTracker(curved=True).fit(pairs, y)
    expected = state(tracker)
    with pytest.raises(ValueError, match=sentence):
        tracker.fit(pairs, y, items=items)
    assert state(tracker) == expected


# -- Predictions --


def test_outputs_agree_with_the_metric(trained):
    pairs, _ = some_pairs(100, seed=2)
    X, Z = pairs[:, 0], pairs[:, 1]
    metric, distances = trained.metric_, trained.pair_distance(pairs)
    assert isinstance(metric, CurvedMetric)
    np.testing.assert_allclose(distances, metric.distance(X, Z), rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(trained.transform(X) - trained.transform(Z), axis=1), distances)
    np.testing.assert_allclose(trained.log_odds(pairs), metric.threshold - distances**2)
    np.testing.assert_array_equal(trained.predict(pairs), np.where(metric.similar(X, Z), 1, -1))
    np.testing.assert_allclose(trained.predict_proba(pairs)[:, 1], 1.0 / (1.0 + np.exp(-trained.log_odds(pairs))))
    assert trained.get_metric()(X[0], Z[0]) == metric.distance(X[0], Z[0])
    assert len(trained.get_feature_names_out()) == trained.transform(X).shape[1] == metric.rank
    assert (trained.method_, trained.engine_, trained.n_cuts_) == ("adaptive", "adaptive", 0)
    assert any(name.startswith("curved ") for name in trained.experts_)


def test_a_curved_distance_has_a_linear_part_and_no_matrix(trained):
    assert trained.linear_part_ == trained.metric_.linear_part
    for attribute in ("components", "matrix"):
        with pytest.raises(AttributeError, match=f"a curved metric has no {attribute}: it is not linear; linear_part"):
            _ = trained.components_ if attribute == "components" else trained.get_mahalanobis_matrix()
    assert not hasattr(trained, "components_")
    with pytest.raises(AttributeError, match="components_ of a curved distance cannot be set; use curved=False"):
        trained.components_ = np.eye(2)
    linear = MetricTracker().fit(*some_pairs(40))
    assert linear.linear_part_ == linear.metric_
    with pytest.raises(NotFittedError):
        _ = MetricTracker(curved=True).linear_part_


def test_decisions_are_confident_predictions(trained):
    pairs, y = some_pairs(700, seed=5)
    decisions = trained.decide(pairs, error=0.3)
    decided = decisions != 0
    assert np.count_nonzero(decided) > 100
    assert np.mean(decisions[decided] != y[decided]) < 0.3
    np.testing.assert_array_equal(decisions[decided], trained.predict(pairs)[decided])
    assert (trained.decide(pairs, error=0.01) != 0).sum() <= np.count_nonzero(decided)


def test_the_threshold_can_be_calibrated(trained):
    pairs, y = some_pairs(300, seed=3)
    tracker = pickle.loads(pickle.dumps(trained)).calibrate_threshold(pairs, y)
    np.testing.assert_array_equal(tracker.predict(pairs) > 0, tracker.pair_distance(pairs) <= tracker.threshold_)
    assert np.mean(tracker.predict(pairs) == y) >= np.mean(trained.predict(pairs) == y)
    fitted = MetricTracker(curved=True).fit(*some_pairs(100), calibration_params={"strategy": "f_beta"})
    expected = MetricTracker(curved=True).fit(*some_pairs(100)).calibrate_threshold(*some_pairs(100), "f_beta")
    assert fitted.threshold_ == expected.threshold_
    assert tracker.set_threshold(None).threshold_ == trained.threshold_


def test_weights_of_pairs():
    """A weight of 0 teaches no answer, and others are those of the core."""
    pairs, y = some_pairs(200)
    weights = np.random.default_rng(0).choice([0.0, 0.5, 3.0], size=200)
    whole, parts = MetricTracker(curved=True).fit(pairs, y, sample_weight=weights), MetricTracker(curved=True)
    parts.partial_fit(pairs[:150], y[:150], sample_weight=weights[:150])
    for (x, z), label, weight in zip(pairs[150:], y[150:], weights[150:], strict=True):
        parts.learn_one(x, z, label, weight=weight)
    assert state(whole) == state(parts)
    other = np.where(weights == 0.0, -y, y)
    assert MetricTracker(curved=True).fit(pairs, other, sample_weight=weights).metric_ == whole.metric_
    assert whole.metric_ != MetricTracker(curved=True).fit(pairs, y).metric_
    with pytest.raises(ValueError, match="sample_weight"):
        whole.partial_fit(pairs, y, sample_weight=-weights)


def test_feature_weights_are_shares_of_the_curved_distance(trained):
    rows = trained.feature_weights()
    assert {row.feature for row in rows} == {"x0", "x1"}
    assert sum(row.share for row in rows) == pytest.approx(1.0)


# -- Forms of points --


def test_sparse_points():
    X, Z, y = sparse_points(0, 150, 20)
    sparse = MetricTracker(curved=True).fit((csr_array(X), csr_array(Z)), y)
    parts = MetricTracker(curved=True).partial_fit((csr_array(X[:80]), csr_array(Z[:80])), y[:80])
    parts.partial_fit((csr_array(X[80:]), csr_array(Z[80:])), y[80:])
    distances = sparse.pair_distance((csr_array(X), csr_array(Z)))
    np.testing.assert_allclose(sparse.pair_distance(np.stack([X, Z], axis=1)), distances, rtol=1e-6)
    np.testing.assert_allclose(parts.pair_distance((csr_array(X), csr_array(Z))), distances, rtol=1e-6)
    core = CurvedTracker(20, sparse=True)
    core.replay(PointPairs(csr_array(X), csr_array(Z), y))
    assert core.play() == sparse.metric_
    np.testing.assert_allclose(
        np.linalg.norm(sparse.transform(csr_array(X)) - sparse.transform(Z), axis=1), distances, rtol=1e-6
    )
    by_items = MetricTracker(curved=True, preprocessor=csr_array(X)).fit(np.arange(150).reshape(75, 2), y[:75])
    assert not isinstance(by_items.metric_.feature_map.landmarks, np.ndarray)


@pytest.mark.parametrize("frame", [pd.DataFrame, lambda rows, columns: pl.DataFrame(rows, schema=columns)])
def test_tables_with_names(frame):
    pairs, y = some_pairs(60)
    tables = [frame(pairs[:, k], columns=["width", "height"]) for k in range(2)]
    tracker = MetricTracker(curved=True).fit(tables, y)
    assert state(tracker) == state(MetricTracker(curved=True).fit(pairs, y))
    assert tracker.feature_names_in_.tolist() == ["width", "height"]
    assert {row.feature for row in tracker.feature_weights()} == {"width", "height"}
    reordered = [frame(pairs[:, k], columns=["height", "width"]) for k in range(2)]
    with pytest.raises(ValueError, match="features in another order"):
        tracker.partial_fit(reordered, y)
    with pytest.raises(ValueError, match="features in another order"):
        tracker.predict(reordered)


# -- Files and copies --


@pytest.mark.parametrize("count", [0, 20, MAP_ROUNDS[0], 300])
def test_files_continue_with_the_same_bits(count, tmp_path):
    pairs, y = some_pairs(count + 60)
    tracker = MetricTracker(curved=True).start(2)
    if count:
        tracker.partial_fit(pairs[:count], y[:count])
    tracker.save(tmp_path / "tracker")
    loaded = MetricTracker.load(tmp_path / "tracker")
    assert loaded.curved is True
    assert state(loaded) == state(tracker)
    for each in (tracker, loaded):
        each.partial_fit(pairs[count:], y[count:])
    assert state(loaded) == state(tracker)


def test_files_keep_items_and_a_fixed_threshold(tmp_path):
    items, at, y = some_items(rounds=100)
    tracker = MetricTracker(curved="auto", preprocessor=items).fit(at[:50], y[:50]).set_threshold(0.7)
    tracker.save(tmp_path / "tracker")
    loaded = MetricTracker.load(tmp_path / "tracker").partial_fit(items[at[50:]], y[50:])
    assert loaded.threshold_ == 0.7
    assert state(loaded) == state(tracker.partial_fit(at[50:], y[50:]))


def test_clones_and_pickles(trained):
    twin = clone(trained)
    assert twin.get_params() == trained.get_params() == {"curved": True, "method": "adaptive", "preprocessor": None}
    with pytest.raises(NotFittedError):
        _ = twin.metric_
    pairs, y = some_pairs(60, seed=4)
    copied, expected = pickle.loads(pickle.dumps(trained)), state(trained)
    assert state(copied) == expected
    copied.partial_fit(pairs, y)
    assert state(trained) == expected
    assert state(pickle.loads(pickle.dumps(trained)).partial_fit(pairs, y)) == state(copied)
    metric = pickle.loads(pickle.dumps(trained.metric_))
    assert metric == trained.metric_


def test_a_refused_call_changes_nothing(trained):
    pairs, y = some_pairs(50)
    tracker, expected = pickle.loads(pickle.dumps(trained)), state(trained)
    enormous = pairs.copy()
    enormous[40] = 1e200
    for wrong in (enormous, pairs[:, :, :1], pairs[:49]):
        with pytest.raises(ValueError, match=r"\w+ \w+"):
            tracker.partial_fit(wrong, y)
    assert state(tracker) == expected
