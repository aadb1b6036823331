"""The COMID learners of all scales in eigenform: judge, start, learn; one round, or a whole stream of them."""

from __future__ import annotations

from math import inf, isfinite, sqrt
from typing import NamedTuple

import numpy as np

from ocelad._compile import compiled, inlined
from ocelad._typing import Floats
from ocelad.engines.kernels.eigenform import (
    Work,
    change,
    oblique_next,
    outside,
    project,
    squared_length,
    squared_norm,
    strain,
)
from ocelad.engines.kernels.rounds import (
    CARRY,
    DEGENERATE,
    INFINITE_LOSS,
    INFINITE_STEP,
    NO_ROOM,
    NO_SCALE,
    PLAYED,
    REPLACE,
    active_scales,
    loss_of,
    next_round,
    slope_of,
)
from ocelad.engines.kernels.secular import SMALLEST, padded

# How far from orthonormal the directions in a frame may come to be, by what is known of the errors of inner products.
MOST_OBLIQUE = 1e-12


class Settings(NamedTuple):
    """What does not change: the objective, the step size of each scale, and how many features there are."""

    loss: int
    rho: float
    max_norm: float  # infinite: no bound
    max_rank: int
    finest: int  # CARRY, or REPLACE by what is in the spare slot
    steps: Floats  # (K,)
    n: int


class State(NamedTuple):
    """The learners. Slot s holds one metric; ``slots[j]`` says which is that of scale j, and the last is spare."""

    V: Floats  # (K + 2, R, width): directions, or their coefficients in a frame; rows padded to whole lanes
    buffer: np.ndarray  # (K + 2,): where in V each slot's directions are; the last is where none are
    lam: Floats  # (K + 1, R)
    rank: np.ndarray  # (K + 1,)
    mu: Floats  # (K + 1,)
    base: Floats  # (K + 1,)
    shift: Floats  # (K + 1,): shrinkage that has not been needed yet
    filled: np.ndarray  # (K + 1,): from where on the rows of V are zero
    slots: np.ndarray  # (K + 1,)
    z: Floats  # (K + 2, R): projections of the pair at hand, and a row to work in
    slope: Floats  # (K + 1,): the slope of the loss at its margin
    cuts: np.ndarray  # (1,): how many directions max_rank has cut
    failed: np.ndarray  # (1,): which scale could not learn from the pair that was refused


class Basis(NamedTuple):
    """The vectors that V holds coefficients of: each slot's anchors, then the pairs of the block at hand.

    Only their inner products with the pairs are here. Without a frame (``width`` 0) V holds the directions themselves.
    """

    width: int  # room for a slot's anchors; the pairs of the block come behind
    offset: np.ndarray  # (K + 1,): where among all anchors a slot's begin
    n_anchors: np.ndarray  # (K + 1,): how many it has
    products: Floats  # (block, anchors): pairs with anchors
    gram: Floats  # (block, block): pairs with pairs
    inner: Floats  # (K + 1, width + block): the pair at hand with each slot's frame
    anchor: np.ndarray  # (K + 1,): the anchor that is what u has outside the slot's directions; -1: none is
    length: Floats  # (K + 1,): how much u has of it
    oblique: Floats  # (K + 1,): how far from orthonormal the slot's directions may be
    next_oblique: Floats  # (K + 1,): and will be, when the pair at hand gives it another one


