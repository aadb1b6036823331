"""Which pair of records to ask about next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from ocelad._typing import Floats

#: How a pair was chosen: at several distances, before both answers are known; where the answer is most uncertain;
#: with its probability of "same"; or near a random probability.
Source: TypeAlias = Literal["start", "uncertain", "probable", "spread"]
#: The share of pairs drawn by their probabilities, and of pairs near a random probability. They keep the probabilities
#: calibrated away from 1/2, and find links that differ from the known ones.
PROBABLE_SHARE, SPREAD_SHARE = 0.15, 0.1
#: Until there are this many answers of both kinds, pairs are asked at these quantiles of the distance without answers.
#: Most links are among the closest 10 % of candidate pairs, and most others are different.
N_START, START_QUANTILES = 2, (0.005, 0.02, 0.05, 0.1, 0.3)
#: If the first of these pairs have answers of one kind only, the other kind is likely ever farther, or for the closest
#: pair left.
FAR_QUANTILES, CLOSEST = (0.6, 0.9, 1.0), 0.0


def choose_at_start(
    distances: Floats, asked: npt.NDArray[np.bool_], answers: Sequence[bool | None]
) -> tuple[int, Source]:
    """Return the position of the pair whose distance is closest to a quantile; one quantile after the other."""
    n_first = len(START_QUANTILES)
    n_more = len(answers) - n_first
    if n_more < 0 or {True, False} <= set(answers[:n_first]):
        quantile = START_QUANTILES[len(answers) % n_first]
    else:
        lacks_same, lacks_different = (answers.count(kind) < N_START for kind in (True, False))
        # If both are missing, because pairs were skipped, close and far pairs take turns.
        is_far = lacks_different and not (lacks_same and n_more % 2 == 0)
        quantile = FAR_QUANTILES[min(n_more, len(FAR_QUANTILES) - 1)] if is_far else CLOSEST
    level = np.quantile(distances, quantile)
    return int(np.argmin(np.where(asked, np.inf, np.abs(distances - level)))), "start"


def choose_by_odds(log_odds: Floats, asked: npt.NDArray[np.bool_], rng: np.random.Generator) -> tuple[int, Source]:
    """Return the position of a pair that was not asked, and how it was chosen."""
    kind, target = rng.random(2)
    probabilities = expit(log_odds)
    if kind < PROBABLE_SHARE:
        weights = np.where(asked, 0.0, probabilities)
        total = weights.sum()
        if total > 0:
            return int(rng.choice(len(weights), p=weights / total)), "probable"
    elif kind < PROBABLE_SHARE + SPREAD_SHARE:
        return int(np.argmin(np.where(asked, np.inf, np.abs(probabilities - target)))), "spread"
    return int(np.argmin(np.where(asked, np.inf, np.abs(log_odds)))), "uncertain"
