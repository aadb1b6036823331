"""The COMID learners of all scales as full matrices, eight at a time, for steps without shrinkage.

A dissimilar pair adds ``s uu'`` to each metric. A similar pair subtracts it and clips the one eigenvalue that may have
become negative (``cholesky.py``). A relative comparison does both: it first adds the term of far, which makes no
eigenvalue negative, and then subtracts the term of near.
"""

from __future__ import annotations

from math import inf, isfinite, sqrt
from typing import NamedTuple

import numpy as np

from ocelad._compile import jit, jit_inline, jit_reassoc
from ocelad._typing import Floats
from ocelad.engines.kernels.cholesky import (
    EIGENVECTOR,
    GUESS,
    MAGNITUDE,
    Eight,
    S,
    U,
    add_correction,
    add_rank_one,
    entry,
    find_negative_eigenpairs,
    outer_product,
    squared_lengths,
)
from ocelad.engines.kernels.rounds import (
    CARRY,
    INFINITE_LOSS,
    INFINITE_STEP,
    PLAYED,
    REPLACE,
    START_IN_PYTHON,
    KernelArgs,
    active_scales,
    loss_slope,
    loss_value,
    next_round,
    record_squares,
    record_thresholds,
)
from ocelad.engines.kernels.secular import LANES

# Sources that scales start from.
BELOW, ENSEMBLE, SCRATCH, KEEP = 0, 1, 2, 3


class Settings(NamedTuple):
    """Constants: the objective, the step size of each scale, and the number of features."""

    loss: int
    max_norm: float  # inf: no bound
    finest: int  # CARRY, or REPLACE the finest learner by the one in the spare slot
    start_source: int  # BELOW, ENSEMBLE or SCRATCH
    finest_source: int  # of the finest scale unless start_source is BELOW: ENSEMBLE, SCRATCH or KEEP
    steps: Floats  # (K,)
    n: int
    initial_scale: float  # from scratch, a learner starts with initial_scale * I and initial_threshold
    initial_threshold: float


class State(NamedTuple):
    """The learners. Slot s is lane ``s % 8`` of group ``s // 8``; scale j uses slot ``slots[j]``; the last is spare."""

    M: Floats  # (groups, n (n + 1) / 2, 8): lower triangles
    mu: Floats  # (slots,): thresholds
    guess: Floats  # (slots,): running mean of the last roots, the starting point for the next
    slots: np.ndarray  # (K + 1,)
    square: Floats  # (slots,): u'Mu of the current pair
    change: Floats  # (slots,): step size times the slope of the loss
    outer: Floats  # (n (n + 1) / 2,): uu' of the current pair
    C: Floats  # (n, n, 8): Cholesky factors
    x: Floats  # (N_VECTORS, n, 8)
    lanes: Floats  # (N_NUMBERS, 8)
    R: Floats  # (n + N_VECTORS, padded n): replaces C and x when only one lane is active
    failed: np.ndarray  # (1,): scale whose learner refused the last event


@jit_inline
def observe(
    state: State,
    settings: Settings,
    V: Floats,
    row: int,
    y: float,
    step_factor: float,
    n_active: int,
    losses: Floats,
    learner_margins: Floats,
) -> int:
    """Judge and update each active learner; unless PLAYED is returned, nothing has changed."""
    M, mu, slots, square, change, outer = state.M, state.mu, state.slots, state.square, state.change, state.outer
    steps, loss, n = settings.steps, settings.loss, settings.n
    outer_product(V, row, n, outer)
    norm2 = trace(outer, n)
    for group in range(len(M)):
        store_eight(square, LANES * group, squared_lengths(M, group, outer, n))
    for slot in range(len(change)):
        change[slot] = 0.0
    any_change = False
    for level in range(n_active):
        slot = slots[level]
        m = y * (mu[slot] - clamp_negative(square[slot]))
        losses[level], learner_margins[level] = loss_value(loss, m), m
        change[slot] = step_factor * steps[level] * loss_slope(loss, m)
        any_change = any_change or change[slot] > 0.0
        if not isfinite(losses[level]):
            state.failed[0] = level
            return INFINITE_LOSS
        if not isfinite(change[slot] * norm2):
            state.failed[0] = level
            return INFINITE_STEP
    if any_change:
        for group in range(len(M)):
            comid_step(state, settings, group, V, row, norm2, y, settings.max_norm)
        for slot in range(len(change)):
            mu[slot] = max(1.0, mu[slot] + change[slot] * y)
    return PLAYED


