"""How the scales are weighed: by equation (5), and by its competitors.

Plain loops in one order, and so the same bits whether they are compiled or not.
"""

from __future__ import annotations

from math import exp

from ocelad._typing import Floats

# The ways to weigh that kernels know.
RESCALED, SAOL, CBCE, DISCOUNTED = 0, 1, 2, 3
# The rows of CBCE's records.
GAINS, WEALTH, AGE, PRIOR, STAKE = 0, 1, 2, 3, 4
# The rows of discounted records: the logarithm of a weight, relative to the largest, and the weight.
LOGARITHM, WEIGHT = 0, 1
FAINTEST = -12.0
# In the place of the learner that was drawn: none was, the plays are averaged.
NONE_DRAWN = -1

NOISE = 1e-12
SMALLEST = 2.0**-1022  # the smallest normal float64


def reweigh(weights: Floats, rates: Floats, losses: Floats, n: int) -> None:
    """Multiply the first n weights by ``1 + eta_I r / max|r|``, with regret r = weighted mean loss - own loss.

    >>> import numpy as np
    >>> weights = np.array([1.0, 1.0])
    >>> reweigh(weights, rates=np.array([0.5, 0.25]), losses=np.array([3.0, 1.0]), n=2)
    >>> weights
    array([0.5 , 1.25])

    Notes
    -----
    Departures from the paper: the weights stay as they are when ``max|r| <= 1e-12 max(1, max|loss|)``. Learners
    that were just started hold equal estimates, their regrets are rounding noise, and the division would blow
    it up to +-1. And a weight stays above zero, from which it could not come back, in the longest intervals too.
    """
    unit = 1.0  # the scale of the losses drops out; divided by it, the largest float does not overflow
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
    if largest <= NOISE:
        return
    for i in range(n):
        weights[i] = max(weights[i] * (1.0 + rates[i] * ((mean - losses[i] / unit) / largest)), SMALLEST)


def played(weights: Floats, values: Floats, n: int, drawn: int) -> float:
    """Of one value per learner, the weighted mean of the first n, or that of the learner that was drawn.

    >>> import numpy as np
    >>> weights, values = np.array([1.0, 3.0]), np.array([0.0, 4.0])
    >>> played(weights, values, n=2, drawn=NONE_DRAWN), played(weights, values, n=2, drawn=0)
    (3.0, 0.0)
    """
    if drawn != NONE_DRAWN:
        return float(values[drawn])
    total, mean = 0.0, 0.0
    for i in range(n):
        total += weights[i]
        mean += weights[i] * values[i]
    return float(mean / total)


def chosen(weights: Floats, n: int, uniform: float) -> int:
    """One of the first n, by its share in their weights, for a number drawn from [0, 1).

    >>> import numpy as np
    >>> [chosen(np.array([1.0, 0.0, 3.0]), 3, uniform) for uniform in (0.0, 0.2, 0.3, 0.9)]
    [0, 0, 2, 2]
    """
    total = 0.0
    for i in range(n):
        total += weights[i]
    left, last = uniform, 0
    for i in range(n):
        if weights[i] > 0.0 and left >= 0.0:
            left, last = left - weights[i] / total, i
    return last  # also where rounding leaves the sum of the shares below 1


def clip(losses: Floats, largest: float, n: int) -> None:
    """Divide the first n losses by the largest that is allowed, and clip them to [0, 1]."""
    for i in range(n):
        losses[i] = min(max(losses[i] / largest, 0.0), 1.0)


def reweigh_by_regret(weights: Floats, rates: Floats, losses: Floats, mean: float, n: int) -> None:
    """SAOL: multiply the first n weights by ``1 + eta_I r``, with regret r = what was played lost - own loss.

    >>> import numpy as np
    >>> weights = np.array([1.0, 1.0])
    >>> reweigh_by_regret(weights, rates=np.array([0.5, 0.25]), losses=np.array([0.75, 0.25]), mean=0.5, n=2)
    >>> weights
    array([0.875 , 1.0625])
    """
    for i in range(n):
        weights[i] = max(weights[i] * (1.0 + rates[i] * (mean - losses[i])), SMALLEST)


def interval_prior(t: int) -> float:
    """CBCE: ``1 / (t^2 (1 + floor(log2 t)))``, the prior of an interval that begins with round t.

    >>> interval_prior(1), interval_prior(4)
    (1.0, 0.020833333333333332)
    """
    bits, rest = 0, t
    while rest > 0:
        bits += 1
        rest //= 2
    return 1.0 / (float(t) * float(t) * bits)


def bet(records: Floats, losses: Floats, mean: float, n: int) -> None:
    """CBCE: each of the first n bettors is paid ``g w``, with g = what was played lost - own loss, and stakes anew."""
    for i in range(n):
        g, w = mean - losses[i], records[STAKE, i]
        if not (g > NOISE or (g < -NOISE and w > 0.0)):
            g = 0.0
        records[GAINS, i] += g
        records[WEALTH, i] += g * w
        records[AGE, i] += 1.0
        records[STAKE, i] = records[GAINS, i] / (records[AGE, i] + 1.0) * records[WEALTH, i]


def weigh_stakes(records: Floats, weights: Floats, n: int) -> None:
    """CBCE: the first n weights, ``pi_J max(w, 0)``, or the prior where that is 0 for all."""
    anything = False
    for i in range(n):
        weights[i] = records[PRIOR, i] * max(records[STAKE, i], 0.0)
        anything = anything or weights[i] != 0.0
    if not anything:
        for i in range(n):
            weights[i] = records[PRIOR, i]


def discount(records: Floats, losses: Floats, n: int, horizon: float) -> None:
    """``log w <- (1 - 1/horizon) log w - loss`` of the first n, relative to the best and not below ``FAINTEST``.

    Who has done badly for long can so come back in a few rounds.

    >>> import numpy as np
    >>> records = np.array([[0.0, -1.0], [1.0, 0.4]])
    >>> discount(records, losses=np.array([0.5, 0.0]), n=2, horizon=2.0)
    >>> records
    array([[0., 0.],
           [1., 1.]])
    """
    best = -1e300
    for i in range(n):
        records[LOGARITHM, i] = (1.0 - 1.0 / horizon) * records[LOGARITHM, i] - losses[i]
        best = max(best, records[LOGARITHM, i])
    for i in range(n):
        records[LOGARITHM, i] = max(records[LOGARITHM, i] - best, FAINTEST)
        records[WEIGHT, i] = exp(records[LOGARITHM, i])
