"""The COMID learners of all scales on diagonal metrics, in O(nnz) per event and learner.

An event is the diagonal q of the gradient of its margin (``pairs.Event.gradient``) without the label: ``u_i^2`` for a
pair and ``near_i^2 - far_i^2`` for a relative comparison. A comparison has the label 1 and a margin without a
threshold.

A feature's weight is ``max(0, w - (S - s))``, where w is its weight when it was last updated, S the learner's total
shrinkage, and s the value of S at that update. All learners update the same features, those of the event. Therefore
the weights of all learners for one feature are adjacent in memory.
"""

from __future__ import annotations

from math import isfinite
from typing import NamedTuple

import numpy as np

from ocelad._compile import jit
from ocelad._typing import Floats
from ocelad.engines.kernels.rounds import (
    INFINITE_LOSS,
    INFINITE_STEP,
    PLAYED,
    START_IN_PYTHON,
    KernelArgs,
    active_scales,
    loss_slope,
    loss_value,
    next_round,
    record_squares,
    record_thresholds,
)

LANES = 8
CARRY, ENSEMBLE, RESET = 0, 1, 2
UNKNOWN = -1


class Settings(NamedTuple):
    """Constants: the objective, the step size of each scale, and the initial weight and threshold."""

    loss: int
    rho: float
    threshold_slope: float  # derivative of the margin by the threshold, without y: 1 for pairs, 0 for comparisons
    finest: int
    steps: Floats  # (K,)
    initial_weight: float
    initial_threshold: float


class State(NamedTuple):
    """The learners. Each slot holds one metric; scale j uses slot ``slots[j]``. K is a multiple of LANES."""

    w: Floats  # (n, K): weights at their last update
    s: Floats  # (n, K): S at that update
    S: Floats  # (K,): total shrinkage
    mu: Floats  # (K,): thresholds
    ceiling: Floats  # (K,): upper bound of the weights
    slots: np.ndarray  # (K,)
    touched: np.ndarray  # (C,): ring buffer of the features updated last
    n_touched: np.ndarray  # (1,): number of feature updates so far
    # (K,): value of n_touched when the slot last equalled its model, which is the finest scale or, with RESET, the
    # initial metric; or UNKNOWN
    like: np.ndarray
    distance: Floats  # (K,): squared distance of the current event
    slope: Floats  # (K,): slope of the loss at the current margin
    step: Floats  # (K,): step size of the scale in the slot; 0 for unused slots
    failed: np.ndarray  # (1,): scale whose learner refused the last event


@jit
def positive(x: float) -> float:
    """Return ``max(x, 0)``."""
    return x if x > 0.0 else 0.0


@jit
def observe(
    state: State,
    settings: Settings,
    indices: np.ndarray,
    squares: Floats,
    first: int,
    last: int,
    y: float,
    step_factor: float,
    n_active: int,
    losses: Floats,
    learner_margins: Floats,
) -> int:
    """Judge and update each active learner on the entries first, ..., last - 1; a refused event changes nothing."""
    slots, S, mu, ceiling, slope, step = state.slots, state.S, state.mu, state.ceiling, state.slope, state.step
    steps, rho, threshold_slope = settings.steps, settings.rho, settings.threshold_slope
    distance, touched = state.distance, state.touched
    largest, max_increase = 0.0, 0.0
    for p in range(first, last):
        largest = max(largest, abs(squares[p]))
        max_increase = max(max_increase, -y * squares[p])
    for k in range(len(slots)):
        slope[k] = step[k] = 0.0
    for k in range(0, len(slots), LANES):
        squared_distances(state.w, state.s, S, indices, squares, first, last, k, distance)
    learning = False
    for level in range(n_active):
        k = slots[level]
        m = y * (threshold_slope * mu[k] - distance[k])
        losses[level], learner_margins[level] = loss_value(settings.loss, m), m
        slope[k], step[k] = loss_slope(settings.loss, m), step_factor * steps[level]
        learning |= slope[k] != 0.0
        state.failed[0] = level
        if not isfinite(losses[level]):
            return INFINITE_LOSS
        if not isfinite(ceiling[k] + step[k] * slope[k] * largest):
            return INFINITE_STEP
    if learning:
        for k in range(0, len(slots), LANES):
            comid_step(state.w, state.s, S, slope, step, y, rho, indices, squares, first, last, k)
        for p in range(first, last):
            touched[state.n_touched[0] % len(touched)] = indices[p]
            state.n_touched[0] += 1
    for level in range(n_active):
        k = slots[level]
        S[k] += step[k] * rho
        mu[k] = max(1.0, mu[k] + step[k] * slope[k] * y * threshold_slope)
        ceiling[k] += step[k] * slope[k] * max_increase
    return PLAYED


