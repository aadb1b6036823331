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
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import Normalizer, StandardScaler

from ocelad import LabelMetricTracker, Metric, MetricTracker, Rice
from ocelad.adaptive.curved_tracker import MAP_ROUNDS, CurvedTracker
from ocelad.adaptive.precompile import precompile_adaptive
from ocelad.curved_metric import CurvedMetric
from ocelad.engines.kernel_loading import mark_kernels_ready
from ocelad.estimators.distance_shares import distance_shares
from ocelad.estimators.feature_weights import rank_features
from ocelad.feature_maps import OwnMap
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
    with pytest.raises(
        ValueError, match="a curved distance needs method='adaptive'; with RICE, curved must be False or"
    ):
        MetricTracker(method=method, curved=True).fit(pairs, y)


@pytest.mark.parametrize("curved", ["yes", None, 2])
def test_other_values_are_refused(curved):
    with pytest.raises((ValueError, TypeError), match="curved must be False, True, 'auto', a fitted transformer"):
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
    indexed = MetricTracker(curved=True, preprocessor=items, transitive=False)
    by_index, both = clone(indexed).fit(at, y), clone(indexed).fit(at, y, items=items)
    assert state(by_items) == state(by_index) == state(both)
    unknown = MetricTracker(curved=True).fit(items[at], y)
    by_function = MetricTracker(curved=True, preprocessor=lambda i: items[i], transitive=False).fit(at, y)
    assert state(unknown) == state(by_function)
    assert unknown.metric_ != by_items.metric_
    first = clone(indexed).partial_fit(at[:1], y[:1])
    assert np.array_equal(first.metric_.feature_map.landmarks, by_index.metric_.feature_map.landmarks)
    assert MetricTracker(curved=True).fit(items[at[: MAP_ROUNDS[0] - 1]], y[:31]).metric_.feature_map is None


def test_a_linear_distance_uses_items_too():
    items, at, y = some_items(rounds=60)
    tracker = MetricTracker().fit(items[at], y, items=items)
    assert isinstance(tracker.metric_, Metric)
    assert state(MetricTracker(preprocessor=items, transitive=False).fit(at, y)) == state(tracker)
    assert MetricTracker().fit(items[at], y).metric_ != tracker.metric_


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
    tracker = MetricTracker(curved="auto", preprocessor=items, transitive=False)
    tracker.fit(at[:50], y[:50]).set_threshold(0.7)
    tracker.save(tmp_path / "tracker")
    loaded = MetricTracker.load(tmp_path / "tracker").partial_fit(items[at[50:]], y[50:])
    assert loaded.threshold_ == 0.7
    assert state(loaded) == state(tracker.partial_fit(at[50:], y[50:]))


def test_clones_and_pickles(trained):
    twin = clone(trained)
    expected_params = {"curved": True, "method": "adaptive", "preprocessor": None, "transitive": "auto"}
    expected_params["n_components"] = None
    assert twin.get_params() == trained.get_params() == expected_params
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


# -- Points of many features --


@pytest.mark.parametrize("known", [False, True])
def test_embeddings_of_other_lengths_are_the_same(known):
    """Of more than 128 features, only directions count: in learning and in every output."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 130))
    X[:, 0] += np.where(np.arange(60) % 2, 8.0, -8.0)
    at = rng.integers(60, size=(80, 2))
    y = np.where((at[:, 0] - at[:, 1]) % 2 == 0, 1, -1)
    longer = X * 2.0 ** rng.integers(-9, 9, size=(60, 1))
    one, other = (
        MetricTracker(curved=True, preprocessor=points if known else points.__getitem__).fit(at, y)
        for points in (X, longer)
    )
    assert state(one) == state(other)
    assert (one.predict_proba(at) == other.predict_proba(at)).all()
    np.testing.assert_allclose(one.transform(X), one.transform(3.7 * X), rtol=1e-9, atol=1e-9)
    rows = one.feature_weights(items=X)
    assert sum(row.share for row in rows) == pytest.approx(1.0)
    assert rows[0].feature == "x0"
    of_longer = {row.feature: row.share for row in one.feature_weights(items=5.0 * longer)}
    np.testing.assert_allclose([of_longer[row.feature] for row in rows], [row.share for row in rows], atol=1e-9)


def test_files_keep_the_unit_length(tmp_path):
    rng = np.random.default_rng(0)
    pairs, y = rng.normal(size=(60, 2, 130)), rng.choice([-1, 1], size=60)
    tracker = MetricTracker(curved=True).fit(pairs[:40], y[:40])
    tracker.save(tmp_path / "tracker")
    loaded = MetricTracker.load(tmp_path / "tracker")
    assert loaded.metric_.unit_length
    assert state(loaded.partial_fit(pairs[40:], y[40:])) == state(tracker.partial_fit(pairs[40:], y[40:]))


# -- Maps of one's own --


def radius(X):
    """Return nearly -1 in the disk and nearly 1 outside, and the first feature, which does not matter."""
    return np.column_stack([np.tanh(4.0 * (np.square(X).mean(axis=1) - 0.69)), np.sin(X[:, 0])])


def fitted_map(seed=0):
    return Nystroem(n_components=40, gamma=0.5, random_state=0).fit(disk(seed, 200).X)


def seen(tracker, pairs):
    """Return all that a user can see; metrics with a map of one's own are not compared."""
    weights, rows = tracker.weights_.tolist(), tracker.pair_distance(pairs).tolist()
    return tracker.n_rounds_, tracker.experts_, weights, tracker.drift_, tracker.changes_, rows


