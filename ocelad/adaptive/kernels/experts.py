"""One round of the experts of ``AdaptiveBank``: each predicts the log odds of "same", is judged, and learns.

The experts, in order: windows (KISSME: inverse second moments of similar pairs minus a multiple of those of all pairs),
COMID learners, the three priors (Euclidean, standardized, whitened), and memories (metrics from before a change).
``ocelad.adaptive.definition`` is the same method in plain NumPy.
"""

from __future__ import annotations

from math import exp, inf, log, sqrt
from typing import NamedTuple

from ocelad._compile import jit, jit_exact, jit_inline
from ocelad._typing import Floats
from ocelad.adaptive.kernels.cusum import CHANGE, LAST_SINCE, WARNING, update_cusum
from ocelad.adaptive.kernels.moments import add_to_diagonal, discount_and_add, is_valid, quadratic_form, reset_moments
from ocelad.adaptive.kernels.platt import (
    MEAN_DISTANCE,
    MIN_MEAN_DISTANCE,
    OFFSET,
    SLOPE,
    init_fit,
    log_loss,
    log_odds,
    logit,
    newton_step,
    relative_distance,
    sigmoid,
)
from ocelad.engines.kernels import fullrank
from ocelad.engines.kernels.cholesky import entry
from ocelad.engines.kernels.rounds import INFINITE_LOSS, PLAYED
from ocelad.engines.kernels.secular import LANES
from ocelad.ensemble import weight_updates
from ocelad.ensemble.weight_updates import NONE_DRAWN, WEIGHT

discounted_update = jit_exact(weight_updates.discounted_update)
ensemble_value = jit_exact(weight_updates.ensemble_value)

# The first pairs only determine the scale of the features.
WARMUP_ROUNDS = 8
# Ridge of a window's moments and of those of all pairs, in pairs with the features' mean squares.
RIDGE, RIDGE_ALL = 1.0, 10.0
# Weight of the inverse moments of all pairs, which KISSME subtracts.
KISSME_WEIGHT = 0.65
# A pair whose squared distance exceeds this multiple of the usual one has a weight below 1.
OUTLIER_LIMIT = 2.5
# Windows apply their decay when a similar pair arrives, or after this many rounds.
MAX_PENDING = 16
# Decay of the features' mean squares per round, and length of the window of all pairs.
SCALE_DECAY, ALL_WINDOW = 0.998, 1024.0
# Horizon, in rounds, of the priors' scores and of the rate of similar pairs.
PRIOR_HORIZON = 500.0
# Near pairs: their share of all pairs, the horizon of their statistics in near pairs, and the prior's pseudo-count.
NEAR_SHARE, NEAR_HORIZON, NEAR_PSEUDO_COUNT = 0.05, 100.0, 8.0
# Period, in rounds, of the snapshots of the ensemble's metric, for memories and drift; also the number of recent pairs.
SNAPSHOT_PERIOD = 64
# First window that restarts after a change; shorter ones forget fast enough.
FIRST_RESTARTED = 1
MAX_SQUARED_LENGTH = 1e250

# Fields of ``scalars``: the factor of all differences; the weight of the mean squares; the rate of similar pairs; the
# number of snapshots; the drift; then, for the prior and for the ensemble, the bound above which a pair is near, and
# the discounted counts of similar near pairs and of near pairs.
(
    UNIT,
    SCALE_COUNT,
    SIMILAR_RATE,
    N_SNAPSHOTS,
    DRIFT,
    PRIOR_BOUND,
    PRIOR_SIMILAR,
    PRIOR_COUNT,
    ENSEMBLE_BOUND,
    ENSEMBLE_SIMILAR,
    ENSEMBLE_COUNT,
    N_SCALARS,
) = range(12)
EUCLIDEAN, STANDARDIZED, WHITENED, N_PRIORS = 0, 1, 2, 3


