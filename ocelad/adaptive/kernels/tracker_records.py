"""A tracker's state as two rows of numbers: everything that later rounds depend on, and nothing that follows from it.

In the exact form nothing is lost. In the compact form the correlations of matrices and the features of similar pairs
are 16-bit integers, and all other numbers, directions included, survive being rounded to float32. Symmetric matrices
are stored by halves in both. One function moves a state in either direction, so that the two cannot disagree.
"""

from __future__ import annotations

from math import frexp, ldexp, sqrt
from typing import NamedTuple

import numpy as np

from ocelad._compile import jit
from ocelad._typing import Floats
from ocelad.adaptive.kernels import aggregation, scales
from ocelad.adaptive.kernels.decisions import DECIDED, PAIRS, WRONG, WRONG_PAIRS, estimate_risks, set_thresholds
from ocelad.adaptive.kernels.tracker_rounds import (
    EXISTS,
    METRIC_ROUND,
    NEXT_SIMILAR,
    PAIR_ROUND,
    PAIR_WEIGHT,
    RESTART_FROM,
    ROUND,
    THRESHOLD,
    TrackerConstants,
    TrackerState,
)

# The two directions of ``move_tracker``. Kernels pass bool(RESTORE): numba compiles one more version for a literal.
RESTORE, STORE = 0, 1
# A count is stored as two numbers, so that float32 holds it exactly up to 2^46.
_COUNT_BASE = 4194304.0
# The largest 16-bit integer.
_LARGEST = 32767.0


class Offsets(NamedTuple):
    """Where the next value is stored: in ``numbers`` and in ``integers``."""

    number: int
    integer: int


@jit
def move_numbers(values: Floats, count: int, numbers: Floats, at: int, storing: bool) -> int:
    """Move the first ``count`` values; return the next place."""
    for i in range(count):
        if storing:
            numbers[at + i] = values[i]
        else:
            values[i] = numbers[at + i]
    return at + count


@jit
def move_wide(value: float, numbers: Floats, at: int, storing: bool) -> float:
    """Store a number in a unit of the user's, which float32 may not hold, or return it; it takes two numbers."""
    if not storing:
        return ldexp(numbers[at], int(numbers[at + 1]))
    numbers[at], numbers[at + 1] = frexp(value)
    return value


@jit
def move_squares(values: Floats, numbers: Floats, at: int, compact: bool, storing: bool) -> int:
    """Move squares in units of the user's.

    In the compact form, their roots are divided by a power of two above the largest: float32 holds these for features
    of very different units.
    """
    if not compact:
        return move_numbers(values, len(values), numbers, at, storing)
    exponent = 0
    if storing:
        largest = 0.0
        for i in range(len(values)):
            largest = max(largest, values[i])
        exponent = frexp(sqrt(largest))[1]
        numbers[at] = exponent
    else:
        exponent = int(numbers[at])
    for i in range(len(values)):
        if storing:
            numbers[at + 1 + i] = ldexp(sqrt(max(values[i], 0.0)), -exponent)
        else:
            root = ldexp(numbers[at + 1 + i], exponent)
            values[i] = root * root
    return at + 1 + len(values)


@jit
def move_share(share: float, integers: np.ndarray, place: int, storing: bool) -> float:
    """Store a number between -1 and 1 as an integer, or return the stored one."""
    if not storing:
        return float(integers[place]) / _LARGEST
    integers[place] = round(min(max(share, -1.0), 1.0) * _LARGEST)
    return share


@jit
def move_count(value: float, numbers: Floats, at: int, storing: bool) -> float:
    """Store a count, or return the stored one; it takes two numbers."""
    if not storing:
        return float(numbers[at] * _COUNT_BASE + numbers[at + 1])
    high = value // _COUNT_BASE
    numbers[at], numbers[at + 1] = high, value - high * _COUNT_BASE
    return value


@jit
def move_half(matrix: Floats, n: int, numbers: Floats, at: int, storing: bool) -> int:
    """Move the lower triangle of a symmetric matrix."""
    for i in range(n):
        for j in range(i + 1):
            if storing:
                numbers[at] = matrix[i, j]
            else:
                matrix[i, j] = matrix[j, i] = numbers[at]
            at += 1
    return at