@pytest.mark.parametrize("curved", [radius, fitted_map(), fitted_map().transform])
def test_a_map_of_ones_own(curved):
    pairs, y = some_pairs(400)
    tracker = MetricTracker(curved=curved).fit(pairs, y)
    held_out, labels = some_pairs(300, seed=1)
    assert tracker.score(held_out, labels) > MetricTracker().fit(pairs, y).score(held_out, labels) + 0.2
    X, Z = held_out[:, 0], held_out[:, 1]
    distances = tracker.pair_distance(held_out)
    np.testing.assert_allclose(np.linalg.norm(tracker.transform(X) - tracker.transform(Z), axis=1), distances)
    np.testing.assert_allclose(tracker.log_odds(held_out), tracker.metric_.threshold - distances**2)
    assert len(tracker.get_feature_names_out()) == tracker.metric_.rank
    parts = MetricTracker(curved=curved)
    for first in range(0, 400, 90):
        parts.partial_fit(pairs[first : first + 90], y[first : first + 90])
    np.testing.assert_allclose(parts.pair_distance(held_out), distances, rtol=1e-6)
    single = MetricTracker(curved=curved)
    for (x, z), label in zip(pairs[:70], y[:70], strict=True):
        single.learn_one(x, z, label)
    expected = MetricTracker(curved=curved).fit(pairs[:70], y[:70])
    np.testing.assert_allclose(single.pair_distance(held_out), expected.pair_distance(held_out), rtol=1e-6)


def test_a_map_of_ones_own_with_items():
    items, at, y = some_items(rounds=60)
    by_items = MetricTracker(curved=radius).fit(items[at], y, items=items)
    by_index = MetricTracker(curved=radius, preprocessor=items, transitive=False).fit(at, y)
    started = MetricTracker(curved=radius).start(2, items=items)
    assert started.metric_.feature_map.function is radius
    assert seen(by_items, items[at]) == seen(by_index, at) == seen(started.partial_fit(items[at], y), items[at])
    assert seen(by_items, items[at]) != seen(MetricTracker(curved=radius).fit(items[at], y), items[at])


@pytest.mark.parametrize("count", [0, 20, 100])
def test_pickles_of_a_map_of_ones_own_continue_with_the_same_bits(count, tmp_path):
    pairs, y = some_pairs(count + 60)
    tracker = MetricTracker(curved=fitted_map()).start(2)
    if count:
        tracker.partial_fit(pairs[:count], y[:count])
    with pytest.raises(
        ValueError, match="feature map of your own cannot be saved in a file; pickle it instead"
    ) as error:
        tracker.save(tmp_path / "tracker")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "tracker").exists()
    copied, before = pickle.loads(pickle.dumps(tracker)), seen(tracker, pairs)
    assert seen(copied, pairs) == before
    copied.partial_fit(pairs[count:], y[count:])
    assert seen(tracker, pairs) == before
    assert seen(tracker.partial_fit(pairs[count:], y[count:]), pairs) == seen(copied, pairs)


