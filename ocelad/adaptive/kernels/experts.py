"""The experts of ``AdaptiveBank`` in one round: each says how likely "same" is, is judged, and learns.

Experts in their order: windows (inverse moments of similar pairs, less those of all pairs), COMID learners, the three
priors (Euclidean, each feature by its spread, whitened), memories (metrics from before a change).
"""

from __future__ import annotations

from math import exp, inf, log, sqrt
from typing import NamedTuple

from ocelad._compile import compiled, compiled_as_written, inlined
from ocelad._typing import Floats
from ocelad.adaptive.kernels.cusum import CERTAIN, LAST_BEGAN, NOTICED, look_for_change
from ocelad.adaptive.kernels.moments import add, begin, form, is_sound, strengthen
from ocelad.adaptive.kernels.platt import (
    LEAST_LEVEL,
    LEVEL,
    OFFSET,
    SLOPE,
    begin_fit,
    fit,
    loss_of_odds,
    odds_of,
    odds_of_probability,
    probability,
    relative,
)
from ocelad.engines.kernels import fullrank
from ocelad.engines.kernels.cholesky import entry
from ocelad.engines.kernels.rounds import INFINITE_LOSS, PLAYED
from ocelad.engines.kernels.secular import LANES
from ocelad.ensemble import weight_updates
from ocelad.ensemble.weight_updates import NONE_DRAWN, WEIGHT

discounted_update = compiled_as_written(weight_updates.discounted_update)
ensemble_value = compiled_as_written(weight_updates.ensemble_value)

# The first pairs are only watched, until it is known how far features spread.
WATCHED = 8
# A window's moments begin, and are held up, by so many pairs of the features' own spread; those of all pairs by more.
RIDGE, RIDGE_ALL = 1.0, 10.0
# Which share of the inverse moments of all pairs is taken away from those of similar ones.
TAKEN_AWAY = 0.65
# Pairs farther apart than this, relative to what is usual, count less.
USUAL = 2.5
# A window that has not seen a similar pair for so many rounds forgets nevertheless.
PATIENCE = 16
# Spreads are forgotten by this, and the spread of all pairs over so many rounds.
SPREAD_KEPT, ALL_WINDOW = 0.998, 1024.0
# By which prior features are trusted is learned over so many rounds.
PRIOR_HORIZON = 500.0
# Near pairs: the nearest of so large a share; how many of them are remembered.
NEAR_SHARE, NEAR_MEMORY, NEAR_PSEUDO = 0.05, 100.0, 8.0
# Every so many rounds what is played is set aside: as a memory if a change follows, and to tell how fast it moves.
ASIDE = 64
# From which window on they begin anew after a change; shorter ones have forgotten by themselves.
FIRST_RESTARTED = 1
FARTHEST_LENGTH = 1e250

# The places in ``numbers``.
(
    UNIT,
    SPREAD_COUNT,
    SHARE_SAME,
    N_ASIDE,
    DRIFT,
    PRIOR_NEAR,
    PRIOR_SAME,
    PRIOR_SEEN,
    OWN_NEAR,
    OWN_SAME,
    OWN_SEEN,
    N_NUMBERS,
) = range(12)
EUCLIDEAN, SPREAD, WHITENED, N_PRIORS = 0, 1, 2, 3


class State(NamedTuple):
    """All that experts know, and scratch. W windows, C COMID learners, 3 priors, J memories: K experts, n features."""

    keeps: Floats  # (W,): what each window keeps of its moments from one round to the next
    numbers: Floats  # (N_NUMBERS,)
    spread: Floats  # (n,): the running mean of x_i^2; 0 where a feature has never differed
    P: Floats  # (W + 1, n, n): inverse moments of similar pairs in each window, and of all pairs
    counts: Floats  # (W + 1,): of how many pairs they are
    owed: Floats  # (W,): what each window has still to multiply its moments by
    fits: Floats  # (K, N_COLUMNS): calibrations
    priors: Floats  # (3,): discounted log likelihoods
    memories: Floats  # (J, n, n)
    taken: Floats  # (J,): whether there is one
    aside: Floats  # (2, n, n): what was played lately, and ASIDE rounds before
    aside_offset: Floats  # (2,)
    recent: Floats  # (ASIDE, n): the last pairs
    recent_y: Floats  # (ASIDE,): their labels
    recent_odds: Floats  # (ASIDE,): what was said of them before they were learned from
    evidence: Floats  # (N_EVIDENCE,): of a change
    changes: Floats  # (most, 3)
    x: Floats  # (1, n): the pair, in the unit of the first pairs
    s: Floats  # (1, n): each feature relative to its spread
    V: Floats  # (W + 1, n): P x
    raw: Floats  # (W + 1,): x'P x
    remembered: Floats  # (J, n)
    squares: Floats  # (K,)
    odds: Floats  # (K,)
    column: Floats  # (n,)
    mixed: Floats  # (n, n)