@jit
def move_symmetric(
    matrix: Floats,
    diagonal: Floats,
    numbers: Floats,
    integers: np.ndarray,
    offsets: Offsets,
    compact: bool,
    storing: bool,
) -> Offsets:
    """Move a positive semidefinite matrix; in the compact form as its diagonal and its correlations."""
    n = len(diagonal)
    if not compact:
        return Offsets(move_half(matrix, n, numbers, offsets.number, storing), offsets.integer)
    for i in range(n):
        diagonal[i] = matrix[i, i]
    at, place = move_squares(diagonal, numbers, offsets.number, True, storing), offsets.integer
    for i in range(n):
        matrix[i, i] = diagonal[i]
    for i in range(n):
        for j in range(i):
            unit = sqrt(matrix[i, i]) * sqrt(matrix[j, j])
            share = matrix[i, j] / unit if storing and unit > 0.0 else 0.0
            share = move_share(share, integers, place, storing)
            if not storing:
                matrix[i, j] = matrix[j, i] = share * unit
            place += 1
    return Offsets(at, place)


@jit
def move_metric(
    state: TrackerState,
    j: int,
    numbers: Floats,
    integers: np.ndarray,
    offsets: Offsets,
    compact: bool,
    storing: bool,
) -> Offsets:
    """Move a stored metric: whether it exists, its threshold, its round and its matrix."""
    at, stored = offsets.number, state.stored
    at = move_numbers(stored[j, EXISTS : EXISTS + 1], 1, numbers, at, storing)
    if stored[j, EXISTS] == 0.0:
        return Offsets(at, offsets.integer)
    at = move_numbers(stored[j, THRESHOLD : THRESHOLD + 1], 1, numbers, at, storing)
    stored[j, METRIC_ROUND] = move_count(stored[j, METRIC_ROUND], numbers, at, storing)
    offsets = Offsets(at + 2, offsets.integer)
    return move_symmetric(state.metrics[j], state.moments.column, numbers, integers, offsets, compact, storing)


@jit
def move_comid(
    state: TrackerState,
    constants: TrackerConstants,
    numbers: Floats,
    integers: np.ndarray,
    offsets: Offsets,
    compact: bool,
    storing: bool,
) -> Offsets:
    """Move the COMID learners, without directions that they do not use; these have length 1."""
    comid, at, place = state.comid, offsets.number, offsets.integer
    comid.cuts[0] = int(move_count(float(comid.cuts[0]), numbers, at, storing))
    at += 2
    for learner in range(constants.n_comid):
        slot = comid.slots[learner]
        if storing:
            numbers[at], numbers[at + 1] = comid.rank[slot], comid.mu[slot]
            numbers[at + 2], numbers[at + 3] = comid.base[slot], comid.shift[slot]
        else:
            comid.rank[slot], comid.mu[slot] = int(numbers[at]), numbers[at + 1]
            comid.base[slot], comid.shift[slot] = numbers[at + 2], numbers[at + 3]
        rank = comid.rank[slot]
        at = move_numbers(comid.lam[slot], rank, numbers, at + 4, storing)
        for r in range(rank):
            at = move_numbers(comid.V[comid.buffer[slot], r], constants.n, numbers, at, storing)
        if compact and not storing:
            orthonormalize(comid.V[comid.buffer[slot]], rank, constants.n)
    return Offsets(at, place)


@jit
def orthonormalize(directions: Floats, rank: int, n: int) -> None:
    """Make nearly orthonormal rows orthonormal, as the updates of the learners presume.

    Rounded directions are not quite orthogonal. A pair in their span would then seem to have a part outside of it, and
    the errors would add up over the calls. As the errors are small, one pass of Gram and Schmidt is enough.
    """
    for r in range(rank):
        for earlier in range(r):
            part = 0.0
            for i in range(n):
                part += directions[earlier, i] * directions[r, i]
            for i in range(n):
                directions[r, i] -= part * directions[earlier, i]
        square = 0.0
        for i in range(n):
            square += directions[r, i] * directions[r, i]
        for i in range(n):
            directions[r, i] /= sqrt(square)


@jit
def n_wealth_rows(round: float) -> int:
    """Return how many rows of the interval weights are in use: the one that never ends, and the lengths up to t."""
    rows, length = 1, 1.0
    while length <= round:
        rows += 1
        length *= 2.0
    return rows