def test_a_frozen_map_survives_clones():
    """scikit-learn's clone would otherwise forget what a transformer has learned."""
    pairs, y = some_pairs(60)
    plain, frozen = MetricTracker(curved=fitted_map()), MetricTracker(curved=FrozenEstimator(fitted_map()))
    expected = plain.fit(pairs, y).pair_distance(pairs)
    np.testing.assert_array_equal(clone(frozen).fit(pairs, y).pair_distance(pairs), expected)
    with pytest.raises(NotFittedError, match="Nystroem instance is not fitted yet"):
        clone(plain).fit(pairs, y)
    assert cross_val_score(frozen, pairs, y, cv=2, error_score="raise").shape == (2,)
    labelled = LabelMetricTracker(frozen, random_state=0).fit(pairs[:, 0], in_disk(pairs[:, 0]))
    assert labelled.metric_.feature_map.n_outputs == 40


@pytest.mark.parametrize("how", ["fit", "partial_fit", "learn_one", "items", "start"])
def test_a_map_that_is_not_fitted_is_refused(how):
    pairs, y = some_pairs(20)
    tracker = MetricTracker(curved=StandardScaler())
    calls = {
        "fit": lambda: tracker.fit(pairs, y),
        "partial_fit": lambda: tracker.partial_fit(pairs, y),
        "learn_one": lambda: tracker.learn_one(*pairs[0], y[0]),
        "items": lambda: tracker.fit(pairs, y, items=pairs[:, 0]),
        "start": lambda: tracker.start(2, items=pairs[:, 0]),
    }
    with pytest.raises(NotFittedError, match="StandardScaler instance is not fitted yet"):
        calls[how]()
    assert not tracker.__sklearn_is_fitted__()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda X: X * np.nan,
        lambda X: X[:, 0],
        lambda X: X[:1],
        lambda X: np.full(X.shape, "a"),
        lambda X: X[:, :0],
        lambda X: np.zeros((len(X), 4097)),
        lambda X: np.where(np.arange(len(X))[:, None] == len(X) - 1, np.inf, X),
        lambda X: 1e200 * X,
    ],
)
def test_wrong_outputs_are_refused_and_change_nothing(wrong):
    pairs, y = some_pairs(40)
    with pytest.raises(ValueError, match=r"feature map function|are too far apart") as error:
        MetricTracker(curved=wrong).fit(pairs, y)
    assert "\n" not in str(error.value)

    use_wrong = [False]

    def sometimes_wrong(X):
        return wrong(X) if use_wrong[0] else np.sin(X)

    tracker = MetricTracker(curved=sometimes_wrong).fit(pairs, y)
    expected = seen(tracker, pairs)
    use_wrong[0] = True
    for call in (
        lambda: tracker.fit(pairs, y),
        lambda: tracker.partial_fit(pairs, y),
        lambda: tracker.fit(pairs, y, items=pairs[:, 0]),
        lambda: tracker.test_then_train(pairs, y),
    ):
        with pytest.raises(ValueError, match=r"feature map function|are too far apart"):
            call()
    use_wrong[0] = False
    assert seen(tracker, pairs) == expected


@pytest.mark.parametrize("method", ["rice", Rice()])
def test_rice_refuses_a_map_of_ones_own(method):
    with pytest.raises(ValueError, match="a curved distance needs method='adaptive'"):
        MetricTracker(method=method, curved=radius).fit(*some_pairs(20))


def test_a_class_is_no_map():
    with pytest.raises((ValueError, TypeError), match="curved must be False, True, 'auto', a fitted transformer"):
        MetricTracker(curved=StandardScaler).fit(*some_pairs(20))


@pytest.mark.parametrize("other", [np.sin, True, "auto", False])
def test_a_map_cannot_change_after_the_first_pairs(other):
    pairs, y = some_pairs(40)
    for before, after in ((radius, other), (other, radius)):
        tracker = MetricTracker(curved=before).fit(pairs, y)
        expected = seen(tracker, pairs)
        tracker.set_params(curved=after)
        for call in (lambda: tracker.partial_fit(pairs, y), lambda: tracker.learn_one(*pairs[0], y[0])):  # noqa: B023
            with pytest.raises(ValueError, match="curved was changed after the first pairs; call fit to start again"):
                call()
        assert seen(tracker, pairs) == expected
        assert tracker.set_params(curved=before).partial_fit(pairs, y).n_rounds_ == 80
        assert tracker.set_params(curved=after).fit(pairs, y).n_rounds_ == 40


