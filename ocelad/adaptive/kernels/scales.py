"""Mean squares of features, and differences in the units that the other distances need."""

from __future__ import annotations

from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np

from ocelad._compile import jit, jit_reassoc
from ocelad._typing import Floats

# Fields of ``numbers``: the discounted number of differences, that of all differences, and that of the last ones in a
# row that were too long.
COUNT, N_INCLUDED, N_LONG, N_NUMBERS = 0, 1, 2, 3


class Scaling(NamedTuple):
    """Constants of the mean squares; see ``AdaptiveConfig``."""

    decay: float
    limit: float
    ridge: float
    warmup: int


@jit
def limit_outlier(numbers: Floats, warmup: int, shrink: float, is_zero: bool) -> float:
    """Return the factor that shortens a difference before it is included; ``shrink`` is that of its length.

    Returns 1 in the warm-up, for zero differences, and once more than ``warmup`` differences in a row were too long.
    """
    if is_zero or numbers[N_INCLUDED] < warmup:
        return 1.0
    numbers[N_LONG] = numbers[N_LONG] + 1.0 if shrink < 1.0 else 0.0
    return shrink if numbers[N_LONG] <= warmup else 1.0


@jit
def include(
    U: Floats, row: int, n: int, sums: Floats, counts: Floats, numbers: Floats, settings: Scaling, shrink: float
) -> None:
    """Include a difference, shortened by a factor, in the sums of squares; leading differences of zero are ignored."""
    is_zero = True
    for i in range(n):
        is_zero = is_zero and U[row, i] == 0.0
    if numbers[COUNT] == 0.0 and is_zero:
        return
    decay, factor = settings.decay, limit_outlier(numbers, settings.warmup, shrink, is_zero)
    for i in range(n):
        sums[i] = decay * sums[i] + factor * factor * U[row, i] * U[row, i]
        counts[i] = decay * counts[i] + (1.0 if U[row, i] != 0.0 else 0.0)
    numbers[COUNT] = decay * numbers[COUNT] + 1.0
    numbers[N_INCLUDED] += 1.0


@jit_reassoc
def total(values: Floats, n: int) -> float:
    """Return the sum of the first n values."""
    result = 0.0
    for i in range(n):
        result += values[i]
    return result


@jit
def inverse_root(total: float, count: float, n_pairs: float, weight: float, mean: float, settings: Scaling) -> float:
    """Return the factor that gives a feature a mean square of about 1, relative to one over the root of ``mean``.

    ``total`` is its sum of squares, ``count`` the number of pairs in which it differs, ``n_pairs`` that of all pairs,
    and ``weight`` that of one pair; ``mean`` is the mean square of all features.
    """
    relative = max(total / mean * (1.0 / n_pairs + 1.0 / (settings.limit * max(count, 1e-300))), 1e-300)
    share = count / (count + weight * settings.ridge)
    return exp(-0.5 * share * log(relative))


@jit
def update_roots(sums: Floats, counts: Floats, numbers: Floats, settings: Scaling, n: int, roots: Floats) -> float:
    """Compute the factor of each feature that gives it a mean square of about 1; return their common factor."""
    if numbers[COUNT] == 0.0:
        for i in range(n):
            roots[i] = 1.0
        return 1.0
    mean = total(sums, n) / n / numbers[COUNT]
    root = sqrt(mean)
    for i in range(n):
        roots[i] = inverse_root(sums[i], counts[i], numbers[COUNT], 1.0, mean, settings) / root
    return 1.0 / root


@jit_reassoc
def squared_length(U: Floats, row: int, n: int) -> float:
    """Return the squared length of a row."""
    result = 0.0
    for i in range(n):
        result += U[row, i] * U[row, i]
    return result


@jit
def length_limit(square: float, n: int, limit: float) -> float:
    """Return the factor that shortens a difference with a mean square above ``limit``, otherwise 1."""
    relative = square / (n * limit)
    return 1.0 if relative <= 1.0 else 1.0 / sqrt(relative)