class State(NamedTuple):
    """State of the experts, and scratch. W windows, C COMID learners, 3 priors, J memories: K experts; n features."""

    decays: Floats  # (W,): decay of each window's moments per round
    scalars: Floats  # (N_SCALARS,)
    mean_squares: Floats  # (n,): running mean of x_i^2; 0 for features that have never differed
    P: Floats  # (W + 1, n, n): inverse moments of similar pairs in each window, and of all pairs
    counts: Floats  # (W + 1,): their discounted numbers of pairs
    pending_decay: Floats  # (W,): decay not applied to each window's moments yet
    fits: Floats  # (K, N_COLUMNS): Platt scaling of each expert
    prior_scores: Floats  # (3,): discounted log likelihoods of the priors
    memories: Floats  # (J, n, n)
    usage: Floats  # (J,): discounted weight of each memory; 0 for an empty one
    snapshots: Floats  # (2, n, n): the ensemble's matrix at the last two snapshots, the latest first
    snapshot_offsets: Floats  # (2,)
    recent: Floats  # (SNAPSHOT_PERIOD, n): ring buffer of the last pairs
    recent_labels: Floats  # (SNAPSHOT_PERIOD,)
    recent_log_odds: Floats  # (SNAPSHOT_PERIOD,): the ensemble's predictions for them
    cusum: Floats  # (cusum.N_FIELDS,)
    changes: Floats  # (max_changes, 3)
    # From here on: scratch.
    x: Floats  # (1, n): the current pair in the unit of the first pairs
    s: Floats  # (1, n): each feature divided by its root mean square
    Px: Floats  # (W + 1, n)
    forms: Floats  # (W + 1,): x'P x
    memory_products: Floats  # (J, n)
    squares: Floats  # (K,): squared distance of the current pair by each expert
    odds: Floats  # (K,): log odds of each expert
    column: Floats  # (n,)
    mean_matrix: Floats  # (n, n)


@jit
def moment_factor(counts: Floats, pending_decay: Floats, k: int) -> float:
    """Return the factor that makes a window's ``P`` the inverse of a mean, including the pending decay."""
    return float(counts[k] + RIDGE / pending_decay[k])


@jit
def init_new_features(state: State, n: int) -> None:
    """Initialize the mean squares and moments of features that differ for the first time."""
    x, mean_squares, P = state.x, state.mean_squares, state.P
    n_windows = len(state.decays)
    for i in range(n):
        if mean_squares[i] == 0.0 and x[0, i] != 0.0:
            mean_squares[i] = max(x[0, i] * x[0, i] / (state.scalars[SCALE_COUNT] + 1.0), 1e-100)
            for k in range(n_windows):
                P[k, i, i] = 1.0 / (RIDGE * mean_squares[i])
            P[n_windows, i, i] = 1.0 / (RIDGE_ALL * mean_squares[i])


@jit
def measure_distances(state: State, n: int) -> None:
    """Compute the pair's squared distance by windows and priors; COMID computes its own when it learns."""
    x, s, mean_squares, squares = state.x, state.s, state.mean_squares, state.squares
    n_windows, n_memories = len(state.decays), len(state.usage)
    for k in range(n_windows + 1):
        state.forms[k] = quadratic_form(state.P, k, x, state.Px, n)
    all_pairs = state.forms[n_windows] * (state.counts[n_windows] + RIDGE_ALL)
    for k in range(n_windows):
        squares[k] = state.forms[k] * moment_factor(state.counts, state.pending_decay, k) - KISSME_WEIGHT * all_pairs
    euclidean, standardized = 0.0, 0.0
    for i in range(n):
        s[0, i] = x[0, i] / sqrt(mean_squares[i]) if mean_squares[i] > 0.0 else 0.0
        euclidean += x[0, i] * x[0, i]
        standardized += s[0, i] * s[0, i]
    prior = len(squares) - n_memories - N_PRIORS
    squares[prior + EUCLIDEAN], squares[prior + STANDARDIZED] = euclidean, standardized
    squares[prior + WHITENED] = all_pairs
    if standardized > 100.0 * n:  # bound the influence of one pair on the COMID learners
        for i in range(n):
            s[0, i] *= sqrt(100.0 * n / standardized)


@jit
def measure_memories(state: State, n: int) -> None:
    """Compute the pair's squared distance by every memory; an empty one uses the longest window's."""
    n_memories = len(state.usage)
    first = len(state.squares) - n_memories
    for j in range(n_memories):
        if state.usage[j] > 0.0:
            state.squares[first + j] = quadratic_form(state.memories, j, state.x, state.memory_products, n)
        else:
            state.squares[first + j] = state.squares[len(state.decays) - 1]


