"""How the scales are weighed (equation 5)."""

from __future__ import annotations

from ocelad.checks import Floats

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

    A plain loop in one order, and so the same bits whether it is compiled or not.
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
