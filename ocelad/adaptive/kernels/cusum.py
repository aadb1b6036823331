"""A CUSUM test for a change of the question: do the answers contradict the predicted probabilities?"""

from __future__ import annotations

from ocelad._compile import jit
from ocelad._typing import Floats
from ocelad.adaptive.kernels.platt import log_loss

# The alternative hypothesis scales the predicted log odds by this factor. They are clipped first, so that a few pairs
# far out are not taken for a change.
ALTERNATIVE_SCALE, MAX_LOG_ODDS = 0.3, 3.0
# Log likelihood ratios above which a change is considered possible, and above which it is reported.
WARNING_LEVEL, DETECTION_LEVEL = 3.5, 4.5
# Detections within MIN_GAP rounds are one change. The test starts at MIN_ROUND: earlier predictions are unreliable.
MIN_GAP, MIN_ROUND = 100, 100
# Outcomes of the test.
NO_CHANGE, WARNING, CHANGE = 0, 1, 2
# Fields of ``cusum``: the log likelihood ratio, its first round, whether a warning was given, the number of changes,
# and the first round of the ratio that led to the last detection.
STATISTIC, SINCE, WARNED, N_CHANGES, LAST_SINCE, N_FIELDS = 0, 1, 2, 3, 4, 5
# Columns of ``changes``.
START, DETECTED, STRENGTH = 0, 1, 2


@jit
def update_cusum(cusum: Floats, changes: Floats, odds: float, y: float, t: int) -> int:
    """Add one answer; return CHANGE when a change is detected and WARNING once when it becomes possible.

    The statistic is a log likelihood ratio that restarts whenever it falls to 0 (Page's CUSUM). If the probabilities
    are calibrated, a ratio started at a given round exceeds a by chance with a probability of at most ``e^-a``.
    """
    clipped = min(max(odds, -MAX_LOG_ODDS), MAX_LOG_ODDS)
    statistic = cusum[STATISTIC] + log_loss(clipped, y) - log_loss(ALTERNATIVE_SCALE * clipped, y)
    if statistic <= 0.0 or t < MIN_ROUND:
        cusum[STATISTIC], cusum[SINCE], cusum[WARNED] = 0.0, t + 1.0, 0.0
        return NO_CHANGE
    cusum[STATISTIC] = statistic
    if statistic <= DETECTION_LEVEL:
        outcome = WARNING if statistic > WARNING_LEVEL and cusum[WARNED] == 0.0 else NO_CHANGE
        cusum[WARNED] = max(cusum[WARNED], float(outcome))
        return outcome
    count = int(cusum[N_CHANGES])
    last = (count - 1) % len(changes)
    if count == 0 or t - changes[last, DETECTED] > MIN_GAP:
        last = count % len(changes)
        changes[last, START], changes[last, DETECTED], changes[last, STRENGTH] = cusum[SINCE], t, statistic
        cusum[N_CHANGES] += 1.0
    changes[last, STRENGTH] = max(changes[last, STRENGTH], statistic)
    cusum[LAST_SINCE] = cusum[SINCE]
    cusum[STATISTIC], cusum[SINCE], cusum[WARNED] = 0.0, t + 1.0, 0.0
    return CHANGE
