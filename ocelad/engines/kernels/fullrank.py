"""The COMID learners of all scales as full matrices, eight at a time, for steps without shrinkage.

A dissimilar pair adds ``s uu'`` to each metric. A similar one takes it away and clips off the one eigenvalue that may
have become negative (``cholesky.py``). A relative comparison is one of each: first far is added, by which nothing can
become negative, then near is taken away.
"""

from __future__ import annotations

from math import inf, isfinite, sqrt
from typing import NamedTuple

import numpy as np

from ocelad._compile import compiled, compiled_sums, inlined
from ocelad._typing import Floats
from ocelad.engines.kernels.cholesky import (
    GUESS,
    KEPT,
    SIZE,
    Eight,
    S,
    U,
    add,
    add_clipped,
    clip,
    entry,
    products,
    squared_lengths,
)
from ocelad.engines.kernels.rounds import (
    CARRY,
    INFINITE_LOSS,
    INFINITE_STEP,
    NO_SCALE,
    PLAYED,
    REPLACE,
    active_scales,
    loss_of,
    next_round,
    slope_of,
)
from ocelad.engines.kernels.secular import LANES

# What scales start from.
BELOW, ENSEMBLE, SCRATCH, KEEP = 0, 1, 2, 3


class Settings(NamedTuple):
    """What does not change: the objective, the step size of each scale, and how many features there are."""

    loss: int
    max_norm: float  # infinite: no bound
    finest: int  # CARRY, or REPLACE by what is in the spare slot
    starts: int  # BELOW, or what scales start from otherwise: ENSEMBLE or SCRATCH
    own: int  # and what the finest does then: ENSEMBLE, SCRATCH, or KEEP
    steps: Floats  # (K,)
    n: int
    weight: float  # where a learner starts from scratch: this times I, and a threshold
    threshold: float


class State(NamedTuple):
    """The learners. Slot s is lane ``s % 8`` of group ``s // 8``; ``slots[j]`` is that of scale j, last the spare."""

    M: Floats  # (groups, n (n + 1) / 2, 8): lower triangles
    mu: Floats  # (slots,)
    guess: Floats  # (slots,): where the last roots were, a good place to look for the next
    slots: np.ndarray  # (K + 1,)
    square: Floats  # (slots,): u'Mu of the pair at hand
    change: Floats  # (slots,): the size of the learner's step, times the slope of its loss
    outer: Floats  # (n (n + 1) / 2,): uu' of the pair at hand
    C: Floats  # (n, n, 8): Cholesky factors
    x: Floats  # (N_VECTORS, n, 8)
    lanes: Floats  # (N_NUMBERS, 8)
    R: Floats  # (n + N_VECTORS, n and up to a multiple of 8): what a learner alone has in the place of C and x
    failed: np.ndarray  # (1,): which scale could not learn from the pair that was refused


@inlined
def observe(
    state: State,
    settings: Settings,
    V: Floats,
    row: int,
    y: float,
    step_schedule: float,
    n_active: int,
    lost: Floats,
    margin: Floats,
) -> int:
    """Judge each active learner, then let it learn. Whatever it returns but PLAYED, nothing has changed."""
    M, mu, slots, square, change, outer = state.M, state.mu, state.slots, state.square, state.change, state.outer
    steps, loss, n = settings.steps, settings.loss, settings.n
    products(V, row, n, outer)
    norm2 = trace(outer, n)
    for group in range(len(M)):
        put(square, LANES * group, squared_lengths(M, group, outer, n))
    for slot in range(len(change)):
        change[slot] = 0.0
    anything = False
    for level in range(n_active):
        slot = slots[level]
        m = y * (mu[slot] - positive(square[slot]))
        lost[level], margin[level] = loss_of(loss, m), m
        change[slot] = step_schedule * steps[level] * slope_of(loss, m)
        anything = anything or change[slot] > 0.0
        if not isfinite(lost[level]):
            state.failed[0] = level
            return INFINITE_LOSS
        if not isfinite(change[slot] * norm2):
            state.failed[0] = level
            return INFINITE_STEP
    if anything:
        for group in range(len(M)):
            learn(state, settings, group, V, row, norm2, y, settings.max_norm)
        for slot in range(len(change)):
            mu[slot] = max(1.0, mu[slot] + change[slot] * y)
    return PLAYED


