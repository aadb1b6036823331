"""Rounds of a whole tracker in one kernel: distances, stored metrics, the ensemble, the change test and decisions.

``ocelad.adaptive.mixture.Mixture`` is the definition; its compiled parts call the same kernels, so that both give the
same bits. For dense pairs with weight 1, without experts of the user's own and without curved features.
"""

from __future__ import annotations

from math import nan
from typing import NamedTuple

from ocelad._compile import jit, jit_inline
from ocelad._typing import Floats
from ocelad.adaptive.kernels import aggregation, combination, decisions, moments, scales
from ocelad.adaptive.kernels.aggregation import AggregatorState
from ocelad.adaptive.kernels.aggregation import Settings as AggregatorSettings
from ocelad.adaptive.kernels.moments import MomentState
from ocelad.engines.kernels import lowrank
from ocelad.engines.kernels.eigenform import Work
from ocelad.engines.kernels.rounds import PLAYED, KernelArgs
from ocelad.ensemble.weight_updates import RESCALED

# Fields of ``clock``: rounds played; the drift; the first round of a change until the windows begin again; the place of
# the next similar pair.
ROUND, DRIFT, RESTART_FROM, NEXT_SIMILAR, N_CLOCK = 0, 1, 2, 3, 4
# Columns of ``stored``: whether the metric exists, its threshold and its round.
EXISTS, THRESHOLD, METRIC_ROUND, N_STORED_COLUMNS = 0, 1, 2, 3
# Columns of ``similar``: the weight and the round of a similar pair; round 0: no pair.
PAIR_WEIGHT, PAIR_ROUND, N_SIMILAR_COLUMNS = 0, 1, 2


class TrackerConstants(NamedTuple):
    """Constants of the method that are not in the settings of its parts."""

    n: int
    n_comid: int
    snapshot_period: int
    first_anchor: int  # the round from which there are anchors
    max_evidence: float  # beyond which an anchor is not replaced
    max_age: int  # rounds after which a similar pair is dropped
    ridge: float
    limit: float
    comid_floor: float
    memory_curvature: float
    repair_interval: int  # rounds after which COMID's directions are orthonormalised, which kernels do not do
    schedule: tuple[int, int, int]  # of COMID; see ``FixedExperts.kernel_schedule``


class TrackerState(NamedTuple):
    """A tracker of n features, with J memories, W windows and B squared distances; and scratch."""

    sums: Floats  # (n,)
    counts: Floats  # (n,)
    numbers: Floats  # (3,)
    roots: Floats  # (n,)
    scaling: scales.Scaling
    moments: MomentState
    decays: Floats  # (W,)
    comid: lowrank.State
    comid_settings: lowrank.Settings
    comid_basis: lowrank.Basis
    comid_work: Work
    aggregator: AggregatorState
    aggregator_settings: AggregatorSettings
    metrics: Floats  # (J + 2, n, n): the memories, the snapshot and the anchor
    stored: Floats  # (J + 2, N_STORED_COLUMNS)
    similar_pairs: Floats  # (max_age, n): a ring buffer
    similar: Floats  # (max_age, N_SIMILAR_COLUMNS)
    bins: Floats  # of the decisions
    levels: Floats
    decision_clock: Floats
    clock: Floats  # (N_CLOCK,)


class Scratch(NamedTuple):
    """Arrays for one block of at most ``snapshot_period`` rounds."""

    X: Floats  # (rows, width)
    S: Floats  # (rows, width)
    ratios: Floats  # (rows, n)
    shrinks: Floats  # (rows,)
    lengths: Floats  # (rows,)
    squares: Floats  # (rows, B)
    of_comid: Floats  # (rows, n_comid)
    anchor: Floats  # (rows,)
    ones: Floats  # (rows,)
    predictions: Floats  # (rows,)
    column: Floats  # (rows,)
    losses: Floats  # (n_comid,)
    margins: Floats  # (n_comid,)
    A: Floats  # (n, n)
    B: Floats  # (n, n)
    matrix: Floats  # (n, n)
    coefficients: Floats  # (B,)
    means: Floats  # (W,)
    pair: Floats  # (max_age, n)
    pair_ratios: Floats  # (max_age, n)
    pair_weights: Floats  # (max_age,)
    none: Floats  # (0,)
    no_rows: Floats  # (2, 0)