@compiled
def moment_factor(counts: Floats, owed: Floats, k: int) -> float:
    """What a window's ``P`` is multiplied by to be the inverse of a mean, what it has still to forget counted in."""
    return float(counts[k] + RIDGE / owed[k])


@compiled
def meet_features(state: State, n: int) -> None:
    """Features that differ for the first time get a spread, and a place in all moments."""
    x, spread, P = state.x, state.spread, state.P
    n_windows = len(state.keeps)
    for i in range(n):
        if spread[i] == 0.0 and x[0, i] != 0.0:
            spread[i] = max(x[0, i] * x[0, i] / (state.numbers[SPREAD_COUNT] + 1.0), 1e-100)
            for k in range(n_windows):
                P[k, i, i] = 1.0 / (RIDGE * spread[i])
            P[n_windows, i, i] = 1.0 / (RIDGE_ALL * spread[i])


@compiled
def measure(state: State, n: int) -> None:
    """The pair's squared distance by every expert but COMID, which measures it when it learns."""
    x, s, spread, squares = state.x, state.s, state.spread, state.squares
    n_windows, n_memories = len(state.keeps), len(state.taken)
    for k in range(n_windows + 1):
        state.raw[k] = form(state.P, k, x, state.V, n)
    everything = state.raw[n_windows] * (state.counts[n_windows] + RIDGE_ALL)
    for k in range(n_windows):
        squares[k] = state.raw[k] * moment_factor(state.counts, state.owed, k) - TAKEN_AWAY * everything
    plain, by_spread = 0.0, 0.0
    for i in range(n):
        s[0, i] = x[0, i] / sqrt(spread[i]) if spread[i] > 0.0 else 0.0
        plain += x[0, i] * x[0, i]
        by_spread += s[0, i] * s[0, i]
    prior = len(squares) - n_memories - N_PRIORS
    squares[prior + EUCLIDEAN], squares[prior + SPREAD], squares[prior + WHITENED] = plain, by_spread, everything
    if by_spread > 100.0 * n:  # one pair shall not turn the COMID learners over
        for i in range(n):
            s[0, i] *= sqrt(100.0 * n / by_spread)


@compiled
def remember(state: State, n: int) -> None:
    """The pair's squared distance by every memory; an empty one plays as the longest window does."""
    n_memories = len(state.taken)
    first = len(state.squares) - n_memories
    for j in range(n_memories):
        if state.taken[j] > 0.0:
            state.squares[first + j] = form(state.memories, j, state.x, state.remembered, n)
        else:
            state.squares[first + j] = state.squares[len(state.keeps) - 1]


@compiled
def hold_up(P: Floats, k: int, i: int, weight: float, spread: Floats, column: Floats, n: int) -> None:
    """Give one feature's moment back what all have forgotten of the ridge."""
    if spread[i] > 0.0:
        strengthen(P, k, i, weight * n * spread[i], column, n)


@compiled
def usual_part(square: float, n: int) -> float:
    """How much a pair counts in moments by which its squared distance, n on average, is this."""
    return 1.0 if square <= USUAL * n else USUAL * n / square


@compiled
def learn_window(state: State, k: int, y: float, t: int, n: int) -> None:
    """A window learns from a similar pair; from others, that time passes. ``V[k]`` and ``raw[k]`` are of the pair."""
    P, V, raw, counts, owed, spread = state.P, state.V, state.raw, state.counts, state.owed, state.spread
    owed[k] *= state.keeps[k]
    if y < 0.0 and t % PATIENCE != 0:
        return
    weight = usual_part(raw[k] * moment_factor(counts, owed, k), n) if y > 0.0 else 0.0
    add(P, k, V, raw[k], owed[k], weight, n)
    counts[k] = owed[k] * counts[k] + weight
    hold_up(P, k, t % n, (1.0 - owed[k]) * RIDGE, spread, state.column, n)
    owed[k] = 1.0
    if not is_sound(P, k, n):
        begin(P, k, RIDGE, spread, n)
        counts[k] = 0.0


