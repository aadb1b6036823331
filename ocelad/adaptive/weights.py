"""Weights of the experts: by discounted losses, and by a method with a bound on every interval that insures them."""

from __future__ import annotations

from math import floor, log, log2, sqrt

import numpy as np

from ocelad._typing import Floats
from ocelad.adaptive.config import AdaptiveConfig

# Losses above this one are cut, and log weights differ by at most this from the best distance's, so that each expert
# can return.
MAX_LOSS, MAX_LOG_RATIO = 6.0, 12.0
# The first scale of regrets: smaller ones are treated alike, so that rounding is not amplified.
MIN_SCALE = 2.0**-7


def softmax(log_weights: Floats) -> Floats:
    """Return weights that sum to 1 over the last axis."""
    weights = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


class DiscountedWeights:
    """Exponential weights by discounted losses (Herbster and Warmuth 1998 bound the related fixed share).

    An expert with a handicap begins behind the others: it needs evidence for its weight. Few similar pairs say little
    about many features, so the handicap fades over ``handicap_pairs`` similar pairs. A pair with a weight counts as
    that many pairs. Experts that are absent, such as empty memories, have no weight. The first ``n_distances`` experts
    are distances, and the others combine them by their weights. So log weights are limited relative to the best
    distance: otherwise a combination that is far ahead would make all distances equal.

    Parameters
    ----------
    handicaps : array of shape (n_experts,)
    handicap_pairs : float
    n_distances : int
    absent : array of bool of shape (n_experts,)
    config : AdaptiveConfig
    """

    def __init__(
        self, handicaps: Floats, handicap_pairs: float, n_distances: int, absent: np.ndarray, config: AdaptiveConfig
    ) -> None:
        self._handicaps, self._handicap_decay = handicaps, 1.0 - 1.0 / handicap_pairs
        self._n_distances = n_distances
        self._log_weights, self._absent = np.zeros(len(handicaps)), absent.copy()
        self._decay, self._start = 1.0 - 1.0 / config.horizon, -config.handicap

    @property
    def shares(self) -> Floats:
        """The experts' weights; they sum to 1."""
        return softmax(np.where(self._absent, -np.inf, self._log_weights - self._handicaps))

    def start(self, k: int, log_weight: float | None = None) -> None:
        """Let a stored metric take part, with a log weight; by default behind the best distance by a handicap."""
        self._absent[k], self._log_weights[k] = False, self._start if log_weight is None else log_weight

    def restart(self, sources: slice, k: int) -> None:
        """Give an expert the log weight of the best of others."""
        self._log_weights[k] = self._log_weights[sources].max()

    def update(self, losses: Floats, y: float, weight: float) -> None:
        """Update the weights by the losses of a pair, which include its weight."""
        moved = self._decay**weight * self._log_weights - np.minimum(losses, weight * MAX_LOSS)
        best = moved[: self._n_distances].max()
        self._log_weights = np.clip(moved - best, -MAX_LOG_RATIO, MAX_LOG_RATIO)
        if y > 0.0:
            self._handicaps = self._handicap_decay**weight * self._handicaps


class IntervalProd:
    """Combines predictions such that on every interval the loss is close to that of the best one.

    Prod (Cesa-Bianchi, Mansour and Stoltz 2007) over sleeping entries, one per candidate and dyadic interval, as in
    the geometric covering of Daniely, Gonen and Shalev-Shwartz (2015). Candidate 0 also has an entry that never ends,
    with half of the prior weight: a good candidate 0 is followed closely, and the others only insure it.

    Let ``p_e`` be the prior weight, ``a_e`` the step and ``W_e`` the wealth of entry e, and r its candidate's regret
    (combined loss minus its loss) divided by ``scale``, at least the largest regret seen. The weights are proportional
    to ``p_e a_e W_e``, and awake entries multiply their wealth by ``1 + a_e r``. The loss is convex in the log odds,
    so the weighted regrets sum to at most 0 and the total ``sum p_e W_e`` never grows: ``W_e <= 1 / p_e``. From
    ``log(1 + v) >= v - v^2`` for ``v >= -1/2``: on the interval J of an entry the candidate's regret is at most
    ``scale * (log(1 / p_e) / a_e + a_e |J|)``.

    Parameters
    ----------
    n_candidates : int
    """

    def __init__(self, n_candidates: int) -> None:
        self._n, self._round, self.scale = n_candidates, 0, MIN_SCALE
        self._wealth = np.ones((1, n_candidates))
        self._priors, self._steps = np.zeros((1, n_candidates)), np.full((1, 1), 0.5)
        self._priors[0, 0] = 0.5

    def shares(self) -> Floats:
        """Start the intervals of the next round; return the candidates' weights, which sum to 1."""
        t = self._round + 1
        first_weight = 0.5 / self._n * interval_weight(t)
        for j in range(floor(log2(t)) + 1):
            if t % 2**j == 0:
                if len(self._steps) == j + 1:
                    self._steps = np.vstack([self._steps, [[0.0]]])
                    self._priors = np.vstack([self._priors, np.zeros(self._n)])
                    self._wealth = np.vstack([self._wealth, np.ones(self._n)])
                self._steps[j + 1] = min(0.5, sqrt(log(1.0 / first_weight) / 2**j))
                self._priors[j + 1], self._wealth[j + 1] = first_weight, 1.0
        weights = (self._priors * self._steps * self._wealth).sum(axis=0)
        return np.asarray(weights / weights.sum())

    def update(self, combined_loss: float, losses: Floats) -> None:
        """Update the wealth of every entry by the losses of the round."""
        self._round += 1
        regrets = combined_loss - losses
        largest = float(np.abs(regrets).max())
        if largest > self.scale:
            self.scale = 2.0 ** float(np.ceil(np.log2(largest)))
        factors = 1.0 + self._steps * regrets / self.scale
        factors[0, 1:] = 1.0  # only the first candidate has the entry that never ends
        self._wealth *= factors


def interval_weight(t: int) -> float:
    """Return the prior weight of each interval that starts in round t; over all rounds and intervals at most 1."""
    return 1.0 / ((t + 1.0) ** 2 * (floor(log2(t)) + 1.0))


def regret_bound(length: int, last_round: int, n_candidates: int, scale: float) -> float:
    """Return the bound of ``IntervalProd`` on the regret against any candidate, on an interval.

    Parameters
    ----------
    length, last_round : int
        Number of rounds and last round of the interval.
    n_candidates : int
    scale : float
        ``IntervalProd.scale`` after the last round: at most twice the largest regret of a single round.

    Notes
    -----
    The interval consists of dyadic ones whose lengths at least double up to some point and at least halve after it, so
    that the roots of their lengths sum to at most ``2 / (1 - 1/sqrt(2))`` times the root of the length. Each adds
    ``2 scale sqrt(|J| log(1 / p))``. Between doublings of the scale this holds on each part; the scales add up to at
    most twice the last one.
    """
    evidence = log(2.0 * n_candidates / interval_weight(last_round))
    return 2.0 * scale * 2.0 / (1.0 - sqrt(0.5)) * 2.0 * sqrt(length * evidence)
