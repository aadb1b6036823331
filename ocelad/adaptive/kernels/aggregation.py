"""Rounds of the ensemble: the experts' log odds, their losses, weights and calibrations, and the change test.

The work of a round does not depend on the number of features. ``ocelad.adaptive.aggregator`` is the definition.
"""

from __future__ import annotations

from math import ceil, exp, inf, isnan, log, log1p, log2, sqrt
from typing import NamedTuple

from ocelad._compile import jit
from ocelad._typing import Floats

# Columns of ``fits``: offset, slope, and the Hessian of the loss.
OFFSET, SLOPE, HESSIAN_OFFSET, HESSIAN_CROSS, HESSIAN_SLOPE, N_FIT_COLUMNS = 0, 1, 2, 3, 4, 5
# Fields of ``numbers``: pairs in the running means; scale and round of the interval weights; threshold of the metric;
# pairs in the spreads; factor of the handicaps; interval weight of the discounted weights; last pairs in a row that
# were too long.
MEAN_COUNT, REGRET_SCALE, PROD_ROUND, THRESHOLD, SPREAD_COUNT, FADING, FIRST_SHARE, N_LONG, N_NUMBERS = range(9)
# Fields of ``trust``: rounds, bound of near pairs, similar near pairs, near pairs, and the rate of similar pairs.
TRUST_ROUND, BOUND, NEAR_SIMILAR, NEAR_COUNT, SIMILAR_RATE, N_TRUST_FIELDS = 0, 1, 2, 3, 4, 5
# Fields of ``cusum``: log likelihood ratio, its first round, whether a warning was given, the number of changes; the
# confidence of anchors, the Hessian of its fit, and the confidence before the evidence.
STATISTIC, SINCE, WARNED, N_CHANGES, CONFIDENCE, CONFIDENCE_HESSIAN, CONFIDENCE_BEFORE, N_CUSUM_FIELDS = range(8)
# Columns of ``changes``.
START, DETECTED, EVIDENCE, N_CHANGE_COLUMNS = 0, 1, 2, 3
NO_CHANGE, WARNING, CHANGE = 0, 1, 2


class AggregatorState(NamedTuple):
    """State of K experts over B squared distances, J memories and R rows of interval weights."""

    means: Floats  # (B,): mean sizes of the squared distances
    frozen: Floats  # (K,): 1 for experts whose mean, location and spread stay
    locations: Floats  # (K,): mean relative distance of each expert
    spreads: Floats  # (K,): mean squared deviation of its relative distances
    slopes: Floats  # (K,): decrease of its log odds with its relative distance
    fits: Floats  # (K + 1, N_FIT_COLUMNS): of each expert, and of the mean by discounted weights
    log_weights: Floats  # (K,): discounted log weights
    wealth: Floats  # (R, K + 1): of the entry that never ends, then of each dyadic length
    entry_priors: Floats  # (R,)
    entry_steps: Floats  # (R,)
    trust: Floats  # (N_TRUST_FIELDS,)
    usage: Floats  # (J,): discounted weight of each memory; 0 for an empty one
    cusum: Floats  # (N_CUSUM_FIELDS,)
    changes: Floats  # (max_changes, N_CHANGE_COLUMNS): ring buffer
    numbers: Floats  # (N_NUMBERS,)
    discounted: Floats  # (K,): weights by discounted losses; they sum to 1
    shares: Floats  # (K,): weights of the next round; they sum to 1
    played: Floats  # (K,): coefficients of the experts' log odds in the next prediction
    coefficients: Floats  # (B,): of the squared distances in the next prediction
    log_odds: Floats  # (K,): of each expert in the last round
    within: Floats  # (B,): share of each prior among the priors, and of each learned distance among those
    # From here on: scratch.
    distances: Floats  # (K,)
    deviations: Floats  # (K,)
    losses: Floats  # (K + 1,)


class Settings(NamedTuple):
    """Constants of the ensemble; see ``AdaptiveConfig``."""

    n_priors: int
    n_learned: int
    prior_parts: float
    handicaps: Floats  # (K,)
    handicap_decay: float
    memory_start: float
    no_prior_penalty: float
    relative: bool
    warmup: int
    winsor_limit: float
    horizon: float
    pseudo_count: float
    recalibration_horizon: float
    recalibration_pseudo_count: float
    limit: float
    initial_offset: float
    initial_slope: float
    near_pseudo_count: float
    trust_exponent: float
    near_share: float
    rate_horizon: float
    warning_level: float
    detection_level: float
    min_slope: float
    min_curvature: float
    min_mean: float
    min_spread: float
    max_loss: float
    max_log_ratio: float
    n_first: int
    near_horizon: float
    min_bound_step: float
    alternative_scale: float
    max_log_odds: float
    min_gap: int
    max_growth: int
    confidence_pseudo_count: float
    usage_decay: float
    min_usage: float
    min_weight: float


