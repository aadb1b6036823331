"""Platt scaling: an online logistic fit from an expert's squared distance to its log odds of "same".

The log odds are ``offset - slope * d^2 / mean(d^2)``. Each pair updates offset and slope by one online Newton step.
"""

from __future__ import annotations

from math import exp, log

from ocelad._compile import jit
from ocelad._typing import Floats

# A fit forgets pairs over about HORIZON rounds. PSEUDO_COUNT uninformative pairs initialize and regularize it.
HORIZON, PSEUDO_COUNT = 100.0, 2.0
# Log odds, losses and relative distances are clipped, so that no single pair dominates.
MAX_LOG_ODDS, MIN_PROBABILITY, MAX_RELATIVE_DISTANCE = 30.0, 1e-6, 100.0
MIN_MEAN_DISTANCE, MAX_MEAN_DISTANCE = 1e-100, 1e200
MIN_CURVATURE = 1e-4
# Columns of ``fits``: the parameters, the Hessian of the loss, and the mean squared distance, the unit of distances.
OFFSET, SLOPE, HESSIAN_OFFSET, HESSIAN_CROSS, HESSIAN_SLOPE, MEAN_DISTANCE, N_COLUMNS = 0, 1, 2, 3, 4, 5, 6


@jit
def sigmoid(odds: float) -> float:
    """Return the probability that has these log odds."""
    if odds >= 0.0:
        return 1.0 / (1.0 + exp(-odds))
    small = exp(odds)
    return small / (1.0 + small)


@jit
def logit(p: float) -> float:
    """Return the log odds of a probability, which is clipped to stay 1e-12 away from 0 and 1."""
    return log(max(p, 1e-12) / max(1.0 - p, 1e-12))


@jit
def log_loss(odds: float, y: float) -> float:
    """Return the logarithmic loss of these log odds of "same" for the label y."""
    return -log(max(sigmoid(odds if y > 0.0 else -odds), MIN_PROBABILITY))


@jit
def init_fit(fits: Floats, k: int, offset: float, slope: float, mean_distance: float) -> None:
    """Initialize the fit of expert k."""
    fits[k, OFFSET], fits[k, SLOPE], fits[k, MEAN_DISTANCE] = offset, slope, mean_distance
    fits[k, HESSIAN_OFFSET], fits[k, HESSIAN_CROSS], fits[k, HESSIAN_SLOPE] = PSEUDO_COUNT, 0.0, PSEUDO_COUNT


@jit
def relative_distance(fits: Floats, k: int, square: float) -> float:
    """Return a squared distance relative to the expert's mean squared distance, clipped."""
    return float(min(max(square / fits[k, MEAN_DISTANCE], -MAX_RELATIVE_DISTANCE), MAX_RELATIVE_DISTANCE))


@jit
def log_odds(fits: Floats, k: int, square: float) -> float:
    """Return the log odds of "same" at a squared distance."""
    odds = fits[k, OFFSET] - fits[k, SLOPE] * relative_distance(fits, k, square)
    return float(min(max(odds, -MAX_LOG_ODDS), MAX_LOG_ODDS))


@jit
def newton_step(fits: Floats, k: int, square: float, odds: float, y: float, t: int, update_mean: bool) -> None:
    """Apply one Newton step on the logarithmic loss; ``odds`` are the log odds predicted for the pair.

    ``update_mean`` is False for distances that need no normalization.
    """
    x, decay = -relative_distance(fits, k, square), 1.0 - 1.0 / HORIZON
    p = sigmoid(odds)
    error, curvature = p - (1.0 if y > 0.0 else 0.0), max(p * (1.0 - p), MIN_CURVATURE)
    a = decay * fits[k, HESSIAN_OFFSET] + curvature + PSEUDO_COUNT / HORIZON
    b = decay * fits[k, HESSIAN_CROSS] + curvature * x
    c = decay * fits[k, HESSIAN_SLOPE] + curvature * x * x + PSEUDO_COUNT / HORIZON
    determinant = a * c - b * b
    fits[k, OFFSET] -= error * (c - b * x) / determinant
    fits[k, SLOPE] = max(0.0, fits[k, SLOPE] - error * (a * x - b) / determinant)
    fits[k, OFFSET] = min(max(fits[k, OFFSET], -MAX_LOG_ODDS), MAX_LOG_ODDS)
    fits[k, SLOPE] = min(fits[k, SLOPE], MAX_LOG_ODDS)
    fits[k, HESSIAN_OFFSET], fits[k, HESSIAN_CROSS], fits[k, HESSIAN_SLOPE] = a, b, c
    if update_mean:
        share = max(1.0 / HORIZON, 1.0 / t)
        mean = fits[k, MEAN_DISTANCE]
        fits[k, MEAN_DISTANCE] = max(mean + share * (min(abs(square), MAX_MEAN_DISTANCE) - mean), MIN_MEAN_DISTANCE)