@jit
def move_aggregator(state: TrackerState, numbers: Floats, at: int, compact: bool, storing: bool) -> int:
    """Move the experts; their weights and the metric's coefficients follow from the rest."""
    aggregator = state.aggregator
    for field in (aggregation.MEAN_COUNT, aggregation.PROD_ROUND, aggregation.SPREAD_COUNT):
        aggregator.numbers[field] = move_count(aggregator.numbers[field], numbers, at, storing)
        at += 2
    for field in (aggregation.REGRET_SCALE, aggregation.FADING, aggregation.N_LONG):
        at = move_numbers(aggregator.numbers[field : field + 1], 1, numbers, at, storing)
    for b in range(len(aggregator.means)):
        aggregator.means[b] = move_wide(aggregator.means[b], numbers, at, storing)
        at += 2
    for values in (aggregator.frozen, aggregator.locations, aggregator.spreads, aggregator.log_weights):
        at = move_numbers(values, len(values), numbers, at, storing)
    if not compact:
        at = move_numbers(aggregator.log_odds, len(aggregator.log_odds), numbers, at, storing)
    for k in range(len(aggregator.fits)):
        at = move_numbers(aggregator.fits[k], aggregation.N_FIT_COLUMNS, numbers, at, storing)
    n_rows = n_wealth_rows(aggregator.numbers[aggregation.PROD_ROUND])
    for row in range(n_rows):
        at = move_numbers(aggregator.wealth[row], aggregator.wealth.shape[1], numbers, at, storing)
        at = move_numbers(aggregator.entry_priors[row : row + 1], 1, numbers, at, storing)
        at = move_numbers(aggregator.entry_steps[row : row + 1], 1, numbers, at, storing)
    for row in range(n_rows, len(aggregator.entry_priors)):
        aggregator.entry_priors[row] = aggregator.entry_steps[row] = 0.0
    aggregator.trust[0] = move_count(aggregator.trust[0], numbers, at, storing)
    at = move_numbers(aggregator.trust[1:], aggregation.N_TRUST_FIELDS - 1, numbers, at + 2, storing)
    at = move_numbers(aggregator.usage, len(aggregator.usage), numbers, at, storing)
    cusum = aggregator.cusum
    for field in (aggregation.SINCE, aggregation.N_CHANGES):
        cusum[field] = move_count(cusum[field], numbers, at, storing)
        at += 2
    for field in (
        aggregation.STATISTIC,
        aggregation.WARNED,
        aggregation.CONFIDENCE,
        aggregation.CONFIDENCE_HESSIAN,
        aggregation.CONFIDENCE_BEFORE,
    ):
        at = move_numbers(cusum[field : field + 1], 1, numbers, at, storing)
    for row in range(min(int(cusum[aggregation.N_CHANGES]), len(aggregator.changes))):
        change = aggregator.changes[row]
        change[aggregation.START] = move_count(change[aggregation.START], numbers, at, storing)
        change[aggregation.DETECTED] = move_count(change[aggregation.DETECTED], numbers, at + 2, storing)
        at = move_numbers(change[aggregation.EVIDENCE :], 1, numbers, at + 4, storing)
    return at


@jit
def move_decisions(state: TrackerState, numbers: Floats, at: int, storing: bool) -> int:
    """Move the counts of the decisions; risks and thresholds follow from them."""
    at = move_numbers(state.bins[PAIRS], state.bins.shape[1], numbers, at, storing)
    at = move_numbers(state.bins[WRONG_PAIRS], state.bins.shape[1], numbers, at, storing)
    at = move_numbers(state.levels[DECIDED], state.levels.shape[1], numbers, at, storing)
    at = move_numbers(state.levels[WRONG], state.levels.shape[1], numbers, at, storing)
    state.decision_clock[0] = move_count(state.decision_clock[0], numbers, at, storing)
    return move_numbers(state.decision_clock[1:], 1, numbers, at + 2, storing)


@jit
def move_similar(
    state: TrackerState,
    constants: TrackerConstants,
    numbers: Floats,
    integers: np.ndarray,
    offsets: Offsets,
    compact: bool,
    storing: bool,
) -> Offsets:
    """Move the similar pairs from which windows may begin again, oldest first."""
    n, age, at = constants.n, constants.max_age, offsets.number
    first, count = max(state.clock[ROUND] - age + 1.0, 1.0), 0
    if compact:  # only pairs since the present evidence began can be needed
        since, restart = state.aggregator.cusum[aggregation.SINCE], state.clock[RESTART_FROM]
        first = max(first, min(since, restart) if restart > 0.0 else since)
        scales.update_roots(state.sums, state.counts, state.numbers, state.scaling, n, state.roots)
    if storing:
        for row in range(age):
            if state.similar[row, PAIR_ROUND] >= first:
                count += 1
        numbers[at] = count
    else:
        count = int(numbers[at])
        for row in range(age):
            state.similar[row, PAIR_ROUND] = 0.0
    offsets = Offsets(at + 1, offsets.integer)
    begin = int(state.clock[NEXT_SIMILAR]) - count + age if storing else age
    for step in range(count):
        row = (begin + step) % age
        pair, times = state.similar_pairs[row], state.similar[row]
        if compact:
            offsets = move_standardized(state, pair, times, numbers, integers, offsets, storing)
        else:
            at = move_numbers(times[PAIR_WEIGHT:], 1, numbers, offsets.number, storing)
            times[PAIR_ROUND] = move_count(times[PAIR_ROUND], numbers, at, storing)
            offsets = Offsets(move_numbers(pair, n, numbers, at + 2, storing), offsets.integer)
    if not storing:
        state.clock[NEXT_SIMILAR] = count % age
    return offsets


