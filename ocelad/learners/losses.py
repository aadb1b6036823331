"""The losses as functions of the margin, and their slopes.

The margin of a pair with label y is ``m = y (mu - d2)``: it is positive if the squared distance d2 is on the correct
side of the threshold mu. The constraints of equation (2) require a margin of at least 1. Every loss is a convex,
non-increasing function of the margin; ``slope`` is ``-dl/dm``, which is never negative.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log1p
from typing import NamedTuple


class Loss(NamedTuple):
    """A loss of the margin and the negative of its derivative.

    Examples
    --------
    >>> LOSSES["hinge"].value(0.25), LOSSES["hinge"].slope(0.25)
    (0.75, 1.0)
    """

    value: Callable[[float], float]
    slope: Callable[[float], float]


def hinge(m: float) -> float:
    """Return ``max(0, 1 - m)``, the paper's loss."""
    return 0.0 if m >= 1.0 else 1.0 - m  # max(0, 1 - m) would turn a NaN into 0


def hinge_slope(m: float) -> float:
    """Return 1 for margins below 1, and 0 otherwise."""
    return 0.0 if m >= 1.0 else 1.0


def squared_hinge(m: float) -> float:
    """Return ``(1 - m)^2 / 2`` for margins below 1, and 0 otherwise."""
    return 0.0 if m >= 1.0 else 0.5 * (1.0 - m) * (1.0 - m)


def squared_hinge_slope(m: float) -> float:
    """Return ``1 - m`` for margins below 1, and 0 otherwise."""
    return 0.0 if m >= 1.0 else 1.0 - m


def logistic(m: float) -> float:
    """Return ``log(1 + exp(-m))``, without overflow at any margin."""
    return (0.0 if m >= 0.0 else -m) + log1p(exp(-abs(m)))


def logistic_slope(m: float) -> float:
    """Return ``1 / (1 + exp(m))``, without overflow at any margin."""
    return 1.0 / (1.0 + exp(m)) if m < 0.0 else exp(-m) / (1.0 + exp(-m))


LOSSES = {
    "hinge": Loss(hinge, hinge_slope),
    "squared_hinge": Loss(squared_hinge, squared_hinge_slope),
    "logistic": Loss(logistic, logistic_slope),
}