@jit
def sigmoid(log_odds: float) -> float:
    """Return the probability of log odds."""
    if log_odds >= 0.0:
        return 1.0 / (1.0 + exp(-log_odds))
    small = exp(log_odds)
    return small / (1.0 + small)


@jit
def power(base: float, exponent: float) -> float:
    """Return ``base ** exponent``, quickly for the usual exponent of 1."""
    return base if exponent == 1.0 else base**exponent


@jit
def log_loss(log_odds: float, y: float) -> float:
    """Return the logarithmic loss of log odds for the answer y."""
    margin = log_odds * y
    return log1p(exp(-abs(margin))) + max(-margin, 0.0)


@jit
def update_means(state: AggregatorState, settings: Settings, sizes: Floats, row: int) -> None:
    """Include a pair in the mean sizes; leading pairs of equal points are ignored."""
    means, numbers = state.means, state.numbers
    if numbers[MEAN_COUNT] == 0.0 and sizes[row, 0] == 0.0:
        return
    limit = inf
    if numbers[MEAN_COUNT] >= settings.horizon:
        if sizes[row, 0] > 0.0:
            numbers[N_LONG] = numbers[N_LONG] + 1.0 if sizes[row, 0] > settings.winsor_limit * means[0] else 0.0
        if numbers[N_LONG] <= settings.warmup:
            limit = settings.winsor_limit
    numbers[MEAN_COUNT] += 1.0
    share = max(1.0 / settings.horizon, 1.0 / numbers[MEAN_COUNT])
    for b in range(len(means)):
        if state.frozen[b] == 0.0:
            size = min(sizes[row, b], limit * means[b])
            means[b] = max((1.0 - share) * means[b] + share * size, settings.min_mean)


@jit
def start_means(state: AggregatorState, settings: Settings, sizes: Floats, row: int) -> None:
    """Let distances that are positive for the first time begin with this pair's size as their mean."""
    for b in range(len(state.means)):
        if state.means[b] <= settings.min_mean:
            state.means[b] = max(sizes[row, b], settings.min_mean)


@jit
def update_spreads(state: AggregatorState, settings: Settings) -> None:
    """Include the current pair in the mean squared deviations."""
    state.numbers[SPREAD_COUNT] += 1.0
    share = max(1.0 / settings.horizon, 1.0 / state.numbers[SPREAD_COUNT])
    limit = settings.winsor_limit if state.numbers[SPREAD_COUNT] > settings.horizon else inf
    for k in range(len(state.spreads)):
        if state.frozen[k] == 0.0:
            deviation = state.distances[k] - state.locations[k]
            square = min(deviation * deviation, limit * state.spreads[k])
            moved = state.spreads[k] + share * (square - state.spreads[k])
            state.spreads[k] = max(moved, settings.min_spread * settings.min_spread)


@jit
def trust_value(trust: Floats, settings: Settings) -> float:
    """Return the trust in the prior, 0 to 1."""
    near = (trust[NEAR_SIMILAR] + settings.near_pseudo_count) / (trust[NEAR_COUNT] + settings.near_pseudo_count)
    rate = trust[SIMILAR_RATE]
    lift = max(0.0, (near - rate) / max(1.0 - rate, 1e-9))
    return float(lift**settings.trust_exponent)


@jit
def update_trust(trust: Floats, settings: Settings, distance: float, y: float, weight: float) -> None:
    """Count the pair if it is near, and move the bound toward the quantile ``near_share``."""
    trust[TRUST_ROUND] += 1.0
    t, similar = trust[TRUST_ROUND], 1.0 if y > 0.0 else 0.0
    if t <= settings.n_first:
        if distance > 0.0:
            trust[BOUND] = min(trust[BOUND], distance)
    else:
        near = 1.0 if distance < trust[BOUND] else 0.0
        if near > 0.0:
            decay = 1.0 - weight / settings.near_horizon
            trust[NEAR_SIMILAR] = decay * trust[NEAR_SIMILAR] + weight * similar
            trust[NEAR_COUNT] = decay * trust[NEAR_COUNT] + weight
        trust[BOUND] *= exp(max(settings.min_bound_step, 2.0 / t) * (settings.near_share - near))
    share = min(1.0, weight) * max(1.0 / (t + 1.0), 1.0 / settings.rate_horizon)
    trust[SIMILAR_RATE] += share * (similar - trust[SIMILAR_RATE])