@jit
def move_standardized(
    state: TrackerState,
    pair: Floats,
    times: Floats,
    numbers: Floats,
    integers: np.ndarray,
    offsets: Offsets,
    storing: bool,
) -> Offsets:
    """Move a similar pair of weight 1 as its age and its standardized features, relative to the largest of these."""
    at, place, roots = offsets.number, offsets.integer, state.roots
    if storing:
        integers[place] = int(state.clock[ROUND] - times[PAIR_ROUND])
    else:
        times[PAIR_WEIGHT], times[PAIR_ROUND] = 1.0, state.clock[ROUND] - integers[place]
    largest = 0.0
    for i in range(len(pair)):
        largest = max(largest, abs(pair[i]) * roots[i])
    largest = move_wide(largest, numbers, at, storing)
    for i in range(len(pair)):
        share = pair[i] * roots[i] / largest if storing and largest > 0.0 else 0.0
        share = move_share(share, integers, place + 1 + i, storing)
        if not storing:
            pair[i] = share * largest / roots[i]
    return Offsets(at + 2, place + 1 + len(pair))


@jit
def move_tracker(
    state: TrackerState,
    constants: TrackerConstants,
    numbers: Floats,
    integers: np.ndarray,
    compact: bool,
    storing: bool,
) -> Offsets:
    """Store a tracker, or restore a stored one; return how many numbers and integers it takes.

    ``numbers`` and ``integers`` must be large enough; see ``TrackerWorker``.
    """
    n, at = constants.n, 0
    for field in range(len(state.clock)):
        if field != NEXT_SIMILAR:
            state.clock[field] = move_clock(state.clock[field], field, numbers, at, storing)
            at += 2
    at = move_squares(state.sums, numbers, at, compact, storing)
    at = move_numbers(state.counts, n, numbers, at, storing)
    state.numbers[1] = move_count(state.numbers[1], numbers, at, storing)
    at = move_numbers(state.numbers[:1], 1, numbers, at + 2, storing)
    at = move_numbers(state.numbers[2:], 1, numbers, at, storing)
    moments, diagonal = state.moments, state.moments.column
    at = move_numbers(moments.counts, len(moments.counts), numbers, at, storing)
    for field in range(2):
        moments.n_updates[field] = move_count(moments.n_updates[field], numbers, at, storing)
        at += 2
    offsets = move_symmetric(moments.T, diagonal, numbers, integers, Offsets(at, 0), compact, storing)
    for k in range(len(moments.counts)):
        offsets = move_symmetric(moments.P[k], diagonal, numbers, integers, offsets, compact, storing)
    offsets = move_comid(state, constants, numbers, integers, offsets, compact, storing)
    at = move_aggregator(state, numbers, offsets.number, compact, storing)
    offsets = Offsets(move_decisions(state, numbers, at, storing), offsets.integer)
    # The anchor is the snapshot unless evidence contradicts it.
    n_memories = len(state.aggregator.usage)
    snapshot, anchored = n_memories, n_memories + 1
    for j in range(n_memories + 1):
        offsets = move_metric(state, j, numbers, integers, offsets, compact, storing)
    at, offsets = offsets.number, Offsets(offsets.number + 1, offsets.integer)
    if storing:
        is_snapshot = (
            state.stored[anchored, EXISTS] > 0.0
            and state.stored[anchored, METRIC_ROUND] == state.stored[snapshot, METRIC_ROUND]
        )
        numbers[at] = 1.0 if is_snapshot else 0.0
    if numbers[at] == 0.0:
        offsets = move_metric(state, anchored, numbers, integers, offsets, compact, storing)
    elif not storing:
        for i in range(n):
            for j in range(n):
                state.metrics[anchored, i, j] = state.metrics[snapshot, i, j]
        for column in range(state.stored.shape[1]):
            state.stored[anchored, column] = state.stored[snapshot, column]
    offsets = move_similar(state, constants, numbers, integers, offsets, compact, storing)
    if not storing:
        aggregation.prepare(state.aggregator, state.aggregator_settings)
        set_thresholds(state.bins, state.levels, state.decision_clock, estimate_risks(state.bins))
    return offsets


@jit
def move_clock(value: float, field: int, numbers: Floats, at: int, storing: bool) -> float:
    """Store a field of the clock, or return the stored one: the drift is a number, the others are counts."""
    if field != 1:
        return move_count(value, numbers, at, storing)
    if storing:
        numbers[at], numbers[at + 1] = value, 0.0
        return value
    return float(numbers[at])
