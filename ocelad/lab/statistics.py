"""Means with standard errors, paired differences, and the one rule of significance of all reports.

A difference is significant if its two-sided 95 % confidence interval by Student's t excludes 0. Differences are paired:
both methods run on the same seeds, and the interval is that of the per-seed differences.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from ocelad._typing import Floats

#: The confidence level of the intervals that decide about significance.
CONFIDENCE = 0.95


class Estimate(NamedTuple):
    """A mean with its standard error.

    Attributes
    ----------
    mean : float
        NaN without values.
    standard_error : float
        The sample standard deviation (``ddof=1``) over ``sqrt(n)``; NaN with fewer than two values.
    n : int
        The number of values.
    """

    mean: float
    standard_error: float
    n: int = 0

    def __str__(self) -> str:
        """Return the mean and the standard error with two digits, as far as they are known.

        >>> print(Estimate(2.184, 0.2, 10), Estimate(2.184, np.nan, 1), Estimate(np.nan, np.nan), sep=", ")
        2.18 ± 0.20, 2.18, -
        """
        if not np.isfinite(self.mean):
            return "-"
        return (
            f"{self.mean:.2f} ± {self.standard_error:.2f}" if np.isfinite(self.standard_error) else f"{self.mean:.2f}"
        )

    @property
    def significant_sign(self) -> int | None:
        """-1 or 1 if the mean is significantly below or above 0, 0 if it is not significant, None if n is below 2.

        >>> Estimate(2.0, 1.0, 100).significant_sign, Estimate(2.0, 1.0, 10).significant_sign
        (1, 0)
        """
        if not np.isfinite(self.standard_error):
            return None
        half_width = float(stdtrit(self.n - 1, 0.5 + CONFIDENCE / 2)) * self.standard_error
        return int(np.sign(self.mean)) if abs(self.mean) > half_width else 0

    @property
    def lower_bound(self) -> float:
        """The one-sided 95 % lower confidence bound of the mean; NaN if n is below 2.

        >>> round(Estimate(2.0, 1.0, 100).lower_bound, 2), Estimate(2.0, 0.0, 2).lower_bound
        (0.34, 2.0)
        """
        if not np.isfinite(self.standard_error):
            return np.nan
        return self.mean - float(stdtrit(self.n - 1, CONFIDENCE)) * self.standard_error

    @property
    def is_significant(self) -> bool:
        """Whether the confidence interval of the mean excludes 0; False if n is below 2."""
        return bool(self.significant_sign)


def estimate_mean(values: Floats) -> Estimate:
    """Return the mean and the standard error of independent values, ignoring NaN.

    >>> estimate_mean(np.array([1.0, 3.0, np.nan]))
    Estimate(mean=2.0, standard_error=1.0, n=2)
    """
    finite = values[np.isfinite(values)]
    if not len(finite):
        return Estimate(np.nan, np.nan)
    standard_error = float(finite.std(ddof=1) / np.sqrt(len(finite))) if len(finite) > 1 else np.nan
    return Estimate(float(finite.mean()), standard_error, len(finite))


def paired_difference(values: Floats, reference: Floats) -> Estimate:
    """Return the mean of ``values - reference`` with its standard error; a pair with a NaN is ignored.

    >>> paired_difference(np.array([3.0, 5.0]), np.array([1.0, 1.0]))
    Estimate(mean=3.0, standard_error=1.0, n=2)
    """
    return estimate_mean(values - reference)


def estimate_columns(values: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the standard error of each column, ignoring NaN: ``estimate_mean`` of all columns at once.

    >>> estimate_columns(np.array([[1.0, 5.0], [3.0, np.nan]]))
    (array([2., 5.]), array([ 1., nan]))
    """
    count = np.isfinite(values).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(values, axis=0) / count
        variance = np.nansum((values - mean) ** 2, axis=0) / (count - 1)
        return mean, np.sqrt(variance / count)
