"""The COMID learners of all scales in eigenform: judge, start, learn; one round, or a whole stream of them."""

from __future__ import annotations

from math import inf, isfinite, sqrt
from typing import NamedTuple

import numpy as np

from ocelad.checks import Floats
from ocelad.online import dyadic, losses, weights
from ocelad.online.compiled import compiled
from ocelad.online.kernels.eigenform import Work, add_rank_one, new_direction, padded, project, squared_length

hinge, hinge_slope = compiled(losses.hinge), compiled(losses.hinge_slope)
squared_hinge, squared_hinge_slope = compiled(losses.squared_hinge), compiled(losses.squared_hinge_slope)
logistic, logistic_slope = compiled(losses.logistic), compiled(losses.logistic_slope)
starting_scales, active_scales = compiled(dyadic.starting_scales), compiled(dyadic.active_scales)
reweigh = compiled(weights.reweigh)

HINGE, SQUARED_HINGE, LOGISTIC = 0, 1, 2
CARRY, REPLACE = 0, 1
# What became of a round: played; refused, with nothing changed, because a loss or a step is not finite; or not
# begun, because a learner has no room for another direction. NO_SCALE: played, but what starts next needs Python.
PLAYED, INFINITE_LOSS, INFINITE_STEP, NO_ROOM, NO_SCALE = 0, 1, 2, 3, 4


class Settings(NamedTuple):
    """What does not change: the objective, and the step size of each scale."""

    loss: int
    rho: float
    max_norm: float  # infinite: no bound
    max_rank: int
    finest: int  # CARRY, or REPLACE by what is in the spare slot
    steps: Floats  # (K,)


class State(NamedTuple):
    """The learners. Slot s holds one metric; ``slots[j]`` says which is that of scale j, and the last is spare."""

    V: Floats  # (K + 1, n, R)
    lam: Floats  # (K + 1, R)
    rank: np.ndarray  # (K + 1,)
    mu: Floats  # (K + 1,)
    base: Floats  # (K + 1,)
    shift: Floats  # (K + 1,): shrinkage that has not been needed yet
    slots: np.ndarray  # (K + 1,)
    z: Floats  # (K + 2, R): projections of the pair at hand, and a row to work in
    slope: Floats  # (K + 1,): the slope of the loss at its margin
    cuts: np.ndarray  # (1,): how many directions max_rank has cut


@compiled
def loss_of(loss: int, m: float) -> float:
    if loss == HINGE:
        return hinge(m)
    if loss == SQUARED_HINGE:
        return squared_hinge(m)
    return logistic(m)


@compiled
def slope_of(loss: int, m: float) -> float:
    if loss == HINGE:
        return hinge_slope(m)
    if loss == SQUARED_HINGE:
        return squared_hinge_slope(m)
    return logistic_slope(m)


@compiled
def observe(state: State, settings: Settings, work: Work, u: Floats, y: float, n_active: int, lost: Floats) -> int:
    """Judge each active learner, then let it learn. Whatever it returns but PLAYED, nothing has changed."""
    # Taken out of their tuples once: every look into one costs two atomic reference counts.
    V, lam, z, slots, rank = state.V, state.lam, state.z, state.slots, state.rank
    mu, base, shift, slope = state.mu, state.base, state.shift, state.slope
    steps, loss, rho = settings.steps, settings.loss, settings.rho
    norm2 = 0.0
    for j in range(len(u)):
        norm2 += u[j] * u[j]
    for level in range(n_active):
        slot = slots[level]
        r = rank[slot]
        if r < len(u) and r + 1 > lam.shape[1]:
            return NO_ROOM
        project(V, slot, u, r, z, slot)
        m = y * (mu[slot] - squared_length(lam, z, slot, r, base[slot], shift[slot], norm2))
        lost[level] = loss_of(loss, m)
        slope[slot] = slope_of(loss, m)
        if not isfinite(lost[level]):
            return INFINITE_LOSS
        if not isfinite(steps[level] * slope[slot] * norm2):
            return INFINITE_STEP
    norm = sqrt(norm2)
    for level in range(n_active):
        slot = slots[level]
        if slope[slot] == 0.0:
            shift[slot] += steps[level] * rho
        else:
            learn(state, settings, work, slot, steps[level], u, y, norm)
    return PLAYED