@jit
def restore_ridge(P: Floats, k: int, i: int, weight: float, mean_squares: Floats, column: Floats, n: int) -> None:
    """Restore to one feature's moment the ridge that all features lost by forgetting."""
    if mean_squares[i] > 0.0:
        add_to_diagonal(P, k, i, weight * n * mean_squares[i], column, n)


@jit
def outlier_weight(square: float, n: int) -> float:
    """Return the weight of a pair in moments by which its squared distance, n on average, is ``square``."""
    return 1.0 if square <= OUTLIER_LIMIT * n else OUTLIER_LIMIT * n / square


@jit
def update_window(state: State, k: int, y: float, t: int, n: int) -> None:
    """Update a window: similar pairs are added, other pairs only decay it. Needs ``Px[k]`` and ``forms[k]``."""
    P, Px, forms, counts = state.P, state.Px, state.forms, state.counts
    pending_decay, mean_squares = state.pending_decay, state.mean_squares
    pending_decay[k] *= state.decays[k]
    if y < 0.0 and t % MAX_PENDING != 0:
        return
    weight = outlier_weight(forms[k] * moment_factor(counts, pending_decay, k), n) if y > 0.0 else 0.0
    discount_and_add(P, k, Px, forms[k], pending_decay[k], weight, n)
    counts[k] = pending_decay[k] * counts[k] + weight
    restore_ridge(P, k, t % n, (1.0 - pending_decay[k]) * RIDGE, mean_squares, state.column, n)
    pending_decay[k] = 1.0
    if not is_valid(P, k, n):
        reset_moments(P, k, RIDGE, mean_squares, n)
        counts[k] = 0.0


@jit
def update_moments(state: State, y: float, t: int, n: int) -> None:
    """Update the windows, the moments of all pairs and the features' mean squares."""
    P, Px, forms, counts = state.P, state.Px, state.forms, state.counts
    mean_squares, column = state.mean_squares, state.column
    all_pairs, feature = len(state.decays), t % n
    for k in range(all_pairs):
        update_window(state, k, y, t, n)
    decay = 1.0 - 2.0 / (ALL_WINDOW + 1.0)
    weight = outlier_weight(forms[all_pairs] * (counts[all_pairs] + RIDGE_ALL), n)
    discount_and_add(P, all_pairs, Px, forms[all_pairs], decay, weight, n)
    counts[all_pairs] = decay * counts[all_pairs] + weight
    restore_ridge(P, all_pairs, feature, (1.0 - decay) * RIDGE_ALL, mean_squares, column, n)
    if not is_valid(P, all_pairs, n):
        reset_moments(P, all_pairs, RIDGE_ALL, mean_squares, n)
        counts[all_pairs] = 0.0
    scalars = state.scalars
    scalars[SCALE_COUNT] = SCALE_DECAY * scalars[SCALE_COUNT] + 1.0
    for i in range(n):
        if mean_squares[i] > 0.0:
            change = (state.x[0, i] * state.x[0, i] - mean_squares[i]) / scalars[SCALE_COUNT]
            mean_squares[i] = max(mean_squares[i] + change, 1e-100)


@jit
def warm_up(state: State, y: float, t: int, n: int) -> None:
    """Store one of the first pairs; after enough of them, set the unit, initialize all moments and learn from them."""
    x, scalars, mean_squares = state.x, state.scalars, state.mean_squares
    row = (t - 1) % SNAPSHOT_PERIOD
    for i in range(n):
        state.recent[row, i] = x[0, i]
    state.recent_labels[row], state.recent_log_odds[row] = y, 0.0
    seen = min(t, SNAPSHOT_PERIOD)
    total = 0.0
    for r in range(seen):
        for i in range(n):
            total += state.recent[r, i] * state.recent[r, i] / n / seen
    if t < WARMUP_ROUNDS or total == 0.0:
        return
    # A power of two, so that data scaled by a power of two give the same bits.
    unit, size = 1.0, sqrt(total)
    while size * unit > 1.0:
        unit *= 0.5
    while size * unit < 0.5:
        unit *= 2.0
    scalars[UNIT], scalars[SCALE_COUNT] = unit, seen
    for i in range(n):
        mean_squares[i] = 0.0
        for r in range(seen):
            state.recent[r, i] *= unit
            mean_squares[i] += state.recent[r, i] * state.recent[r, i] / seen
    for k in range(len(state.decays)):
        reset_moments(state.P, k, RIDGE, mean_squares, n)
    reset_moments(state.P, len(state.decays), RIDGE_ALL, mean_squares, n)
    for r in range(seen):
        row = (t - seen + r) % SNAPSHOT_PERIOD  # oldest first
        for i in range(n):
            x[0, i] = state.recent[row, i]
        for k in range(len(state.decays) + 1):
            state.forms[k] = quadratic_form(state.P, k, x, state.Px, n)
        update_moments(state, state.recent_labels[row], r + 1, n)
    scalars[SCALE_COUNT] = seen