@compiled
def learn_moments(state: State, y: float, t: int, n: int) -> None:
    """Windows learn from similar pairs, the moments of all pairs from every one."""
    P, V, raw, counts, spread, column = state.P, state.V, state.raw, state.counts, state.spread, state.column
    everything, feature = len(state.keeps), t % n
    for k in range(everything):
        learn_window(state, k, y, t, n)
    saved = 1.0 - 2.0 / (ALL_WINDOW + 1.0)
    weight = usual_part(raw[everything] * (counts[everything] + RIDGE_ALL), n)
    add(P, everything, V, raw[everything], saved, weight, n)
    counts[everything] = saved * counts[everything] + weight
    hold_up(P, everything, feature, (1.0 - saved) * RIDGE_ALL, spread, column, n)
    if not is_sound(P, everything, n):
        begin(P, everything, RIDGE_ALL, spread, n)
        counts[everything] = 0.0
    numbers = state.numbers
    numbers[SPREAD_COUNT] = SPREAD_KEPT * numbers[SPREAD_COUNT] + 1.0
    for i in range(n):
        if spread[i] > 0.0:
            change = (state.x[0, i] * state.x[0, i] - spread[i]) / numbers[SPREAD_COUNT]
            spread[i] = max(spread[i] + change, 1e-100)


@compiled
def watch(state: State, y: float, t: int, n: int) -> None:
    """Note one of the first pairs; when there are enough of them, begin with all moments, and learn from them."""
    x, numbers, spread = state.x, state.numbers, state.spread
    row = (t - 1) % ASIDE
    for i in range(n):
        state.recent[row, i] = x[0, i]
    state.recent_y[row], state.recent_odds[row] = y, 0.0
    seen = min(t, ASIDE)
    total = 0.0
    for r in range(seen):
        for i in range(n):
            total += state.recent[r, i] * state.recent[r, i] / n / seen
    if t < WATCHED or total == 0.0:
        return
    # A power of two: data twice as large give the same bits.
    unit, size = 1.0, sqrt(total)
    while size * unit > 1.0:
        unit *= 0.5
    while size * unit < 0.5:
        unit *= 2.0
    numbers[UNIT], numbers[SPREAD_COUNT] = unit, seen
    for i in range(n):
        spread[i] = 0.0
        for r in range(seen):
            state.recent[r, i] *= unit
            spread[i] += state.recent[r, i] * state.recent[r, i] / seen
    for k in range(len(state.keeps)):
        begin(state.P, k, RIDGE, spread, n)
    begin(state.P, len(state.keeps), RIDGE_ALL, spread, n)
    for r in range(seen):
        row = (t - seen + r) % ASIDE  # the oldest first
        for i in range(n):
            x[0, i] = state.recent[row, i]
        for k in range(len(state.keeps) + 1):
            state.raw[k] = form(state.P, k, x, state.V, n)
        learn_moments(state, state.recent_y[row], r + 1, n)
    numbers[SPREAD_COUNT] = seen


@compiled
def look_near(state: State, odds: float, y: float, t: int) -> None:
    """How often near pairs are the same: near by the priors, and near by what was learned."""
    numbers, fits, priors = state.numbers, state.fits, state.priors
    first = len(state.squares) - len(state.taken) - N_PRIORS
    best = max(priors[0], priors[1], priors[2])
    distance, total = 0.0, 0.0
    for i in range(N_PRIORS):
        share = exp(priors[i] - best)
        total += share
        distance += share * relative(fits, first + i, state.squares[first + i])
    same = 1.0 if y > 0.0 else 0.0
    numbers[SHARE_SAME] += max(1.0 / (t + 1.0), 1.0 / PRIOR_HORIZON) * (same - numbers[SHARE_SAME])
    for i in range(2):
        place, value, size = (PRIOR_NEAR, -distance / total, 0.5) if i == 0 else (OWN_NEAR, odds, 2.0)
        if t <= WATCHED + 20:
            numbers[place] = max(numbers[place], value) if t > WATCHED + 1 else value
            continue
        near = value > numbers[place]
        if near:
            saved = 1.0 - 1.0 / NEAR_MEMORY
            numbers[place + 1] = saved * numbers[place + 1] + same
            numbers[place + 2] = saved * numbers[place + 2] + 1.0
        numbers[place] += size * max(0.02, 1.0 / t) * ((1.0 if near else 0.0) - NEAR_SHARE)