@jit
def include_measured(
    U: Floats, row: int, n: int, sums: Floats, counts: Floats, numbers: Floats, settings: Scaling
) -> None:
    """Include a difference after measuring its length by the present mean squares."""
    shrink = 1.0
    if numbers[COUNT] > 0.0:
        factor = 1.0 / sqrt(total(sums, n) / n / numbers[COUNT])
        shrink = length_limit(factor * factor * squared_length(U, row, n), n, settings.limit)
    include(U, row, n, sums, counts, numbers, settings, shrink)


@jit
def scale_row(
    U: Floats,
    row: int,
    n: int,
    sums: Floats,
    counts: Floats,
    numbers: Floats,
    roots: Floats,
    settings: Scaling,
    X: Floats,
    S: Floats,
    ratios: Floats,
) -> tuple[float, float, float]:
    """Store a difference in the common unit in X, and with features of mean square 1 in S.

    ``ratios`` receives the factors of half-standardized features relative to those of S, if it has rows. Returns the
    common factor and the squared lengths of the difference and of the row of S.
    """
    factor = update_roots(sums, counts, numbers, settings, n, roots)
    for i in range(n):
        X[row, i] = factor * U[row, i]
        S[row, i] = roots[i] * U[row, i]
    if len(ratios) > 0:
        mean = 0.0
        for i in range(n):
            mean += 1.0 / roots[i] / n
        for i in range(n):
            ratios[row, i] = 1.0 / sqrt(roots[i] * mean)
    return factor, squared_length(U, row, n), squared_length(S, row, n)


@jit
def scale_pairs(
    U: Floats,
    n: int,
    sums: Floats,
    counts: Floats,
    numbers: Floats,
    roots: Floats,
    settings: Scaling,
    X: Floats,
    S: Floats,
    ratios: Floats,
    shrinks: Floats,
    lengths: Floats,
    squares: Floats,
) -> None:
    """Measure pairs by the Euclidean and the standardized distance, and update the mean squares after each.

    ``lengths`` receives the mean squares of the rows of X, and ``shrinks`` the factors that limit their lengths, which
    are not applied here.
    """
    for row in range(len(U)):
        warming_up = numbers[N_INCLUDED] < settings.warmup
        if warming_up:
            include(U, row, n, sums, counts, numbers, settings, 1.0)
        factor, euclidean, standardized = scale_row(U, row, n, sums, counts, numbers, roots, settings, X, S, ratios)
        squares[row, 0], squares[row, 1] = euclidean, standardized
        lengths[row] = factor * factor * euclidean / n
        shrinks[row] = length_limit(factor * factor * euclidean, n, settings.limit)
        if not warming_up:
            include(U, row, n, sums, counts, numbers, settings, shrinks[row])


@jit
def scale_relatives(
    near: Floats,
    far: Floats,
    n: int,
    sums: Floats,
    counts: Floats,
    numbers: Floats,
    roots: Floats,
    settings: Scaling,
    X: Floats,
    S: Floats,
    X_far: Floats,
    S_far: Floats,
    ratios: Floats,
    shrinks: Floats,
    lengths: Floats,
    squares: Floats,
    sizes: Floats,
) -> None:
    """Measure relative comparisons, as ``scale_pairs`` measures pairs: near minus far, and the mean of both as size."""
    for row in range(len(near)):
        warming_up = numbers[N_INCLUDED] < settings.warmup
        if warming_up:
            include(near, row, n, sums, counts, numbers, settings, 1.0)
            include_measured(far, row, n, sums, counts, numbers, settings)
        factor, a, scaled_a = scale_row(near, row, n, sums, counts, numbers, roots, settings, X, S, ratios)
        factor, b, scaled_b = scale_row(far, row, n, sums, counts, numbers, roots, settings, X_far, S_far, ratios)
        squares[row, 0], squares[row, 1] = a - b, scaled_a - scaled_b
        sizes[row, 0], sizes[row, 1] = (a + b) / 2.0, (scaled_a + scaled_b) / 2.0
        lengths[row] = factor * factor * (a - b) / n
        shrinks[row] = length_limit(factor * factor * max(a, b), n, settings.limit)
        if not warming_up:
            include_measured(near, row, n, sums, counts, numbers, settings)
            include_measured(far, row, n, sums, counts, numbers, settings)


