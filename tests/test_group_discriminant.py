"""Discriminants of groups, against a scatter over all implied pairs, which are enumerated one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from ocelad.adaptive.group_discriminant import (
    MAX_DIRECTIONS,
    MAX_GROUPS,
    RIDGE,
    Grouping,
    _solve,
    discriminant_rows,
    linear_discriminant,
    mean_square,
    split_discriminants,
)

RTOL = 1e-9  # same mathematics, different arithmetic


def enumerated(features, grouping, reference):
    """Return the matrix of the discriminant from loops over all pairs of items and all pairs of reference points."""
    groups, apart = grouping
    n, d = features.shape
    members = [np.flatnonzero(groups == g) for g in range(groups.max() + 1)]
    means = np.array([features[group].mean(axis=0) for group in members])
    largest = sorted(range(len(members)), key=lambda g: -len(members[g]))[:MAX_GROUPS]
    within, between = np.zeros((d, d)), np.zeros((d, d))
    for i in range(n):
        for j in range(i):
            g, h = groups[i], groups[j]
            if g == h:
                within += np.outer(features[i] - features[j], features[i] - features[j]) / len(members[g])
            elif apart[g, h] and g in largest and h in largest:
                between += np.outer(means[g] - means[h], means[g] - means[h])
    values, vectors = np.linalg.eigh(between)
    directions = vectors[:, -MAX_DIRECTIONS:]
    between = directions @ np.diag(values[-MAX_DIRECTIONS:]) @ directions.T
    spread = np.mean([np.var(reference[:, k]) for k in range(d)])
    inverse = np.linalg.inv(within / (n - len(members)) + RIDGE * spread * np.eye(d))
    matrix = inverse @ between @ inverse
    squares = [(a - b) @ matrix @ (a - b) for a in reference for b in reference]
    return matrix / np.mean(squares)


def draw(seed, n_items, n_features, n_groups, share_apart=1.0):
    """Draw groups with different means; any two of them are known to be different with the given probability."""
    rng = np.random.default_rng(seed)
    groups = np.concatenate([np.arange(n_groups), rng.integers(n_groups, size=n_items - n_groups)])
    rng.shuffle(groups)
    points = rng.normal(size=(n_items, n_features)) + 2.0 * rng.normal(size=(n_groups, n_features))[groups]
    known = np.triu(rng.random((n_groups, n_groups)) < share_apart, 1)
    known[0, -1] = True
    return points, Grouping(groups, known | known.T), rng.normal(size=(12, n_features)) * 2.0


def matrix_of(rows):
    assert rows is not None
    return rows.T @ rows


@pytest.mark.parametrize(
    ("n_items", "n_features", "n_groups", "share_apart"),
    [
        (3, 1, 2, 1.0),
        (12, 3, 2, 1.0),
        (30, 4, 5, 0.5),
        (9, 20, 3, 1.0),  # more features than items
        (60, 25, 30, 0.8),  # more directions than are stored
        (60, 80, 30, 0.8),
        (160, 3, 80, 0.3),  # more groups than are used for the scatter between them
    ],
)
def test_it_is_the_scatter_of_all_implied_pairs(n_items, n_features, n_groups, share_apart):
    points, grouping, reference = draw(n_items, n_items, n_features, n_groups, share_apart)
    rows = discriminant_rows(points, grouping, reference)
    expected = enumerated(points, grouping, reference)
    assert len(rows) <= min(MAX_DIRECTIONS, n_groups - 1)
    assert_allclose(matrix_of(rows), expected, rtol=RTOL, atol=RTOL * np.abs(expected).max())


def test_of_many_groups_the_largest_count():
    """Groups of one item are not among the largest 64, so their places do not matter."""
    rng = np.random.default_rng(0)
    n_groups = MAX_GROUPS + 40
    groups = np.concatenate([np.repeat(np.arange(MAX_GROUPS), 2), np.arange(MAX_GROUPS, n_groups)])
    points, apart = rng.normal(size=(len(groups), 5)), ~np.eye(n_groups, dtype=bool)
    moved = points.copy()
    moved[2 * MAX_GROUPS :] += 100.0
    grouping = Grouping(groups, apart)
    expected = matrix_of(discriminant_rows(points, grouping, points))
    assert_allclose(matrix_of(discriminant_rows(moved, grouping, points)), expected, rtol=RTOL)
    moved[0] += 1.0
    assert not np.allclose(matrix_of(discriminant_rows(moved, grouping, points)), expected)


@given(st.integers(0, 1000), st.integers(1, 8), st.integers(1, 8), st.integers(1, 5))
def test_both_systems_of_equations_have_one_solution(seed, n, d, rank):
    """Rows of zeros change no scatter, but enough of them make the other system the smaller one."""
    rng = np.random.default_rng(seed)
    within, between, ridge = rng.normal(size=(n, d)), rng.normal(size=(rank, d)), 0.1 + rng.random()
    primal = _solve(np.vstack([within, np.zeros((d, d))]), ridge, between)
    wide = [np.hstack([part, np.zeros((len(part), n))]) for part in (within, between)]
    dual = _solve(wide[0], ridge, wide[1])
    assert_allclose(dual[:, :d], primal, rtol=RTOL, atol=RTOL)
    assert_allclose(dual[:, d:], 0.0, atol=RTOL)
    assert_allclose(primal @ (within.T @ within + ridge * np.eye(d)), between, rtol=RTOL, atol=RTOL)


@given(st.integers(0, 1000), st.sampled_from([(20, 4, 3), (8, 12, 3), (40, 6, 25)]))
def test_rotations_moves_and_units_of_the_features(seed, sizes):
    points, grouping, reference = draw(seed, *sizes, share_apart=0.7)
    rng = np.random.default_rng(seed)
    rotation, shift = np.linalg.qr(rng.normal(size=(sizes[1], sizes[1])))[0], 10.0 * rng.normal(size=sizes[1])
    expected = matrix_of(discriminant_rows(points, grouping, reference))
    for unit in (1.0, 1e-70, 1e70):
        turned = [unit * (part @ rotation + shift) for part in (points, reference)]
        matrix = matrix_of(unit * discriminant_rows(turned[0], grouping, turned[1]))
        assert_allclose(rotation @ matrix @ rotation.T, expected, rtol=1e-7, atol=RTOL * np.abs(expected).max())


def test_points_may_be_far_from_the_origin():
    points, grouping, reference = draw(1, 20, 4, 3)
    points, reference = np.round(points, 3), np.round(reference, 3)
    expected = matrix_of(discriminant_rows(points, grouping, reference))
    far = discriminant_rows(points + 2.0**30, grouping, reference + 2.0**30)
    assert_allclose(matrix_of(far), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@given(st.integers(0, 1000))
def test_the_order_of_items_and_the_numbers_of_groups_do_not_matter(seed):
    points, grouping, reference = draw(seed, 25, 4, 6, share_apart=0.5)
    rng = np.random.default_rng(seed)
    order, numbers = rng.permutation(25), rng.permutation(6)
    apart = np.empty_like(grouping.apart)
    apart[np.ix_(numbers, numbers)] = grouping.apart
    rows = discriminant_rows(points[order], Grouping(numbers[grouping.groups[order]], apart), reference[::-1])
    expected = matrix_of(discriminant_rows(points, grouping, reference))
    assert_allclose(matrix_of(rows), expected, rtol=1e-7, atol=RTOL * np.abs(expected).max())


def test_groups_that_are_not_known_to_be_different_do_not_separate():
    points, grouping, reference = draw(0, 20, 4, 2)
    expected = matrix_of(discriminant_rows(points, grouping, reference))
    apart = np.zeros((3, 3), dtype=bool)
    apart[:2, :2] = grouping.apart
    with_another = np.vstack([points, 50.0 + points[:1]]), np.append(grouping.groups, 2)
    rows = discriminant_rows(with_another[0], Grouping(with_another[1], apart), reference)
    assert_allclose(matrix_of(rows), expected, rtol=RTOL)
    apart[0, 2] = apart[2, 0] = True
    known = discriminant_rows(with_another[0], Grouping(with_another[1], apart), reference)
    assert not np.allclose(matrix_of(known), expected)


def test_without_groups_that_are_different_there_is_none():
    points, grouping, reference = draw(0, 20, 4, 2)
    groups = grouping.groups
    assert discriminant_rows(points, grouping, reference) is not None
    none = np.zeros((2, 2), dtype=bool)
    for given_groups, given_apart in [
        (groups, none),  # nothing is known to be different
        (np.zeros(20, dtype=int), none[:1, :1]),  # one group
        (np.arange(20), ~np.eye(20, dtype=bool)),  # no two items are the same
    ]:
        arguments = Grouping(given_groups, given_apart), reference
        assert discriminant_rows(points, *arguments) is None
        assert linear_discriminant(points, *arguments) is None
        assert split_discriminants(points, points, *arguments, reference) == (None, None)
    one_point = np.repeat(reference[:1], 5, axis=0)
    assert discriminant_rows(points, grouping, one_point) is None
    assert discriminant_rows(np.ones((20, 4)), grouping, reference) is None  # the means are equal
    assert split_discriminants(points, np.ones((20, 3)), grouping, reference, np.ones((12, 3))) == (None, None)


def test_constant_features_have_no_weight():
    points, grouping, reference = draw(1, 20, 4, 3)
    points[:, 2] = reference[:, 2] = 0.1
    rows = discriminant_rows(points, grouping, reference)
    assert np.abs(rows[:, 2]).max() == 0.0
    assert np.isfinite(rows).all()
    expected = enumerated(points, grouping, reference)
    assert_allclose(matrix_of(rows), expected, rtol=RTOL, atol=RTOL * np.abs(expected).max())


def mean_squared_distance(metric, points):
    return np.mean([metric.squared_length(points - point) for point in points])


@pytest.mark.parametrize("seed", range(3))
def test_the_mean_squared_distance_of_reference_points_is_1_by_each_part(seed):
    points, grouping, reference = draw(seed, 20, 4, 3)
    euclidean = np.eye(4) / np.mean([np.square(a - b).sum() for a in reference for b in reference])
    metric = linear_discriminant(points, grouping, reference)
    assert mean_squared_distance(metric, reference) == pytest.approx(2.0, rel=RTOL)
    expected = euclidean + enumerated(points, grouping, reference)
    assert_allclose(metric.matrix, expected, rtol=RTOL, atol=RTOL * np.abs(expected).max())
    assert mean_square(reference) == pytest.approx(1.0 / euclidean[0, 0], rel=RTOL)
    features, feature_reference = np.sin(points), np.sin(reference)
    both, curved = split_discriminants(points, features, grouping, reference, feature_reference)
    assert_allclose(both.linear.matrix, metric.matrix, rtol=RTOL)
    assert_allclose(curved.linear.matrix, euclidean, rtol=RTOL)
    for split in (both, curved):
        expected = enumerated(features, grouping, feature_reference)
        assert_allclose(split.curved.matrix, expected, rtol=RTOL, atol=RTOL * np.abs(expected).max())


def test_a_direction_of_small_variance_that_separates_groups_is_found():
    rng = np.random.default_rng(0)
    groups = np.arange(60) % 2
    points = rng.normal(size=(60, 6)) * [0.2, 3.0, 3.0, 3.0, 3.0, 3.0]
    points[:, 0] += groups
    rows = discriminant_rows(points * [5.0, *[1 / 3] * 5], Grouping(groups, ~np.eye(2, dtype=bool)), points / 3)
    assert abs(rows[0, 0]) > 5.0 * np.abs(rows[0, 1:]).max()
