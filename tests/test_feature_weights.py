"""Shares of features in distances: against brute force over all pairs, and what estimators report."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_digits

from ocelad import LabelMetricTracker, Metric, MetricTracker, Rice, TripletTracker
from ocelad.curved_metric import CurvedMetric
from ocelad.estimators import distance_shares as module
from ocelad.estimators.distance_shares import distance_shares, parts_of_differences, parts_of_moments
from ocelad.estimators.feature_weights import rank_features
from ocelad.feature_maps import LandmarkMap

N = 6


def some_points(n=12, d=N, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) * 10.0 ** rng.integers(-3, 4, size=d)


def metrics(d=N):
    rng = np.random.default_rng(1)
    rows = np.linalg.qr(rng.normal(size=(d, 2)))[0].T
    A = rng.normal(size=(d, d))
    return {
        "matrix": Metric(A @ A.T),
        "factors": Metric.from_factors(A[:2]),
        "one diagonal": Metric.low_rank(1.0, rows, np.array([5.0, -0.5]), 1.0),
        "a diagonal for each": Metric.low_rank(np.arange(1.0, d + 1), rows, np.array([5.0, 2.0]), 1.0),
        "weights": Metric.from_diagonal(np.arange(d)),
    }


def shares_of_all_pairs(metric, X):
    U = np.array([x - z for x, z in permutations(X, 2)])
    parts = np.mean(U * (U @ metric.matrix), axis=0)
    assert parts.sum() == pytest.approx(np.mean(metric.squared_length(U)))
    return parts / parts.sum()


@pytest.mark.parametrize("form", metrics())
def test_shares_are_those_of_all_pairs(form):
    metric, X = metrics()[form], some_points()
    expected = shares_of_all_pairs(metric, X)
    np.testing.assert_allclose(distance_shares(metric, X), expected, rtol=1e-9, atol=1e-12)
    sparse = X * (np.random.default_rng(2).random(X.shape) < 0.4)
    expected = shares_of_all_pairs(metric, sparse)
    for points in (sparse, csr_array(sparse)):
        np.testing.assert_allclose(distance_shares(metric, points), expected, rtol=1e-9, atol=1e-12)
    U = X - X.mean(axis=0)
    np.testing.assert_allclose(parts_of_moments(metric, U.T @ U / len(U)), parts_of_differences(metric, U), rtol=1e-9)


def test_products_in_blocks_are_the_same(monkeypatch):
    whole = {form: distance_shares(metric, some_points()) for form, metric in metrics().items()}
    monkeypatch.setattr(module, "_BLOCK_NUMBERS", 5 * N)
    for form, metric in metrics().items():
        for points in (some_points(), csr_array(some_points())):
            np.testing.assert_allclose(distance_shares(metric, points), whole[form], rtol=1e-6, atol=1e-9)


def test_shares_depend_neither_on_units_nor_on_the_origin():
    X, factors = some_points(), 10.0 ** np.arange(-3, 3)
    M = metrics()["matrix"].matrix
    expected = distance_shares(Metric(M), X)
    scaled = Metric.from_trusted_matrix(M / np.outer(factors, factors), 1.0)
    np.testing.assert_allclose(distance_shares(scaled, X * factors + 1.0), expected, rtol=1e-6)


def test_a_share_can_be_negative():
    # The second feature follows the first; the metric subtracts a part of it.
    X = np.array([[0.0, 0.0], [1.0, 1.1], [2.0, 2.0], [3.0, 3.1]])
    shares = distance_shares(Metric.from_factors([[1.0, -0.3]]), X)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[1] < 0.0
    rows = rank_features(Metric.from_factors([[1.0, -0.3]]), None, items=X)
    assert [row.feature for row in rows] == ["x0", "x1"]


@pytest.mark.parametrize("curved", [False, True])
def test_constant_features_have_no_share(curved):
    X = np.random.default_rng(0).normal(size=(30, 4))
    metric = Metric(np.eye(4) + 1.0)
    for as_rows in (np.asarray, csr_array):
        # Sparse landmarks are not stored relative to an origin: next to 1e9 their distances would be 0.
        X[:, 1], X[:, 3] = 0.1, 1e3 / 3 if curved and as_rows is csr_array else 1e9 / 3
        points = as_rows(X)
        distance = curved_metric(metric, points[:10]) if curved else metric
        shares = distance_shares(distance, points)
        assert shares[[1, 3]].tolist() == [0.0, 0.0]
        assert shares.sum() == pytest.approx(1.0)
    assert distance_shares(metric, np.ones((3, 4))).tolist() == [0.0] * 4
    assert distance_shares(Metric(np.zeros((4, 4))), X).tolist() == [0.0] * 4


def test_of_many_items_a_sample_is_used_always_the_same(monkeypatch):
    X, metric = np.random.default_rng(0).normal(size=(3000, N)), metrics()["matrix"]
    expected = distance_shares(metric, X)
    monkeypatch.setattr(module, "MAX_ITEMS", 1000)
    sampled = distance_shares(metric, X)
    assert 0.0 < np.abs(sampled - expected).max() < 0.05
    assert distance_shares(metric, X).tolist() == sampled.tolist()


# Curved distances.


def curved_metric(linear, landmarks):
    rng = np.random.default_rng(0)
    feature_map = LandmarkMap.from_points(landmarks, landmarks.shape[0], rng)
    A = rng.normal(size=(feature_map.n_outputs, 3))
    return CurvedMetric(linear, feature_map, Metric.from_factors(A.T), threshold=1.0)


def integrated_gradients(metric, X, n_nodes=100, step=1e-5):
    """Return the mean over ordered pairs of the integrated gradients, by central differences."""
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    total = np.zeros(X.shape[1])
    for x, z in permutations(X, 2):
        for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
            p, steps = z + node * (x - z), step * np.eye(len(x))
            gradient = (metric.squared_distance(p + steps, z) - metric.squared_distance(p - steps, z)) / (2 * step)
            total += weight * (x - z) * gradient
    return total / (len(X) * (len(X) - 1))


@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_shares_of_a_curved_distance_are_integrated_gradients(offset):
    X = np.random.default_rng(3).normal(size=(6, 3))
    linear = Metric.from_diagonal([0.5, 0.0, 0.1])
    metric = curved_metric(linear, X)
    parts = integrated_gradients(metric, X)
    mean_square = np.mean([metric.squared_distance(x, z) for x, z in permutations(X, 2)])
    assert parts.sum() == pytest.approx(mean_square, rel=1e-6)  # completeness
    near = metric.feature_map
    feature_map = LandmarkMap(near.landmarks + offset, near.width, near.projection)
    far = CurvedMetric(linear, feature_map, metric.curved_part)
    np.testing.assert_allclose(distance_shares(far, X + offset), parts / parts.sum(), rtol=1e-5, atol=1e-6)


def test_sparse_and_dense_points_of_a_curved_distance():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 8)) * (rng.random((40, 8)) < 0.4)
    linear = Metric(np.eye(8))
    dense, sparse = curved_metric(linear, X[:20]), curved_metric(linear, csr_array(X[:20]))
    expected = distance_shares(dense, X)
    for metric, points in ((dense, csr_array(X)), (sparse, X), (sparse, csr_array(X))):
        np.testing.assert_allclose(distance_shares(metric, points), expected, rtol=1e-6, atol=1e-9)


def test_a_curved_distance_without_a_curved_part_is_linear():
    X, linear = some_points(), metrics()["matrix"]
    expected = distance_shares(linear, X)
    assert distance_shares(CurvedMetric(linear, None, None), X).tolist() == expected.tolist()
    feature_map = LandmarkMap.from_points(X, 5, np.random.default_rng(0))
    flat = CurvedMetric(linear, feature_map, Metric.from_diagonal(np.zeros(feature_map.n_outputs)))
    np.testing.assert_allclose(distance_shares(flat, X), expected, rtol=1e-12)


def test_the_features_of_a_disk_come_first():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5))
    inside = np.square(X[:, [1, 3]]).sum(axis=1) < 1.4
    feature_map = LandmarkMap.from_points(X, 300, rng)
    features = feature_map(X)
    # The distance of a regression's predictions: far if one point is inside and the other is not.
    direction = np.linalg.lstsq(features - features.mean(axis=0), inside - inside.mean(), rcond=1e-3)[0]
    metric = CurvedMetric(Metric.from_diagonal(np.zeros(5)), feature_map, Metric.from_factors(direction[None]))
    shares = distance_shares(metric, X)
    assert set(np.argsort(-shares)[:2].tolist()) == {1, 3}
    assert shares[[1, 3]].sum() > 0.75


def test_a_curved_tracker_uses_items_or_its_landmarks():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    inside = np.square(X[:, :2]).sum(axis=1) < 1.4
    at = rng.integers(0, 500, size=(1500, 2))
    same = inside[at[:, 0]] == inside[at[:, 1]]
    tracker = MetricTracker(curved=True).fit(X[at], same)
    weights = tracker.feature_weights()
    assert weights.source == "stream"
    assert weights == rank_features(tracker.metric_, None, items=tracker.metric_.feature_map.landmarks)
    of_items = tracker.feature_weights(items=X)
    assert of_items.source == "items"
    assert of_items[-1].feature == "x2"  # no part of the question
    assert [row.share for row in of_items] == distance_shares(tracker.metric_, X)[
        [int(r[0][1]) for r in of_items]
    ].tolist()
    assert {row.feature: row.weight for row in of_items}["x2"] == tracker.linear_part_.diagonal[2]
    young = MetricTracker(curved=True).fit(X[at[:10]], same[:10])  # without a map
    assert young.feature_weights().source == "stream"


# Estimators.


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    at = np.random.default_rng(0).integers(0, len(X), size=(1000, 2))
    return X, at, y[at[:, 0]] == y[at[:, 1]]


def test_a_rare_pixel_does_not_come_first(digits):
    """Its weight per unit is the largest if the items were not known before the first answer."""
    X, at, same = digits
    often = (X > 0).mean(axis=0)
    tracker = MetricTracker().fit(X[at], same)
    weights = tracker.feature_weights(items=X)
    heaviest = max(weights, key=lambda row: row.weight)
    assert often[int(heaviest.feature[1:])] < 0.02
    assert all(often[int(row.feature[1:])] > 0.3 for row in weights[:10])
    assert heaviest not in weights[:20]
    assert (weights.source, len(weights)) == ("items", 64)
    assert sum(row.share for row in weights) == pytest.approx(1.0)
    np.testing.assert_allclose(sorted(row.weight for row in weights), np.sort(tracker.metric_.diagonal))
    np.testing.assert_allclose(sorted(row.share for row in weights), np.sort(distance_shares(tracker.metric_, X)))


@pytest.mark.parametrize("n_pairs", [50, 1000])  # by the definition, and compiled
def test_without_items_the_spreads_of_the_stream_are_used(digits, tmp_path, n_pairs):
    X, at, same = digits
    pairs = X[at[:n_pairs]]
    tracker = MetricTracker().fit(pairs, same[:n_pairs])
    weights = tracker.feature_weights()
    assert weights.source == "stream"
    shares = {row.feature: row.share for row in weights}
    constant = np.flatnonzero((pairs[:, 0] == pairs[:, 1]).all(axis=0))
    assert {name for name, share in shares.items() if share == 0.0} == {f"x{j}" for j in constant}
    expected = tracker.metric_.diagonal * np.square(pairs[:, 0] - pairs[:, 1]).mean(axis=0)
    expected /= expected.sum()
    np.testing.assert_allclose([shares[f"x{j}"] for j in range(64)], expected, rtol=0.3, atol=1e-3)
    tracker.save(tmp_path / "tracker")
    assert MetricTracker.load(tmp_path / "tracker").feature_weights() == weights
    sparse = [csr_array(pairs[:, k]) for k in range(2)]
    of_sparse = MetricTracker().fit(sparse, same[:n_pairs]).feature_weights()
    assert of_sparse.source == "stream"
    if n_pairs > 64:
        assert all((X[:, int(row.feature[1:])] > 0).mean() > 0.2 for row in [*weights[:10], *of_sparse[:10]])


def test_where_nothing_is_known_weights_are_per_unit(digits):
    X, at, same = digits
    trackers = [MetricTracker(method=Rice()).fit(X[at[:100]], same[:100]), MetricTracker().start(64)]
    trackers.append(MetricTracker(method=Rice(), preprocessor=lambda i: X[i]).fit(at[:100], same[:100]))
    for tracker in trackers:
        weights = tracker.feature_weights()
        assert weights.source == "units"
        assert "per unit" in weights.description
        total = sum(row.weight for row in weights)
        np.testing.assert_allclose([row.share for row in weights], [row.weight / total for row in weights])
        assert tracker.feature_weights(items=X).source == "items"


def test_labelled_points_and_triplets(digits):
    X, _, _ = digits
    y = load_digits().target
    labels = LabelMetricTracker(random_state=0).fit(X[:300], y[:300])
    weights = labels.feature_weights()  # of the points in the reservoir
    assert (weights.source, weights) == ("items", labels.feature_weights(items=X[:300]))
    sparse = LabelMetricTracker(random_state=0).fit(csr_array(X[:300]), y[:300]).feature_weights()
    assert (sparse.source, sum(row.share for row in sparse)) == ("items", pytest.approx(1.0))
    assert LabelMetricTracker().fit(X[:1], y[:1]).feature_weights().source == "units"
    triplets = TripletTracker().fit(X[:300].reshape(100, 3, 64))
    assert triplets.feature_weights().source == "stream"
    assert triplets.feature_weights(items=X).source == "items"


def test_items_may_be_tables(digits):
    X, at, same = digits
    names = [f"p{j}" for j in range(64)]
    frame = pd.DataFrame(X, columns=names)
    tracker = MetricTracker(preprocessor=frame).fit(at[:200], same[:200])
    weights = tracker.feature_weights(5)
    assert weights == tracker.feature_weights(5, items=pl.DataFrame(X, schema=names))
    by_array = tracker.feature_weights(5, items=csr_array(X))
    assert [row.feature for row in by_array] == [row.feature for row in weights]
    for table in (pd.DataFrame(weights), pl.DataFrame(weights)):
        assert list(table.columns) == ["feature", "weight", "share"]
        assert len(table) == 5
    with pytest.raises(ValueError, match="items has its features in another order: 'p63' where 'p0' is expected"):
        tracker.feature_weights(items=frame[names[::-1]])
    tracker.preprocessor = frame[:1]  # no pair of items
    assert tracker.feature_weights().source == "stream"


@pytest.mark.parametrize(
    ("items", "sentence"),
    [
        ([[1.0, 2.0, 3.0]], "items has 1 row; accepted: two rows or more"),
        ([1.0, 2.0, 3.0], r"items has shape \(3,\); accepted:"),
        ([[1.0, 2.0], [3.0, 4.0]], "items has 2 features; 3 are expected"),
        ([[1.0, 2.0, float("nan")], [0.0, 0.0, 0.0]], "items holds nan at index"),
        (np.empty((0, 3)), "items is empty"),
        ([["a", "b", "c"]], "items"),
        (csr_array(np.ones((1, 3))), "items has 1 row"),
        (csr_array(np.ones((3, 2))), "items has 2 features; 3 are expected"),
        ([[1e300, 0.0, 0.0], [-1e300, 0.0, 0.0]], "the items are too far apart: their squared distances overflow"),
    ],
)
def test_bad_items_are_refused_with_one_sentence(items, sentence):
    tracker = MetricTracker().start(3)
    with pytest.raises((ValueError, TypeError), match=sentence) as error:
        tracker.feature_weights(items=items)
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="n_features must be a whole number of at least 1"):
        tracker.feature_weights(0, items=np.ones((2, 3)))