@inlined
def observe(
    state: State,
    settings: Settings,
    frame: Basis,
    work: Work,
    U: Floats,
    row: int,
    norm2: float,
    y: float,
    step_schedule: float,
    n_active: int,
    lost: Floats,
    margin: Floats,
) -> int:
    """Judge each active learner, then let it learn. Whatever it returns but PLAYED, nothing has changed."""
    # Taken out of their tuples once: every look into one costs two atomic reference counts.
    V, lam, z, slots, rank, buffer = state.V, state.lam, state.z, state.slots, state.rank, state.buffer
    mu, base, shift, slope, filled = state.mu, state.base, state.shift, state.slope, state.filled
    steps, loss, rho, n, width = settings.steps, settings.loss, settings.rho, settings.n, frame.width
    products, gram, inner, q = frame.products, frame.gram, frame.inner, work.q
    degenerate = False
    for level in range(n_active):
        slot = slots[level]
        r = rank[slot]
        if r + 1 > lam.shape[1] and (r < n or width > 0):  # a frame may need one more anchor than there are directions
            return NO_ROOM
        if width == 0:
            project(V, buffer[slot], r, U, row, V.shape[2], z, slot)
        else:
            for j in range(frame.n_anchors[slot]):
                inner[slot, j] = products[row, frame.offset[slot] + j]
            for j in range(width, filled[slot]):
                inner[slot, j] = gram[row, j - width]
            project(V, buffer[slot], r, inner, slot, filled[slot], z, slot)
        m = y * (mu[slot] - squared_length(lam, z, slot, r, base[slot], shift[slot], norm2))
        lost[level], margin[level] = loss_of(loss, m), m
        slope[slot] = slope_of(loss, m)
        if not isfinite(lost[level]):
            state.failed[0] = level
            return INFINITE_LOSS
        if not isfinite(step_schedule * steps[level] * slope[slot] * norm2):
            state.failed[0] = level
            return INFINITE_STEP
        if width > 0 and slope[slot] > 0.0 and norm2 >= SMALLEST and frame.anchor[slot] < 0:
            left, count = outside(lam, z, slot, r, base[slot], shift[slot], norm2)
            held = shift[slot] if base[slot] <= shift[slot] else -1.0
            parts = strain(V, buffer[slot], r, lam, z, slot, held, gram, width, filled[slot], q)
            following = oblique_next(frame.oblique[slot], norm2, left, parts) if count < n else 0.0
            frame.next_oblique[slot] = following
            degenerate = degenerate or not following <= MOST_OBLIQUE
    if degenerate:  # not before every learner has found the pair acceptable: what is refused must change nothing
        return DEGENERATE
    for level in range(n_active):
        slot = slots[level]
        if slope[slot] == 0.0:
            shift[slot] += step_schedule * steps[level] * rho
        else:
            learn(state, settings, frame, work, slot, step_schedule * steps[level], U, row, norm2, y)
    return PLAYED


@inlined
def learn(
    state: State,
    settings: Settings,
    frame: Basis,
    work: Work,
    slot: int,
    eta: float,
    U: Floats,
    row: int,
    norm2: float,
    y: float,
) -> None:
    """One COMID step of the learner in this slot, on a pair that is not told apart well enough."""
    slope, tau = state.slope[slot], eta * settings.rho
    V, lam, buffer, n = state.V, state.lam, state.buffer, settings.n
    state.mu[slot] = max(1.0, state.mu[slot] + eta * slope * y)
    if norm2 < SMALLEST:  # a length that has lost its digits makes no direction, and no change that could be seen
        state.shift[slot] += tau
        return
    source, target = buffer[slot], buffer[len(buffer) - 1]
    vector, length = -1, -1.0
    if frame.width > 0:
        vector = frame.width + row if frame.anchor[slot] < 0 else frame.anchor[slot]
        length = -1.0 if frame.anchor[slot] < 0 else frame.length[slot]
        if frame.anchor[slot] < 0:
            frame.oblique[slot] = max(frame.oblique[slot], frame.next_oblique[slot])
        state.filled[slot] = padded(frame.width + row + 1)
    r, base, n_cut = change(
        V,
        lam,
        state.z,
        slot,
        source,
        target,
        state.rank[slot],
        state.base[slot],
        state.shift[slot],
        -eta * slope * y,
        tau,
        U,
        row,
        norm2,
        n,
        vector,
        length,
        settings.max_rank,
        work,
    )
    buffer[slot], buffer[len(buffer) - 1] = target, source
    state.cuts[0] += n_cut
    state.shift[slot] = 0.0
    if settings.max_norm < inf:
        base = bound(lam, slot, r, base, n, settings.max_norm)
    state.rank[slot], state.base[slot] = r, base