@compiled
def start(state: State, n_starting: int, finest: int) -> None:
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
    r = state.rank[old]
    width = padded(r)
    for j in range(V.shape[1]):
        for k in range(width):
            V[freed, j, k] = V[old, j, k]
    for k in range(width):
        lam[freed, k] = lam[old, k]
    state.rank[freed] = r
    state.mu[freed] = state.mu[old]
    state.base[freed] = state.base[old]
    state.shift[freed] = state.shift[old]


@compiled
def learn(
    state: State, settings: Settings, work: Work, slot: int, eta: float, u: Floats, y: float, norm: float
) -> None:
    """One COMID step of the learner in this slot, on a pair that is not told apart well enough."""
    slope = state.slope[slot]
    tau = eta * settings.rho
    state.mu[slot] = max(1.0, state.mu[slot] + eta * slope * y)
    V, lam, z = state.V, state.lam, state.z
    n, r = V.shape[1], settle(lam, slot, state.rank[slot], state.base[slot], state.shift[slot])
    for k in range(r, state.rank[slot]):
        z[slot, k] = 0.0
    base = max(state.base[slot] - state.shift[slot], 0.0)
    state.shift[slot] = 0.0
    if norm > 0.0:
        if r < n:
            length = new_direction(V, slot, u, z, r, norm, work.q)
            if length > 0.0:
                for j in range(n):
                    V[slot, j, r] = work.q[j]
                lam[slot, r], z[slot, r] = base, length
                r += 1
        add_rank_one(V, lam, z, slot, r, -eta * slope * y, work)
    r = settle(lam, slot, r, base, tau)
    base = max(base - tau, 0.0)
    while r > settings.max_rank:
        r = cut(V, lam, slot, r, base)
        state.cuts[0] += 1
    if r == n:
        base = 0.0  # nothing is left that it would be the eigenvalue of
        r = settle(lam, slot, r, base, 0.0)
    largest = max(lam[slot, 0], base) if r > 0 else base
    if settings.max_norm < inf and largest > 0.0:
        total = (n - r) * (base / largest) ** 2
        for k in range(r):
            total += (lam[slot, k] / largest) ** 2
        if sqrt(total) * largest > settings.max_norm:
            scale = settings.max_norm / largest / sqrt(total)
            base *= scale
            for k in range(r):
                lam[slot, k] *= scale
    state.rank[slot], state.base[slot] = r, base


@compiled
def settle(lam: Floats, slot: int, r: int, base: float, shift: float) -> int:
    """Lower the eigenvalues by shift, not below zero; where the base comes to zero too, zeros need no direction."""
    for k in range(r):
        lam[slot, k] = max(lam[slot, k] - shift, 0.0)
    if base - shift <= 0.0:
        while r > 0 and lam[slot, r - 1] == 0.0:
            r -= 1
    return r


@compiled
def cut(V: Floats, lam: Floats, slot: int, r: int, base: float) -> int:
    """Let go of the direction whose eigenvalue is nearest to the base: the smallest, where the base is zero."""
    nearest = r - 1
    for k in range(r):
        if abs(lam[slot, k] - base) < abs(lam[slot, nearest] - base):
            nearest = k
    for k in range(nearest, r - 1):
        lam[slot, k] = lam[slot, k + 1]
        for j in range(V.shape[1]):
            V[slot, j, k] = V[slot, j, k + 1]
    return r - 1


@compiled
def replay(
    state: State,
    settings: Settings,
    work: Work,
    U: Floats,
    Y: Floats,
    first: int,
    t: int,
    shortest: int,
    most: int,
    turn: Floats,
    rates: Floats,
) -> tuple[int, int]:
    """Play rounds t, t + 1, ... on the rows of U from ``first`` on; how many rows are done, and why it stopped.

    ``turn`` holds the weights of the round about to be played (row 0) and those before its starts (row 1).
    """
    lost = np.empty(len(rates))
    n_active = active_scales(t, shortest, most)
    for row in range(first, len(U)):
        outcome = observe(state, settings, work, U[row], Y[row], n_active, lost)
        if outcome != PLAYED:
            return row, outcome
        reweigh(turn[0], rates, lost, n_active)
        t += 1
        for level in range(n_active):
            turn[1, level] = turn[0, level]
        n_active = active_scales(t, shortest, most)
        n_starting = starting_scales(t, shortest, most)
        for level in range(n_starting):
            turn[0, level] = rates[level]
        if n_active >= len(state.slots) or (n_starting > 0 and settings.finest == REPLACE):
            return row + 1, NO_SCALE
        start(state, n_starting, settings.finest)
    return len(U), PLAYED
