"""The error of k-nearest-neighbour classification of sparse points."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocelad._compile import jit
from ocelad._typing import Floats
from ocelad._validation import check_sparse, is_sparse
from ocelad.evaluation.scores.kernels.distance_blocks import Ints
from ocelad.evaluation.scores.kernels.nearest_neighbors import clear_neighbors, insert_neighbor
from ocelad.evaluation.scores.knn import check_n_neighbors, encode_both, vote_error
from ocelad.evaluation.scores.prepared_points import encode_labels


def sparse_knn_error(
    points: Any, labels: Any, n_neighbors: int = 5, *, test_points: Any = None, test_labels: Any = None
) -> float:
    """Compute ``knn_error`` of SciPy sparse rows, from inner products.

    The cost of a pair of points is proportional to the number of their common nonzero features.

    Parameters
    ----------
    points : sparse matrix of shape (n_points, n_features)
    labels, n_neighbors, test_labels
        As in ``knn_error``.
    test_points : sparse matrix of shape (n_test, n_features), optional

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> sparse_knn_error(csr_array([[1, 0], [2, 0], [0, 5], [0, 6]]), [0, 0, 1, 1], n_neighbors=1)
    0.0

    Notes
    -----
    The squared distance minus ``|x|^2`` is computed as ``|z|^2 - 2 x'z``. This is exact for counts, and loses digits
    for points that are much nearer to each other than to the origin. Of equally distant neighbours those in earlier
    rows vote.
    """
    if not is_sparse(points):
        raise TypeError(f"points is a {type(points).__name__}; accepted: a SciPy sparse matrix of one point per row")
    X = check_sparse(points, "points")
    n, classes = X.shape[0], encode_labels(labels, X.shape[0])
    leave_one_out = test_points is None
    if leave_one_out != (test_labels is None):
        raise ValueError("one of test_points and test_labels is given without the other; accepted: both or neither")
    T, truth = X, classes
    if not leave_one_out:
        T = check_sparse(test_points, "test_points", n_features=X.shape[1])
        classes, truth = encode_both(labels, test_labels, n, T.shape[0])
    k = check_n_neighbors(n_neighbors, n - leave_one_out, n)
    squares = np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64)
    return vote_error(_nearest(*_arrays(T), *_arrays(X.T.tocsr()), squares, k, leave_one_out), classes, truth)


def _arrays(rows: Any) -> tuple[Ints, Ints, Floats]:
    return rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data


@jit
def _nearest(
    row_ends: Ints,
    row_features: Ints,
    row_values: Floats,
    feature_ends: Ints,
    feature_points: Ints,
    feature_values: Floats,
    squares: Floats,
    k: int,
    exclude_self: bool,
) -> Ints:
    """Return the k points nearest to each row.

    The rows come in CSR form, and the points in CSC form: for each feature the points that have it.
    """
    n_rows, n_points = len(row_ends) - 1, len(squares)
    distances, neighbors = np.empty((n_rows, k)), np.empty((n_rows, k), dtype=np.int64)
    out = np.empty(n_points)
    for i in range(n_rows):
        for j in range(n_points):
            out[j] = squares[j]
        for at in range(row_ends[i], row_ends[i + 1]):
            twice, feature = 2.0 * row_values[at], row_features[at]
            for there in range(feature_ends[feature], feature_ends[feature + 1]):
                out[feature_points[there]] -= twice * feature_values[there]
        clear_neighbors(distances, i)
        for j in range(n_points):
            if out[j] < distances[i, k - 1] and not (exclude_self and i == j):
                insert_neighbor(out[j], j, distances, neighbors, i)
    return neighbors