@compiled
def bound(lam: Floats, slot: int, r: int, base: float, n: int, most: float) -> float:
    """Scale a metric down until its Frobenius norm is at most so large; its base."""
    largest = base
    for k in range(r):
        largest = max(largest, lam[slot, k])
    total = (n - r) * (base / largest) ** 2 if largest > 0.0 else 0.0
    for k in range(r):
        total += (lam[slot, k] / largest) ** 2
    if sqrt(total) * largest <= most:
        return base
    scale = most / largest / sqrt(total)
    for k in range(r):
        lam[slot, k] *= scale
    return base * scale


@inlined
def observe_relative(
    state: State,
    settings: Settings,
    work: Work,
    near: Floats,
    far: Floats,
    row: int,
    step_schedule: float,
    n_active: int,
    lost: Floats,
    margin: Floats,
) -> int:
    """As ``observe``, of a relative comparison, without a frame."""
    V, lam, z, slots, rank, buffer = state.V, state.lam, state.z, state.slots, state.rank, state.buffer
    base, shift, slope, steps, loss = state.base, state.shift, state.slope, settings.steps, settings.loss
    near2, far2, width = squared_norm(near, row), squared_norm(far, row), V.shape[2]
    for level in range(n_active):
        slot = slots[level]
        r = rank[slot]
        if lam.shape[1] < min(r + 2, settings.n):
            return NO_ROOM
        project(V, buffer[slot], r, near, row, width, z, slot)
        nearer = squared_length(lam, z, slot, r, base[slot], shift[slot], near2)
        project(V, buffer[slot], r, far, row, width, z, slot)  # z keeps far's, with which learning begins
        m = squared_length(lam, z, slot, r, base[slot], shift[slot], far2) - nearer
        lost[level], margin[level] = loss_of(loss, m), m
        slope[slot] = slope_of(loss, m)
        state.failed[0] = level
        if not isfinite(lost[level]):
            return INFINITE_LOSS
        if not isfinite(step_schedule * steps[level] * slope[slot] * max(near2, far2)):
            return INFINITE_STEP
    for level in range(n_active):
        slot = slots[level]
        if slope[slot] == 0.0:
            shift[slot] += step_schedule * steps[level] * settings.rho
        else:
            learn_relative(state, settings, work, slot, step_schedule * steps[level], near, far, row, near2, far2)
    return PLAYED


@inlined
def learn_relative(
    state: State,
    settings: Settings,
    work: Work,
    slot: int,
    eta: float,
    near: Floats,
    far: Floats,
    row: int,
    near2: float,
    far2: float,
) -> None:
    """One COMID step of the learner in this slot, on a comparison that is not told well enough.

    First far is added: nothing can become negative by it, so that clipping once, when near is taken away, is exact.
    """
    V, lam, buffer, z, n = state.V, state.lam, state.buffer, state.z, settings.n
    r, base, shift = state.rank[slot], state.base[slot], state.shift[slot]
    size, tau, changed = eta * state.slope[slot], eta * settings.rho, False
    for adding in (True, False):
        G, norm2 = (far, far2) if adding else (near, near2)
        if norm2 < SMALLEST:  # as in ``learn``
            continue
        if not adding:
            project(V, buffer[slot], r, near, row, V.shape[2], z, slot)
        # What is done once, to shrink and to cut, is done with the last of the two.
        last = not adding or near2 < SMALLEST
        source, target = buffer[slot], buffer[len(buffer) - 1]
        r, base_then, n_cut = change(
            V,
            lam,
            z,
            slot,
            source,
            target,
            r,
            base,
            shift,
            size if adding else -size,
            tau if last else 0.0,
            G,
            row,
            norm2,
            n,
            -1,
            -1.0,
            settings.max_rank if last else n,
            work,
        )
        # ``change`` lets go of a base that no direction has any more; a direction that is cut would want it back.
        base = base_then if last else max(base - shift, 0.0)
        buffer[slot], buffer[len(buffer) - 1] = target, source
        state.cuts[0] += n_cut
        shift, changed = 0.0, True
    if not changed:
        state.shift[slot] += tau
        return
    if settings.max_norm < inf:
        base = bound(lam, slot, r, base, n, settings.max_norm)
    state.rank[slot], state.base[slot], state.shift[slot] = r, base, shift