@inlined
def observe_relative(
    state: State,
    settings: Settings,
    near: Floats,
    far: Floats,
    row: int,
    step_schedule: float,
    n_active: int,
    lost: Floats,
    margin: Floats,
) -> int:
    """As ``observe``, of a relative comparison."""
    M, slots, square, change, outer = state.M, state.slots, state.square, state.change, state.outer
    steps, loss, n = settings.steps, settings.loss, settings.n
    products(far, row, n, outer)
    far2 = trace(outer, n)
    for group in range(len(M)):
        put(square, LANES * group, squared_lengths(M, group, outer, n))
    for level in range(n_active):
        margin[level] = positive(square[slots[level]])
    products(near, row, n, outer)
    near2 = trace(outer, n)
    for group in range(len(M)):
        put(square, LANES * group, squared_lengths(M, group, outer, n))
    for slot in range(len(change)):
        change[slot] = 0.0
    anything = False
    for level in range(n_active):
        slot = slots[level]
        m = margin[level] - positive(square[slot])
        lost[level], margin[level] = loss_of(loss, m), m
        change[slot] = step_schedule * steps[level] * slope_of(loss, m)
        anything = anything or change[slot] > 0.0
        state.failed[0] = level
        if not isfinite(lost[level]):
            return INFINITE_LOSS
        if not isfinite(change[slot] * max(near2, far2)):
            return INFINITE_STEP
    if anything:
        for adding in (True, False):
            G, norm2, y = (far, far2, -1.0) if adding else (near, near2, 1.0)
            most = inf if adding and near2 > 0.0 else settings.max_norm  # bounded once, at the end
            products(G, row, n, outer)
            for group in range(len(M)):
                learn(state, settings, group, G, row, norm2, y, most)
    return PLAYED


@compiled
def trace(outer: Floats, n: int) -> float:
    """``|u|^2``, from ``outer = uu'``."""
    total = 0.0
    for i in range(n):
        total += outer[entry(i, i)]
    return total


@compiled
def positive(square: float) -> float:
    """Rounding can put a zero below zero; what is not a number, because it overflows, stays that."""
    return 0.0 if square < 0.0 else square


@compiled
def put(numbers: Floats, first: int, values: Eight) -> None:
    """Eight numbers in a row."""
    numbers[first], numbers[first + 1], numbers[first + 2], numbers[first + 3] = values[:4]
    numbers[first + 4], numbers[first + 5], numbers[first + 6], numbers[first + 7] = values[4:]


@inlined
def learn(
    state: State, settings: Settings, group: int, V: Floats, row: int, norm2: float, y: float, most: float
) -> None:
    """One COMID step of eight learners, up to a norm of most; those whose change is 0 stay as they are."""
    M, lanes, x, outer, n = state.M, state.lanes, state.x, state.outer, settings.n
    anything = False
    for k in range(LANES):
        lanes[S, k] = state.change[LANES * group + k]
        lanes[GUESS, k] = state.guess[LANES * group + k]
        anything = anything or lanes[S, k] > 0.0
    if not anything or norm2 == 0.0:
        return
    if y > 0.0:
        norm = sqrt(norm2)
        for i in range(n):
            for k in range(LANES):
                x[U, i, k] = V[row, i] / norm
        clip(M, group, n, norm2, state.C, x, lanes, state.R)
        for k in range(LANES):
            length = 0.0
            for i in range(n):
                length += x[KEPT, i, k] * x[KEPT, i, k]
            found = lanes[SIZE, k] > 0.0
            if found:
                root = min(max(lanes[SIZE, k], 0.01), 0.9)
                state.guess[LANES * group + k] += 0.3 * (root - state.guess[LANES * group + k])
            lanes[SIZE, k] = lanes[SIZE, k] * (lanes[S, k] * norm2) / length if found else 0.0
            lanes[S, k] = -lanes[S, k]
            if not found:
                for i in range(n):
                    x[KEPT, i, k] = 0.0
        add_clipped(M, group, x, lanes, n)
    add(M, group, outer, lanes, entry(n, 0))
    if most < inf:
        for k in range(LANES):
            if lanes[S, k] != 0.0:
                bound(M, group, k, n, most)


