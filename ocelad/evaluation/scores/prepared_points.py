"""Labelled points in the form that the kernels take."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_array
from ocelad.evaluation.scores.kernels.screen import Screen, make_screen

# Sums of squares of numbers between 1 / MAX_SAFE and MAX_SAFE neither overflow nor underflow.
MAX_SAFE = 1e100


def encode_labels(labels: Any, count: int, name: str = "labels", owner: str = "points") -> np.ndarray:
    """Return the labels as integers 0, 1, ... in sorted order.

    >>> encode_labels(["b", "a", "b"], 3)
    array([1, 0, 1])
    """
    if np.shape(labels) != (count,):
        raise ValueError(f"{name} has shape {np.shape(labels)}; accepted: one label for each of the {count} {owner}")
    if type(labels) is np.ndarray and labels.dtype.kind in "iu" and labels.min() >= 0 and labels.max() < count:
        used = np.bincount(labels.astype(np.int64, copy=False)) > 0
        return np.asarray((used.cumsum() - 1)[labels])
    try:
        return np.unique(labels, return_inverse=True)[1]
    except TypeError:
        raise TypeError(f"{name} hold values that cannot be compared; accepted: all numbers or all text") from None


def check_labelled_points(points: Any, labels: Any) -> tuple[Floats, np.ndarray]:
    """Return the validated points, and their labels as integers."""
    X = check_array(points, "points", 2)
    return X, encode_labels(labels, len(X))


def rescale(*arrays: Floats) -> tuple[Floats, ...]:
    """Multiply all points by one power of two if their squares would overflow or underflow. This is exact.

    >>> [X.tolist() for X in rescale(np.array([[2.0**600]]), np.array([[2.0**599]]))]
    [[[0.5]], [[0.25]]]
    """
    largest = _largest(*arrays)
    if largest == 0 or 1 / MAX_SAFE < largest < MAX_SAFE:
        return arrays
    exponent = np.frexp(largest)[1]
    return tuple(np.ldexp(X, -exponent) for X in arrays)


class PreparedPoints(NamedTuple):
    """Points in the form that the kernels take.

    Attributes
    ----------
    points : array of shape (n_points, n_features)
        The points, rescaled if necessary.
    centred : array of shape (n_points, n_features)
        The points minus their mean.
    screen : Screen
        The screen of the centred points.
    queries, centred_queries : arrays of shape (n_queries, n_features)
        The points whose neighbours are searched, transformed in the same way. By default these are the same points.
    """

    points: Floats
    centred: Floats
    screen: Screen
    queries: Floats
    centred_queries: Floats


def prepare(X: Floats, T: Floats | None = None) -> PreparedPoints:
    """Prepare points X, and queries T if they are other points."""
    points, queries = rescale(X, T) if T is not None else rescale(X) * 2
    centre = points.mean(axis=0)
    centred = points - centre
    centred_queries = centred if T is None else queries - centre
    screen = make_screen(centred, _largest(centred) if T is None else _largest(centred, centred_queries))
    return PreparedPoints(points, centred, screen, queries, centred_queries)


def _largest(*arrays: Floats) -> float:
    return max(float(extreme) for X in arrays for extreme in (X.max(), -X.min()))
