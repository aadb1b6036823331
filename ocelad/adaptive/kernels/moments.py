"""Second moments of similar pairs and of all pairs, by rank-one updates of their inverses (recursive least squares).

``P[k]`` is the inverse of ``ridge + sum of weight * xx'``. Only its lower triangle is computed and then mirrored,
because forgetting would amplify an antisymmetric part. ``ocelad.adaptive.moments`` is the definition.
"""

from __future__ import annotations

from typing import NamedTuple

from ocelad._compile import jit, jit_reassoc
from ocelad._typing import Floats


class MomentState(NamedTuple):
    """The moments of W windows, H of them half-standardized, then of all pairs; and scratch."""

    P: Floats  # (W + 1, n, n): inverse sums
    T: Floats  # (n, n): the sum of all pairs
    counts: Floats  # (W + 1,): the discounted number of pairs
    n_updates: Floats  # (2,): the number of updates of the windows, and of all pairs
    n_half: int  # H
    x: Floats  # (1, n): scratch: the half-standardized pair
    Px: Floats  # (W + 1, n): scratch
    v: Floats  # (1, n): scratch: Px in standardized features
    forms: Floats  # (W + 1,): scratch: x'Px
    column: Floats  # (n,): scratch


@jit_reassoc
def quadratic_form(P: Floats, k: int, x: Floats, row: int, Px: Floats, n: int) -> float:
    """Return ``x'P[k]x`` for a row x and store ``P[k]x`` in ``Px[k]``."""
    total = 0.0
    for i in range(n):
        product = 0.0
        for j in range(n):
            product += P[k, i, j] * x[row, j]
        Px[k, i] = product
        total += product * x[row, i]
    return total


@jit_reassoc
def half_form(T: Floats, v: Floats, k: int, n: int) -> float:
    """Return ``v'Tv`` for a row v; T is symmetric, so that half of it suffices."""
    total = 0.0
    for i in range(n):
        product = 0.0
        for j in range(i):
            product += T[i, j] * v[k, j]
        total += v[k, i] * (2.0 * product + T[i, i] * v[k, i])
    return total


@jit
def discount_and_add(P: Floats, k: int, Px: Floats, square: float, decay: float, weight: float, n: int) -> None:
    """Multiply the sums by ``decay``, then add ``weight xx'``; ``Px[k]`` is P[k]x and ``square`` is x'P[k]x."""
    inverse_decay = 1.0 / decay
    share = weight * inverse_decay * inverse_decay / (1.0 + weight * square * inverse_decay)
    for i in range(n):
        part = share * Px[k, i]
        for j in range(i + 1):
            P[k, i, j] = inverse_decay * P[k, i, j] - part * Px[k, j]


@jit
def add_to_diagonal(P: Floats, k: int, i: int, weight: float, column: Floats, n: int) -> None:
    """Add ``weight`` to the i-th diagonal entry of the sums; uses and updates the lower triangle of P."""
    for j in range(i + 1):
        column[j] = P[k, i, j]
    for j in range(i + 1, n):
        column[j] = P[k, j, i]
    share = weight / (1.0 + weight * column[i])
    for r in range(n):
        part = share * column[r]
        for j in range(r + 1):
            P[k, r, j] -= part * column[j]


@jit
def symmetrize(P: Floats, k: int, n: int) -> None:
    """Copy the lower triangle to the upper one."""
    for i in range(n):
        for j in range(i):
            P[k, j, i] = P[k, i, j]


@jit
def is_valid(P: Floats, k: int, n: int) -> bool:
    """Return whether the diagonal is finite and not negative, as that of an inverse must be despite rounding."""
    valid = True
    for i in range(n):
        valid = valid and 0.0 <= P[k, i, i] < 1e300
    return valid


@jit
def reset(P: Floats, k: int, ridge: float, n: int) -> None:
    """Reset the sums to the ridge."""
    for i in range(n):
        for j in range(n):
            P[k, i, j] = 0.0
        P[k, i, i] = 1.0 / ridge


@jit
def update_window(
    state: MomentState, k: int, feature: int, decay: float, weight: float, ridge: float, limit: float, n: int
) -> float:
    """Let a window forget and include the pair of ``Px[k]`` and ``forms[k]``; return its weight."""
    P, counts = state.P, state.counts
    relative = state.forms[k] * (counts[k] + ridge) / n
    if relative > limit:
        weight *= limit / relative
    discount_and_add(P, k, state.Px, state.forms[k], decay, weight, n)
    counts[k] = decay * counts[k] + weight
    add_to_diagonal(P, k, feature, n * ridge * (1.0 - decay), state.column, n)
    symmetrize(P, k, n)
    if not is_valid(P, k, n):  # rounding, after many rounds
        reset(P, k, ridge, n)
        counts[k] = 0.0
    return weight


