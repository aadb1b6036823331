"""The error of k nearest neighbours where points are sparse."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocelad._compile import compiled
from ocelad._typing import Floats
from ocelad._validation import check_sparse, is_sparse
from ocelad.evaluation.scores.kernels.blocks import Ints
from ocelad.evaluation.scores.kernels.neighbors import keep, nobody_yet
from ocelad.evaluation.scores.labelled import classes_of
from ocelad.evaluation.scores.neighbors import both_classes, error_of, few


def sparse_knn_error(
    points: Any, labels: Any, n_neighbors: int = 5, *, test_points: Any = None, test_labels: Any = None
) -> float:
    """``knn_error`` of SciPy sparse rows, by their inner products.

    What it takes grows with the numbers that are not zero: two points cost as much as they have features in common.

    Parameters
    ----------
    points : sparse matrix of shape (n_points, n_features)
    labels, n_neighbors, test_labels
        As of ``knn_error``.
    test_points : sparse matrix of shape (n_test, n_features), optional

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> sparse_knn_error(csr_array([[1, 0], [2, 0], [0, 5], [0, 6]]), [0, 0, 1, 1], n_neighbors=1)
    0.0

    Notes
    -----
    The squared distance less ``|x|^2`` is ``|z|^2 - 2 x'z``, which is exact for counts, and loses digits for points
    that are much nearer to each other than to the origin. Of others that are equally far those in earlier rows vote.
    """
    if not is_sparse(points):
        raise TypeError(f"points is a {type(points).__name__}; accepted: a SciPy sparse matrix of one point per row")
    X = check_sparse(points, "points")
    n, classes = X.shape[0], classes_of(labels, X.shape[0])
    alone = test_points is None
    if alone != (test_labels is None):
        raise ValueError("one of test_points and test_labels is given without the other; accepted: both or none")
    T, truth = X, classes
    if not alone:
        T = check_sparse(test_points, "test_points", n_features=X.shape[1])
        classes, truth = both_classes(labels, test_labels, n, T.shape[0])
    k = few(n_neighbors, n - alone, n)
    voters = X.T.tocsr()
    squares = np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64)
    return error_of(_nearest(*_arrays(T), *_arrays(voters), squares, k, alone), classes, truth)


def _arrays(rows: Any) -> tuple[Ints, Ints, Floats]:
    return rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data


@compiled
def _nearest(
    row_ends: Ints,
    row_features: Ints,
    row_values: Floats,
    feature_ends: Ints,
    feature_points: Ints,
    feature_values: Floats,
    squares: Floats,
    k: int,
    themselves: bool,
) -> Ints:
    """The k points nearest to each row; rows feature by feature, and of each feature the points that have it."""
    n_rows, n_points = len(row_ends) - 1, len(squares)
    kept, neighbors = np.empty((n_rows, k)), np.empty((n_rows, k), dtype=np.int64)
    out = np.empty(n_points)
    for i in range(n_rows):
        for j in range(n_points):
            out[j] = squares[j]
        for at in range(row_ends[i], row_ends[i + 1]):
            twice, feature = 2.0 * row_values[at], row_features[at]
            for there in range(feature_ends[feature], feature_ends[feature + 1]):
                out[feature_points[there]] -= twice * feature_values[there]
        nobody_yet(kept, i)
        for j in range(n_points):
            if out[j] < kept[i, k - 1] and not (themselves and i == j):
                keep(out[j], j, kept, neighbors, i)
    return neighbors