@jit
def share_within(state: AggregatorState, first: int, last: int, min_weight: float) -> None:
    """Compute the share of each distance among those from ``first`` to ``last``, by weight and slope."""
    total = 0.0
    for k in range(first, last):
        state.within[k] = state.discounted[k] * state.slopes[k] + min_weight
        total += state.within[k]
    for k in range(first, last):
        state.within[k] /= total


@jit
def measure_experts(state: AggregatorState, settings: Settings, squares: Floats, row: int, trust: float) -> float:
    """Compute each expert's relative distance of a pair; return that of the prior."""
    distances, within, means = state.distances, state.within, state.means
    n_priors, n_fixed = settings.n_priors, settings.n_priors + settings.n_learned
    prior, mean, pure = 0.0, 0.0, 0.0
    for b in range(n_priors):
        distances[b] = squares[row, b] / means[b]
        prior += within[b] * distances[b]
    for b in range(n_priors, len(means)):
        distances[b] = squares[row, b] / means[b]
        pure += within[b] * distances[b]
        if b < n_fixed:
            distances[b] = (distances[b] + trust * prior) / (1.0 + trust)
        mean += within[b] * distances[b]
    distances[len(means)] = pure
    distances[len(means) + 1] = (mean + settings.prior_parts * prior) / (1.0 + settings.prior_parts)
    return prior


@jit
def update_coefficients(state: AggregatorState, settings: Settings) -> None:
    """Compute the shares within the priors and the learned distances, and the metric of the next round."""
    means, played, fits, within, slopes = state.means, state.played, state.fits, state.within, state.slopes
    last, first_share = len(played), state.numbers[FIRST_SHARE]
    n_priors, n_fixed, n_distances = settings.n_priors, settings.n_priors + settings.n_learned, len(state.means)
    for k in range(last):
        slopes[k] = fits[k, SLOPE] / sqrt(state.spreads[k])
        played[k] = state.shares[k] + (fits[last, SLOPE] - 1.0) * first_share * state.discounted[k]
    share_within(state, 0, n_priors, settings.min_weight)
    share_within(state, n_priors, n_distances, settings.min_weight)
    trust = 0.0 if settings.relative else trust_value(state.trust, settings)
    threshold = first_share * fits[last, OFFSET]
    of_mean = played[n_distances] * slopes[n_distances]
    of_combination = played[n_distances + 1] * slopes[n_distances + 1]
    of_learned = of_combination / (1.0 + settings.prior_parts)
    of_prior, prior_in_learned = of_combination - of_learned, 0.0
    for k in range(n_priors, n_fixed):
        of_prior += played[k] * slopes[k] * trust / (1.0 + trust)
        prior_in_learned += within[k] * trust / (1.0 + trust)
    of_prior += of_learned * prior_in_learned
    for k in range(last):
        threshold += played[k] * (fits[k, OFFSET] + slopes[k] * state.locations[k])
    for b in range(n_distances):
        weight = played[b] * slopes[b]
        if b < n_priors:
            weight += within[b] * of_prior
        elif b < n_fixed:
            weight = (weight + of_learned * within[b]) / (1.0 + trust)
        else:
            weight += of_learned * within[b]
        if b >= n_priors:
            weight += of_mean * within[b]
        state.coefficients[b] = weight / means[b] if means[b] > settings.min_mean else 0.0
    state.numbers[THRESHOLD] = threshold


@jit
def update_insurance(state: AggregatorState, combined: float) -> None:
    """Update the wealth of every entry of the interval weights by the losses of the round."""
    wealth, steps, losses = state.wealth, state.entry_steps, state.losses
    largest = 0.0
    for k in range(len(losses)):
        largest = max(largest, abs(combined - losses[k]))
    if largest > state.numbers[REGRET_SCALE]:
        state.numbers[REGRET_SCALE] = 2.0 ** ceil(log2(largest))
    scale = state.numbers[REGRET_SCALE]
    wealth[0, 0] *= 1.0 + steps[0] * (combined - losses[0]) / scale  # only the first candidate has this entry
    for j in range(1, len(steps)):
        if state.entry_priors[j] > 0.0:
            for k in range(len(losses)):
                wealth[j, k] *= 1.0 + steps[j] * (combined - losses[k]) / scale


