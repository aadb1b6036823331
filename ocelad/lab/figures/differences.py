"""What is said of differences, trial by trial."""

from __future__ import annotations

import numpy as np

from ocelad._typing import Floats


def mean_and_error(differences: Floats) -> tuple[float, float]:
    """The mean and its standard error, which one trial alone says nothing of.

    >>> mean_and_error(np.array([1.0, 3.0]))
    (2.0, 1.0)
    >>> mean_and_error(np.array([1.0]))
    (1.0, inf)
    """
    count = len(differences)
    error = float(differences.std(ddof=1) / np.sqrt(count)) if count > 1 else np.inf
    return float(differences.mean()), error


def is_above_chance(differences: Floats) -> bool:
    """Whether the mean is above 0 by more than twice its standard error.

    >>> is_above_chance(np.array([1.0, 2.0, 1.5])), is_above_chance(np.array([1.0, 9.0, -4.0]))
    (True, False)
    """
    mean, error = mean_and_error(differences)
    return mean > 2 * error
