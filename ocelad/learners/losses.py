"""The losses of a margin, and their slopes.

A pair with label y is told apart with margin ``m = y (mu - d2)``: positive when the squared distance d2 is
on the right side of the threshold mu. The constraints of equation (2) ask for a margin of at least 1. Every
loss is a convex, non-increasing function of the margin; ``slope`` is ``-dl/dm``, which is never negative.
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
    """``max(0, 1 - m)``, the paper's."""
    return 0.0 if m >= 1.0 else 1.0 - m  # not max(0, 1 - m), which would turn a NaN into 0


def hinge_slope(m: float) -> float:
    """1 inside the margin, 0 outside."""
    return 0.0 if m >= 1.0 else 1.0


def squared_hinge(m: float) -> float:
    """``(1 - m)^2 / 2`` inside the margin, 0 outside."""
    return 0.0 if m >= 1.0 else 0.5 * (1.0 - m) * (1.0 - m)


def squared_hinge_slope(m: float) -> float:
    """``1 - m`` inside the margin, 0 outside."""
    return 0.0 if m >= 1.0 else 1.0 - m


def logistic(m: float) -> float:
    """``log(1 + exp(-m))``, written so that no margin overflows."""
    return (0.0 if m >= 0.0 else -m) + log1p(exp(-abs(m)))


def logistic_slope(m: float) -> float:
    """``1 / (1 + exp(m))``, written so that no margin overflows."""
    return 1.0 / (1.0 + exp(m)) if m < 0.0 else exp(-m) / (1.0 + exp(-m))


LOSSES = {
    "hinge": Loss(hinge, hinge_slope),
    "squared_hinge": Loss(squared_hinge, squared_hinge_slope),
    "logistic": Loss(logistic, logistic_slope),
}