@jit
def squared_distances(
    w: Floats, s: Floats, S: Floats, indices: np.ndarray, squares: Floats, first: int, last: int, k: int, out: Floats
) -> None:
    """Compute ``q' weights``, for a pair its squared distance, in the LANES slots from k on; sums stay in registers."""
    S0, S1, S2, S3, S4, S5, S6, S7 = S[k], S[k + 1], S[k + 2], S[k + 3], S[k + 4], S[k + 5], S[k + 6], S[k + 7]
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for p in range(first, last):
        i, q = indices[p], squares[p]
        a += q * positive(w[i, k] - (S0 - s[i, k]))
        b += q * positive(w[i, k + 1] - (S1 - s[i, k + 1]))
        c += q * positive(w[i, k + 2] - (S2 - s[i, k + 2]))
        d += q * positive(w[i, k + 3] - (S3 - s[i, k + 3]))
        e += q * positive(w[i, k + 4] - (S4 - s[i, k + 4]))
        f += q * positive(w[i, k + 5] - (S5 - s[i, k + 5]))
        g += q * positive(w[i, k + 6] - (S6 - s[i, k + 6]))
        h += q * positive(w[i, k + 7] - (S7 - s[i, k + 7]))
    out[k], out[k + 1], out[k + 2], out[k + 3] = a, b, c, d
    out[k + 4], out[k + 5], out[k + 6], out[k + 7] = e, f, g, h


@jit
def comid_step(
    w: Floats,
    s: Floats,
    S: Floats,
    slope: Floats,
    step: Floats,
    y: float,
    rho: float,
    indices: np.ndarray,
    squares: Floats,
    first: int,
    last: int,
    k: int,
) -> None:
    """Apply a COMID step to the event's features in the LANES slots from k on; S is still that before the step."""
    for p in range(first, last):
        i, q = indices[p], squares[p]
        for lane in range(k, k + LANES):
            now = positive(w[i, lane] - (S[lane] - s[i, lane]))
            tau = step[lane] * rho
            w[i, lane] = positive(now - step[lane] * slope[lane] * y * q - tau)
            s[i, lane] = S[lane] + tau


@jit
def start(state: State, settings: Settings, n_starting: int, before: Floats, n_before: int) -> None:
    """Let each starting scale take over the slot of the scale below it; the finest scale gets the freed slot.

    ``before`` holds the ensemble weights after the last round.
    """
    finest, slots, like = settings.finest, state.slots, state.like
    if n_starting == 0 or (n_starting == 1 and finest == CARRY):
        return
    freed, below = slots[n_starting - 1], slots[0]
    if finest == ENSEMBLE:
        average_into_slot(state, freed, before, n_before)
    for level in range(n_starting - 1, 0, -1):
        slots[level] = slots[level - 1]
    slots[0] = freed
    if finest == CARRY:
        copy_slot(state, freed, below)
        like[below] = state.n_touched[0]
    elif finest == RESET:
        reset_slot(state, settings, freed)
        like[freed] = state.n_touched[0]


@jit
def apply_deferred_shrinkage(state: State) -> None:
    """Apply the deferred shrinkage to every weight and reset S, which would otherwise lose digits as it grows."""
    for i in range(state.w.shape[0]):
        for k in range(state.w.shape[1]):
            state.w[i, k] = positive(state.w[i, k] - (state.S[k] - state.s[i, k]))
            state.s[i, k] = 0.0
    state.S[:] = 0.0
    state.like[:] = UNKNOWN


