"""find_axes, embed_along: an embedding with a fixed number of dimensions, in which a distance is approximate."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer, check_sparse, is_sparse
from ocelad.curved_metric import AnyMetric, CurvedMetric, project
from ocelad.feature_maps import LandmarkMap

# The largest number of features for which all components of a metric are computed.
MAX_PROJECTED = 4000


def check_n_components(n_components: Any, n_features: int | None = None) -> int | None:
    """Return the parameter ``n_components`` of an estimator after checking it; ``n_features`` limits it."""
    if n_components is None:
        return None
    count = check_integer(n_components, "n_components", at_least=1)
    if n_features is not None and count > n_features:
        raise ValueError(f"n_components is {count}; accepted: up to the number of features, {n_features}")
    return count


def find_axes(metric: AnyMetric, n_components: int, items: Any) -> Floats | None:
    """Return the matrix whose columns are the first principal axes of items in the learned space.

    None without items, and with so many features that only the largest eigenvalues can be computed.
    """
    if items is None or metric.n_features > MAX_PROJECTED:
        return None
    # Items are enough for a sparse metric of points, but landmarks need dense rows.
    rows = items.toarray() if is_sparse(items) and isinstance(metric, CurvedMetric) else items
    return metric.projection(rows, n_components)


def embed_along(metric: AnyMetric, X: Any, n_components: int, axes: Floats | None) -> Floats:
    """Return points of exactly ``n_components`` dimensions; the last ones are 0 if the metric has a smaller rank.

    Parameters
    ----------
    metric : Metric or CurvedMetric
    X : array or sparse matrix of shape (n_rows, n_features)
    n_components : int
    axes : array or None
        The result of ``find_axes``. None: dimensions are ordered by eigenvalue, or by the variance of the landmarks of
        a curved distance.

    Examples
    --------
    >>> from ocelad import Metric
    >>> metric = Metric.from_diagonal([9.0, 1.0])
    >>> items = np.array([[0.0, 0.0], [0.1, 10.0], [0.0, 20.0]])  # they differ by the second feature
    >>> embed_along(metric, items[2:], 1, None), embed_along(metric, items[2:], 1, find_axes(metric, 1, items)).round(1)
    (array([[0.]]), array([[20.]]))
    """
    if isinstance(metric, CurvedMetric):
        if is_sparse(X) and axes is not None:
            X = X.toarray()
        if axes is None and metric.feature_map is not None and not isinstance(metric.feature_map, LandmarkMap):
            # Without landmarks, CurvedMetric.embed takes the axes of the rows, which differ from call to call.
            return _pad(metric.extended.embed(metric.extend(X), n_components), n_components)
    else:
        check_n_components(n_components, metric.n_features)
    if axes is None:
        return _pad(metric.embed(X, n_components), n_components)
    if is_sparse(X):
        return _pad(np.asarray(check_sparse(X, "X", n_features=metric.n_features) @ axes), n_components)
    return _pad(project(metric, X, axes), n_components)


def _pad(points: Floats, n_components: int) -> Floats:
    missing = n_components - points.shape[1]
    return np.pad(points, ((0, 0), (0, missing))) if missing > 0 else points