@jit
def track_near_pairs(state: State, odds: float, y: float, t: int) -> None:
    """Update how often near pairs are similar, with nearness by the priors and by the ensemble."""
    scalars, fits, prior_scores = state.scalars, state.fits, state.prior_scores
    first = len(state.squares) - len(state.usage) - N_PRIORS
    best = max(prior_scores[0], prior_scores[1], prior_scores[2])
    distance, total = 0.0, 0.0
    for i in range(N_PRIORS):
        share = exp(prior_scores[i] - best)
        total += share
        distance += share * relative_distance(fits, first + i, state.squares[first + i])
    similar = 1.0 if y > 0.0 else 0.0
    scalars[SIMILAR_RATE] += max(1.0 / (t + 1.0), 1.0 / PRIOR_HORIZON) * (similar - scalars[SIMILAR_RATE])
    for i in range(2):
        place, value, size = (PRIOR_BOUND, -distance / total, 0.5) if i == 0 else (ENSEMBLE_BOUND, odds, 2.0)
        if t <= WARMUP_ROUNDS + 20:
            scalars[place] = max(scalars[place], value) if t > WARMUP_ROUNDS + 1 else value
            continue
        near = value > scalars[place]
        if near:
            decay = 1.0 - 1.0 / NEAR_HORIZON
            scalars[place + 1] = decay * scalars[place + 1] + similar
            scalars[place + 2] = decay * scalars[place + 2] + 1.0
        scalars[place] += size * max(0.02, 1.0 / t) * ((1.0 if near else 0.0) - NEAR_SHARE)


@jit
def store_memory(state: State, n: int) -> None:
    """Store the last snapshot but one as a memory; it replaces the least used one."""
    if state.scalars[N_SNAPSHOTS] < 2.0:
        return
    fits, n_memories = state.fits, len(state.usage)
    first = len(state.squares) - n_memories
    place = 0
    for j in range(n_memories):
        if state.usage[j] < state.usage[place]:
            place = j
    state.usage[place] = 1.0
    for i in range(n):
        for j in range(n):
            state.memories[place, i, j] = state.snapshots[1, i, j]
    init_fit(fits, first + place, state.snapshot_offsets[1], 1.0, 1.0)


@jit
def restart_windows(state: State, t: int, n: int) -> None:
    """Restart the longer windows, which remember pairs from before the change, with the pairs since then."""
    fits, x = state.fits, state.x
    start = max(int(state.cusum[LAST_SINCE]), t - SNAPSHOT_PERIOD + 1)
    for k in range(FIRST_RESTARTED, len(state.decays)):
        reset_moments(state.P, k, RIDGE, state.mean_squares, n)
        state.counts[k], state.pending_decay[k] = 0.0, 1.0
        for column in range(fits.shape[1]):
            fits[k, column] = fits[0, column]
    for past in range(start, t + 1):
        row = (past - 1) % SNAPSHOT_PERIOD
        for i in range(n):
            x[0, i] = state.recent[row, i]
        for k in range(FIRST_RESTARTED, len(state.decays)):
            state.forms[k] = quadratic_form(state.P, k, x, state.Px, n)
            update_window(state, k, state.recent_labels[row], past, n)


