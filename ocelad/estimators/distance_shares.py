"""distance_shares: how much each input feature contributes to the squared distances between items."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad._validation import check_array, check_sparse, is_sparse
from ocelad.curved_metric import AnyMetric, CurvedMetric, linear_part
from ocelad.feature_maps import FeatureMap, LandmarkMap
from ocelad.metric import Metric
from ocelad.pairs import subtract

#: Of more items, a random sample of this size is used, with a fixed seed.
MAX_ITEMS = 20_000
#: Ordered pairs of items on which a curved part is measured; of more pairs, a random sample with a fixed seed.
MAX_CURVED_PAIRS = 2000
# Pairs for a map without a known gradient, at most.
MAX_REPLACED_PAIRS = 256
# Nodes of the Gauss-Legendre quadrature on the line between two items.
N_NODES = 8
# Numbers in one block of rows, about: bounds the memory that products need.
_BLOCK_NUMBERS = 2_000_000


def distance_shares(metric: AnyMetric, items: Any, *, max_pairs: int = MAX_CURVED_PAIRS) -> Floats:
    """Return each feature's share of the squared distances between items, averaged over all pairs of items.

    The squared distance of two items that differ by u is ``u'Mu``, the sum of ``u_j (M u)_j`` over the features j. The
    share of feature j is the mean of ``u_j (M u)_j`` over all pairs, divided by the mean of ``u'Mu``. Shares sum to 1.
    They do not depend on the units of the features, and a feature that is equal for all items has the share 0.

    The share of a feature that is correlated with others can be negative: what it adds to the distances is then less
    than what it cancels in others.

    A curved distance is attributed by integrated gradients (Sundararajan, Taly and Yan 2017): ``u_j`` times the mean of
    the derivative of the squared distance by feature j, on the line from one item to the other. For a linear metric
    this is the same ``u_j (M u)_j``, and for every distance the sum over the features is the squared distance. The
    curved part is measured on a sample of the pairs of items.

    Parameters
    ----------
    metric : Metric or CurvedMetric
    items : array or sparse matrix of shape (n_items, n_features)
        At least two; of more than 20,000, a random sample with a fixed seed is used.
    max_pairs : int
        The number of pairs on which a curved part is measured, at most.

    Returns
    -------
    array of shape (n_features,)
        All are 0 if all distances are 0.

    Examples
    --------
    >>> items = [[0.0, 0.0, 7.0], [1.0, 0.0, 7.0], [0.0, 100.0, 7.0], [1.0, 100.0, 7.0]]
    >>> distance_shares(Metric.from_diagonal([3.0, 1e-4, 5.0]), items)
    array([0.75, 0.25, 0.  ])
    """
    X = check_items(items, "items", metric.n_features)
    if X.shape[0] > MAX_ITEMS:
        X = X[np.sort(np.random.default_rng(0).choice(X.shape[0], MAX_ITEMS, replace=False))]
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(metric, CurvedMetric):
            X = metric.prepare(X)
        parts = _linear_parts(linear_part(metric), X)
        if isinstance(metric, CurvedMetric) and metric.feature_map is not None:
            parts = parts + _curved_parts(metric, X, max_pairs)
    return normalize_parts(parts)


def check_items(items: Any, name: str, n_features: int) -> Any:
    """Return items as an array or ``csr_array`` of at least two rows; refuse others."""
    if is_sparse(items):
        X: Any = check_sparse(items, name, n_features=n_features)
    else:
        X = check_array(items, name, 2, n_features=n_features)
    if X.shape[0] < 2:
        raise ValueError(f"{name} has 1 row; accepted: two rows or more, because shares are means over pairs of rows")
    return X


def normalize_parts(parts: Floats) -> Floats:
    """Return the parts of the squared distance divided by their sum; zeros, if the sum is 0."""
    with np.errstate(over="ignore"):
        total = float(parts.sum())
    if not np.isfinite(total):
        raise ValueError("the items are too far apart: their squared distances overflow")
    return parts / total if total > 0.0 else np.zeros_like(parts)


def parts_of_moments(metric: Metric, S: Floats) -> Floats:
    """Return the mean of ``u_j (M u)_j`` for each feature j: the diagonal of ``S M``, where S is the mean of ``u u'``.

    >>> parts_of_moments(Metric([[2.0, 1.0], [1.0, 2.0]]), np.array([[1.0, 0.5], [0.5, 4.0]]))
    array([2.5, 8.5])
    """
    arrays = metric.arrays()
    if "matrix" in arrays:
        return np.asarray(np.einsum("ij,ij->i", S, arrays["matrix"]))
    rows, scales = arrays["rows"], arrays["scales"]
    return np.asarray(arrays["diagonal"] * np.diagonal(S) + np.einsum("ki,ki->i", rows, scales[:, None] * (rows @ S)))


def parts_of_differences(metric: Metric, U: Floats) -> Floats:
    """Return the mean over rows u of ``u_j (M u)_j`` for each feature j."""
    parts, size = np.zeros(U.shape[1]), _block_size(U.shape[1])
    for first in range(0, len(U), size):
        block = U[first : first + size]
        parts += np.einsum("ij,ji->j", block, metric.matmul(block.T))
    return parts / len(U)


def _block_size(n_columns: int) -> int:
    return max(1, _BLOCK_NUMBERS // n_columns)


def _linear_parts(metric: Metric, X: Any) -> Floats:
    """Return the mean over all pairs of rows of ``u_j (M u)_j``: with centered rows x, twice the sum over n - 1."""
    n = X.shape[0]
    if is_sparse(X):
        return np.asarray(_sparse_parts(metric, X) * (2.0 / (n - 1)))
    centered = X - X[0]  # exact zeros where a feature is constant
    centered -= centered.mean(axis=0)
    return np.asarray(parts_of_differences(metric, centered) * (2.0 * n / (n - 1)))


def _sparse_parts(metric: Metric, X: Any) -> Floats:
    """Return the sum over rows x of ``(x - m)_j (M (x - m))_j`` with their mean m; rows stay sparse."""
    arrays, (n, d) = metric.arrays(), X.shape
    if "matrix" in arrays:
        sums, size = np.zeros(d), _block_size(d)
        for first in range(0, n, size):
            block = X[first : first + size]
            sums += np.asarray(block.multiply(block @ arrays["matrix"]).sum(axis=0)).ravel()
    else:
        rows, scales = arrays["rows"], arrays["scales"]
        squares = np.asarray(X.multiply(X).sum(axis=0)).ravel()
        sums = arrays["diagonal"] * squares + np.einsum("ki,ik->i", rows * scales[:, None], X.T @ (X @ rows.T))
    mean = np.asarray(X.mean(axis=0)).ravel()
    sums = sums - n * mean * metric.matmul(mean[:, None])[:, 0]
    is_constant = X.max(axis=0).toarray().ravel() == X.min(axis=0).toarray().ravel()
    return np.where(is_constant, 0.0, sums)  # without rounding


def _curved_parts(metric: CurvedMetric, X: Any, max_pairs: int) -> Floats:
    """Return the integrated gradients of the curved part, averaged over ordered pairs of rows.

    On the line ``p = z + a u`` from z to x, the curved part is ``|f(p) - f(z)|_C^2``, with ``f(p) = k(p) P`` for the
    similarities k to the landmarks and the projection P. Its gradient is ``sum_l h_l (p - l) (-2 / width)`` with
    ``h = k * (2 P C (f(p) - f(z)))``. Each feature's part is ``u_j`` times the integral of its derivative over a.
    """
    feature_map, C = metric.feature_map, metric.curved_part
    assert feature_map is not None
    assert C is not None
    if not isinstance(feature_map, LandmarkMap):
        return _replaced_parts(feature_map, C, X.toarray() if is_sparse(X) else X)
    landmarks, width = feature_map.landmarks, feature_map.width
    projection = feature_map.projection.astype(np.float64)
    if is_sparse(X) != is_sparse(landmarks):
        X, landmarks = (rows.toarray() if is_sparse(rows) else rows for rows in (X, landmarks))
    if not is_sparse(X):  # relative to a centre: points far from the origin would lose digits
        center = landmarks.mean(axis=0)
        X, landmarks = X - center, landmarks - center
    similarities = LandmarkMap(landmarks, width, projection).similarities
    left, right = _ordered_pairs(X.shape[0], max_pairs)
    nodes, node_weights = np.polynomial.legendre.leggauss(N_NODES)
    parts, size = np.zeros(metric.n_features), _block_size(max(landmarks.shape))
    for first in range(0, len(left), size):
        Z = X[left[first : first + size]]
        U = subtract(X[right[first : first + size]], Z)
        start = similarities(Z) @ projection
        for node, weight in zip((nodes + 1.0) / 2.0, node_weights / 2.0, strict=True):
            P = Z + node * U
            K = similarities(P)
            H = K * (2.0 * C.matmul((K @ projection - start).T).T @ projection.T)
            parts += weight * (_column_sums(U, landmarks, H) - _weighted_products(U, P, H.sum(axis=1)))
    return parts * (2.0 / (width * len(left)))


def _replaced_parts(feature_map: FeatureMap, C: Metric, X: Floats) -> Floats:
    """Return how far the curved part moves x on average if one feature is replaced by that of z, for each feature.

    A map that the user gave has no known gradient. The parts are scaled so that they sum to the mean curved part.
    """
    left, right = _ordered_pairs(len(X), MAX_CURVED_PAIRS)
    chosen = np.random.default_rng(0).permutation(len(left))[:MAX_REPLACED_PAIRS]
    x, z = X[right[chosen]], X[left[chosen]]
    outputs = feature_map(x)
    whole = float(C.squared_length(outputs - feature_map(z)).mean())
    parts = np.empty(X.shape[1])
    for j in range(X.shape[1]):
        replaced = x.copy()
        replaced[:, j] = z[:, j]
        parts[j] = C.squared_length(outputs - feature_map(replaced)).mean()
    total = float(parts.sum())
    return parts * (whole / total) if total > 0.0 else np.zeros(len(parts))


def _ordered_pairs(n: int, max_pairs: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return all ordered pairs of different positions below n, or a sample of ``max_pairs`` of them."""
    if n * (n - 1) <= max_pairs:
        left, right = np.nonzero(~np.eye(n, dtype=bool))
        return left, right
    rng = np.random.default_rng(0)
    left = rng.integers(n, size=max_pairs)
    return left, (left + rng.integers(1, n, size=max_pairs)) % n


def _column_sums(U: Any, landmarks: Any, H: Floats) -> Floats:
    """Return ``sum_i u_ij (H L)_ij`` for each column j."""
    if is_sparse(U):
        return np.asarray(landmarks.multiply((U.T @ H).T).sum(axis=0)).ravel()
    return np.asarray(np.einsum("ij,ij->j", U, H @ landmarks))


def _weighted_products(U: Any, P: Any, weights: Floats) -> Floats:
    """Return ``sum_i w_i u_ij p_ij`` for each column j."""
    if is_sparse(U):
        return np.asarray(U.multiply(P).T @ weights)
    return np.asarray(np.einsum("i,ij,ij->j", weights, U, P))