@compiled
def bound(M: Floats, group: int, lane: int, n: int, most: float) -> None:
    """Scale a matrix down until its Frobenius norm is at most so large."""
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
    if sqrt(total) * largest > most:
        scale = most / largest / sqrt(total)
        for q in range(entry(n, 0)):
            M[group, q, lane] *= scale


@compiled
def start(state: State, n_starting: int, finest: int) -> None:
    """Each scale that starts takes over the slot of the scale below it; only the finest needs a copy."""
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


@compiled
def start_alike(state: State, settings: Settings, n_starting: int, before: Floats, n_before: int) -> None:
    """The same where no scale starts from the one below it: from the ensemble, or from scratch.

    ``before`` holds the weights of the n_before scales that there were, as the last round left them.
    """
    M, mu, slots, shares, mean, n = state.M, state.mu, state.slots, state.square, state.outer, settings.n
    threshold = 1.0
    if n_starting > 0 and ENSEMBLE in (settings.own, settings.starts):
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
        source, slot = settings.own if level == 0 else settings.starts, slots[level]
        if source == ENSEMBLE:
            for p in range(len(mean)):
                M[slot // LANES, p, slot % LANES] = mean[p]
            mu[slot] = threshold
        elif source == SCRATCH:
            for p in range(len(mean)):
                M[slot // LANES, p, slot % LANES] = 0.0
            for i in range(n):
                M[slot // LANES, entry(i, i), slot % LANES] = settings.weight
            mu[slot] = settings.threshold


@compiled_sums
def average(M: Floats, shares: Floats, mean: Floats) -> None:
    """The lower triangle of the matrices' average, by the shares of their slots."""
    for p in range(len(mean)):
        total = 0.0
        for group in range(len(M)):
            for k in range(LANES):
                total += shares[LANES * group + k] * M[group, p, k]
        mean[p] = total


@compiled
def weighted_sum(shares: Floats, mu: Floats) -> float:
    total = 0.0
    for slot in range(len(shares)):
        total += shares[slot] * mu[slot]
    return total


@compiled
def play(
    state: State,
    settings: Settings,
    V: Floats,
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
    """Play rounds t, t + 1, ... on the rows of V from first up to last: as ``lowrank.play``."""
    n_active = active_scales(t, shortest, most)
    for row in range(first, last):
        outcome = observe(state, settings, V, row, Y[row], step_factors[row - first], n_active, lost, margin)
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
        alike = settings.starts != BELOW
        if n_active >= len(state.slots) or (n_starting > 0 and settings.finest == REPLACE and not alike):
            return row + 1, NO_SCALE
        if alike:
            start_alike(state, settings, n_starting, round_state[1], n_before)
        else:
            start(state, n_starting, settings.finest)
    return last, PLAYED


@compiled
def play_relatives(
    state: State,
    settings: Settings,
    near: Floats,
    far: Floats,
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
    """As ``play``, on relative comparisons: the rows of near and far."""
    n_active = active_scales(t, shortest, most)
    for row in range(first, last):
        outcome = observe_relative(state, settings, near, far, row, step_factors[row - first], n_active, lost, margin)
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
        alike = settings.starts != BELOW
        if n_active >= len(state.slots) or (n_starting > 0 and settings.finest == REPLACE and not alike):
            return row + 1, NO_SCALE
        if alike:
            start_alike(state, settings, n_starting, round_state[1], n_before)
        else:
            start(state, n_starting, settings.finest)
    return last, PLAYED
