"""Agreement of people who answered the same questions: Cohen's kappa, Krippendorff's alpha, and the share that agrees.

Ratings are an array of shape (n_units, n_raters): the category of each unit by each rater, 0, 1, 2, ...; -1 means that
the rater has not rated the unit.

References
----------
J. Cohen (1960). A coefficient of agreement for nominal scales. Educational and Psychological Measurement 20, 37-46.
K. Krippendorff (2011). Computing Krippendorff's alpha-reliability. University of Pennsylvania.
A. F. Hayes and K. Krippendorff (2007). Answering the call for a standard reliability measure for coding data.
Communication Methods and Measures 1, 77-89.
"""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Ratings: TypeAlias = npt.ArrayLike
_Integers: TypeAlias = npt.NDArray[np.int64]
_Floats: TypeAlias = npt.NDArray[np.float64]
#: Resamples of the bootstrap, and the coverage of its intervals.
N_RESAMPLES, LEVEL = 2000, 0.95


class Interval(NamedTuple):
    """A confidence interval; both ends are NaN if it cannot be computed."""

    low: float
    high: float


def percent_agreement(ratings: Ratings) -> float:
    """Return the share of equal ratings among all pairs of ratings of one unit; NaN if no unit has two.

    >>> percent_agreement([[0, 0], [1, 1], [0, 1], [1, -1]])
    0.6666666666666666
    """
    return float(_percent(_unit_counts(ratings)))


def krippendorff_alpha(ratings: Ratings) -> float:
    """Return Krippendorff's alpha for nominal data with any number of raters and missing ratings.

    ``alpha = 1 - D_o / D_e``: the disagreement within units over that expected if ratings were exchanged between units.
    1: all agree; 0: no better than chance. NaN if no unit has two ratings, or if all ratings are equal: then there is
    nothing to agree about.

    >>> round(krippendorff_alpha([[0, 1], [1, 1], [0, 1], [0, 0], [0, 0], [0, 1], [0, 0], [0, 0], [1, 0], [0, 0]]), 3)
    0.095
    """
    return float(_alpha(_unit_counts(ratings)))


def cohen_kappa(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Return Cohen's kappa of two raters, over the units that both rated.

    ``kappa = (p_o - p_e) / (1 - p_e)``: the share of equal ratings over that expected from how often each rater uses
    each category. NaN if there is no such unit, or if both use the same single category.

    >>> first, second = 25 * [1] + 25 * [0], 20 * [1] + 5 * [0] + 10 * [1] + 15 * [0]
    >>> round(cohen_kappa(first, second), 3)
    0.4
    """
    return float(_kappa(_cross_table(first, second)))


def alpha_interval(ratings: Ratings, *, level: float = LEVEL, seed: int = 0) -> Interval:
    """Return a bootstrap interval of Krippendorff's alpha: units are drawn with replacement."""
    return _bootstrap(_unit_counts(ratings), _alpha, level, seed)


def percent_interval(ratings: Ratings, *, level: float = LEVEL, seed: int = 0) -> Interval:
    """Return a bootstrap interval of the share that agrees: units are drawn with replacement."""
    return _bootstrap(_unit_counts(ratings), _percent, level, seed)


def kappa_interval(first: npt.ArrayLike, second: npt.ArrayLike, *, level: float = LEVEL, seed: int = 0) -> Interval:
    """Return a bootstrap interval of Cohen's kappa: units are drawn with replacement."""
    table = _cross_table(first, second)
    n = int(table.sum())
    if not n:
        return Interval(nan, nan)
    draws = np.random.default_rng(seed).multinomial(n, (table / n).ravel(), size=N_RESAMPLES)
    return _percentiles(_kappa(draws.reshape(-1, *table.shape)), level)


def _unit_counts(ratings: Ratings) -> tuple[_Integers, _Integers]:
    """Return the distinct counts of categories of units with two ratings or more, and how many units have each.

    The order of the ratings of a unit does not matter, so that there are few different ones.
    """
    array = np.atleast_2d(np.asarray(ratings, dtype=np.int64))
    n_categories = max(int(array.max(initial=-1)) + 1, 1)
    counts = (array[:, :, None] == np.arange(n_categories)).sum(axis=1)
    counts = counts[counts.sum(axis=1) >= 2]
    if not len(counts):
        return np.zeros((0, n_categories), dtype=np.int64), np.zeros(0, dtype=np.int64)
    patterns, multiplicity = np.unique(counts, axis=0, return_counts=True)
    return patterns, multiplicity


def _percent(counted: tuple[_Integers, _Integers]) -> Any:
    patterns, multiplicity = counted
    n = patterns.sum(axis=1)
    total = (multiplicity * n * (n - 1)).sum(axis=-1)
    agreeing = (multiplicity * (patterns * (patterns - 1)).sum(axis=1)).sum(axis=-1)
    return np.divide(agreeing, total, out=np.full(np.shape(total), nan), where=total > 0)


def _alpha(counted: tuple[_Integers, _Integers]) -> Any:
    """Return alpha from the coincidence matrix: a pair of ratings of a unit with m ratings counts 1 / (m - 1)."""
    patterns, multiplicity = counted
    weights = multiplicity / np.maximum(patterns.sum(axis=1) - 1, 1)
    agreeing = (weights * (patterns * (patterns - 1)).sum(axis=1)).sum(axis=-1)
    totals = multiplicity @ patterns
    n = totals.sum(axis=-1)
    expected = n * n - (totals * totals).sum(axis=-1)  # of unequal pairs, times n - 1
    return 1.0 - np.divide((n - agreeing) * (n - 1), expected, out=np.full(np.shape(n), nan), where=expected > 0)


def _cross_table(first: npt.ArrayLike, second: npt.ArrayLike) -> _Integers:
    """Return how many units two raters put into each pair of categories."""
    a, b = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    both = (a >= 0) & (b >= 0)
    a, b = a[both], b[both]
    n_categories = int(max(a.max(initial=0), b.max(initial=0))) + 1
    return np.bincount(a * n_categories + b, minlength=n_categories**2).reshape(n_categories, n_categories)


def _kappa(tables: _Integers) -> Any:
    """Return kappa of each table, of shape (..., n_categories, n_categories)."""
    n = tables.sum(axis=(-2, -1))
    agreeing = np.trace(tables, axis1=-2, axis2=-1)
    by_chance = (tables.sum(axis=-2) * tables.sum(axis=-1)).sum(axis=-1)  # times n
    unexpected = n * n - by_chance
    return np.divide(n * agreeing - by_chance, unexpected, out=np.full(np.shape(n), nan), where=unexpected > 0)


def _bootstrap(
    counted: tuple[_Integers, _Integers],
    statistic: Callable[[tuple[_Integers, _Integers]], Any],
    level: float,
    seed: int,
) -> Interval:
    patterns, multiplicity = counted
    n = int(multiplicity.sum())
    if not n:
        return Interval(nan, nan)
    draws = np.random.default_rng(seed).multinomial(n, multiplicity / n, size=N_RESAMPLES)
    return _percentiles(statistic((patterns, draws)), level)


def _percentiles(values: _Floats, level: float) -> Interval:
    """Return the middle part of the values; resamples in which all ratings are equal have none."""
    values = values[np.isfinite(values)]
    if not len(values):
        return Interval(nan, nan)
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2]).tolist()
    return Interval(low, high)
