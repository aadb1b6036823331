"""The COMID learners of all scales on diagonal metrics: each event costs what it has entries that are not zero.

An event is the diagonal q of the gradient of its margin (``pairs.Event.gradient``), but for the label: ``u_i^2`` of a
pair; ``near_i^2 - far_i^2`` of a relative comparison, which has the label 1, and a margin without a threshold.

A feature's weight is ``max(0, w - (S - s))``: as it was when it was last touched, less what the learner has shrunk all
weights by since then. S counts the learner's shrinkage, s is S as it was when the feature was touched. All learners
touch the same features, those of the pair; so the learners of one feature lie side by side in memory.
"""

from __future__ import annotations

from math import isfinite
from typing import NamedTuple

import numpy as np

from ocelad._compile import compiled
from ocelad._typing import Floats
from ocelad.engines.kernels.rounds import (
    INFINITE_LOSS,
    INFINITE_STEP,
    NO_SCALE,
    PLAYED,
    active_scales,
    loss_of,
    next_round,
    slope_of,
)

LANES = 8
CARRY, ENSEMBLE, RESET = 0, 1, 2
UNKNOWN = -1


class Settings(NamedTuple):
    """What does not change: the objective, the step size of each scale, and where a learner starts from scratch."""

    loss: int
    rho: float
    pull: float  # of the threshold in a margin: 1, or of relative comparisons 0
    finest: int
    steps: Floats  # (K,)
    weight: float
    threshold: float


class State(NamedTuple):
    """The learners. Slot k holds one metric; ``slots[j]`` says which is that of scale j. K is a multiple of LANES."""

    w: Floats  # (n, K)
    s: Floats  # (n, K)
    S: Floats  # (K,)
    mu: Floats  # (K,)
    ceiling: Floats  # (K,): no weight is above it
    slots: np.ndarray  # (K,)
    touched: np.ndarray  # (C,): which features were touched last, in a ring
    n_touched: np.ndarray  # (1,): how many ever
    # (K,): up to which of them the slot was as its model is, the finest scale's or, with RESET, the start; or UNKNOWN
    like: np.ndarray
    distance: Floats  # (K,): of the pair at hand
    slope: Floats  # (K,): of the loss at its margin
    step: Floats  # (K,): of the scale that has the slot; 0 where none has
    failed: np.ndarray  # (1,): at which scale a round was refused


@compiled
def positive(x: float) -> float:
    return x if x > 0.0 else 0.0


@compiled
def observe(
    state: State,
    settings: Settings,
    indices: np.ndarray,
    squares: Floats,
    first: int,
    last: int,
    y: float,
    step_schedule: float,
    n_active: int,
    lost: Floats,
    margin: Floats,
) -> int:
    """Judge each active learner on the event in ``first .. last``, then let it learn. Refused, it changes nothing."""
    slots, S, mu, ceiling, slope, step = state.slots, state.S, state.mu, state.ceiling, state.slope, state.step
    steps, distance, touched, rho, pull = settings.steps, state.distance, state.touched, settings.rho, settings.pull
    largest, most_added = 0.0, 0.0
    for p in range(first, last):
        largest = max(largest, abs(squares[p]))
        most_added = max(most_added, -y * squares[p])
    for k in range(len(slots)):
        slope[k] = step[k] = 0.0
    for k in range(0, len(slots), LANES):
        squared_distances(state.w, state.s, S, indices, squares, first, last, k, distance)
    learning = False
    for level in range(n_active):
        k = slots[level]
        m = y * (pull * mu[k] - distance[k])
        lost[level], margin[level] = loss_of(settings.loss, m), m
        slope[k], step[k] = slope_of(settings.loss, m), step_schedule * steps[level]
        learning |= slope[k] != 0.0
        state.failed[0] = level
        if not isfinite(lost[level]):
            return INFINITE_LOSS
        if not isfinite(ceiling[k] + step[k] * slope[k] * largest):
            return INFINITE_STEP
    if learning:
        for k in range(0, len(slots), LANES):
            learn(state.w, state.s, S, slope, step, y, rho, indices, squares, first, last, k)
        for p in range(first, last):
            touched[state.n_touched[0] % len(touched)] = indices[p]
            state.n_touched[0] += 1
    for level in range(n_active):
        k = slots[level]
        S[k] += step[k] * rho
        mu[k] = max(1.0, mu[k] + step[k] * slope[k] * y * pull)
        ceiling[k] += step[k] * slope[k] * most_added
    return PLAYED


@compiled
def squared_distances(
    w: Floats, s: Floats, S: Floats, indices: np.ndarray, squares: Floats, first: int, last: int, k: int, out: Floats
) -> None:
    """``q' weights``, of a pair its squared length, of the LANES slots from k on; the sums are held in registers."""
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