@jit
def start_entries(state: AggregatorState) -> None:
    """Start the dyadic intervals of the next round."""
    state.numbers[PROD_ROUND] += 1.0
    t = int(state.numbers[PROD_ROUND])
    n_candidates, level = state.wealth.shape[1], 0
    length, n_lengths = 1, 0
    while length <= t:
        n_lengths += 1
        length *= 2
    prior = 0.5 / n_candidates / ((t + 1.0) ** 2 * n_lengths)
    length = 1
    while length <= t and t % length == 0:
        level += 1
        state.entry_steps[level] = min(0.5, sqrt(log(1.0 / prior) / length))
        state.entry_priors[level] = prior
        for k in range(n_candidates):
            state.wealth[level, k] = 1.0
        length *= 2


@jit
def update_shares(state: AggregatorState) -> None:
    """Compute the weights of the next round from the interval weights and the discounted weights."""
    wealth, steps, priors, shares = state.wealth, state.entry_steps, state.entry_priors, state.shares
    first = priors[0] * steps[0] * wealth[0, 0]  # only the discounted weights have the entry that never ends
    for k in range(len(shares)):
        shares[k] = 0.0
    for j in range(1, len(steps)):
        if priors[j] > 0.0:
            weight = priors[j] * steps[j]
            first += weight * wealth[j, 0]
            for k in range(len(shares)):
                shares[k] += weight * wealth[j, k + 1]
    total = first
    for k in range(len(shares)):
        total += shares[k]
    for k in range(len(shares)):
        shares[k] = first / total * state.discounted[k] + shares[k] / total
    state.numbers[FIRST_SHARE] = first / total


@jit
def update_discounted(state: AggregatorState, settings: Settings) -> None:
    """Compute the weights by discounted losses from the log weights; empty memories have none."""
    discounted, first_memory = state.discounted, settings.n_priors + settings.n_learned
    fading, largest, total = state.numbers[FADING], -inf, 0.0
    for k in range(len(discounted)):
        discounted[k] = state.log_weights[k] - fading * settings.handicaps[k]
    for j in range(len(state.usage)):
        if state.usage[j] == 0.0:
            discounted[first_memory + j] = -inf
    for k in range(len(discounted)):
        largest = max(largest, discounted[k])
    for k in range(len(discounted)):
        discounted[k] = exp(discounted[k] - largest)
        total += discounted[k]
    for k in range(len(discounted)):
        discounted[k] /= total


@jit
def learn_weights(state: AggregatorState, settings: Settings, y: float, weight: float, trust: float) -> None:
    """Discount the losses of the experts and add those of the round; the mean of learned distances has a penalty."""
    log_weights, decay, best = state.log_weights, power(1.0 - 1.0 / settings.horizon, weight), -inf
    for k in range(len(log_weights)):
        loss = state.losses[k + 1]
        if k == len(state.means):
            loss += weight * settings.no_prior_penalty * trust
        log_weights[k] = decay * log_weights[k] - min(loss, weight * settings.max_loss)
        if k < len(state.means):
            best = max(best, log_weights[k])
    limit = settings.max_log_ratio
    for k in range(len(log_weights)):
        log_weights[k] = min(max(log_weights[k] - best, -limit), limit)
    if y > 0.0:
        state.numbers[FADING] *= power(settings.handicap_decay, weight)


@jit
def learn_fit(
    fits: Floats,
    k: int,
    settings: Settings,
    deviation: float,
    log_odds: float,
    y: float,
    weight: float,
    initial_offset: float,
    initial_slope: float,
    horizon: float,
    pseudo_count: float,
    limit: float,
) -> None:
    """Make one Newton step on a calibration."""
    decay = power(1.0 - 1.0 / horizon, weight)
    ridge = (1.0 - decay) * pseudo_count
    one, truth = 0.0 if settings.relative else 1.0, 1.0 if y > 0.0 else 0.0
    x = -min(max(deviation, -limit), limit)
    p = sigmoid(log_odds)
    curvature = weight * max(p * (1.0 - p), settings.min_curvature)
    a = decay * fits[k, HESSIAN_OFFSET] + curvature * one + ridge
    b = decay * fits[k, HESSIAN_CROSS] + curvature * x * one
    c = decay * fits[k, HESSIAN_SLOPE] + curvature * x * x + ridge
    error = weight * (p - truth)
    of_offset = error * one + ridge * (fits[k, OFFSET] - initial_offset)
    of_slope = error * x + ridge * (fits[k, SLOPE] - initial_slope)
    determinant = a * c - b * b
    fits[k, OFFSET] -= (c * of_offset - b * of_slope) / determinant
    fits[k, SLOPE] = max(fits[k, SLOPE] - (a * of_slope - b * of_offset) / determinant, settings.min_slope)
    fits[k, HESSIAN_OFFSET], fits[k, HESSIAN_CROSS], fits[k, HESSIAN_SLOPE] = a, b, c


