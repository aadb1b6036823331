"""Projections: matrices whose products with points have the learned distances, by the variance of the items."""

import numpy as np
import projection as projection_benchmark
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse

from ocelad import Metric, principal_axes
from ocelad.curved_metric import CurvedMetric, project
from ocelad.feature_maps import LandmarkMap
from ocelad.testing import strategies


def draw_points(seed, n=12, d=4):
    return np.random.default_rng(seed).normal(size=(n, d)) * [5.0, 1.0, 0.2, 2.0][:d] + 3.0


def squared_distances(points):
    return np.square(points[:, None] - points[None]).sum(axis=2)


def learned_distances(metric, X):
    return np.array([metric.squared_distance(X, x) for x in X])


def curved_metric(X):
    feature_map = LandmarkMap.from_points(X, len(X), np.random.default_rng(0))
    curved = Metric.from_diagonal(np.linspace(0.5, 2.0, feature_map.n_outputs))
    return CurvedMetric(Metric.from_diagonal([1.0, 0.0, 3.0, 0.5]), feature_map, curved, unit_length=True)


@given(strategies.metrics(4), st.integers(0, 99))
def test_distances_are_exact_with_all_columns(metric, seed):
    X = draw_points(seed)
    expected = learned_distances(metric, X)
    for n_components in (None, max(metric.rank, 1)):
        P = metric.projection(X, n_components)
        assert P.shape[0] == 4
        assert P.shape[1] <= metric.rank
        np.testing.assert_allclose(squared_distances(X @ P), expected, rtol=1e-6, atol=1e-9 * (1 + expected.max()))
    other = draw_points(seed + 1)
    expected = learned_distances(metric, other)
    np.testing.assert_allclose(squared_distances(other @ P), expected, rtol=1e-6, atol=1e-9 * (1 + expected.max()))


@given(strategies.metrics(4), st.integers(0, 99), st.integers(1, 3))
def test_no_other_columns_hold_more_of_the_variance(metric, seed, n_components):
    X = draw_points(seed)
    P = metric.projection(X, n_components)
    assert P.shape == (4, min(n_components, metric.rank))
    assume(metric.rank > 0)
    points = X @ P
    variances = points.var(axis=0)
    size = 1e-9 * (1 + X.var(axis=0).sum() * np.abs(metric.matrix).max())
    assert (np.diff(variances) <= size).all()
    assert metric.embed(X, n_components).var(axis=0).sum() <= variances.sum() + size
    assert (squared_distances(points) <= learned_distances(metric, X) + 100 * size).all()  # axes that are missing
    covariances = np.atleast_2d(np.cov(points, rowvar=False)) - np.diag(np.atleast_1d(points.var(axis=0, ddof=1)))
    assert np.abs(covariances).max(initial=0.0) <= 100 * size


@pytest.mark.parametrize("make", [lambda X: Metric.from_diagonal([9.0, 0.0, 1.0, 2.0]), curved_metric])
def test_blocks_and_types_of_items_do_not_matter(make, monkeypatch, tmp_path):
    X = draw_points(0, n=37).astype(np.float32)
    metric = make(X)
    expected = metric.projection(X.astype(np.float64), 2)
    np.save(tmp_path / "items.npy", X)
    monkeypatch.setattr(principal_axes, "_BLOCK_VALUES", 20)
    for items in (X, X.tolist(), np.load(tmp_path / "items.npy", mmap_mode="r"), iter([X[:5], X[5:], X[:0]])):
        np.testing.assert_allclose(metric.projection(items, 2), expected, rtol=1e-9, atol=1e-12)
    if isinstance(metric, Metric):
        np.testing.assert_allclose(metric.projection(sparse.csr_array(X), 2), expected, rtol=1e-9, atol=1e-12)


def test_a_curved_metric_projects_extended_points():
    X = draw_points(0)
    metric = curved_metric(X)
    expected = learned_distances(metric, X)
    P = metric.projection(X)
    np.testing.assert_allclose(squared_distances(metric.extend(X) @ P), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(project(metric, X, P), metric.extend(X) @ P)
    linear = CurvedMetric(Metric.from_diagonal([1.0, 4.0]), None, None)
    assert linear.projection(X[:, :2]).shape == (2, 2)


def test_far_points_lose_few_digits():
    """The variance of the items does not drown in their distance from the origin."""
    X = draw_points(0) + 1e6
    P = Metric.from_diagonal([1.0, 1.0, 1.0, 1.0]).projection(X, 2)
    np.testing.assert_allclose(abs(P[[0, 3], [0, 1]]), 1.0, atol=0.2)


def test_projection_refuses():
    metric = Metric.from_diagonal([1.0, 1.0])
    for items, n_components, sentence in (
        (np.ones((3, 5)), None, r"items has shape \(3, 5\); accepted: shape \(n_items, 2\)"),
        (np.ones(2), None, "items has shape"),
        ([[1.0, np.nan]], None, "items"),
        (np.ones((0, 2)), None, "there are no items"),
        (np.ones((3, 2)), 0, "n_components must be"),
        (np.ones((3, 2)), 1.5, "n_components must be"),
    ):
        with pytest.raises((ValueError, TypeError), match=sentence):
            metric.projection(items, n_components)
    assert metric.projection(np.ones((3, 2))).shape == (2, 0)  # equal items need no columns
    assert Metric.from_diagonal([1.0, 0.0]).projection(draw_points(0)[:, :2], 5).shape == (2, 1)  # the rank


def test_few_principal_axes_separate_the_digits_better_than_few_eigenvalues():
    rows = projection_benchmark.measure(seed=1000, n_pairs=10_000, dimensions=(4, 8))
    assert all(row["principal axes"] < 0.7 * row["eigenvalues"] for row in rows)
