"""What features are multiplied by, so that one step size suits data of any scale."""

from __future__ import annotations

from math import sqrt
from typing import Literal

import numpy as np

from ocelad._typing import Floats
from ocelad.estimators.scaling import SQUARED_LENGTH
from ocelad.service.items.upload_limits import LARGEST_NUMBER, ItemsError
from ocelad.service.itemset import Scaling

# So many random pairs say how far apart items are; a median needs no more.
_N_PAIRS = 10_000
# What differs by less than so many roundings of its own size does not differ.
_NOISE = 64 * float(np.finfo(np.float64).eps)
# In no feature are two scaled items further apart: the fourth power of a difference is what a step may move by.
FARTHEST = 1_000.0


def scaled(features: Floats, kind: Literal["features", "all", "none"]) -> Scaling:
    """The scaling of items.

    With "features" each feature is divided by its standard deviation, with "all" none is; then all are multiplied by
    one number, so that the squared length of the difference of two items has the median 10 over random pairs that are
    apart (see ``DistanceScaler``). A few items far out do not matter to a median; where they would be further than
    ``FARTHEST`` from others, that number is smaller. A feature that is constant has the factor 0: nothing says what
    its unit is worth, and what later items bring in it is not looked at. ("all" leaves it the factor of the others.)

    >>> scaled(np.array([[0.0, 0.0, 7.0], [2.0, 200.0, 7.0]]), "features").factors.round(6).tolist()
    [1.118034, 0.01118, 0.0]
    """
    if kind == "none":
        return Scaling(kind, np.ones(features.shape[1]))
    # Halves, since the difference of two numbers may be too large where none of them is.
    spans = 2 * (features.max(axis=0) / 2 - features.min(axis=0) / 2)
    spans[spans <= np.maximum(_NOISE * np.abs(features).max(axis=0), 1 / LARGEST_NUMBER)] = 0.0
    apart = spans > 0
    if not apart.any():
        raise ItemsError("all items have the same features; there is nothing to tell them apart by")
    factors = np.zeros(features.shape[1])
    if kind == "features":
        factors[apart] = 1 / spans[apart]
        # Of numbers that span 1, so that no square is too large or too small.
        deviations = np.array([np.std(features[:, j] * factors[j]) for j in np.flatnonzero(apart)])
        factors[apart] /= deviations
    else:
        factors[:] = 1 / spans.max()
    largest = float((spans * factors).max())
    factors *= min(sqrt(SQUARED_LENGTH) / _typical_length(features, factors, largest), FARTHEST / largest)
    return Scaling(kind, factors)


def _typical_length(features: Floats, factors: Floats, otherwise: float) -> float:
    """The median length of the difference of random pairs that are apart; ``otherwise`` where none of them is."""
    draw = np.random.default_rng(0)
    first = draw.integers(len(features), size=_N_PAIRS)
    second = (first + draw.integers(1, len(features), size=_N_PAIRS)) % len(features)
    squares = np.empty(_N_PAIRS)
    rows = max(1, 1_000_000 // features.shape[1])
    for begin in range(0, _N_PAIRS, rows):
        part = slice(begin, begin + rows)
        differences = (features[first[part]] * factors) - (features[second[part]] * factors)
        squares[part] = np.square(differences).sum(axis=1)
    squares = squares[squares > (otherwise * _NOISE) ** 2]
    return sqrt(float(np.median(squares))) if squares.size else otherwise