@jit
def learn_confidence(cusum: Floats, settings: Settings, log_odds: float, y: float, weight: float) -> None:
    """Make one Newton step on the slope of the answers on an anchor's log odds."""
    decay = power(1.0 - 1.0 / settings.recalibration_horizon, weight)
    ridge = (1.0 - decay) * settings.confidence_pseudo_count
    p = sigmoid(cusum[CONFIDENCE] * log_odds)
    curvature = weight * max(p * (1.0 - p), settings.min_curvature)
    cusum[CONFIDENCE_HESSIAN] = decay * cusum[CONFIDENCE_HESSIAN] + curvature * log_odds * log_odds + ridge
    gradient = weight * (p - (1.0 if y > 0.0 else 0.0)) * log_odds + ridge * (cusum[CONFIDENCE] - 1.0)
    cusum[CONFIDENCE] = max(cusum[CONFIDENCE] - gradient / cusum[CONFIDENCE_HESSIAN], settings.min_slope)


@jit
def detect_change(
    cusum: Floats, changes: Floats, settings: Settings, log_odds: float, y: float, weight: float, t: int
) -> int:
    """Add the answer of round t to the CUSUM test; return its outcome. The log odds are NaN without an anchor."""
    if isnan(log_odds):
        cusum[SINCE] = t + 1.0
        return NO_CHANGE
    clipped = min(max(log_odds, -settings.max_log_odds), settings.max_log_odds)
    played = min(cusum[CONFIDENCE], 1.0) * clipped
    difference = log_loss(played, y) - log_loss(settings.alternative_scale * played, y)
    cusum[STATISTIC] += weight * difference
    learn_confidence(cusum, settings, clipped, y, weight)
    outcome, is_old = NO_CHANGE, t - cusum[SINCE] >= settings.max_growth
    if cusum[STATISTIC] > settings.detection_level and not is_old:
        count = int(cusum[N_CHANGES])
        if count == 0 or t - changes[(count - 1) % len(changes), DETECTED] > settings.min_gap:
            last = count % len(changes)
            changes[last, START], changes[last, DETECTED], changes[last, EVIDENCE] = cusum[SINCE], t, cusum[STATISTIC]
            cusum[N_CHANGES] += 1.0
        outcome = CHANGE
        cusum[CONFIDENCE] = 0.5 * (cusum[CONFIDENCE] + cusum[CONFIDENCE_BEFORE])
    if cusum[STATISTIC] <= 0.0 or is_old or outcome == CHANGE:
        cusum[CONFIDENCE_BEFORE] = cusum[CONFIDENCE]
        cusum[STATISTIC], cusum[SINCE], cusum[WARNED] = 0.0, t + 1.0, 0.0
    elif cusum[STATISTIC] > settings.warning_level and cusum[WARNED] == 0.0:
        cusum[WARNED] = 1.0
        outcome = WARNING
    return outcome


@jit
def prepare(state: AggregatorState, settings: Settings) -> None:
    """Compute everything that the next round needs from the weights; after the first call, ``play`` does this."""
    update_discounted(state, settings)
    update_shares(state)
    update_coefficients(state, settings)


@jit
def start_fit(state: AggregatorState, k: int, offset: float, slope: float, curvature: float) -> None:
    """Let a calibration begin again, as if it had seen pairs of this curvature."""
    fits = state.fits
    fits[k, OFFSET], fits[k, SLOPE], fits[k, HESSIAN_CROSS] = offset, slope, 0.0
    fits[k, HESSIAN_OFFSET] = fits[k, HESSIAN_SLOPE] = curvature


@jit
def start_memory(
    state: AggregatorState, settings: Settings, j: int, offset: float, curvature: float, log_weight: float
) -> None:
    """Start the expert of a stored metric, whose log odds were ``offset - squared distance``."""
    k = settings.n_priors + settings.n_learned + j
    start_fit(state, k, offset, 1.0, curvature)
    state.means[k] = state.spreads[k] = state.frozen[k] = state.usage[j] = 1.0
    state.locations[k], state.log_weights[k] = 0.0, log_weight
    prepare(state, settings)


