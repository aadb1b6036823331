"""The compiled update of decisions with a promised error; ``adaptive/decisions.py`` is its definition."""

from __future__ import annotations

from math import log1p, sqrt

import numpy as np

from ocelad._compile import jit_exact
from ocelad._typing import Floats

# Bins of the confidence, the absolute value of the log odds. The last one has no upper end.
BIN_WIDTH = 0.25
# Rows of ``bins``, rows of ``levels`` and fields of ``clock``.
PAIRS, WRONG_PAIRS, RISK, SELECTIVE_RISK = 0, 1, 2, 3
ERROR, DECIDED, WRONG, THRESHOLD = 0, 1, 2, 3
ROUND, CHANGE_PROBABILITY = 0, 1
# Pseudo-pairs of a bin at the risk of the bin below, pseudo-mistakes of a level without decisions, and the multiple of
# their root by which mistakes are raised.
PSEUDO_PAIRS, FIRST_MISTAKES, MARGIN = 16.0, 1.0, 0.2
# The risk of a bin that a level decides is below this multiple of the promised error.
MAX_MULTIPLE = 10.0
# Counts are forgotten over HORIZON rounds, and over CHANGE_HORIZON rounds while predictions are useless.
HORIZON, CHANGE_HORIZON = 5000.0, 50.0
# Probabilities of a change and of a recovery in a round, and the risk of useless predictions.
CHANGE_RATE, RECOVERY_RATE, USELESS_RISK = 0.001, 0.02, 0.5
# The credit, in mistakes, at which a level aims at its promised error, the change of the aim per mistake, its limits.
RESERVE, CREDIT_STEP, MIN_AIM, MAX_AIM = 4.0, 0.1, 0.85, 1.15
# The mistakes beyond the promised error grow by at most this multiple of log(1 + e t).
SLACK_GROWTH = 2.0


# Compiled exactly: thresholds are discontinuous, so that one bit can move a threshold by a bin.
@jit_exact
def update_decisions(bins: Floats, levels: Floats, clock: Floats, log_odds: float, y: float, weight: float) -> None:
    """Count the pair at the levels that decide it, learn its answer, and set the thresholds of the next round."""
    confidence = min(abs(log_odds), bins.shape[1] * BIN_WIDTH)  # finite, unlike the threshold of a level that is closed
    is_wrong = (log_odds >= 0.0) != (y > 0.0)
    for i in range(levels.shape[1]):
        if confidence >= levels[THRESHOLD, i]:
            levels[DECIDED, i] += weight
            if is_wrong:
                levels[WRONG, i] += weight
    k = int(min(confidence / BIN_WIDTH, bins.shape[1] - 1.0))
    p = _update_change_probability(clock[CHANGE_PROBABILITY], bins[RISK, k], is_wrong, min(weight, 1.0))
    keep = 1.0 - 1.0 / HORIZON - p / CHANGE_HORIZON
    for j in range(bins.shape[1]):
        bins[PAIRS, j] *= keep
        bins[WRONG_PAIRS, j] *= keep
    bins[PAIRS, k] += weight * (1.0 - p)
    if is_wrong:
        bins[WRONG_PAIRS, k] += weight * (1.0 - p)
    clock[ROUND] += 1.0
    clock[CHANGE_PROBABILITY] = p * (1.0 - RECOVERY_RATE) + (1.0 - p) * CHANGE_RATE
    set_thresholds(bins, levels, clock, estimate_risks(bins))


@jit_exact
def _update_change_probability(p: float, risk: float, is_wrong: bool, weight: float) -> float:
    """Return the probability that predictions are useless, after a right or wrong prediction of this risk."""
    useless = max(USELESS_RISK, risk)
    if is_wrong:
        known, changed = risk**weight, useless**weight
    else:
        known, changed = (1.0 - risk) ** weight, (1.0 - useless) ** weight
    return float(p * changed / (p * changed + (1.0 - p) * known))


@jit_exact
def estimate_risks(bins: Floats) -> float:
    """Estimate the risk in each bin and in it and all above it; return the number of pairs."""
    risk = USELESS_RISK
    for k in range(bins.shape[1]):
        risk = (bins[WRONG_PAIRS, k] + PSEUDO_PAIRS * risk) / (bins[PAIRS, k] + PSEUDO_PAIRS)
        bins[RISK, k] = risk
    pairs, mistakes = 0.0, 0.0
    for k in range(bins.shape[1] - 1, -1, -1):
        pairs += bins[PAIRS, k]
        mistakes += bins[PAIRS, k] * bins[RISK, k]
        with_next = mistakes + MARGIN * sqrt(mistakes) + bins[RISK, k]  # the next pair is in bin k
        bins[SELECTIVE_RISK, k] = with_next / (pairs + 1.0)
    return pairs


@jit_exact
def set_thresholds(bins: Floats, levels: Floats, clock: Floats, above: float) -> None:
    """Set the threshold of each level; ``above`` is the number of pairs.

    A smaller error never has a smaller threshold.
    """
    k, n_bins = 0, bins.shape[1]
    for i in range(levels.shape[1] - 1, -1, -1):
        error = levels[ERROR, i]
        debt = levels[WRONG, i] - error * levels[DECIDED, i]
        aim = error * min(MAX_AIM, max(MIN_AIM, 1.0 - CREDIT_STEP * (debt + RESERVE)))
        useless = USELESS_RISK * clock[CHANGE_PROBABILITY] > error
        # One more mistake could break the bound.
        spent = debt > error and debt - error > SLACK_GROWTH * log1p(error * (clock[ROUND] + 1.0))
        if useless or spent:
            k = n_bins
        first = FIRST_MISTAKES if levels[DECIDED, i] == 0.0 else 0.0
        limit = min(USELESS_RISK, MAX_MULTIPLE * error)
        while k < n_bins and (bins[SELECTIVE_RISK, k] + first / (above + 1.0) > aim or bins[RISK, k] >= limit):
            above -= bins[PAIRS, k]
            k += 1
        levels[THRESHOLD, i] = k * BIN_WIDTH if k < n_bins else np.inf


@jit_exact
def play_decisions(bins: Floats, levels: Floats, clock: Floats, log_odds: Floats, y: Floats, weights: Floats) -> None:
    """Update the decisions by the answers of many rounds."""
    for row in range(len(y)):
        update_decisions(bins, levels, clock, log_odds[row], y[row], weights[row])
