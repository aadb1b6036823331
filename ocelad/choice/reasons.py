"""The reason for a question: one sentence for people."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ocelad.choice.linking import Link
from ocelad.choice.pair_ranking import MetricView, PairRanking

RANDOM_REASON = "Drawn at random, for an unbiased estimate of how often the metric is correct."
# The sentence does not say which answer is implied: people would repeat it.
CHECK_REASON = "Other answers imply the answer about these two; asking shows whether answers agree."
AGAIN_REASON = "The answer about these two contradicts others; asking again shows which of them are right."
SETTLE_REASON = "Answers about the groups of these two contradict each other; one more helps to settle which are right."


def active_reason(view: MetricView, ranking: PairRanking, rank: int) -> str:
    """Return why a pair of the ranking was chosen."""
    margin, threshold = float(ranking.margins[rank]), view.metric.threshold
    if view.method == "rice":
        reasons = [f"their distance is {np.sqrt(max(threshold - margin, 0.0) / threshold):.2f} of the threshold"]
    else:
        reasons = [f"the probability that they are the same is {100 * float(expit(margin)):.0f} %"]
    if ranking.disputed[rank]:
        reasons.append("its scales disagree more than about most pairs")
    if ranking.novel[rank]:
        reasons.append("recent answers say less about them than about most pairs")
    *others, last = reasons
    joined = f"{', '.join(others)}, and {last}" if others else last
    return f"The metric is unsure about these two: {joined}."


def link_reason(view: MetricView, link: Link, left_size: int, right_size: int) -> str:
    """Return why two items were chosen that may link their groups, which have these sizes.

    Only the method "adaptive" has calibrated probabilities.
    """
    probability = "" if view.method == "rice" else f" ({100 * link.probability:.0f} %)"
    if min(left_size, right_size) > 1:
        return (
            f"These two are of groups of {left_size} and {right_size} items, which may be the same group{probability}."
        )
    size = max(left_size, right_size)
    if size > 1:
        return f"One of these two most probably belongs to the group of {size} items of the other{probability}."
    return f"Of all items compared so far, one of these two is most probably the same as the other{probability}."
