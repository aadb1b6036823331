"""Points with labels, as the kernels take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocelad import checks
from ocelad.checks import Floats

# Squares of such numbers, and sums of many, neither overflow nor vanish.
SAFE = 1e100


def classes_of(labels: Any, count: int, name: str = "labels", of: str = "points") -> np.ndarray:
    """The labels as whole numbers 0, 1, ... in their order; checked.

    >>> classes_of(["b", "a", "b"], 3)
    array([1, 0, 1])
    """
    if np.shape(labels) != (count,):
        raise ValueError(f"{name} has shape {np.shape(labels)}; accepted: one label for each of the {count} {of}")
    try:
        return np.unique(labels, return_inverse=True)[1]
    except TypeError:
        raise TypeError(f"{name} hold values that cannot be compared; accepted: all numbers or all text") from None


def labelled(points: Any, labels: Any) -> tuple[Floats, np.ndarray]:
    """Points and their classes; checked."""
    X = checks.array(points, "points", 2)
    return X, classes_of(labels, len(X))


def sized(*arrays: Floats) -> tuple[Floats, ...]:
    """The same points, all times one power of two where squares would overflow or vanish: no rounding, no other order.

    >>> [X.tolist() for X in sized(np.array([[2.0**600]]), np.array([[2.0**599]]))]
    [[[0.5]], [[0.25]]]
    """
    largest = max(float(np.abs(X).max()) for X in arrays)
    if largest == 0 or 1 / SAFE < largest < SAFE:
        return arrays
    exponent = np.frexp(largest)[1]
    return tuple(np.ldexp(X, -exponent) for X in arrays)
