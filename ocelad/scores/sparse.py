"""The error of k nearest neighbours where points are sparse."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ocelad import checks
from ocelad.checks import Floats
from ocelad.online.compiled import compiled
from ocelad.scores.labelled import classes_of

Ints = npt.NDArray[np.int64]


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
    if not checks.is_sparse(points):
        raise TypeError(f"points is a {type(points).__name__}; accepted: a SciPy sparse matrix of one point per row")
    X = checks.sparse(points, "points")
    n, classes = X.shape[0], classes_of(labels, X.shape[0])
    alone = test_points is None
    if alone != (test_labels is None):
        raise ValueError("one of test_points and test_labels is given without the other; accepted: both or none")
    T, truth = X, classes
    if not alone:
        T = checks.sparse(test_points, "test_points", n_features=X.shape[1])
        classes_of(test_labels, T.shape[0], "test_labels", "test points")
        together = classes_of(np.concatenate([labels, test_labels]), n + T.shape[0])
        classes, truth = together[:n], together[n:]
    k = checks.whole(n_neighbors, "n_neighbors", at_least=1)
    if k > n - alone:
        raise ValueError(f"n_neighbors is {k}, but there are only {n - alone} points that vote")
    voters = X.T.tocsr()
    squares = np.asarray(X.multiply(X).sum(axis=1), dtype=np.float64)
    neighbors = _nearest(*_arrays(T), *_arrays(voters), squares, k, alone)
    votes = np.zeros((len(truth), int(max(classes.max(), truth.max())) + 1), dtype=np.int64)
    np.add.at(votes, (np.arange(len(truth))[:, None], classes[neighbors]), 1)
    return float(np.mean(votes.argmax(axis=1) != truth))


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
    neighbors = np.empty((n_rows, k), dtype=np.int64)
    kept, out = np.empty(k), np.empty(n_points)
    for i in range(n_rows):
        for j in range(n_points):
            out[j] = squares[j]
        for at in range(row_ends[i], row_ends[i + 1]):
            twice, feature = 2.0 * row_values[at], row_features[at]
            for there in range(feature_ends[feature], feature_ends[feature + 1]):
                out[feature_points[there]] -= twice * feature_values[there]
        for m in range(k):
            kept[m] = np.inf
        for j in range(n_points):
            if out[j] < kept[k - 1] and not (themselves and i == j):
                place = k - 1
                while place > 0 and kept[place - 1] > out[j]:
                    kept[place] = kept[place - 1]
                    neighbors[i, place] = neighbors[i, place - 1]
                    place -= 1
                kept[place] = out[j]
                neighbors[i, place] = j
    return neighbors