@jit
def shorten_rows(X: Floats, shrinks: Floats, n: int) -> None:
    """Multiply each row by its factor."""
    for row in range(len(X)):
        shrink = shrinks[row]
        if shrink != 1.0:
            for i in range(n):
                X[row, i] *= shrink


@jit
def scale_sparse_pairs(
    indptr: np.ndarray,
    indices: np.ndarray,
    values: Floats,
    n: int,
    sums: Floats,
    counts: Floats,
    numbers: Floats,
    growth: Floats,
    settings: Scaling,
    scaled: Floats,
    shrinks: Floats,
    lengths: Floats,
    squares: Floats,
) -> None:
    """Measure sparse pairs as ``scale_pairs`` does, in time proportional to their non-zero entries.

    Instead of letting the sums decay, later differences count more: ``growth`` holds their weight and the total of the
    sums. ``scaled`` receives the values in the common unit.
    """
    for row in range(len(indptr) - 1):
        begin, end = indptr[row], indptr[row + 1]
        warming_up = numbers[N_INCLUDED] < settings.warmup
        if warming_up:
            include_sparse(indices, values, begin, end, sums, counts, numbers, growth, settings, 1.0)
        count = numbers[COUNT]
        factor = 1.0 / sqrt(growth[1] / n / count) if count > 0.0 else 1.0
        euclidean, standardized = 0.0, 0.0
        for p in range(begin, end):
            square, i = values[p] * values[p], indices[p]
            euclidean += square
            if count > 0.0:
                root = factor * inverse_root(sums[i], counts[i], count, growth[0], growth[1] / n / count, settings)
                standardized += square * root * root
            else:
                standardized += square
            scaled[p] = factor * values[p]
        squares[row, 0], squares[row, 1] = euclidean, standardized
        lengths[row] = factor * factor * euclidean / n
        shrinks[row] = length_limit(factor * factor * euclidean, n, settings.limit)
        for p in range(begin, end):
            scaled[p] *= shrinks[row]
        if not warming_up:
            include_sparse(indices, values, begin, end, sums, counts, numbers, growth, settings, shrinks[row])


@jit
def include_sparse(
    indices: np.ndarray,
    values: Floats,
    begin: int,
    end: int,
    sums: Floats,
    counts: Floats,
    numbers: Floats,
    growth: Floats,
    settings: Scaling,
    shrink: float,
) -> None:
    """Include a sparse difference, as ``include``; the sums are rescaled before the weight of new ones overflows."""
    is_zero = True
    for p in range(begin, end):
        is_zero = is_zero and values[p] == 0.0
    if numbers[COUNT] == 0.0 and is_zero:
        return
    growth[0] /= settings.decay
    factor = limit_outlier(numbers, settings.warmup, shrink, is_zero)
    for p in range(begin, end):
        square = growth[0] * factor * factor * values[p] * values[p]
        sums[indices[p]] += square
        growth[1] += square
        if values[p] != 0.0:
            counts[indices[p]] += growth[0]
    numbers[COUNT] += growth[0]
    numbers[N_INCLUDED] += 1.0
    if growth[0] > 1e30:
        for i in range(len(sums)):
            sums[i] /= growth[0]
            counts[i] /= growth[0]
        growth[1] /= growth[0]
        numbers[COUNT] /= growth[0]
        growth[0] = 1.0


@jit
def update_sparse_roots(
    sums: Floats, counts: Floats, numbers: Floats, growth: Floats, settings: Scaling, n: int, roots: Floats
) -> float:
    """Compute the factor of each feature, as ``update_roots``, from the sums of sparse differences."""
    count = numbers[COUNT]
    if count == 0.0:
        return 1.0
    mean = growth[1] / n / count
    root = sqrt(mean)
    for i in range(n):
        roots[i] = inverse_root(sums[i], counts[i], count, growth[0], mean, settings) / root
    return 1.0 / root
