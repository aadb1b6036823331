"""The weight updates of ``RescaledRegret`` (equation 5) and ``DiscountedHedge``, and the ensemble's averaging.

The functions are plain loops in a fixed order, so the compiled and the interpreted versions return the same bits.
"""

from __future__ import annotations

from math import exp

from ocelad._typing import Floats

# The codes by which kernels select a weighting.
RESCALED, SAOL, CBCE, DISCOUNTED = 0, 1, 2, 3
# The rows of the records of DiscountedHedge: the logarithm of a weight relative to the largest weight, and the weight.
LOG_WEIGHT, WEIGHT = 0, 1
# The lowest relative log weight: an expert at this bound can lead again after a few rounds.
MIN_LOG_WEIGHT = -12.0
# Stands for the index of a drawn learner where the learners are averaged.
NONE_DRAWN = -1

REGRET_TOLERANCE = 1e-12  # regrets up to this are rounding errors
MIN_WEIGHT = 2.0**-1022  # the smallest normal float64


def rescaled_regret_update(weights: Floats, rates: Floats, losses: Floats, n: int) -> None:
    """Multiply the first n weights by ``1 + eta_I r / max|r|``, with the regret r = weighted mean loss - own loss.

    >>> import numpy as np
    >>> weights = np.array([1.0, 1.0])
    >>> rescaled_regret_update(weights, rates=np.array([0.5, 0.25]), losses=np.array([3.0, 1.0]), n=2)
    >>> weights
    array([0.5 , 1.25])

    Notes
    -----
    Two departures from the paper. The weights do not change if ``max|r| <= 1e-12 max(1, max|loss|)``: learners that
    have just started hold equal estimates, their regrets are rounding errors, and the division would inflate these to
    +-1. A weight never becomes zero, even in the longest intervals, because it could not grow again.
    """
    unit = 1.0  # the scale of the losses cancels; dividing by it keeps the largest floats from overflowing
    for i in range(n):
        unit = max(unit, abs(losses[i]))
    total, mean = 0.0, 0.0
    for i in range(n):
        total += weights[i]
        mean += weights[i] * (losses[i] / unit)
    mean /= total
    largest = 0.0
    for i in range(n):
        largest = max(largest, abs(mean - losses[i] / unit))
    if largest <= REGRET_TOLERANCE:
        return
    for i in range(n):
        weights[i] = max(weights[i] * (1.0 + rates[i] * ((mean - losses[i] / unit) / largest)), MIN_WEIGHT)


def ensemble_value(weights: Floats, values: Floats, n: int, drawn: int) -> float:
    """Return the weighted mean of the first n learners' values, or the value of the drawn learner.

    >>> import numpy as np
    >>> weights, values = np.array([1.0, 3.0]), np.array([0.0, 4.0])
    >>> ensemble_value(weights, values, n=2, drawn=NONE_DRAWN), ensemble_value(weights, values, n=2, drawn=0)
    (3.0, 0.0)
    """
    if drawn != NONE_DRAWN:
        return float(values[drawn])
    total, mean = 0.0, 0.0
    for i in range(n):
        total += weights[i]
        mean += weights[i] * values[i]
    return float(mean / total)


def sample_index(weights: Floats, n: int, uniform: float) -> int:
    """Return one of the first n indices, with probabilities proportional to the weights, for a number in [0, 1).

    >>> import numpy as np
    >>> [sample_index(np.array([1.0, 0.0, 3.0]), 3, uniform) for uniform in (0.0, 0.2, 0.3, 0.9)]
    [0, 0, 2, 2]
    """
    total = 0.0
    for i in range(n):
        total += weights[i]
    left, last = uniform, 0
    for i in range(n):
        if weights[i] > 0.0 and left >= 0.0:
            left, last = left - weights[i] / total, i
    return last  # correct too where rounding leaves the sum of the probabilities below 1


def discounted_update(records: Floats, losses: Floats, n: int, horizon: float) -> None:
    """Update the first n records by ``log w <- (1 - 1/horizon) log w - loss``.

    Log weights are relative to the largest one and at least ``MIN_LOG_WEIGHT``, so that an expert with large past
    losses can recover within a few rounds.

    >>> import numpy as np
    >>> records = np.array([[0.0, -1.0], [1.0, 0.4]])
    >>> discounted_update(records, losses=np.array([0.5, 0.0]), n=2, horizon=2.0)
    >>> records
    array([[0., 0.],
           [1., 1.]])
    """
    best = -1e300
    for i in range(n):
        records[LOG_WEIGHT, i] = (1.0 - 1.0 / horizon) * records[LOG_WEIGHT, i] - losses[i]
        best = max(best, records[LOG_WEIGHT, i])
    for i in range(n):
        records[LOG_WEIGHT, i] = max(records[LOG_WEIGHT, i] - best, MIN_LOG_WEIGHT)
        records[WEIGHT, i] = exp(records[LOG_WEIGHT, i])