@compiled
def start(state: State, frame: Basis, n_starting: int, finest: int) -> None:
    """Each scale that starts takes over the slot of the scale below it; only the finest needs a copy."""
    if n_starting == 0 or (n_starting == 1 and finest == CARRY):
        return
    slots = state.slots
    freed = slots[n_starting - 1]
    for level in range(n_starting - 1, 0, -1):
        slots[level] = slots[level - 1]
    if finest == REPLACE:
        spare = len(slots) - 1
        slots[0], slots[spare] = slots[spare], freed
        return
    slots[0] = freed
    V, lam, old = state.V, state.lam, slots[1]
    here, there = state.buffer[old], state.buffer[freed]
    r = state.rank[old]
    for k in range(r):
        lam[freed, k] = lam[old, k]
        for j in range(V.shape[2]):
            V[there, k, j] = V[here, k, j]
    state.rank[freed] = r
    state.mu[freed] = state.mu[old]
    state.base[freed] = state.base[old]
    state.shift[freed] = state.shift[old]
    state.filled[freed] = state.filled[old]
    frame.offset[freed] = frame.offset[old]
    frame.n_anchors[freed] = frame.n_anchors[old]
    frame.oblique[freed] = frame.oblique[old]


@compiled
def play(
    state: State,
    settings: Settings,
    frame: Basis,
    work: Work,
    U: Floats,
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
    """Play rounds t, t + 1, ... on the rows of U from first up to last: how many rows are done, and why it stopped.

    ``round_state`` holds the weights of the round about to be played (row 0) and those before its starts (row 1). What each
    learner lost in the last round comes to ``lost``, its margin to ``margin``; the ensemble's margins to ``margins``.
    ``step_factors[0]`` is what all step sizes are multiplied by in round t, ``uniforms[0]`` draws one learner, and so on.
    ``weighing`` is a number of ``weights.py``; ``largest`` and ``records`` are its own.
    ``alone``: only judge and learn from one row; somebody else keeps the weights and starts the scales. One function
    for both, so that it is one piece of machine code, and the bits are the same.
    """
    n_active = active_scales(t, shortest, most)
    for row in range(first, last):
        norm2 = frame.gram[row, row] if frame.width > 0 else squared_norm(U, row)
        outcome = observe(
            state, settings, frame, work, U, row, norm2, Y[row], step_factors[row - first], n_active, lost, margin
        )
        if outcome != PLAYED:
            return row, outcome
        if alone:
            return row + 1, PLAYED
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
        if n_active >= len(state.slots) or (n_starting > 0 and settings.finest == REPLACE):
            return row + 1, NO_SCALE
        start(state, frame, n_starting, settings.finest)
    return last, PLAYED


@compiled
def play_relatives(
    state: State,
    settings: Settings,
    frame: Basis,
    work: Work,
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
        outcome = observe_relative(
            state, settings, work, near, far, row, step_factors[row - first], n_active, lost, margin
        )
        if outcome != PLAYED:
            return row, outcome
        if alone:
            return row + 1, PLAYED
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
        if n_active >= len(state.slots) or (n_starting > 0 and settings.finest == REPLACE):
            return row + 1, NO_SCALE
        start(state, frame, n_starting, settings.finest)
    return last, PLAYED
