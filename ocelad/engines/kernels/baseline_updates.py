"""The weight updates of SAOL and CBCE, the ensembles that ``ocelad.lab.baselines`` compares with OCELAD.

They are part of the library because every engine's kernel compiles them in: numba does not reuse its disk cache for a
kernel that takes an update as an argument, and the library does not import the laboratory.
"""

from __future__ import annotations

from ocelad._typing import Floats
from ocelad.ensemble.weight_updates import MIN_WEIGHT, REGRET_TOLERANCE

# The rows of CBCE's records: the sum of g, the wealth, the rounds since the start, the prior and the next stake.
GAINS, WEALTH, AGE, PRIOR, STAKE = 0, 1, 2, 3, 4


def clip_losses(losses: Floats, largest: float, n: int) -> None:
    """Divide the first n losses by the largest allowed loss and clip them to [0, 1]."""
    for i in range(n):
        losses[i] = min(max(losses[i] / largest, 0.0), 1.0)


def saol_update(weights: Floats, rates: Floats, losses: Floats, mean: float, n: int) -> None:
    """SAOL: multiply the first n weights by ``1 + eta_I r``, with the regret r = the ensemble's loss - own loss.

    >>> import numpy as np
    >>> weights = np.array([1.0, 1.0])
    >>> saol_update(weights, rates=np.array([0.5, 0.25]), losses=np.array([0.75, 0.25]), mean=0.5, n=2)
    >>> weights
    array([0.875 , 1.0625])
    """
    for i in range(n):
        weights[i] = max(weights[i] * (1.0 + rates[i] * (mean - losses[i])), MIN_WEIGHT)


def cbce_prior(t: int) -> float:
    """CBCE: return ``1 / (t^2 (1 + floor(log2 t)))``, the prior of an interval that starts at round t.

    >>> cbce_prior(1), cbce_prior(4)
    (1.0, 0.020833333333333332)
    """
    bits, rest = 0, t
    while rest > 0:
        bits += 1
        rest //= 2
    return 1.0 / (float(t) * float(t) * bits)


def cbce_update(records: Floats, losses: Floats, mean: float, n: int) -> None:
    """CBCE: pay each of the first n bettors ``g w``, g = the ensemble's loss - own loss, and set its next stake."""
    for i in range(n):
        g, w = mean - losses[i], records[STAKE, i]
        if not (g > REGRET_TOLERANCE or (g < -REGRET_TOLERANCE and w > 0.0)):
            g = 0.0
        records[GAINS, i] += g
        records[WEALTH, i] += g * w
        records[AGE, i] += 1.0
        records[STAKE, i] = records[GAINS, i] / (records[AGE, i] + 1.0) * records[WEALTH, i]


def cbce_weights(records: Floats, weights: Floats, n: int) -> None:
    """CBCE: set the first n weights to ``pi_J max(w, 0)``, or to the prior if all of these are 0."""
    any_positive = False
    for i in range(n):
        weights[i] = records[PRIOR, i] * max(records[STAKE, i], 0.0)
        any_positive = any_positive or weights[i] != 0.0
    if not any_positive:
        for i in range(n):
            weights[i] = records[PRIOR, i]
