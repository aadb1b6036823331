"""How an expert's squared distance becomes log odds of "same": offset - slope * distance, by an online Newton step."""

from __future__ import annotations

from math import exp, log

from ocelad._compile import compiled
from ocelad._typing import Floats

# Over about so many pairs a fit is made; it begins, and is held back, as if by so many pairs that say nothing.
HORIZON, PSEUDO = 100.0, 2.0
# Log odds, losses and relative distances are cut here, so that no single pair decides.
MOST_ODDS, LEAST_PROBABILITY, FARTHEST = 30.0, 1e-6, 100.0
LEAST_LEVEL, MOST_LEVEL = 1e-100, 1e200
LEAST_CURVATURE = 1e-4
# The columns of ``fits``: what is fitted, its second derivatives, and the mean distance by which distances are divided.
OFFSET, SLOPE, CURVE_OFFSET, CURVE_BOTH, CURVE_SLOPE, LEVEL, N_COLUMNS = 0, 1, 2, 3, 4, 5, 6


@compiled
def probability(odds: float) -> float:
    """Of log odds."""
    if odds >= 0.0:
        return 1.0 / (1.0 + exp(-odds))
    small = exp(odds)
    return small / (1.0 + small)


@compiled
def odds_of_probability(p: float) -> float:
    """The log odds of a probability; of 0 and 1, very large ones."""
    return log(max(p, 1e-12) / max(1.0 - p, 1e-12))


@compiled
def loss_of_odds(odds: float, y: float) -> float:
    """The logarithmic loss of log odds of "same"."""
    return -log(max(probability(odds if y > 0.0 else -odds), LEAST_PROBABILITY))


@compiled
def begin_fit(fits: Floats, k: int, offset: float, slope: float, level: float) -> None:
    """A fit that has seen nothing."""
    fits[k, OFFSET], fits[k, SLOPE], fits[k, LEVEL] = offset, slope, level
    fits[k, CURVE_OFFSET], fits[k, CURVE_BOTH], fits[k, CURVE_SLOPE] = PSEUDO, 0.0, PSEUDO


@compiled
def relative(fits: Floats, k: int, square: float) -> float:
    """A squared distance in units of the mean one."""
    return float(min(max(square / fits[k, LEVEL], -FARTHEST), FARTHEST))


@compiled
def odds_of(fits: Floats, k: int, square: float) -> float:
    """The log odds of "same" at a squared distance."""
    odds = fits[k, OFFSET] - fits[k, SLOPE] * relative(fits, k, square)
    return float(min(max(odds, -MOST_ODDS), MOST_ODDS))


@compiled
def fit(fits: Floats, k: int, square: float, odds: float, y: float, t: int, levelled: bool) -> None:
    """One Newton step on the loss of the log odds that were given before; distances are levelled, or are so already."""
    x, saved = -relative(fits, k, square), 1.0 - 1.0 / HORIZON
    p = probability(odds)
    error, curvature = p - (1.0 if y > 0.0 else 0.0), max(p * (1.0 - p), LEAST_CURVATURE)
    a = saved * fits[k, CURVE_OFFSET] + curvature + PSEUDO / HORIZON
    b = saved * fits[k, CURVE_BOTH] + curvature * x
    c = saved * fits[k, CURVE_SLOPE] + curvature * x * x + PSEUDO / HORIZON
    determinant = a * c - b * b
    fits[k, OFFSET] -= error * (c - b * x) / determinant
    fits[k, SLOPE] = max(0.0, fits[k, SLOPE] - error * (a * x - b) / determinant)
    fits[k, OFFSET] = min(max(fits[k, OFFSET], -MOST_ODDS), MOST_ODDS)
    fits[k, SLOPE] = min(fits[k, SLOPE], MOST_ODDS)
    fits[k, CURVE_OFFSET], fits[k, CURVE_BOTH], fits[k, CURVE_SLOPE] = a, b, c
    if levelled:
        share = max(1.0 / HORIZON, 1.0 / t)
        fits[k, LEVEL] = max(fits[k, LEVEL] + share * (min(abs(square), MOST_LEVEL) - fits[k, LEVEL]), LEAST_LEVEL)
