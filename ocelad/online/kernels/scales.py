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
    z: Floats  # (K + 1, R): projections of the pair at hand
    margin: Floats  # (K + 1,): its margin
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
    norm2 = 0.0
    for j in range(len(u)):
        norm2 += u[j] * u[j]
    for level in range(n_active):
        slot = state.slots[level]
        r = state.rank[slot]
        if r < len(u) and r + 1 > state.lam.shape[1]:
            return NO_ROOM
        project(state.V[slot], u, r, state.z[slot])
        length = squared_length(state.lam[slot], state.z[slot], r, state.base[slot], state.shift[slot], norm2)
        m = y * (state.mu[slot] - length)
        state.margin[slot] = m
        lost[level] = loss_of(settings.loss, m)
        if not isfinite(lost[level]):
            return INFINITE_LOSS
        if not isfinite(settings.steps[level] * slope_of(settings.loss, m) * norm2):
            return INFINITE_STEP
    norm = sqrt(norm2)
    for level in range(n_active):
        learn(state, settings, work, state.slots[level], settings.steps[level], u, y, norm)
    return PLAYED


@compiled
def start(state: State, n_starting: int, finest: int) -> None:
    """Each scale that starts takes over the slot of the scale below it; only the finest needs a copy."""
    slots = state.slots
    spare = len(slots) - 1
    if finest == REPLACE and n_starting > 0:
        freed = slots[n_starting - 1]
        for level in range(n_starting - 1, 0, -1):
            slots[level] = slots[level - 1]
        slots[0], slots[spare] = slots[spare], freed
    elif n_starting > 1:
        freed = slots[n_starting - 1]
        for level in range(n_starting - 1, 0, -1):
            slots[level] = slots[level - 1]
        slots[0] = freed
        copy(state, slots[1], freed)


@compiled
def copy(state: State, old: int, new: int) -> None:
    """Copy the metric in one slot to another."""
    r = state.rank[old]
    width = padded(r)
    for j in range(state.V.shape[1]):
        for k in range(width):
            state.V[new, j, k] = state.V[old, j, k]
    for k in range(width):
        state.lam[new, k] = state.lam[old, k]
    state.rank[new] = r
    state.mu[new] = state.mu[old]
    state.base[new] = state.base[old]
    state.shift[new] = state.shift[old]


@compiled
def learn(
    state: State, settings: Settings, work: Work, slot: int, eta: float, u: Floats, y: float, norm: float
) -> None:
    """One COMID step of the learner in this slot."""
    slope = slope_of(settings.loss, state.margin[slot])
    tau = eta * settings.rho
    if slope == 0.0:
        state.shift[slot] += tau
        return
    state.mu[slot] = max(1.0, state.mu[slot] + eta * slope * y)
    V, lam, z = state.V[slot], state.lam[slot], state.z[slot]
    n, r = V.shape[0], settle(lam, state.rank[slot], state.base[slot], state.shift[slot])
    for k in range(r, state.rank[slot]):
        z[k] = 0.0
    base = max(state.base[slot] - state.shift[slot], 0.0)
    state.shift[slot] = 0.0
    if norm > 0.0:
        if r < n:
            length = new_direction(V, u, z, r, norm, work.q, work.vectors[7])
            if length > 0.0:
                for j in range(n):
                    V[j, r] = work.q[j]
                lam[r], z[r] = base, length
                r += 1
        add_rank_one(V, lam, r, z, -eta * slope * y, work)
    r = settle(lam, r, base, tau)
    base = max(base - tau, 0.0)
    if r == n:
        base = 0.0  # nothing is left that it would be the eigenvalue of
        r = settle(lam, r, base, 0.0)
    while r > settings.max_rank:
        r = cut(V, lam, r, base)
        state.cuts[0] += 1
    if settings.max_norm < inf:
        total = (n - r) * base * base
        for k in range(r):
            total += lam[k] * lam[k]
        if total > settings.max_norm * settings.max_norm:
            scale = settings.max_norm / sqrt(total)
            base *= scale
            for k in range(r):
                lam[k] *= scale
    state.rank[slot], state.base[slot] = r, base


@compiled
def settle(lam: Floats, r: int, base: float, shift: float) -> int:
    """Lower the eigenvalues by shift, not below zero; where the base comes to zero too, zeros need no direction."""
    for k in range(r):
        lam[k] = max(lam[k] - shift, 0.0)
    if base - shift <= 0.0:
        while r > 0 and lam[r - 1] == 0.0:
            r -= 1
    return r


@compiled
def cut(V: Floats, lam: Floats, r: int, base: float) -> int:
    """Let go of the direction whose eigenvalue is nearest to the base: the smallest, where the base is zero."""
    nearest = r - 1
    for k in range(r):
        if abs(lam[k] - base) < abs(lam[nearest] - base):
            nearest = k
    for k in range(nearest, r - 1):
        lam[k] = lam[k + 1]
        for j in range(V.shape[0]):
            V[j, k] = V[j, k + 1]
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
