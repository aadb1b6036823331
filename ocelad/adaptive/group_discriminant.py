"""Discriminants of groups of items: distances that have learned from all pairs that the groups imply, at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad.adaptive.split_metric import SplitMetric
from ocelad.metric import Metric

#: The ridge of the scatter within groups, in mean variances of the features. It matters while there are few items.
RIDGE = 1.0
#: Directions of a discriminant, at most.
MAX_DIRECTIONS = 16
# Of more groups, those with the most items determine the directions.
MAX_GROUPS = 64
# Eigenvalues of the weights between groups below this share of the largest are rounding.
MIN_EIGENVALUE = 1e-12


class Grouping(NamedTuple):
    """The groups of some items.

    Attributes
    ----------
    groups : array of int of shape (n_items,)
        The group of each item: numbers from 0 on, without gaps.
    apart : array of bool of shape (n_groups, n_groups)
        Which groups are known to be different; symmetric.
    """

    groups: np.ndarray
    apart: np.ndarray


def linear_discriminant(points: Floats, grouping: Grouping, reference: Floats) -> Metric | None:
    """Return the discriminant of groups of points plus their Euclidean distance; see ``discriminant_rows``.

    The share of the Euclidean distance keeps nearest neighbours near while few items are known. The mean squared
    distance of the reference points is 1 by either part.
    """
    rows = discriminant_rows(points, grouping, reference)
    if rows is None:
        return None
    return Metric.low_rank(1.0 / mean_square(reference), rows, np.ones(len(rows)), 0.0)


def split_discriminants(
    points: Floats, features: Floats, grouping: Grouping, reference: Floats, feature_reference: Floats
) -> tuple[SplitMetric | None, SplitMetric | None]:
    """Return the sum of the discriminants of points and of their curved features, and that of curved features.

    Both include the Euclidean distance of the points.
    """
    linear = linear_discriminant(points, grouping, reference)
    rows = discriminant_rows(features, grouping, feature_reference)
    if linear is None or rows is None:
        return None, None
    curved = Metric.low_rank(0.0, rows, np.ones(len(rows)), 0.0)
    euclidean = Metric.low_rank(1.0 / mean_square(reference), np.zeros((0, points.shape[1])), np.zeros(0), 0.0)
    return SplitMetric(linear, curved, 0.0, 0), SplitMetric(euclidean, curved, 0.0, 0)


def discriminant_rows(features: Floats, grouping: Grouping, reference: Floats) -> Floats | None:
    """Return directions by which items of different groups differ, relative to those of one group (Fisher 1936).

    The squared distance is ``u' P B P u``. B is the mean of ``v v'`` over the differences v of all pairs of items whose
    groups are known to be different, each replaced by the difference of the groups' means. P is the inverse of the
    scatter of items around the means of their groups, which is that of all pairs within groups, plus a ridge. The
    scatter has as many degrees of freedom as there are items less groups, so that the pairs of few items do not count
    as if they were independent answers.

    Parameters
    ----------
    features : array of shape (n_items, n_features)
    grouping : Grouping
    reference : array of shape (n_points, n_features)
        Points like those that will be measured, whose mean squared distance will be 1.

    Returns
    -------
    array of shape (n_directions, n_features), or None
        None if no groups are known to be different, or no group has two items.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> points, groups = rng.normal(size=(40, 3)), np.arange(40) % 2
    >>> points[:, 0] += 4 * groups
    >>> rows = discriminant_rows(points, Grouping(groups, ~np.eye(2, dtype=bool)), points)
    >>> np.abs(rows / rows[0, 0]).round(0)
    array([[1., 0., 0.]])
    """
    groups, apart = grouping
    sizes = np.bincount(groups)
    n_items, n_groups = len(groups), len(sizes)
    ridge = RIDGE * float(reference.var(axis=0).mean())
    if n_items == n_groups or not apart.any() or not ridge > 0.0:
        return None
    # Far from the origin, differences would be rounded; those of a constant feature would not be 0.
    features, reference = features - features[0], reference - features[0]
    sums = np.zeros((n_groups, features.shape[1]))
    np.add.at(sums, groups, features)
    means = sums / sizes[:, None]
    within = (features - means[groups]) / np.sqrt(n_items - n_groups)
    rows = _solve(within, ridge, _between(means, sizes, apart))
    size = mean_square(reference @ rows.T)
    return np.asarray(rows / np.sqrt(size)) if size > 0.0 else None


def _between(means: Floats, sizes: np.ndarray, apart: np.ndarray) -> Floats:
    """Return rows whose squares sum to the scatter between groups that are known to be different."""
    if len(sizes) > MAX_GROUPS:
        largest = np.sort(np.argsort(-sizes, kind="stable")[:MAX_GROUPS])
        means, sizes, apart = means[largest], sizes[largest], apart[np.ix_(largest, largest)]
    weights = apart * np.outer(sizes, sizes) / float(sizes.sum()) ** 2
    values, vectors = np.linalg.eigh(np.diag(weights.sum(axis=1)) - weights)  # a Laplacian: pairs of groups
    kept = values > MIN_EIGENVALUE * max(values[-1], MIN_EIGENVALUE)
    rows = np.sqrt(values[kept])[:, None] * (vectors[:, kept].T @ means)
    if len(rows) <= MAX_DIRECTIONS:
        return np.asarray(rows)
    _, scales, directions = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(scales[:MAX_DIRECTIONS, None] * directions[:MAX_DIRECTIONS])


def _solve(within: Floats, ridge: float, between: Floats) -> Floats:
    """Return ``between (within' within + ridge I)^-1``, by the smaller of the two systems of equations."""
    n, d = within.shape
    if d <= n:
        return np.asarray(np.linalg.solve(within.T @ within + ridge * np.eye(d), between.T).T)
    dual = np.linalg.solve(within @ within.T + ridge * np.eye(n), within @ between.T)
    return np.asarray((between - dual.T @ within) / ridge)


def mean_square(points: Floats) -> float:
    """Return the mean squared distance of two of the points, drawn with replacement."""
    return 2.0 * float(points.var(axis=0).sum())