@jit
def least_used_memory(state: AggregatorState) -> int:
    """Return the memory with the least discounted weight, an empty one first."""
    least = 0
    for j in range(1, len(state.usage)):
        if state.usage[j] < state.usage[least]:
            least = j
    return least


@jit
def restart_windows(state: AggregatorState, settings: Settings, means: Floats, n_half: int) -> None:
    """Let windows that began again continue from the fit of the shortest one and the weight of the best one.

    ``means`` are the mean squared distances of all windows; the first ``n_half`` are half-standardized.
    """
    first, n_windows, best = settings.n_priors, len(means), -inf
    for w in range(n_windows):
        best = max(best, state.log_weights[first + w])
    for w in range(n_windows):
        shortest = 0 if w < n_half else n_half
        if w != shortest:
            k = first + w
            state.means[k] = max(means[w], settings.min_mean)
            state.spreads[k] = state.spreads[first + shortest]
            for column in range(N_FIT_COLUMNS):
                state.fits[k, column] = state.fits[first + shortest, column]
            state.log_weights[k] = best
    prepare(state, settings)


@jit
def play(
    state: AggregatorState,
    settings: Settings,
    squares: Floats,
    sizes: Floats,
    anchor: Floats,
    y: Floats,
    weights: Floats,
    t: int,
    predictions: Floats,
) -> tuple[int, int]:
    """Play rounds t, t + 1, ... until the change test has an outcome; return the number of rounds and the outcome."""
    shares, log_odds, losses, fits = state.shares, state.log_odds, state.losses, state.fits
    n_experts, first_memory = len(shares), settings.n_priors + settings.n_learned
    for row in range(len(squares)):
        warming_up = state.numbers[MEAN_COUNT] < settings.warmup
        start_means(state, settings, sizes, row)
        if warming_up:
            update_means(state, settings, sizes, row)
        trust = 0.0 if settings.relative else trust_value(state.trust, settings)
        prior = measure_experts(state, settings, squares, row, trust)
        if warming_up:
            update_spreads(state, settings)
        mixed, discounted, first_share = 0.0, 0.0, state.numbers[FIRST_SHARE]
        for k in range(n_experts):
            state.deviations[k] = (state.distances[k] - state.locations[k]) / sqrt(state.spreads[k])
            log_odds[k] = fits[k, OFFSET] - fits[k, SLOPE] * state.deviations[k]
            mixed += (shares[k] - first_share * state.discounted[k]) * log_odds[k]
            discounted += state.discounted[k] * log_odds[k]
            losses[k + 1] = weights[row] * log_loss(log_odds[k], y[row])
        recalibrated = fits[n_experts, OFFSET] + fits[n_experts, SLOPE] * discounted
        mixed += first_share * recalibrated
        losses[0] = weights[row] * log_loss(recalibrated, y[row])
        predictions[row] = mixed
        update_insurance(state, weights[row] * log_loss(mixed, y[row]))
        if not settings.relative:
            update_trust(state.trust, settings, prior, y[row], weights[row])
        for j in range(len(state.usage)):
            if state.usage[j] > 0.0:
                state.usage[j] = settings.min_usage + settings.usage_decay * state.usage[j] + shares[first_memory + j]
        learn_weights(state, settings, y[row], weights[row], trust)
        for k in range(n_experts):
            learn_fit(
                fits,
                k,
                settings,
                state.deviations[k],
                log_odds[k],
                y[row],
                weights[row],
                settings.initial_offset,
                settings.initial_slope,
                settings.horizon,
                settings.pseudo_count,
                settings.limit,
            )
        learn_fit(
            fits,
            n_experts,
            settings,
            -discounted,
            recalibrated,
            y[row],
            weights[row],
            0.0,
            1.0,
            settings.recalibration_horizon,
            settings.recalibration_pseudo_count,
            inf,
        )
        if not warming_up and weights[row] > 0.0:
            update_means(state, settings, sizes, row)
            update_spreads(state, settings)
        if weights[row] > 0.0:
            start_entries(state)
        prepare(state, settings)
        outcome = detect_change(state.cusum, state.changes, settings, anchor[row], y[row], weights[row], t + row)
        if outcome != NO_CHANGE:
            return row + 1, outcome
    return len(squares), NO_CHANGE
