"""The error of k-nearest-neighbour classification, by distance or by any similarity."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocelad._validation import check_array, check_integer
from ocelad.evaluation.scores.kernels.distance_blocks import pack_blocks
from ocelad.evaluation.scores.kernels.nearest_neighbors import (
    MAX_SCREENED_NEIGHBORS,
    count_wrong_votes,
    most_similar,
    nearest_neighbors,
    nearest_neighbors_screened,
)
from ocelad.evaluation.scores.prepared_points import PreparedPoints, check_labelled_points, encode_labels, prepare


def knn_error(
    points: Any, labels: Any, n_neighbors: int = 5, *, test_points: Any = None, test_labels: Any = None
) -> float:
    """The error rate of k-nearest-neighbour classification, leave-one-out or on test points.

    Parameters
    ----------
    points : array-like of shape (n_points, n_features)
    labels : array-like of shape (n_points,)
        Numbers or text.
    n_neighbors : int
        The number of neighbours that vote. The class with the most votes wins; of several, the first in the order of
        labels.
    test_points, test_labels : array-like of shape (n_test, n_features) and (n_test,), optional
        Points that are classified and do not vote. Default: each point is classified by the others (leave-one-out).

    Returns
    -------
    float
        From 0, all correct, to 1.

    Examples
    --------
    >>> knn_error([[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1], n_neighbors=1)
    0.0
    >>> knn_error([[0.0], [5.0]], ["a", "b"], 1, test_points=[[1.0], [2.0]], test_labels=["a", "b"])
    0.5

    Notes
    -----
    Distances are sums of squared differences in double precision. Inner products would lose digits for points far from
    the origin. Of equally distant neighbours those in earlier rows vote.
    """
    X, classes = check_labelled_points(points, labels)
    k = check_n_neighbors(n_neighbors, len(X) if test_points is not None else len(X) - 1, len(X))
    if test_points is None:
        if test_labels is not None:
            raise ValueError("test_labels is given without test_points; accepted: both or neither")
        return leave_one_out_error(prepare(X), classes, k)
    T = check_array(test_points, "test_points", 2, n_features=X.shape[1])
    classes, truth = encode_both(labels, test_labels, len(X), len(T))
    return vote_error(_nearest(prepare(X, T), k, exclude_self=False), classes, truth)


def leave_one_out_error(prepared: PreparedPoints, classes: np.ndarray, k: int) -> float:
    """Compute the leave-one-out ``knn_error`` of points that are prepared already."""
    return vote_error(_nearest(prepared, k, exclude_self=True), classes, classes)


def knn_error_from_similarity(similarity: Any, labels: Any, n_neighbors: int = 5, *, test_labels: Any = None) -> float:
    """Compute ``knn_error`` from a matrix of similarities; larger is nearer.

    Parameters
    ----------
    similarity : array-like of shape (n_points, n_points), or (n_test, n_points) with ``test_labels``
        Row i holds the similarity of each point to point i. The diagonal is ignored without ``test_labels``. The matrix
        need not be symmetric.
    labels : array-like of shape (n_points,)
    n_neighbors : int
    test_labels : array-like of shape (n_test,), optional
        The labels of the rows, if these are test points that do not vote.

    Returns
    -------
    float

    Examples
    --------
    >>> knn_error_from_similarity([[0, 9, 1], [9, 0, 1], [1, 2, 0]], ["a", "a", "b"], n_neighbors=1)
    0.3333333333333333
    """
    table = check_array(similarity, "similarity", 2)
    n_rows, n_points = table.shape
    if test_labels is None:
        if n_rows != n_points:
            raise ValueError(f"similarity has shape {table.shape}; accepted: (n_points, n_points) without test_labels")
        truth = classes = encode_labels(labels, n_points)
    else:
        classes, truth = encode_both(labels, test_labels, n_points, n_rows)
    k = check_n_neighbors(n_neighbors, n_points - (test_labels is None), n_points)
    return vote_error(most_similar(table, k, test_labels is None), classes, truth)


def _nearest(prepared: PreparedPoints, k: int, exclude_self: bool) -> np.ndarray:
    if k > MAX_SCREENED_NEIGHBORS:
        return nearest_neighbors(prepared.queries, pack_blocks(prepared.points), k, exclude_self)
    return nearest_neighbors_screened(
        prepared.queries, pack_blocks(prepared.points), prepared.centred_queries, *prepared.screen, k, exclude_self
    )


def check_n_neighbors(n_neighbors: Any, max_neighbors: int, n_points: int) -> int:
    """Return the validated number of neighbours."""
    k = check_integer(n_neighbors, "n_neighbors", at_least=1)
    if k > max_neighbors:
        kind = "other points" if max_neighbors < n_points else "points"
        raise ValueError(f"n_neighbors is {k}; accepted: at most {max_neighbors}, the number of {kind}")
    return k


def encode_both(labels: Any, test_labels: Any, n_points: int, n_test: int) -> tuple[np.ndarray, np.ndarray]:
    """Encode the labels of the points and of the test points by the same integers."""
    encode_labels(labels, n_points)
    encode_labels(test_labels, n_test, "test_labels", "test points")
    encoded = encode_labels(np.concatenate([labels, test_labels]), n_points + n_test)
    return encoded[:n_points].copy(), encoded[n_points:].copy()


def vote_error(neighbors: np.ndarray, classes: np.ndarray, truth: np.ndarray) -> float:
    """Return the share of rows whose majority vote is wrong."""
    n_classes = int(max(classes.max(), truth.max())) + 1
    return int(count_wrong_votes(neighbors, classes, truth, n_classes)) / len(truth)