@compiled
def learn(
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
    """A COMID step of the weights that the event touches, in the LANES slots from k on; S is as it was before."""
    for p in range(first, last):
        i, q = indices[p], squares[p]
        for lane in range(k, k + LANES):
            now = positive(w[i, lane] - (S[lane] - s[i, lane]))
            tau = step[lane] * rho
            w[i, lane] = positive(now - step[lane] * slope[lane] * y * q - tau)
            s[i, lane] = S[lane] + tau


@compiled
def start(state: State, settings: Settings, n_starting: int, before: Floats, n_before: int) -> None:
    """Each scale that starts takes over the slot of the scale below it; the finest gets the one freed.

    ``before`` holds the weights of the scales as the last round left them.
    """
    finest, slots, like = settings.finest, state.slots, state.like
    if n_starting == 0 or (n_starting == 1 and finest == CARRY):
        return
    freed, below = slots[n_starting - 1], slots[0]
    if finest == ENSEMBLE:
        become_average(state, freed, before, n_before)
    for level in range(n_starting - 1, 0, -1):
        slots[level] = slots[level - 1]
    slots[0] = freed
    if finest == CARRY:
        become_like(state, freed, below)
        like[below] = state.n_touched[0]
    elif finest == RESET:
        become_new(state, settings, freed)
        like[freed] = state.n_touched[0]


@compiled
def settle(state: State) -> None:
    """Shrink every weight by what has been put off, so that S does not grow until its digits no longer reach."""
    for i in range(state.w.shape[0]):
        for k in range(state.w.shape[1]):
            state.w[i, k] = positive(state.w[i, k] - (state.S[k] - state.s[i, k]))
            state.s[i, k] = 0.0
    state.S[:] = 0.0
    state.like[:] = UNKNOWN


@compiled
def become_like(state: State, slot: int, model: int) -> None:
    """Copy a slot. Features that were not touched since the two were the same are the same still."""
    w, s, touched, n_touched, like = state.w, state.s, state.touched, state.n_touched[0], state.like[slot]
    if like == UNKNOWN or n_touched - like > len(touched):
        for i in range(w.shape[0]):
            w[i, slot], s[i, slot] = w[i, model], s[i, model]
    else:
        for p in range(like, n_touched):
            i = touched[p % len(touched)]
            w[i, slot], s[i, slot] = w[i, model], s[i, model]
    state.S[slot], state.mu[slot], state.ceiling[slot] = state.S[model], state.mu[model], state.ceiling[model]


@compiled
def become_new(state: State, settings: Settings, slot: int) -> None:
    """Start a slot from scratch, by the features that were touched since it last was."""
    w, s, touched, n_touched, like = state.w, state.s, state.touched, state.n_touched[0], state.like[slot]
    if like == UNKNOWN or n_touched - like > len(touched):
        for i in range(w.shape[0]):
            w[i, slot], s[i, slot] = settings.weight, 0.0
    else:
        for p in range(like, n_touched):
            i = touched[p % len(touched)]
            w[i, slot], s[i, slot] = settings.weight, 0.0
    state.S[slot], state.mu[slot], state.ceiling[slot] = 0.0, settings.threshold, settings.weight


@compiled
def become_average(state: State, slot: int, shares: Floats, n: int) -> None:
    """Put the ensemble's metric into a slot, which may be one of those that it is made of."""
    weights = np.empty(state.w.shape[0])
    state.mu[slot] = average(state, shares, n, weights)
    for i in range(len(weights)):
        state.w[i, slot], state.s[i, slot] = weights[i], 0.0
    highest = 0.0
    for level in range(n):
        highest = max(highest, state.ceiling[state.slots[level]])
    state.S[slot], state.ceiling[slot] = 0.0, highest


@compiled
def average(state: State, shares: Floats, n: int, weights: Floats) -> float:
    """The average of the first n scales' weights, by shares that need not sum to 1; that of their thresholds."""
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
    # Rounding must not put the average outside what was averaged.
    return float(min(max(threshold, lowest), highest))


@compiled
def play(
    state: State,
    settings: Settings,
    indptr: np.ndarray,
    indices: np.ndarray,
    squares: Floats,
    Y: Floats,
    first: int,
    last: int,
    t: int,
    shortest: int,
    most: int,
    round_state: Floats,
    rates: Floats,
    lost: Floats,
    margin: Floats,
    margins: Floats,
    alone: bool,
    step_factors: Floats,
    records: Floats,
    weighing: int,
    largest: float,
    uniforms: Floats,
) -> tuple[int, int]:
    """Play rounds t, t + 1, ... on the sparse rows from first up to last: as ``lowrank.play``."""
    n_active = active_scales(t, shortest, most)
    for row in range(first, last):
        begin, end = indptr[row], indptr[row + 1]
        step_schedule = step_factors[row - first]
        outcome = observe(state, settings, indices, squares, begin, end, Y[row], step_schedule, n_active, lost, margin)
        if outcome != PLAYED:
            return row, outcome
        if alone:
            return row + 1, PLAYED
        n_before = n_active
        n_active, n_starting = next_round(
            round_state,
            rates,
            lost,
            margin,
            margins,
            row,
            t,
            shortest,
            most,
            records,
            weighing,
            largest,
            uniforms,
            first,
        )
        t += 1
        if n_active > len(state.slots):
            return row + 1, NO_SCALE
        start(state, settings, n_starting, round_state[1], n_before)
    return last, PLAYED