@jit_inline
def measure_and_learn(state: TrackerState, constants: TrackerConstants, scratch: Scratch, U: Floats, y: Floats) -> bool:
    """Measure a block by all bases, which learn from it; return whether all learners could."""
    n, rows = constants.n, len(U)
    X, S, ratios = scratch.X[:rows], scratch.S[:rows], scratch.ratios[:rows]
    shrinks, lengths, squares = scratch.shrinks[:rows], scratch.lengths[:rows], scratch.squares[:rows]
    scales.scale_pairs(
        U,
        n,
        state.sums,
        state.counts,
        state.numbers,
        state.roots,
        state.scaling,
        X,
        S,
        ratios,
        shrinks,
        lengths,
        squares,
    )
    moments.play_pairs(
        state.moments,
        S,
        ratios,
        y,
        scratch.ones[:rows],
        state.decays,
        state.scaling.decay,
        constants.ridge,
        constants.limit,
        squares,
        n,
    )
    scales.shorten_rows(X, shrinks, n)
    args = KernelArgs(
        y,
        0,
        rows,
        constants.schedule[0],
        constants.schedule[1],
        constants.schedule[2],
        scratch.no_rows,
        scratch.none,
        scratch.losses,
        scratch.margins,
        scratch.none,
        True,
        scratch.of_comid[:rows],
        scratch.ones[:rows],
        scratch.no_rows,
        RESCALED,
        1.0,
        scratch.none,
    )
    done, outcome = lowrank.play(state.comid, state.comid_settings, state.comid_basis, state.comid_work, X, args)
    first = squares.shape[1] - len(state.aggregator.usage) - constants.n_comid
    for row in range(rows):
        shrink, floor = shrinks[row] * shrinks[row], constants.comid_floor * lengths[row]
        for learner in range(constants.n_comid):
            squares[row, first + learner] = scratch.of_comid[row, learner] / shrink + floor
    return bool(outcome == PLAYED and done == rows)


@jit
def measure_memories(
    state: TrackerState, constants: TrackerConstants, column: Floats, U: Floats, squares: Floats
) -> None:
    """Measure pairs by the memories, the last columns of ``squares``."""
    n_memories = len(state.aggregator.usage)
    first = squares.shape[1] - n_memories
    for j in range(n_memories):
        if state.stored[j, EXISTS] == 0.0:
            for row in range(len(U)):
                squares[row, first + j] = squares[row, 0]
        else:
            combination.squared_lengths(state.metrics[j], U, constants.n, column)
            for row in range(len(U)):
                squares[row, first + j] = column[row]


@jit
def store_metric(state: TrackerState, n: int, source: int, target: int) -> None:
    """Copy a stored metric."""
    for i in range(n):
        for j in range(n):
            state.metrics[target, i, j] = state.metrics[source, i, j]
    for column in range(N_STORED_COLUMNS):
        state.stored[target, column] = state.stored[source, column]


@jit_inline
def play_block(state: TrackerState, constants: TrackerConstants, scratch: Scratch, U: Floats, y: Floats) -> bool:
    """Play the rounds of a block that does not span a snapshot; return whether all learners could."""
    rows, n_memories = len(U), len(state.aggregator.usage)
    snapshot, anchored = n_memories, n_memories + 1
    t = int(state.clock[ROUND]) + 1
    if not measure_and_learn(state, constants, scratch, U, y):
        return False
    measure_memories(state, constants, scratch.column, U, scratch.squares[:rows])
    if state.stored[anchored, EXISTS] > 0.0:
        combination.squared_lengths(state.metrics[anchored], U, constants.n, scratch.anchor)
        for row in range(rows):
            scratch.anchor[row] = state.stored[anchored, THRESHOLD] - scratch.anchor[row]
    else:
        for row in range(rows):
            scratch.anchor[row] = nan
    done = 0
    while done < rows:
        n_played, outcome = aggregation.play(
            state.aggregator,
            state.aggregator_settings,
            scratch.squares[done:rows],
            scratch.squares[done:rows],
            scratch.anchor[done:rows],
            y[done:],
            scratch.ones[done:rows],
            t + done,
            scratch.predictions[done:rows],
        )
        done += n_played
        if outcome == aggregation.WARNING:
            if n_memories > 0:
                j = aggregation.least_used_memory(state.aggregator)
                store_metric(state, constants.n, anchored, j)
                aggregation.start_memory(
                    state.aggregator,
                    state.aggregator_settings,
                    j,
                    state.stored[j, THRESHOLD],
                    constants.memory_curvature,
                    state.aggregator_settings.memory_start,
                )
                measure_memories(state, constants, scratch.column, U[done:], scratch.squares[done:rows])
        elif outcome == aggregation.CHANGE:
            state.stored[anchored, EXISTS] = 0.0
            for row in range(done, rows):
                scratch.anchor[row] = nan
            changes = state.aggregator.changes
            last = (int(state.aggregator.cusum[aggregation.N_CHANGES]) - 1) % len(changes)
            if changes[last, aggregation.DETECTED] == t + done - 1:
                state.clock[RESTART_FROM] = changes[last, aggregation.START]
    state.clock[ROUND] += rows
    for row in range(rows):
        if y[row] > 0.0:
            place = int(state.clock[NEXT_SIMILAR])
            for i in range(constants.n):
                state.similar_pairs[place, i] = U[row, i]
            state.similar[place, PAIR_WEIGHT], state.similar[place, PAIR_ROUND] = 1.0, t + row
            state.clock[NEXT_SIMILAR] = (place + 1) % constants.max_age
    decisions.play_decisions(
        state.bins, state.levels, state.decision_clock, scratch.predictions[:rows], y, scratch.ones[:rows]
    )
    if int(state.clock[ROUND]) % constants.snapshot_period == 0:
        take_snapshot(state, constants, scratch, snapshot, anchored)
    return True


