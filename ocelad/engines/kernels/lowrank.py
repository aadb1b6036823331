"""The COMID learners of all scales in eigenform, for one round or a stream of rounds."""

from __future__ import annotations

from math import inf, isfinite, sqrt
from typing import NamedTuple

import numpy as np

from ocelad._compile import jit, jit_inline
from ocelad._typing import Floats
from ocelad.engines.kernels.eigenform import (
    Work,
    cancellation,
    next_orthogonality_loss,
    project,
    rank_one_update,
    residual,
    squared_length,
    squared_norm,
)
from ocelad.engines.kernels.rounds import (
    CARRY,
    DEGENERATE,
    INFINITE_LOSS,
    INFINITE_STEP,
    PLAYED,
    RANK_FULL,
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
from ocelad.engines.kernels.secular import TINY, padded

# A larger bound of the orthogonality loss of directions in a basis makes the round DEGENERATE.
DEGENERATE_LOSS = 1e-12


class Settings(NamedTuple):
    """Constants: the objective, the step size of each scale, and the number of features."""

    loss: int
    rho: float
    max_norm: float  # inf: no bound
    max_rank: int
    finest: int  # CARRY, or REPLACE the finest learner by the one in the spare slot
    steps: Floats  # (K,)
    n: int


class State(NamedTuple):
    """The learners. Each slot holds one metric; scale j uses slot ``slots[j]``, and the last slot is spare."""

    V: Floats  # (K + 2, R, width): directions, or their coefficients in a basis; rows padded to whole lanes
    buffer: np.ndarray  # (K + 2,): index into V of each slot's directions; the last entry is an unused buffer
    lam: Floats  # (K + 1, R): eigenvalues
    rank: np.ndarray  # (K + 1,)
    mu: Floats  # (K + 1,): thresholds
    base: Floats  # (K + 1,): eigenvalue of all other directions
    shift: Floats  # (K + 1,): deferred shrinkage of all eigenvalues
    filled: np.ndarray  # (K + 1,): number of leading columns of V that may be non-zero
    slots: np.ndarray  # (K + 1,)
    z: Floats  # (K + 2, R): projections of the current pair, and a scratch row
    slope: Floats  # (K + 1,): slope of the loss at the current margin
    cuts: np.ndarray  # (1,): number of directions that max_rank has dropped
    failed: np.ndarray  # (1,): scale whose learner refused the last event


class Basis(NamedTuple):
    """The basis of V's coefficients: each slot's anchors, then the pairs of the current block.

    Holds only inner products with the pairs. Without a basis (``width`` 0), V holds the directions themselves.
    """

    width: int  # room for a slot's anchors; the pairs of the block follow
    offset: np.ndarray  # (K + 1,): index of a slot's first anchor among all anchors
    n_anchors: np.ndarray  # (K + 1,): number of a slot's anchors
    products: Floats  # (block, anchors): inner products of pairs and anchors
    gram: Floats  # (block, block): inner products of pairs
    inner: Floats  # (K + 1, width + block): inner products of the current pair with each slot's basis
    anchor: np.ndarray  # (K + 1,): anchor that is the normalized residual of the current pair, or -1
    length: Floats  # (K + 1,): length of that residual
    orthogonality_loss: Floats  # (K + 1,): bound for the slot's directions
    next_orthogonality_loss: Floats  # (K + 1,): the bound after adding a direction for the current pair


@jit_inline
def observe(
    state: State,
    settings: Settings,
    basis: Basis,
    work: Work,
    U: Floats,
    row: int,
    norm2: float,
    y: float,
    step_factor: float,
    n_active: int,
    losses: Floats,
    learner_margins: Floats,
) -> int:
    """Judge and update each active learner; unless PLAYED is returned, nothing has changed."""
    # Unpacked once: each access to a tuple's array costs two atomic reference counts.
    V, lam, z, slots, rank, buffer = state.V, state.lam, state.z, state.slots, state.rank, state.buffer
    mu, base, shift, slope, filled = state.mu, state.base, state.shift, state.slope, state.filled
    steps, loss, rho, n, width = settings.steps, settings.loss, settings.rho, settings.n, basis.width
    products, gram, inner, q = basis.products, basis.gram, basis.inner, work.q
    degenerate = False
    for level in range(n_active):
        slot = slots[level]
        r = rank[slot]
        if r + 1 > lam.shape[1] and (r < n or width > 0):  # a basis may need one anchor more than its directions
            return RANK_FULL
        if width == 0:
            project(V, buffer[slot], r, U, row, V.shape[2], z, slot)
        else:
            for j in range(basis.n_anchors[slot]):
                inner[slot, j] = products[row, basis.offset[slot] + j]
            for j in range(width, filled[slot]):
                inner[slot, j] = gram[row, j - width]
            project(V, buffer[slot], r, inner, slot, filled[slot], z, slot)
        m = y * (mu[slot] - squared_length(lam, z, slot, r, base[slot], shift[slot], norm2))
        losses[level], learner_margins[level] = loss_value(loss, m), m
        slope[slot] = loss_slope(loss, m)
        if not isfinite(losses[level]):
            state.failed[0] = level
            return INFINITE_LOSS
        if not isfinite(step_factor * steps[level] * slope[slot] * norm2):
            state.failed[0] = level
            return INFINITE_STEP
        if width > 0 and slope[slot] > 0.0 and norm2 >= TINY and basis.anchor[slot] < 0:
            residual2, count = residual(lam, z, slot, r, base[slot], shift[slot], norm2)
            threshold = shift[slot] if base[slot] <= shift[slot] else -1.0
            parts = cancellation(V, buffer[slot], r, lam, z, slot, threshold, gram, width, filled[slot], q)
            previous = basis.orthogonality_loss[slot]
            next_loss = next_orthogonality_loss(previous, norm2, residual2, parts) if count < n else 0.0
            basis.next_orthogonality_loss[slot] = next_loss
            degenerate = degenerate or not next_loss <= DEGENERATE_LOSS
    if degenerate:  # only after all learners have accepted the pair: a refused one must change nothing
        return DEGENERATE
    for level in range(n_active):
        slot = slots[level]
        if slope[slot] == 0.0:
            shift[slot] += step_factor * steps[level] * rho
        else:
            comid_step(state, settings, basis, work, slot, step_factor * steps[level], U, row, norm2, y)
    return PLAYED


@jit_inline
def comid_step(
    state: State,
    settings: Settings,
    basis: Basis,
    work: Work,
    slot: int,
    eta: float,
    U: Floats,
    row: int,
    norm2: float,
    y: float,
) -> None:
    """Apply one COMID step to the learner in this slot, on a pair with a non-zero loss."""
    slope, tau = state.slope[slot], eta * settings.rho
    V, lam, buffer, n = state.V, state.lam, state.buffer, settings.n
    state.mu[slot] = max(1.0, state.mu[slot] + eta * slope * y)
    if norm2 < TINY:  # too short to define a direction; the change is below rounding
        state.shift[slot] += tau
        return
    source, target = buffer[slot], buffer[len(buffer) - 1]
    vector, length = -1, -1.0
    if basis.width > 0:
        vector = basis.width + row if basis.anchor[slot] < 0 else basis.anchor[slot]
        length = -1.0 if basis.anchor[slot] < 0 else basis.length[slot]
        if basis.anchor[slot] < 0:
            basis.orthogonality_loss[slot] = max(basis.orthogonality_loss[slot], basis.next_orthogonality_loss[slot])
        state.filled[slot] = padded(basis.width + row + 1)
    r, base, n_cut = rank_one_update(
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
        base = bound_norm(lam, slot, r, base, n, settings.max_norm)
    state.rank[slot], state.base[slot] = r, base


@jit
def bound_norm(lam: Floats, slot: int, r: int, base: float, n: int, max_norm: float) -> float:
    """Scale a metric down to a Frobenius norm of at most ``max_norm`` and return its base."""
    largest = base
    for k in range(r):
        largest = max(largest, lam[slot, k])
    total = (n - r) * (base / largest) ** 2 if largest > 0.0 else 0.0
    for k in range(r):
        total += (lam[slot, k] / largest) ** 2
    if sqrt(total) * largest <= max_norm:
        return base
    scale = max_norm / largest / sqrt(total)
    for k in range(r):
        lam[slot, k] *= scale
    return base * scale


@jit_inline
def observe_relative(
    state: State,
    settings: Settings,
    work: Work,
    near: Floats,
    far: Floats,
    row: int,
    step_factor: float,
    n_active: int,
    losses: Floats,
    learner_margins: Floats,
) -> int:
    """Judge and update the learners on a relative comparison, as ``observe``; without a basis."""
    V, lam, z, slots, rank, buffer = state.V, state.lam, state.z, state.slots, state.rank, state.buffer
    base, shift, slope, steps, loss = state.base, state.shift, state.slope, settings.steps, settings.loss
    near2, far2, width = squared_norm(near, row), squared_norm(far, row), V.shape[2]
    for level in range(n_active):
        slot = slots[level]
        r = rank[slot]
        if lam.shape[1] < min(r + 2, settings.n):
            return RANK_FULL
        project(V, buffer[slot], r, near, row, width, z, slot)
        nearer = squared_length(lam, z, slot, r, base[slot], shift[slot], near2)
        # z keeps the projections of far, which the step adds first.
        project(V, buffer[slot], r, far, row, width, z, slot)
        m = squared_length(lam, z, slot, r, base[slot], shift[slot], far2) - nearer
        losses[level], learner_margins[level] = loss_value(loss, m), m
        slope[slot] = loss_slope(loss, m)
        state.failed[0] = level
        if not isfinite(losses[level]):
            return INFINITE_LOSS
        if not isfinite(step_factor * steps[level] * slope[slot] * max(near2, far2)):
            return INFINITE_STEP
    for level in range(n_active):
        slot = slots[level]
        if slope[slot] == 0.0:
            shift[slot] += step_factor * steps[level] * settings.rho
        else:
            comid_step_relative(state, settings, work, slot, step_factor * steps[level], near, far, row, near2, far2)
    return PLAYED


@jit_inline
def comid_step_relative(
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
    """Apply one COMID step to the learner in this slot, on a comparison with a non-zero loss.

    The term of far is added first. It makes no eigenvalue negative, so that clipping once, after the term of near is
    subtracted, is exact.
    """
    V, lam, buffer, z, n = state.V, state.lam, state.buffer, state.z, settings.n
    r, base, shift = state.rank[slot], state.base[slot], state.shift[slot]
    size, tau, changed = eta * state.slope[slot], eta * settings.rho, False
    for adding in (True, False):
        G, norm2 = (far, far2) if adding else (near, near2)
        if norm2 < TINY:  # as in ``comid_step``
            continue
        if not adding:
            project(V, buffer[slot], r, near, row, V.shape[2], z, slot)
        # Shrinkage and the rank limit apply once, with the last of the two terms.
        last = not adding or near2 < TINY
        source, target = buffer[slot], buffer[len(buffer) - 1]
        r, base_then, n_cut = rank_one_update(
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
        # ``rank_one_update`` zeroes a base that no direction has; a direction dropped later needs it again.
        base = base_then if last or r < n else max(base - shift, 0.0)
        buffer[slot], buffer[len(buffer) - 1] = target, source
        state.cuts[0] += n_cut
        shift, changed = 0.0, True
    if not changed:
        state.shift[slot] += tau
        return
    if settings.max_norm < inf:
        base = bound_norm(lam, slot, r, base, n, settings.max_norm)
    state.rank[slot], state.base[slot], state.shift[slot] = r, base, shift


@jit
def start(state: State, basis: Basis, n_starting: int, finest: int) -> None:
    """Let each starting scale take over the slot of the scale below it; only the finest needs a copy."""
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
    basis.offset[freed] = basis.offset[old]
    basis.n_anchors[freed] = basis.n_anchors[old]
    basis.orthogonality_loss[freed] = basis.orthogonality_loss[old]


@jit
def play(
    state: State,
    settings: Settings,
    basis: Basis,
    work: Work,
    U: Floats,
    args: KernelArgs,
) -> tuple[int, int]:
    """Play rounds t, t + 1, ... on rows of U; return the number of rows done and the outcome.

    With ``observe_only`` this only judges and updates the learners. Both modes are one function, and so one piece of
    machine code, to make their results agree to the bit.
    """
    t, first, y, step_factors = args.t, args.first, args.y, args.step_factors
    losses, learner_margins = args.losses, args.learner_margins
    n_active = active_scales(t, args.shortest_interval, args.max_scales)
    for row in range(first, args.last):
        if args.observe_only:
            record_thresholds(args.squares, row - first, state.mu, state.slots, n_active)
        norm2 = basis.gram[row, row] if basis.width > 0 else squared_norm(U, row)
        outcome = observe(
            state,
            settings,
            basis,
            work,
            U,
            row,
            norm2,
            y[row],
            step_factors[row - first],
            n_active,
            losses,
            learner_margins,
        )
        if outcome != PLAYED:
            return row, outcome
        if args.observe_only:
            record_squares(args.squares, row - first, learner_margins, y[row], n_active)
            continue
        n_active, n_starting = next_round(args, row, t)
        t += 1
        if n_active >= len(state.slots) or (n_starting > 0 and settings.finest == REPLACE):
            return row + 1, START_IN_PYTHON
        start(state, basis, n_starting, settings.finest)
    return args.last, PLAYED


@jit
def play_relatives(
    state: State,
    settings: Settings,
    basis: Basis,
    work: Work,
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
            state, settings, work, near, far, row, step_factors[row - first], n_active, losses, learner_margins
        )
        if outcome != PLAYED:
            return row, outcome
        if args.observe_only:
            for level in range(n_active):
                args.squares[row - first, level] = -learner_margins[level]
            continue
        n_active, n_starting = next_round(args, row, t)
        t += 1
        if n_active >= len(state.slots) or (n_starting > 0 and settings.finest == REPLACE):
            return row + 1, START_IN_PYTHON
        start(state, basis, n_starting, settings.finest)
    return args.last, PLAYED
