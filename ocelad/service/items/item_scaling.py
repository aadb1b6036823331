"""Factors for the features of items, so that one step size suits data of any scale."""

from __future__ import annotations

from math import sqrt
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad.engines.rice_settings import SQUARED_LENGTH
from ocelad.service.items.upload_limits import MAX_ABS_VALUE, ItemsError
from ocelad.service.itemset import Scaling

# The number of random pairs for the median distance.
_N_PAIRS = 10_000
# Relative differences below this are rounding errors.
_NOISE = 64 * float(np.finfo(np.float64).eps)
# The largest range of a scaled feature. A step can change the metric by the fourth power of a difference.
MAX_SCALED_RANGE = 1_000.0


def fit_scaling(features: npt.NDArray[Any], kind: Literal["features", "all", "none"]) -> Scaling:
    """Compute the scaling of items.

    With "features" each feature is divided by its standard deviation, with "all" none is. Then all are multiplied by
    one number, so that the median squared distance of random pairs of distinct items is 10 (see ``DistanceScaler``).
    Outliers hardly change a median; if they would exceed ``MAX_SCALED_RANGE``, the number is smaller. With "features" a
    constant feature has the factor 0: its unit is unknown, so that it is ignored in later items, too. With "all" it has
    the common factor.

    >>> fit_scaling(np.array([[0.0, 0.0, 7.0], [2.0, 200.0, 7.0]]), "features").factors.round(6).tolist()
    [1.118034, 0.01118, 0.0]
    """
    if kind == "none":
        return Scaling(kind, np.ones(features.shape[1]))
    highest, lowest = features.max(axis=0).astype(np.float64), features.min(axis=0).astype(np.float64)
    # Halves, because the difference of two finite numbers may overflow.
    ranges = 2 * (highest / 2 - lowest / 2)
    noise = _NOISE * np.maximum(np.abs(highest), np.abs(lowest))
    ranges[ranges <= np.maximum(noise, 1 / MAX_ABS_VALUE)] = 0.0
    varies = ranges > 0
    if not varies.any():
        raise ItemsError("all items have the same features; at least two must differ")
    factors = np.zeros(features.shape[1])
    if kind == "features":
        factors[varies] = 1 / ranges[varies]
        # Of numbers with the range 1, so that no square overflows or underflows.
        deviations = np.array([np.std(features[:, j] * factors[j]) for j in np.flatnonzero(varies)])
        factors[varies] /= deviations
    else:
        factors[:] = 1 / ranges.max()
    largest = float((ranges * factors).max())
    factors *= min(sqrt(SQUARED_LENGTH) / _median_distance(features, factors, largest), MAX_SCALED_RANGE / largest)
    return Scaling(kind, factors)


def _median_distance(features: npt.NDArray[Any], factors: Floats, default: float) -> float:
    """Return the median distance of random pairs of distinct items; ``default`` if all drawn pairs are equal."""
    generator = np.random.default_rng(0)
    first = generator.integers(len(features), size=_N_PAIRS)
    second = (first + generator.integers(1, len(features), size=_N_PAIRS)) % len(features)
    squares = np.empty(_N_PAIRS)
    rows = max(1, 1_000_000 // features.shape[1])
    for begin in range(0, _N_PAIRS, rows):
        part = slice(begin, begin + rows)
        differences = (features[first[part]] * factors) - (features[second[part]] * factors)
        squares[part] = np.square(differences).sum(axis=1)
    squares = squares[squares > (default * _NOISE) ** 2]
    return sqrt(float(np.median(squares))) if squares.size else default
