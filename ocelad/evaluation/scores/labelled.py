"""Points with labels, as the kernels take them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_array
from ocelad.evaluation.scores.kernels.screen import Screen, screen_of

# Squares of such numbers, and sums of many, neither overflow nor vanish.
SAFE = 1e100


def classes_of(labels: Any, count: int, name: str = "labels", of: str = "points") -> np.ndarray:
    """The labels as whole numbers 0, 1, ... in their order; checked.

    >>> classes_of(["b", "a", "b"], 3)
    array([1, 0, 1])
    """
    if np.shape(labels) != (count,):
        raise ValueError(f"{name} has shape {np.shape(labels)}; accepted: one label for each of the {count} {of}")
    if type(labels) is np.ndarray and labels.dtype.kind in "iu" and labels.min() >= 0 and labels.max() < count:
        used = np.bincount(labels.astype(np.int64, copy=False)) > 0
        return np.asarray((used.cumsum() - 1)[labels])
    try:
        return np.unique(labels, return_inverse=True)[1]
    except TypeError:
        raise TypeError(f"{name} hold values that cannot be compared; accepted: all numbers or all text") from None


def labelled(points: Any, labels: Any) -> tuple[Floats, np.ndarray]:
    """Points and their classes; checked."""
    X = check_array(points, "points", 2)
    return X, classes_of(labels, len(X))


def sized(*arrays: Floats) -> tuple[Floats, ...]:
    """The same points, all times one power of two where squares would overflow or vanish: no rounding, no other order.

    >>> [X.tolist() for X in sized(np.array([[2.0**600]]), np.array([[2.0**599]]))]
    [[[0.5]], [[0.25]]]
    """
    largest = _largest(*arrays)
    if largest == 0 or 1 / SAFE < largest < SAFE:
        return arrays
    exponent = np.frexp(largest)[1]
    return tuple(np.ldexp(X, -exponent) for X in arrays)


class Ready(NamedTuple):
    """Points as the kernels take them.

    Attributes
    ----------
    points : array of shape (n_points, n_features)
        Of a safe size.
    centred : array of shape (n_points, n_features)
        The same around the origin.
    screen : Screen
        Of those.
    places, centred_places : arrays of shape (n_places, n_features)
        What distances are asked from: the points themselves, or others, moved alike.
    """

    points: Floats
    centred: Floats
    screen: Screen
    places: Floats
    centred_places: Floats


def ready(X: Floats, T: Floats | None = None) -> Ready:
    """Make points ready, and places that are others."""
    points, places = sized(X, T) if T is not None else sized(X) * 2
    centre = points.mean(axis=0)
    centred = points - centre
    centred_places = centred if T is None else places - centre
    screen = screen_of(centred, _largest(centred) if T is None else _largest(centred, centred_places))
    return Ready(points, centred, screen, places, centred_places)


def _largest(*arrays: Floats) -> float:
    return max(float(extreme) for X in arrays for extreme in (X.max(), -X.min()))