@jit_inline
def restart_windows(state: TrackerState, constants: TrackerConstants, scratch: Scratch) -> None:
    """Let the windows begin again with the similar pairs since the change."""
    n, first = constants.n, max(state.clock[RESTART_FROM], state.clock[ROUND] - constants.max_age + 1.0, 1.0)
    scales.update_roots(state.sums, state.counts, state.numbers, state.scaling, n, state.roots)
    count = 0
    for step in range(constants.max_age):  # oldest first
        place = (int(state.clock[NEXT_SIMILAR]) + step) % constants.max_age
        if state.similar[place, PAIR_ROUND] >= first:
            for i in range(n):
                scratch.pair[count, i] = state.similar_pairs[place, i] * state.roots[i]
            scratch.pair_weights[count] = state.similar[place, PAIR_WEIGHT]
            count += 1
    for row in range(max(count, 1)):
        combination.half_ratios(state.roots, n, scratch.pair_ratios[row])
    moments.restart_windows(
        state.moments,
        scratch.pair[:count],
        scratch.pair_ratios,
        scratch.pair_weights,
        state.decays,
        constants.ridge,
        constants.limit,
        n,
    )
    for k in range(len(state.decays)):
        scratch.means[k] = combination.window_mean(
            state.moments, k, scratch.pair_ratios[0], constants.ridge, n, scratch.A, scratch.B
        )
    aggregation.restart_windows(state.aggregator, state.aggregator_settings, scratch.means, state.moments.n_half)


@jit
def current_metric(state: TrackerState, constants: TrackerConstants, scratch: Scratch, matrix: Floats) -> float:
    """Store the matrix of the metric; return its threshold."""
    ratios = scratch.pair_ratios[0]
    n, aggregator, n_memories = constants.n, state.aggregator, len(state.aggregator.usage)
    first = len(aggregator.coefficients) - n_memories
    for b in range(len(aggregator.coefficients)):
        scratch.coefficients[b] = aggregator.coefficients[b]
    for j in range(n_memories):
        if state.stored[j, EXISTS] == 0.0:
            scratch.coefficients[0] += aggregator.coefficients[first + j]
    factor = scales.update_roots(state.sums, state.counts, state.numbers, state.scaling, n, state.roots)
    combination.half_ratios(state.roots, n, ratios)
    combination.combine(
        state.moments,
        state.comid,
        state.roots,
        ratios,
        scratch.coefficients[:first],
        constants.n_comid,
        factor * factor,
        constants.comid_floor,
        constants.ridge,
        n,
        scratch.A,
        scratch.B,
        matrix,
    )
    for j in range(n_memories):
        if state.stored[j, EXISTS] > 0.0:
            combination.add_scaled(matrix, state.metrics[j], aggregator.coefficients[first + j], n)
    return float(aggregator.numbers[aggregation.THRESHOLD])


@jit_inline
def take_snapshot(
    state: TrackerState, constants: TrackerConstants, scratch: Scratch, snapshot: int, anchored: int
) -> None:
    """Let windows begin again after a change; store the metric, also as the anchor unless evidence contradicts it."""
    n = constants.n
    if state.clock[RESTART_FROM] > 0.0 and len(state.decays) > 0:
        restart_windows(state, constants, scratch)
    state.clock[RESTART_FROM] = 0.0
    matrix = scratch.matrix
    threshold = current_metric(state, constants, scratch, matrix)
    if state.stored[snapshot, EXISTS] > 0.0:
        scales.update_roots(state.sums, state.counts, state.numbers, state.scaling, n, state.roots)
        change = combination.relative_change(matrix, state.metrics[snapshot], state.roots, n)
        state.clock[DRIFT] = change / constants.snapshot_period
    for i in range(n):
        for j in range(n):
            state.metrics[snapshot, i, j] = matrix[i, j]
    state.stored[snapshot, EXISTS], state.stored[snapshot, THRESHOLD] = 1.0, threshold
    state.stored[snapshot, METRIC_ROUND] = state.clock[ROUND]
    evidence = state.aggregator.cusum[aggregation.STATISTIC]
    if state.clock[ROUND] >= constants.first_anchor and (
        state.stored[anchored, EXISTS] == 0.0 or evidence <= constants.max_evidence
    ):
        store_metric(state, n, snapshot, anchored)


@jit_inline
def play_rounds(
    state: TrackerState, constants: TrackerConstants, scratch: Scratch, U: Floats, y: Floats, log_odds: Floats
) -> bool:
    """Play one round for each pair; return whether the kernel could.

    It cannot where a learner needs more room or has to be orthonormalised; the state is then of no use. ``log_odds``
    receives the prediction of each pair before it was learned from, unless it is empty.
    """
    done, period = 0, constants.snapshot_period
    while done < len(U):
        t = int(state.clock[ROUND])
        last = min(len(U), done + period - t % period)
        if t // constants.repair_interval != (t + last - done) // constants.repair_interval:
            return False
        if not play_block(state, constants, scratch, U[done:last], y[done:last]):
            return False
        if len(log_odds) > 0:
            log_odds[done:last] = scratch.predictions[: last - done]
        done = last
    return True
