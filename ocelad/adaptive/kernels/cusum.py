"""Whether the question has changed: answers speak against what was said of them."""

from __future__ import annotations

from ocelad._compile import compiled
from ocelad._typing import Floats
from ocelad.adaptive.kernels.platt import loss_of_odds

# Tested is whether answers are as likely as was said, or as if log odds were this small a part of what was said. What
# is said is cut, so that a few pairs far out are not taken for a change.
TEMPERED, SUREST = 0.3, 3.0
# From which evidence on, its natural logarithm, a change is thought possible, and from which on it is taken for one.
POSSIBLE, CONVINCING = 3.5, 4.5
# Changes that are found within so many rounds are one. None is looked for at first: nobody is sure of anything yet.
APART, FIRST = 100, 100
# What comes of looking.
NOTHING, NOTICED, CERTAIN = 0, 1, 2
# The places in ``evidence``: the logarithm of the likelihood ratio, the round from which on it is counted, whether it
# has been noticed, how many changes there were, and from which round on it was counted when it was last enough.
EVIDENCE, SINCE, TOLD, N_CHANGES, LAST_BEGAN, N_EVIDENCE = 0, 1, 2, 3, 4, 5
# The columns of ``changes``.
BEGAN, FOUND, STRENGTH = 0, 1, 2


@compiled
def look_for_change(evidence: Floats, changes: Floats, odds: float, y: float, t: int) -> int:
    """Count one more answer; NOTICED once when there is some evidence for a change, CERTAIN when there is enough.

    The evidence is a likelihood ratio that is begun anew whenever it falls below 1. Where probabilities are calibrated
    one that is begun gets to ``e^a`` by chance with a probability of at most ``e^-a``.
    """
    sure = min(max(odds, -SUREST), SUREST)
    so_far = evidence[EVIDENCE] + loss_of_odds(sure, y) - loss_of_odds(TEMPERED * sure, y)
    if so_far <= 0.0 or t < FIRST:
        evidence[EVIDENCE], evidence[SINCE], evidence[TOLD] = 0.0, t + 1.0, 0.0
        return NOTHING
    evidence[EVIDENCE] = so_far
    if so_far <= CONVINCING:
        news = NOTICED if so_far > POSSIBLE and evidence[TOLD] == 0.0 else NOTHING
        evidence[TOLD] = max(evidence[TOLD], float(news))
        return news
    count = int(evidence[N_CHANGES])
    last = (count - 1) % len(changes)
    if count == 0 or t - changes[last, FOUND] > APART:
        last = count % len(changes)
        changes[last, BEGAN], changes[last, FOUND], changes[last, STRENGTH] = evidence[SINCE], t, so_far
        evidence[N_CHANGES] += 1.0
    changes[last, STRENGTH] = max(changes[last, STRENGTH], so_far)
    evidence[LAST_BEGAN] = evidence[SINCE]
    evidence[EVIDENCE], evidence[SINCE], evidence[TOLD] = 0.0, t + 1.0, 0.0
    return CERTAIN