@jit
def copy_slot(state: State, slot: int, model: int) -> None:
    """Copy the slot ``model`` to ``slot``; only features updated since the two were equal need copying."""
    w, s, touched, n_touched, like = state.w, state.s, state.touched, state.n_touched[0], state.like[slot]
    if like == UNKNOWN or n_touched - like > len(touched):
        for i in range(w.shape[0]):
            w[i, slot], s[i, slot] = w[i, model], s[i, model]
    else:
        for p in range(like, n_touched):
            i = touched[p % len(touched)]
            w[i, slot], s[i, slot] = w[i, model], s[i, model]
    state.S[slot], state.mu[slot], state.ceiling[slot] = state.S[model], state.mu[model], state.ceiling[model]


@jit
def reset_slot(state: State, settings: Settings, slot: int) -> None:
    """Reset a slot to the initial metric; only features updated since its last reset need writing."""
    w, s, touched, n_touched, like = state.w, state.s, state.touched, state.n_touched[0], state.like[slot]
    if like == UNKNOWN or n_touched - like > len(touched):
        for i in range(w.shape[0]):
            w[i, slot], s[i, slot] = settings.initial_weight, 0.0
    else:
        for p in range(like, n_touched):
            i = touched[p % len(touched)]
            w[i, slot], s[i, slot] = settings.initial_weight, 0.0
    state.S[slot], state.mu[slot], state.ceiling[slot] = 0.0, settings.initial_threshold, settings.initial_weight


@jit
def average_into_slot(state: State, slot: int, shares: Floats, n: int) -> None:
    """Store the ensemble's average in a slot, which may be one of those averaged."""
    weights = np.empty(state.w.shape[0])
    state.mu[slot] = average(state, shares, n, weights)
    for i in range(len(weights)):
        state.w[i, slot], state.s[i, slot] = weights[i], 0.0
    highest = 0.0
    for level in range(n):
        highest = max(highest, state.ceiling[state.slots[level]])
    state.S[slot], state.ceiling[slot] = 0.0, highest


@jit
def average(state: State, shares: Floats, n: int, weights: Floats) -> float:
    """Compute the average of the first n scales' weights; return that of their thresholds. Shares need not sum to 1."""
    w, s, S, mu, slots = state.w, state.s, state.S, state.mu, state.slots
    total, threshold = 0.0, 0.0
    lowest, highest = mu[slots[0]], mu[slots[0]]
    for level in range(n):
        total += shares[level]
    for level in range(n):
        k = slots[level]
        threshold += shares[level] / total * mu[k]
        lowest, highest = min(lowest, mu[k]), max(highest, mu[k])
    for i in range(len(weights)):
        weights[i] = 0.0
        for level in range(n):
            k = slots[level]
            weights[i] += shares[level] / total * positive(w[i, k] - (S[k] - s[i, k]))
    # Rounding must not move the average outside the range of the averaged thresholds.
    return float(min(max(threshold, lowest), highest))


@jit
def play(
    state: State,
    settings: Settings,
    indptr: np.ndarray,
    indices: np.ndarray,
    squares: Floats,
    args: KernelArgs,
) -> tuple[int, int]:
    """Play rounds t, t + 1, ... on sparse rows; return the number of rows done and the outcome, as ``lowrank.play``."""
    t, first, y, step_factors = args.t, args.first, args.y, args.step_factors
    losses, learner_margins = args.losses, args.learner_margins
    n_active = active_scales(t, args.shortest_interval, args.max_scales)
    for row in range(first, args.last):
        if args.observe_only:
            record_thresholds(args.squares, row - first, state.mu, state.slots, n_active)
        begin, end = indptr[row], indptr[row + 1]
        step_factor = step_factors[row - first]
        outcome = observe(
            state, settings, indices, squares, begin, end, y[row], step_factor, n_active, losses, learner_margins
        )
        if outcome != PLAYED:
            return row, outcome
        if args.observe_only:
            record_squares(args.squares, row - first, learner_margins, y[row], n_active)
            continue
        n_before = n_active
        n_active, n_starting = next_round(args, row, t)
        t += 1
        if n_active > len(state.slots):
            return row + 1, START_IN_PYTHON
        start(state, settings, n_starting, args.weights[1], n_before)
    return args.last, PLAYED