@compiled
def memorise(state: State, n: int) -> None:
    """Keep what was played before the change, in the place of the memory that fits worst."""
    if state.numbers[N_ASIDE] < 2.0:
        return
    fits, n_memories = state.fits, len(state.taken)
    first = len(state.squares) - n_memories
    worst = 0
    for j in range(n_memories):
        if state.taken[j] < state.taken[worst]:
            worst = j
    state.taken[worst] = 1.0
    for i in range(n):
        for j in range(n):
            state.memories[worst, i, j] = state.aside[1, i, j]
    begin_fit(fits, first + worst, state.aside_offset[1], 1.0, 1.0)


@compiled
def restart(state: State, t: int, n: int) -> None:
    """Let windows that remember what was before the change begin anew, with the pairs since then."""
    fits, x = state.fits, state.x
    began = max(int(state.evidence[LAST_BEGAN]), t - ASIDE + 1)
    for k in range(FIRST_RESTARTED, len(state.keeps)):
        begin(state.P, k, RIDGE, state.spread, n)
        state.counts[k], state.owed[k] = 0.0, 1.0
        for column in range(fits.shape[1]):
            fits[k, column] = fits[0, column]
    for past in range(began, t + 1):
        row = (past - 1) % ASIDE
        for i in range(n):
            x[0, i] = state.recent[row, i]
        for k in range(FIRST_RESTARTED, len(state.keeps)):
            state.raw[k] = form(state.P, k, x, state.V, n)
            learn_window(state, k, state.recent_y[row], past, n)