def test_feature_weights_with_a_map_of_ones_own():
    """By replacing one feature after the other: the third one is not used by the map, and differs in no pair."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(300, 2)), np.zeros(300)])
    inside = in_disk(X)
    at = rng.integers(300, size=(500, 2))
    tracker = MetricTracker(curved=lambda X: radius(X[:, :2])).fit(X[at], inside[at[:, 0]] == inside[at[:, 1]])
    rows = tracker.feature_weights(items=X)
    shares = {row.feature: row.share for row in rows}
    assert rows.source == "items"
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["x2"] == 0.0
    assert min(shares["x0"], shares["x1"]) > 0.2
    assert [row.share for row in rows] == sorted(shares.values(), reverse=True)
    assert tracker.feature_weights(1, items=X) == rows[:1]
    assert {row.feature for row in tracker.feature_weights()} == {"x0", "x1", "x2"}


def test_feature_weights_of_a_map_of_one_feature():
    """What the map does not use has no share in the curved part."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3))
    at = rng.integers(300, size=(600, 2))
    far = np.abs(X[:, 1]) > 0.7
    tracker = MetricTracker(curved=lambda X: np.tanh(4.0 * (np.abs(X[:, 1:2]) - 0.7)))
    tracker.fit(X[at], far[at[:, 0]] == far[at[:, 1]])
    rows = tracker.feature_weights(items=X)
    assert (rows[0].feature, rows[0].share > 0.8) == ("x1", True)
    sparse = tracker.feature_weights(items=csr_array(X))
    assert [row.share for row in sparse] == pytest.approx([row.share for row in rows], rel=1e-6)


def test_shares_of_a_map_of_ones_own_sum_to_what_its_part_contributes():
    """Although what each feature adds does not sum to the whole."""
    X = np.random.default_rng(2).normal(size=(15, 3))
    own_map = OwnMap(lambda X: np.tanh(X[:, 1:2] + 2.0 * X[:, 2:3]), X)
    metric = CurvedMetric(Metric.from_diagonal([0.3, 0.0, 0.0]), own_map, Metric([[2.0]]))
    left, right = np.nonzero(~np.eye(15, dtype=bool))
    linear = metric.linear_part.squared_distance(X[left], X[right]).mean()
    shares = distance_shares(metric, X)
    assert shares[0] == pytest.approx(linear / metric.squared_distance(X[left], X[right]).mean(), rel=1e-9)
    assert shares.sum() == pytest.approx(1.0)
    assert shares.min() > 0.0


# -- What a map or items of the user's own must not break --


def test_the_share_of_a_feature_that_matters_only_together_with_another():
    rng = np.random.default_rng(0)
    X, pairs = rng.normal(size=(200, 3)), rng.integers(200, size=(600, 2))
    positive = X[:, 0] * X[:, 1] > 0
    same = positive[pairs[:, 0]] == positive[pairs[:, 1]]
    tracker = MetricTracker(preprocessor=X, curved=lambda points: np.tanh(4.0 * points[:, :1] * points[:, 1:2]))
    shares = {weight.feature: weight.share for weight in tracker.fit(pairs, same).feature_weights()}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert min(shares["x0"], shares["x1"]) > 3 * shares["x2"]


def test_shares_do_not_depend_on_the_units_of_a_metric_with_factors():
    rng = np.random.default_rng(0)
    pairs, factors = rng.normal(size=(300, 2, 3)), np.array([4.0, 1.0, 0.25])
    metric = MetricTracker(curved=True).fit(pairs, np.abs(pairs[:, 0, 0] - pairs[:, 1, 0]) < 1).metric_
    expected, found = rank_features(metric, None), rank_features(metric.with_factors(factors), None)
    assert [row.feature for row in found] == [row.feature for row in expected]
    np.testing.assert_allclose([row.share for row in found], [row.share for row in expected], rtol=1e-9)
    for row, other in zip(found, expected, strict=True):
        assert row.weight == pytest.approx(other.weight * factors[int(row.feature[1])] ** 2)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e80])
def test_rows_of_the_preprocessor_that_no_pair_uses_may_be_unusable(wrong):
    X = np.random.default_rng(0).normal(size=(30, 2))
    X[7, 1] = wrong
    for items in (X, csr_array(X), pd.DataFrame(X, columns=["a", "b"])):
        for curved in (False, True):
            assert MetricTracker(preprocessor=items, curved=curved).fit([[0, 1], [2, 3]], [1, -1]).n_rounds_ == 2
    with pytest.raises(ValueError, match="items holds"):
        MetricTracker().fit([[X[0], X[1]]], [1], items=X)


def test_labels_with_a_fitted_map():
    X, y = np.random.default_rng(0).normal(size=(80, 3)), np.arange(80) % 2
    tracker = LabelMetricTracker(MetricTracker(curved=Normalizer().fit(X)), random_state=0).fit(X, y)
    assert tracker.metric_.feature_map.n_outputs == 3