@jit_inline
def observe_relative(
    state: State,
    settings: Settings,
    near: Floats,
    far: Floats,
    row: int,
    step_factor: float,
    n_active: int,
    losses: Floats,
    learner_margins: Floats,
) -> int:
    """Judge and update the learners on a relative comparison, as ``observe``."""
    M, slots, square, change, outer = state.M, state.slots, state.square, state.change, state.outer
    steps, loss, n = settings.steps, settings.loss, settings.n
    outer_product(far, row, n, outer)
    far2 = trace(outer, n)
    for group in range(len(M)):
        store_eight(square, LANES * group, squared_lengths(M, group, outer, n))
    for level in range(n_active):
        learner_margins[level] = clamp_negative(square[slots[level]])
    outer_product(near, row, n, outer)
    near2 = trace(outer, n)
    for group in range(len(M)):
        store_eight(square, LANES * group, squared_lengths(M, group, outer, n))
    for slot in range(len(change)):
        change[slot] = 0.0
    any_change = False
    for level in range(n_active):
        slot = slots[level]
        m = learner_margins[level] - clamp_negative(square[slot])
        losses[level], learner_margins[level] = loss_value(loss, m), m
        change[slot] = step_factor * steps[level] * loss_slope(loss, m)
        any_change = any_change or change[slot] > 0.0
        state.failed[0] = level
        if not isfinite(losses[level]):
            return INFINITE_LOSS
        if not isfinite(change[slot] * max(near2, far2)):
            return INFINITE_STEP
    if any_change:
        for adding in (True, False):
            G, norm2, y = (far, far2, -1.0) if adding else (near, near2, 1.0)
            max_norm = inf if adding and near2 > 0.0 else settings.max_norm  # the bound applies once, at the end
            outer_product(G, row, n, outer)
            for group in range(len(M)):
                comid_step(state, settings, group, G, row, norm2, y, max_norm)
    return PLAYED


@jit
def trace(outer: Floats, n: int) -> float:
    """Return ``|u|^2`` from ``outer = uu'``."""
    total = 0.0
    for i in range(n):
        total += outer[entry(i, i)]
    return total


@jit
def clamp_negative(square: float) -> float:
    """Return 0 for a negative number, which is rounding, and any other unchanged; a NaN from overflow stays NaN."""
    return 0.0 if square < 0.0 else square


@jit
def store_eight(numbers: Floats, first: int, values: Eight) -> None:
    """Store eight values from index ``first`` on."""
    numbers[first], numbers[first + 1], numbers[first + 2], numbers[first + 3] = values[:4]
    numbers[first + 4], numbers[first + 5], numbers[first + 6], numbers[first + 7] = values[4:]


@jit_inline
def comid_step(
    state: State, settings: Settings, group: int, V: Floats, row: int, norm2: float, y: float, max_norm: float
) -> None:
    """Apply one COMID step to eight learners, with norms bounded by ``max_norm``; a change of 0 leaves one as it is."""
    M, lanes, x, outer, n = state.M, state.lanes, state.x, state.outer, settings.n
    any_change = False
    for k in range(LANES):
        lanes[S, k] = state.change[LANES * group + k]
        lanes[GUESS, k] = state.guess[LANES * group + k]
        any_change = any_change or lanes[S, k] > 0.0
    if not any_change or norm2 == 0.0:
        return
    if y > 0.0:
        norm = sqrt(norm2)
        for i in range(n):
            for k in range(LANES):
                x[U, i, k] = V[row, i] / norm
        find_negative_eigenpairs(M, group, n, norm2, state.C, x, lanes, state.R)
        for k in range(LANES):
            length = 0.0
            for i in range(n):
                length += x[EIGENVECTOR, i, k] * x[EIGENVECTOR, i, k]
            found = lanes[MAGNITUDE, k] > 0.0
            if found:
                root = min(max(lanes[MAGNITUDE, k], 0.01), 0.9)
                state.guess[LANES * group + k] += 0.3 * (root - state.guess[LANES * group + k])
            lanes[MAGNITUDE, k] = lanes[MAGNITUDE, k] * (lanes[S, k] * norm2) / length if found else 0.0
            lanes[S, k] = -lanes[S, k]
            if not found:
                for i in range(n):
                    x[EIGENVECTOR, i, k] = 0.0
        add_correction(M, group, x, lanes, n)
    add_rank_one(M, group, outer, lanes, entry(n, 0))
    if max_norm < inf:
        for k in range(LANES):
            if lanes[S, k] != 0.0:
                bound_norm(M, group, k, n, max_norm)


@jit
def bound_norm(M: Floats, group: int, lane: int, n: int, max_norm: float) -> None:
    """Scale a matrix down to a Frobenius norm of at most ``max_norm``."""
    largest = 0.0
    for p in range(entry(n, 0)):
        largest = max(largest, abs(M[group, p, lane]))
    if largest == 0.0:
        return
    total, p = 0.0, 0
    for i in range(n):
        for j in range(i + 1):
            part = M[group, p, lane] / largest
            total += part * part if i == j else 2.0 * part * part
            p += 1
    if sqrt(total) * largest > max_norm:
        scale = max_norm / largest / sqrt(total)
        for q in range(entry(n, 0)):
            M[group, q, lane] *= scale