@compiled
def mixture(state: State, comid: Floats, records: Floats, n: int, mixed: Floats) -> float:
    """What the ensemble says: log odds of "same" are what is returned less x'(mixed)x."""
    fits, P, spread = state.fits, state.P, state.spread
    n_windows, n_memories, n_experts = len(state.keeps), len(state.taken), len(state.squares)
    n_comid = n_experts - n_windows - N_PRIORS - n_memories
    total, offset, everything = 0.0, 0.0, 0.0
    for k in range(n_experts):
        total += records[WEIGHT, k]
    for i in range(n):
        for j in range(n):
            mixed[i, j] = 0.0
    for k in range(n_experts):
        offset += records[WEIGHT, k] / total * fits[k, OFFSET]
        share = records[WEIGHT, k] / total * fits[k, SLOPE] / fits[k, LEVEL]
        memory = k - n_experts + n_memories
        if k < n_windows or (memory >= 0 and state.taken[memory] == 0.0):
            window = min(k, n_windows - 1)
            factor = share * moment_factor(state.counts, state.owed, window)
            everything -= TAKEN_AWAY * share
            for i in range(n):
                for j in range(n):
                    mixed[i, j] += factor * P[window, i, j]
        elif k < n_windows + n_comid:
            lane = k - n_windows
            for i in range(n):
                for j in range(i + 1):
                    if spread[i] > 0.0 and spread[j] > 0.0:
                        part = share * comid[lane // LANES, entry(i, j), lane % LANES] / sqrt(spread[i] * spread[j])
                        mixed[i, j] += part
                        if i != j:
                            mixed[j, i] += part
        elif k == n_experts - n_memories - N_PRIORS + EUCLIDEAN:
            for i in range(n):
                mixed[i, i] += share
        elif k == n_experts - n_memories - N_PRIORS + SPREAD:
            for i in range(n):
                if spread[i] > 0.0:
                    mixed[i, i] += share / spread[i]
        elif memory < 0:
            everything += share
        else:
            for i in range(n):
                for j in range(n):
                    mixed[i, j] += share * state.memories[memory, i, j]
    factor = everything * (state.counts[n_windows] + RIDGE_ALL)
    for i in range(n):
        for j in range(n):
            mixed[i, j] += factor * P[n_windows, i, j]
    return offset


@compiled
def set_aside(state: State, comid: Floats, records: Floats, n: int) -> None:
    """Keep what is played now, and tell how far it is from what was played before, relative to its size."""
    numbers, aside, offsets, spread = state.numbers, state.aside, state.aside_offset, state.spread
    offset = mixture(state, comid, records, n, state.mixed)
    moved, size = 0.0, 0.0
    for i in range(n):
        for j in range(n):
            scale = spread[i] * spread[j]
            moved += scale * (state.mixed[i, j] - aside[0, i, j]) ** 2
            size += scale * state.mixed[i, j] ** 2
            aside[1, i, j], aside[0, i, j] = aside[0, i, j], state.mixed[i, j]
    offsets[1], offsets[0] = offsets[0], offset
    if numbers[N_ASIDE] > 0.0 and 0.0 < size < inf:
        numbers[DRIFT] = sqrt(min(moved / size, 1e6)) / ASIDE
    numbers[N_ASIDE] = min(numbers[N_ASIDE] + 1.0, 2.0)


@inlined
def observe(
    state: State,
    comid: fullrank.State,
    settings: fullrank.Settings,
    rows: Floats,
    row: int,
    y: float,
    t: int,
    records: Floats,
    lost: Floats,
    margin: Floats,
    comid_lost: Floats,
    comid_margin: Floats,
) -> int:
    """Judge every expert, then let each learn. Whatever it returns but PLAYED, nothing has changed."""
    x, odds, squares, fits, numbers = state.x, state.odds, state.squares, state.fits, state.numbers
    n, n_experts, n_windows, n_memories = settings.n, len(state.squares), len(state.keeps), len(state.taken)
    n_comid = n_experts - n_windows - N_PRIORS - n_memories
    unit = numbers[UNIT]
    length = 0.0
    for i in range(n):
        x[0, i] = rows[row, i] * (unit if unit > 0.0 else 1.0)
        length += x[0, i] * x[0, i]
    if not length < FARTHEST_LENGTH:
        return INFINITE_LOSS
    if unit == 0.0:
        for k in range(n_experts):
            lost[k], margin[k] = log(2.0), 0.0
        watch(state, y, t, n)
        return PLAYED
    meet_features(state, n)
    measure(state, n)
    remember(state, n)
    for k in range(n_comid):
        squares[n_windows + k] = comid.mu[k]
    fullrank.observe(comid, settings, state.s, 0, y, 1.0, n_comid, comid_lost, comid_margin)
    for k in range(n_comid):  # a margin is y (mu - d^2), of the threshold before the pair
        squares[n_windows + k] = max(squares[n_windows + k] - y * comid_margin[k], 0.0)
    started = fits[0, LEVEL] > 0.0
    if not started:
        for k in range(n_experts):
            begin_fit(fits, k, 1.0, 1.0, max(abs(squares[k]), LEAST_LEVEL))
    total, said, likely = 0.0, 0.0, 0.0
    for k in range(n_experts):
        odds[k] = odds_of(fits, k, squares[k])
        total += records[WEIGHT, k]
        said += records[WEIGHT, k] * odds[k]
        likely += records[WEIGHT, k] * probability(odds[k])
    said, likely = said / total, likely / total
    for k in range(n_experts):
        lost[k], margin[k] = loss_of_odds(odds[k], y), odds[k] if y > 0.0 else -odds[k]
    first = n_experts - n_memories - N_PRIORS
    look_near(state, said, y, t)
    for i in range(N_PRIORS):
        state.priors[i] = (1.0 - 1.0 / PRIOR_HORIZON) * state.priors[i] - lost[first + i]
    for k in range(n_experts):
        memory = k >= n_experts - n_memories and state.taken[k - n_experts + n_memories] > 0.0
        fit(fits, k, squares[k], odds[k], y, t, not memory)
        if memory:  # how long it has been of use; the least used one gives way
            j = k - n_experts + n_memories
            state.taken[j] = 1e-3 + 0.99 * state.taken[j] + records[WEIGHT, k] / total
    learn_moments(state, y, t, n)
    place = (t - 1) % ASIDE
    for i in range(n):
        state.recent[place, i] = x[0, i]
    state.recent_y[place], state.recent_odds[place] = y, said
    found = look_for_change(state.evidence, state.changes, odds_of_probability(likely), y, t)
    if found == NOTICED:
        memorise(state, n)
    elif found == CERTAIN:
        restart(state, t, n)
    if t % ASIDE == 0:
        set_aside(state, comid.M, records, n)
    return PLAYED


@compiled
def play(
    state: State,
    comid: fullrank.State,
    settings: fullrank.Settings,
    rows: Floats,
    Y: Floats,
    first: int,
    last: int,
    t: int,
    records: Floats,
    horizon: float,
    lost: Floats,
    margin: Floats,
    margins: Floats,
    alone: bool,
    comid_lost: Floats,
    comid_margin: Floats,
) -> tuple[int, int]:
    """Play rounds t, t + 1, ... on the rows from first up to last; how many rows are done, and the outcome.

    ``alone``: only judge and learn, once; somebody else keeps the weights.
    """
    for row in range(first, last):
        outcome = observe(state, comid, settings, rows, row, Y[row], t, records, lost, margin, comid_lost, comid_margin)
        if outcome != PLAYED:
            return row, outcome
        if alone:
            return row + 1, PLAYED
        margins[row] = ensemble_value(records[WEIGHT], margin, len(lost), NONE_DRAWN)
        discounted_update(records, lost, len(lost), horizon)
        t += 1
    return last, PLAYED