@jit
def multiply(state: MomentState, S: Floats, ratios: Floats, row: int, n: int) -> None:
    """Compute ``Px`` and ``x'Px`` of a pair for every window and for all pairs."""
    for i in range(n):
        state.x[0, i] = ratios[row, i] * S[row, i]
    for k in range(len(state.counts)):
        if k < state.n_half:
            state.forms[k] = quadratic_form(state.P, k, state.x, 0, state.Px, n)
        else:
            state.forms[k] = quadratic_form(state.P, k, S, row, state.Px, n)


@jit
def measure(state: MomentState, S: Floats, ratios: Floats, row: int, ridge: float, squares: Floats, n: int) -> None:
    """Store the whitened square and that of each window from column 2 on."""
    counts, all_pairs = state.counts, len(state.counts) - 1
    multiply(state, S, ratios, row, n)
    squares[row, 2] = state.forms[all_pairs] * (counts[all_pairs] + ridge)
    for k in range(all_pairs):
        factor = (counts[k] + ridge) * (counts[k] + ridge) / (counts[all_pairs] + ridge)
        if k < state.n_half:
            for i in range(n):
                state.v[0, i] = ratios[row, i] * state.Px[k, i]
            squares[row, 3 + k] = factor * half_form(state.T, state.v, 0, n)
        else:
            squares[row, 3 + k] = factor * half_form(state.T, state.Px, k, n)


@jit
def learn_all(state: MomentState, S: Floats, row: int, decay: float, ridge: float, limit: float, n: int) -> None:
    """Include a pair, measured before, in the moments of all pairs."""
    T, all_pairs = state.T, len(state.counts) - 1
    feature = int(state.n_updates[1]) % n
    weight = update_window(state, all_pairs, feature, decay, 1.0, ridge, limit, n)
    for i in range(n):
        part = weight * S[row, i]
        for j in range(i + 1):
            T[i, j] = decay * T[i, j] + part * S[row, j]
    T[feature, feature] += n * ridge * (1.0 - decay)
    for i in range(n):
        for j in range(i):
            T[j, i] = T[i, j]
    state.n_updates[1] += 1.0


@jit
def learn_similar(state: MomentState, decays: Floats, weight: float, ridge: float, limit: float, n: int) -> None:
    """Include a similar pair, measured before, in every window."""
    feature = int(state.n_updates[0]) % n
    for k in range(len(decays)):
        update_window(state, k, feature, decays[k] ** weight, weight, ridge, limit, n)
    state.n_updates[0] += 1.0


@jit
def restart_windows(
    state: MomentState, S: Floats, ratios: Floats, weights: Floats, decays: Floats, ridge: float, limit: float, n: int
) -> None:
    """Let all windows but the first of each kind begin again with these similar pairs."""
    for k in range(len(decays)):
        if k not in (0, state.n_half):
            reset(state.P, k, ridge, n)
            state.counts[k] = 0.0
    for row in range(len(S)):
        multiply(state, S, ratios, row, n)
        for k in range(len(decays)):
            if k not in (0, state.n_half):
                update_window(state, k, row % n, decays[k] ** weights[row], weights[row], ridge, limit, n)


@jit
def play_pairs(
    state: MomentState,
    S: Floats,
    ratios: Floats,
    y: Floats,
    weights: Floats,
    decays: Floats,
    decay_all: float,
    ridge: float,
    limit: float,
    squares: Floats,
    n: int,
) -> None:
    """Measure each pair, then learn from it."""
    for row in range(len(squares)):
        measure(state, S, ratios, row, ridge, squares, n)
        learn_all(state, S, row, decay_all, ridge, limit, n)
        if y[row] > 0.0 and weights[row] > 0.0:
            learn_similar(state, decays, weights[row], ridge, limit, n)


@jit
def play_relatives(
    state: MomentState,
    S: Floats,
    S_far: Floats,
    ratios: Floats,
    weights: Floats,
    decays: Floats,
    decay_all: float,
    ridge: float,
    limit: float,
    squares: Floats,
    sizes: Floats,
    far_squares: Floats,
    n: int,
) -> None:
    """Measure each relative comparison, then learn from it: near is a similar pair, far is any pair."""
    for row in range(len(squares)):
        measure(state, S_far, ratios, row, ridge, far_squares, n)
        measure(state, S, ratios, row, ridge, squares, n)
        learn_all(state, S, row, decay_all, ridge, limit, n)
        if weights[row] > 0.0:
            learn_similar(state, decays, weights[row], ridge, limit, n)
        multiply(state, S_far, ratios, row, n)
        learn_all(state, S_far, row, decay_all, ridge, limit, n)
        for k in range(2, 2 + len(state.counts)):
            near, far = squares[row, k], far_squares[row, k]
            squares[row, k], sizes[row, k] = near - far, (near + far) / 2.0
