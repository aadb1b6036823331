"""The error of k nearest neighbours, by distance or by any other closeness."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocelad._validation import check_array, check_integer
from ocelad.evaluation.scores.kernels.blocks import packed
from ocelad.evaluation.scores.kernels.neighbors import FEW, closest, nearest, nearest_few, wrong_votes
from ocelad.evaluation.scores.labelled import Ready, classes_of, labelled, ready


def knn_error(
    points: Any, labels: Any, n_neighbors: int = 5, *, test_points: Any = None, test_labels: Any = None
) -> float:
    """The share of points that the vote of their nearest others gets wrong (leave-one-out).

    With test points it is the share of those that the vote of the nearest points gets wrong.

    Parameters
    ----------
    points : array-like of shape (n_points, n_features)
    labels : array-like of shape (n_points,)
        Numbers or text.
    n_neighbors : int
        How many vote. The class of most votes wins; of several, the first in the order of labels.
    test_points, test_labels : array-like of shape (n_test, n_features) and (n_test,), optional
        Points that are judged and do not vote.

    Returns
    -------
    float
        From 0, all are right, to 1.

    Examples
    --------
    >>> knn_error([[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1], n_neighbors=1)
    0.0
    >>> knn_error([[0.0], [5.0]], ["a", "b"], 1, test_points=[[1.0], [2.0]], test_labels=["a", "b"])
    0.5

    Notes
    -----
    Distances are sums of squared differences in double precision, not of inner products, which lose digits where the
    points lie far from the origin. Of others that are equally far those in earlier rows vote.
    """
    X, classes = labelled(points, labels)
    k = few(n_neighbors, len(X) if test_points is not None else len(X) - 1, len(X))
    if test_points is None:
        if test_labels is not None:
            raise ValueError("test_labels is given without test_points; accepted: both or none")
        return leave_one_out_error(ready(X), classes, k)
    T = check_array(test_points, "test_points", 2, n_features=X.shape[1])
    classes, truth = both_classes(labels, test_labels, len(X), len(T))
    return error_of(_nearest(ready(X, T), k, themselves=False), classes, truth)


def leave_one_out_error(made: Ready, classes: np.ndarray, k: int) -> float:
    """``knn_error`` of points that have been checked."""
    return error_of(_nearest(made, k, themselves=True), classes, classes)


def knn_error_by_closeness(closeness: Any, labels: Any, n_neighbors: int = 5, *, test_labels: Any = None) -> float:
    """``knn_error`` where a table says how close points are: any similarity, larger is nearer.

    Parameters
    ----------
    closeness : array-like of shape (n_points, n_points), or (n_test, n_points) with ``test_labels``
        In row i how close the others are to point i; what is on the diagonal does not matter. It need not be symmetric.
    labels : array-like of shape (n_points,)
    n_neighbors : int
    test_labels : array-like of shape (n_test,), optional
        Of the rows, where these are points that do not vote.

    Returns
    -------
    float

    Examples
    --------
    >>> knn_error_by_closeness([[0, 9, 1], [9, 0, 1], [1, 2, 0]], ["a", "a", "b"], n_neighbors=1)
    0.3333333333333333
    """
    table = check_array(closeness, "closeness", 2)
    n_rows, n_points = table.shape
    if test_labels is None:
        if n_rows != n_points:
            raise ValueError(f"closeness has shape {table.shape}; accepted: (n_points, n_points) without test_labels")
        truth = classes = classes_of(labels, n_points)
    else:
        classes, truth = both_classes(labels, test_labels, n_points, n_rows)
    k = few(n_neighbors, n_points - (test_labels is None), n_points)
    return error_of(closest(table, k, test_labels is None), classes, truth)


def _nearest(made: Ready, k: int, themselves: bool) -> np.ndarray:
    if k > FEW:
        return nearest(made.places, packed(made.points), k, themselves)
    return nearest_few(made.places, packed(made.points), made.centred_places, *made.screen, k, themselves)


def few(n_neighbors: Any, most: int, n_points: int) -> int:
    """The number of neighbours; checked."""
    k = check_integer(n_neighbors, "n_neighbors", at_least=1)
    if k > most:
        others = f"each of {n_points} points has only {most} others" if most < n_points else f"there are {most} points"
        raise ValueError(f"n_neighbors is {k}, but {others}")
    return k


def both_classes(labels: Any, test_labels: Any, n_points: int, n_test: int) -> tuple[np.ndarray, np.ndarray]:
    """The classes of the points and of the test points, by one numbering."""
    classes_of(labels, n_points)
    classes_of(test_labels, n_test, "test_labels", "test points")
    together = classes_of(np.concatenate([labels, test_labels]), n_points + n_test)
    return together[:n_points].copy(), together[n_points:].copy()


def error_of(neighbors: np.ndarray, classes: np.ndarray, truth: np.ndarray) -> float:
    """How often the vote of the neighbours is wrong."""
    n_classes = int(max(classes.max(), truth.max())) + 1
    return int(wrong_votes(neighbors, classes, truth, n_classes)) / len(truth)