@jit
def start(state: State, n_starting: int, finest: int) -> None:
    """Let each starting scale take over the slot of the scale below it; only the finest needs a copy."""
    if n_starting == 0 or (n_starting == 1 and finest == CARRY):
        return
    slots, M = state.slots, state.M
    freed = slots[n_starting - 1]
    for level in range(n_starting - 1, 0, -1):
        slots[level] = slots[level - 1]
    if finest == REPLACE:
        spare = len(slots) - 1
        slots[0], slots[spare] = slots[spare], freed
        return
    slots[0] = freed
    old = slots[1]
    for p in range(M.shape[1]):
        M[freed // LANES, p, freed % LANES] = M[old // LANES, p, old % LANES]
    state.mu[freed], state.guess[freed] = state.mu[old], state.guess[old]


@jit
def start_from_source(state: State, settings: Settings, n_starting: int, before: Floats, n_before: int) -> None:
    """Start scales from the ensemble's average or from scratch instead of from the scale below.

    ``before`` holds the weights of the n_before scales that were active in the last round.
    """
    M, mu, slots, shares, mean, n = state.M, state.mu, state.slots, state.square, state.outer, settings.n
    threshold = 1.0
    if n_starting > 0 and ENSEMBLE in (settings.finest_source, settings.start_source):
        total = 0.0
        for slot in range(len(shares)):
            shares[slot] = 0.0
        for level in range(n_before):
            total += before[level]
        for level in range(n_before):
            shares[slots[level]] = before[level] / total
        average(M, shares, mean)
        threshold = max(weighted_sum(shares, mu), 1.0)
    for level in range(n_starting):
        source, slot = settings.finest_source if level == 0 else settings.start_source, slots[level]
        if source == ENSEMBLE:
            for p in range(len(mean)):
                M[slot // LANES, p, slot % LANES] = mean[p]
            mu[slot] = threshold
        elif source == SCRATCH:
            for p in range(len(mean)):
                M[slot // LANES, p, slot % LANES] = 0.0
            for i in range(n):
                M[slot // LANES, entry(i, i), slot % LANES] = settings.initial_scale
            mu[slot] = settings.initial_threshold


@jit_reassoc
def average(M: Floats, shares: Floats, mean: Floats) -> None:
    """Compute the lower triangle of the matrices' average, weighted by the shares of their slots."""
    for p in range(len(mean)):
        total = 0.0
        for group in range(len(M)):
            for k in range(LANES):
                total += shares[LANES * group + k] * M[group, p, k]
        mean[p] = total


@jit
def weighted_sum(shares: Floats, mu: Floats) -> float:
    """Return the sum of ``shares * mu``."""
    total = 0.0
    for slot in range(len(shares)):
        total += shares[slot] * mu[slot]
    return total


@jit
def play(
    state: State,
    settings: Settings,
    V: Floats,
    args: KernelArgs,
) -> tuple[int, int]:
    """Play rounds t, t + 1, ... on rows of V; return the number of rows done and the outcome, as ``lowrank.play``."""
    t, first, y, step_factors = args.t, args.first, args.y, args.step_factors
    losses, learner_margins = args.losses, args.learner_margins
    n_active = active_scales(t, args.shortest_interval, args.max_scales)
    for row in range(first, args.last):
        if args.observe_only:
            record_thresholds(args.squares, row - first, state.mu, state.slots, n_active)
        outcome = observe(state, settings, V, row, y[row], step_factors[row - first], n_active, losses, learner_margins)
        if outcome != PLAYED:
            return row, outcome
        if args.observe_only:
            record_squares(args.squares, row - first, learner_margins, y[row], n_active)
            continue
        n_before = n_active
        n_active, n_starting = next_round(args, row, t)
        t += 1
        from_source = settings.start_source != BELOW
        if n_active >= len(state.slots) or (n_starting > 0 and settings.finest == REPLACE and not from_source):
            return row + 1, START_IN_PYTHON
        if from_source:
            start_from_source(state, settings, n_starting, args.weights[1], n_before)
        else:
            start(state, n_starting, settings.finest)
    return args.last, PLAYED


@jit
def play_relatives(
    state: State,
    settings: Settings,
    near: Floats,
    far: Floats,
    args: KernelArgs,
) -> tuple[int, int]:
    """Play rounds as ``play`` does, on relative comparisons: the rows of near and far."""
    t, first, step_factors = args.t, args.first, args.step_factors
    losses, learner_margins = args.losses, args.learner_margins
    n_active = active_scales(t, args.shortest_interval, args.max_scales)
    for row in range(first, args.last):
        outcome = observe_relative(
            state, settings, near, far, row, step_factors[row - first], n_active, losses, learner_margins
        )
        if outcome != PLAYED:
            return row, outcome
        if args.observe_only:
            for level in range(n_active):
                args.squares[row - first, level] = -learner_margins[level]
            continue
        n_before = n_active
        n_active, n_starting = next_round(args, row, t)
        t += 1
        from_source = settings.start_source != BELOW
        if n_active >= len(state.slots) or (n_starting > 0 and settings.finest == REPLACE and not from_source):
            return row + 1, START_IN_PYTHON
        if from_source:
            start_from_source(state, settings, n_starting, args.weights[1], n_before)
        else:
            start(state, n_starting, settings.finest)
    return args.last, PLAYED