@jit
def average_experts(state: State, comid: Floats, records: Floats, n: int, mean_matrix: Floats) -> float:
    """Compute the mean matrix A of the experts and return the offset: the ensemble's log odds are offset - x'Ax."""
    fits, P, mean_squares = state.fits, state.P, state.mean_squares
    n_windows, n_memories, n_experts = len(state.decays), len(state.usage), len(state.squares)
    n_comid = n_experts - n_windows - N_PRIORS - n_memories
    total, offset, all_pairs = 0.0, 0.0, 0.0
    for k in range(n_experts):
        total += records[WEIGHT, k]
    for i in range(n):
        for j in range(n):
            mean_matrix[i, j] = 0.0
    for k in range(n_experts):
        offset += records[WEIGHT, k] / total * fits[k, OFFSET]
        share = records[WEIGHT, k] / total * fits[k, SLOPE] / fits[k, MEAN_DISTANCE]
        memory = k - n_experts + n_memories
        if k < n_windows or (memory >= 0 and state.usage[memory] == 0.0):
            window = min(k, n_windows - 1)
            factor = share * moment_factor(state.counts, state.pending_decay, window)
            all_pairs -= KISSME_WEIGHT * share
            for i in range(n):
                for j in range(n):
                    mean_matrix[i, j] += factor * P[window, i, j]
        elif k < n_windows + n_comid:
            lane = k - n_windows
            for i in range(n):
                for j in range(i + 1):
                    if mean_squares[i] > 0.0 and mean_squares[j] > 0.0:
                        scale = sqrt(mean_squares[i] * mean_squares[j])
                        part = share * comid[lane // LANES, entry(i, j), lane % LANES] / scale
                        mean_matrix[i, j] += part
                        if i != j:
                            mean_matrix[j, i] += part
        elif k == n_experts - n_memories - N_PRIORS + EUCLIDEAN:
            for i in range(n):
                mean_matrix[i, i] += share
        elif k == n_experts - n_memories - N_PRIORS + STANDARDIZED:
            for i in range(n):
                if mean_squares[i] > 0.0:
                    mean_matrix[i, i] += share / mean_squares[i]
        elif memory < 0:
            all_pairs += share
        else:
            for i in range(n):
                for j in range(n):
                    mean_matrix[i, j] += share * state.memories[memory, i, j]
    factor = all_pairs * (state.counts[n_windows] + RIDGE_ALL)
    for i in range(n):
        for j in range(n):
            mean_matrix[i, j] += factor * P[n_windows, i, j]
    return offset


@jit
def take_snapshot(state: State, comid: Floats, records: Floats, n: int) -> None:
    """Store the ensemble's matrix; the drift is its relative distance from the snapshot before, per round."""
    scalars, mean_squares = state.scalars, state.mean_squares
    snapshots, snapshot_offsets = state.snapshots, state.snapshot_offsets
    offset = average_experts(state, comid, records, n, state.mean_matrix)
    change, size = 0.0, 0.0
    for i in range(n):
        for j in range(n):
            scale = mean_squares[i] * mean_squares[j]
            change += scale * (state.mean_matrix[i, j] - snapshots[0, i, j]) ** 2
            size += scale * state.mean_matrix[i, j] ** 2
            snapshots[1, i, j], snapshots[0, i, j] = snapshots[0, i, j], state.mean_matrix[i, j]
    snapshot_offsets[1], snapshot_offsets[0] = snapshot_offsets[0], offset
    if scalars[N_SNAPSHOTS] > 0.0 and 0.0 < size < inf:
        scalars[DRIFT] = sqrt(min(change / size, 1e6)) / SNAPSHOT_PERIOD
    scalars[N_SNAPSHOTS] = min(scalars[N_SNAPSHOTS] + 1.0, 2.0)


@jit_inline
def observe(
    state: State,
    comid: fullrank.State,
    settings: fullrank.Settings,
    rows: Floats,
    row: int,
    y: float,
    t: int,
    records: Floats,
    losses: Floats,
    learner_margins: Floats,
    comid_losses: Floats,
    comid_margins: Floats,
) -> int:
    """Judge and update every expert; unless PLAYED is returned, nothing has changed."""
    x, odds, squares, fits, scalars = state.x, state.odds, state.squares, state.fits, state.scalars
    n, n_experts, n_windows, n_memories = settings.n, len(state.squares), len(state.decays), len(state.usage)
    n_comid = n_experts - n_windows - N_PRIORS - n_memories
    unit = scalars[UNIT]
    length = 0.0
    for i in range(n):
        x[0, i] = rows[row, i] * (unit if unit > 0.0 else 1.0)
        length += x[0, i] * x[0, i]
    if not length < MAX_SQUARED_LENGTH:
        return INFINITE_LOSS
    if unit == 0.0:
        for k in range(n_experts):
            losses[k], learner_margins[k] = log(2.0), 0.0
        warm_up(state, y, t, n)
        return PLAYED
    init_new_features(state, n)
    measure_distances(state, n)
    measure_memories(state, n)
    for k in range(n_comid):
        squares[n_windows + k] = comid.mu[k]
    fullrank.observe(comid, settings, state.s, 0, y, 1.0, n_comid, comid_losses, comid_margins)
    for k in range(n_comid):  # the margin is y (mu - d^2) with the threshold before the update
        squares[n_windows + k] = max(squares[n_windows + k] - y * comid_margins[k], 0.0)
    started = fits[0, MEAN_DISTANCE] > 0.0
    if not started:
        for k in range(n_experts):
            init_fit(fits, k, 1.0, 1.0, max(abs(squares[k]), MIN_MEAN_DISTANCE))
    total, mean_log_odds, mean_probability = 0.0, 0.0, 0.0
    for k in range(n_experts):
        odds[k] = log_odds(fits, k, squares[k])
        total += records[WEIGHT, k]
        mean_log_odds += records[WEIGHT, k] * odds[k]
        mean_probability += records[WEIGHT, k] * sigmoid(odds[k])
    mean_log_odds, mean_probability = mean_log_odds / total, mean_probability / total
    for k in range(n_experts):
        losses[k], learner_margins[k] = log_loss(odds[k], y), odds[k] if y > 0.0 else -odds[k]
    first = n_experts - n_memories - N_PRIORS
    track_near_pairs(state, mean_log_odds, y, t)
    for i in range(N_PRIORS):
        state.prior_scores[i] = (1.0 - 1.0 / PRIOR_HORIZON) * state.prior_scores[i] - losses[first + i]
    for k in range(n_experts):
        memory = k >= n_experts - n_memories and state.usage[k - n_experts + n_memories] > 0.0
        newton_step(fits, k, squares[k], odds[k], y, t, not memory)
        if memory:  # the least used memory is the next to be replaced
            j = k - n_experts + n_memories
            state.usage[j] = 1e-3 + 0.99 * state.usage[j] + records[WEIGHT, k] / total
    update_moments(state, y, t, n)
    place = (t - 1) % SNAPSHOT_PERIOD
    for i in range(n):
        state.recent[place, i] = x[0, i]
    state.recent_labels[place], state.recent_log_odds[place] = y, mean_log_odds
    test = update_cusum(state.cusum, state.changes, logit(mean_probability), y, t)
    if test == WARNING:
        store_memory(state, n)
    elif test == CHANGE:
        restart_windows(state, t, n)
    if t % SNAPSHOT_PERIOD == 0:
        take_snapshot(state, comid.M, records, n)
    return PLAYED


class PlayArgs(NamedTuple):
    """The rounds t, t + 1, ... to play, and where their results go."""

    y: Floats  # (n_rows,)
    t: int
    records: Floats  # logarithms of the weights, and the weights
    horizon: float  # of the exponential weights
    losses: Floats  # (K,): output: loss of each expert in the last round played
    learner_margins: Floats  # (K,): output: margin of each expert in the last round played
    margins: Floats  # (n_rows,): output; unless observe_only
    observe_only: bool  # only judge and update the experts on the first row; the caller updates the weights
    comid_losses: Floats  # (C,): scratch
    comid_margins: Floats  # (C,): scratch


@jit
def play(
    state: State, comid: fullrank.State, settings: fullrank.Settings, rows: Floats, args: PlayArgs
) -> tuple[int, int]:
    """Play a round on each row; return the number of rows done and the outcome."""
    t, y, records, losses, learner_margins = args.t, args.y, args.records, args.losses, args.learner_margins
    comid_losses, comid_margins = args.comid_losses, args.comid_margins
    for row in range(len(rows)):
        outcome = observe(
            state, comid, settings, rows, row, y[row], t, records, losses, learner_margins, comid_losses, comid_margins
        )
        if outcome != PLAYED:
            return row, outcome
        if args.observe_only:
            return row + 1, PLAYED
        args.margins[row] = ensemble_value(records[WEIGHT], learner_margins, len(losses), NONE_DRAWN)
        discounted_update(records, losses, len(losses), args.horizon)
        t += 1
    return len(rows), PLAYED
