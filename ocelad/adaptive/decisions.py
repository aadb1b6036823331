"""DecisionThresholds: which predictions to act on, so that at most a promised share of them is wrong. Plain NumPy.

A prediction is the log odds of "same", and its confidence is their absolute value. For a promised error e, the rule is
to decide the pairs whose confidence is at least a threshold and to ask a person about the others. In every round

1. the pair counts as decided at each of 27 error levels whose threshold it reaches, and as right or wrong,
2. a filter updates the probability that the predictions have become useless, as after a change of the question,
3. pairs and wrong predictions are counted by confidence, and the risk of every confidence is estimated,
4. each level gets the smallest threshold above which the estimated risk is at most what it may risk now.

All pairs teach, also those that were not decided. Whatever the estimates are worth, for every level e and after every
round t the wrong decisions are at most ``e * decided + 1 + 2 log(1 + e t)``, because a level whose next mistake could
break this bound does not decide. ``docs/explanation/decisions.md`` has the proof.

``kernels/decisions.py`` is the compiled form of ``update``. Its constants repeat those of this module, so that a
changed one fails a test.
"""

from __future__ import annotations

from math import inf, log1p, sqrt
from typing import Any, Self

import numpy as np

from ocelad._typing import Arrays, Floats
from ocelad._validation import check_label, check_number

#: The promised errors that are tracked. Another one uses the next level below it; less than the first decides nothing.
ERRORS = (
    *(0.001, 0.00125, 0.0016, 0.002, 0.0025, 0.0032, 0.004, 0.005, 0.0063, 0.008),
    *(0.01, 0.0125, 0.016, 0.02, 0.025, 0.032, 0.04, 0.05, 0.063, 0.08),
    *(0.1, 0.125, 0.16, 0.2, 0.25, 0.32, 0.4),
)  # fmt: skip
#: Bins of the confidence: [0, 1/4), [1/4, 1/2), ..., [39/4, infinity).
N_BINS, BIN_WIDTH = 40, 0.25
#: Rows of ``bins``: pairs and wrong predictions, the estimated risk in the bin, and the risk in it and all above it.
PAIRS, WRONG_PAIRS, RISK, SELECTIVE_RISK = range(4)
#: Rows of ``levels``: the promised error, the decided pairs, the wrong ones of them, and the current threshold.
ERROR, DECIDED, WRONG, THRESHOLD = range(4)
#: Fields of ``clock``: the number of rounds, and the probability that predictions are useless.
ROUND, CHANGE_PROBABILITY = range(2)

# A bin begins with this number of pseudo-pairs at the risk of the bin below.
PSEUDO_PAIRS = 16.0
# Pseudo-mistakes of a level without decisions. It starts only if one mistake would not stop it again: a level that
# stops at its first mistake has decided little else.
FIRST_MISTAKES = 1.0
# The number of mistakes is raised by this multiple of its root, about its standard deviation: the smallest of many
# thresholds is often a lucky one.
MARGIN = 0.2
# The risk of a bin that a level decides is below this multiple of the promised error, and below that of a coin.
# Otherwise confidences without any answer would be decided once the others are safe enough on average.
MAX_MULTIPLE = 10.0
# Counts are forgotten over HORIZON rounds, and over CHANGE_HORIZON rounds while predictions are useless.
HORIZON, CHANGE_HORIZON = 5000.0, 50.0
# Predictions become useless with the probability CHANGE_RATE a round, and recover with RECOVERY_RATE.
CHANGE_RATE, RECOVERY_RATE, USELESS_RISK = 0.001, 0.02, 0.5
# A level aims at its promised error once its account shows a credit of RESERVE mistakes. Each further one raises the
# aim by CREDIT_STEP times the promised error, each missing one lowers it, within MIN_AIM and MAX_AIM.
RESERVE, CREDIT_STEP, MIN_AIM, MAX_AIM = 4.0, 0.1, 0.85, 1.15
# The bound on mistakes beyond the promised error grows by this multiple of log(1 + e t). It must grow, or a level that
# has reached it would never decide again; with 2, estimates stop a level before the bound does.
SLACK_GROWTH = 2.0


class DecisionThresholds:
    """Thresholds on the confidence for promised errors, tracked along a stream of predictions and answers.

    Attributes
    ----------
    bins : array of shape (4, 40)
        Counts and risks by confidence.
    levels : array of shape (4, 27)
        The account and the threshold of each error level.
    clock : array of shape (2,)
        The number of rounds, and the probability that predictions are useless.

    References
    ----------
    Selective classification: El-Yaniv and Wiener, JMLR 2010. Control by the errors along the stream: Gibbs and Candes,
    NeurIPS 2021; Angelopoulos, Candes and Tibshirani, NeurIPS 2023. Filter: Shiryaev, Theory Probab. Appl. 1963.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> decisions = DecisionThresholds()
    >>> for log_odds in rng.normal(scale=4.0, size=2000):
    ...     same = rng.random() < 1.0 / (1.0 + np.exp(-log_odds))
    ...     decisions.update(log_odds, 1.0 if same else -1.0)
    >>> decisions.decide([9.0, 0.5, -9.0], error=0.02)
    array([ 1,  0, -1])
    >>> decisions.threshold(0.01) > decisions.threshold(0.1)
    True
    >>> decided, wrong = decisions.account(0.02)
    >>> bool(wrong <= 0.02 * decided + decisions.slack(0.02))
    True
    """

    def __init__(self) -> None:
        self.bins, self.levels = np.zeros((4, N_BINS)), np.zeros((4, len(ERRORS)))
        self.levels[ERROR] = ERRORS
        self.clock = np.array([0.0, 0.5])
        self._set_thresholds()

    def update(self, log_odds: float, y: float, weight: float = 1.0) -> None:
        """Learn from an answer: ``log_odds`` as predicted before it, and y, +1 for "same" or -1.

        ``weight`` is the number of pairs that this one stands for. Weights above 1 raise the bound on the wrong
        decisions by the largest weight minus 1.
        """
        y, weight = check_label(y, "y"), check_number(weight, "weight", at_least=0)
        confidence = float(_confidence(_check_log_odds(log_odds, 0)))
        is_wrong = (log_odds >= 0.0) != (y > 0.0)
        k = int(min(confidence / BIN_WIDTH, N_BINS - 1.0))

        decided = confidence >= self.levels[THRESHOLD]
        self.levels[DECIDED] += weight * decided
        self.levels[WRONG] += weight * (decided & is_wrong)

        risk, useless = self.bins[RISK, k], max(USELESS_RISK, self.bins[RISK, k])
        likelihoods = (risk, useless) if is_wrong else (1.0 - risk, 1.0 - useless)
        p = self.clock[CHANGE_PROBABILITY]
        known, changed = (likelihood ** min(weight, 1.0) for likelihood in likelihoods)
        p = p * changed / (p * changed + (1.0 - p) * known)

        self.bins[: WRONG_PAIRS + 1] *= 1.0 - 1.0 / HORIZON - p / CHANGE_HORIZON
        self.bins[PAIRS, k] += weight * (1.0 - p)
        self.bins[WRONG_PAIRS, k] += weight * (1.0 - p) * is_wrong
        self.clock[ROUND] += 1.0
        self.clock[CHANGE_PROBABILITY] = p * (1.0 - RECOVERY_RATE) + (1.0 - p) * CHANGE_RATE
        self._set_thresholds()

    def _set_thresholds(self) -> None:
        """Estimate the risks, and set the threshold of each level for the next round."""
        k, above = 0, self._estimate_risks()
        for i in reversed(range(len(ERRORS))):  # from the largest error: a smaller one has no smaller threshold
            error, decided, wrong = self.levels[: WRONG + 1, i]
            debt = wrong - error * decided
            aim = error * min(MAX_AIM, max(MIN_AIM, 1.0 - CREDIT_STEP * (debt + RESERVE)))
            useless = USELESS_RISK * self.clock[CHANGE_PROBABILITY] > error
            # One more mistake could break the bound.
            spent = debt - error > SLACK_GROWTH * log1p(error * (self.clock[ROUND] + 1.0))
            if useless or spent:
                k = N_BINS
            first = FIRST_MISTAKES if decided == 0.0 else 0.0
            limit = min(USELESS_RISK, MAX_MULTIPLE * error)
            while k < N_BINS and (
                self.bins[SELECTIVE_RISK, k] + first / (above + 1.0) > aim or self.bins[RISK, k] >= limit
            ):
                above -= self.bins[PAIRS, k]  # the pairs in bin k and all above it
                k += 1
            self.levels[THRESHOLD, i] = k * BIN_WIDTH if k < N_BINS else inf

    def _estimate_risks(self) -> float:
        """Estimate the risks; return the number of pairs.

        Risks are smoothed from low to high confidence: more confidence means less risk only if answers show it.
        """
        risk = USELESS_RISK
        for k in range(N_BINS):
            risk = (self.bins[WRONG_PAIRS, k] + PSEUDO_PAIRS * risk) / (self.bins[PAIRS, k] + PSEUDO_PAIRS)
            self.bins[RISK, k] = risk
        pairs = mistakes = 0.0
        for k in reversed(range(N_BINS)):
            pairs += self.bins[PAIRS, k]
            mistakes += self.bins[PAIRS, k] * self.bins[RISK, k]
            with_next = mistakes + MARGIN * sqrt(mistakes) + self.bins[RISK, k]  # the next pair is in bin k
            self.bins[SELECTIVE_RISK, k] = with_next / (pairs + 1.0)
        return pairs

    def threshold(self, error: float) -> float:
        """Return the smallest confidence at which pairs are decided; infinity: none is.

        Parameters
        ----------
        error : float
            The promised error, above 0 and below 0.5. One between two levels uses the lower level.
        """
        i = _level(error)
        return float(self.levels[THRESHOLD, i]) if i >= 0 else inf

    def decide(self, log_odds: Any, error: float) -> np.ndarray:
        """Return +1 ("same") or -1 ("different") for each confident prediction, and 0 ("ask a person") for the others.

        Parameters
        ----------
        log_odds : array-like of shape (n_pairs,)
        error : float
            The promised error, above 0 and below 0.5.
        """
        predictions = _check_log_odds(log_odds, 1)
        confident = _confidence(predictions) >= self.threshold(error)
        return np.where(confident, np.where(predictions >= 0.0, 1, -1), 0)

    def account(self, error: float) -> tuple[float, float]:
        """Return how many pairs of the stream were decided at a promised error, and how many of these were wrong."""
        i = _level(error)
        return (float(self.levels[DECIDED, i]), float(self.levels[WRONG, i])) if i >= 0 else (0.0, 0.0)

    def slack(self, error: float) -> float:
        """Return the number of wrong decisions beyond ``error * decided`` that the guarantee allows until now."""
        i = _level(error)
        return 1.0 + SLACK_GROWTH * log1p(ERRORS[i] * float(self.clock[ROUND])) if i >= 0 else 0.0

    def arrays(self) -> Arrays:
        """Return copies of the state: float64 arrays of fixed sizes."""
        return {"bins": self.bins.copy(), "levels": self.levels.copy(), "clock": self.clock.copy()}

    @classmethod
    def restore(cls, arrays: Arrays) -> Self:
        """Return the thresholds whose ``arrays`` are given, after checking their names and shapes."""
        decisions = cls()
        expected = decisions.arrays()
        for name, array in expected.items():
            saved = np.asarray(arrays.get(name))
            if saved.shape != array.shape or saved.dtype != np.float64:
                raise ValueError(f"the state of the decisions needs {name!r}, float64 numbers of shape {array.shape}")
            setattr(decisions, name, np.array(arrays[name], dtype=np.float64))
        if not np.array_equal(decisions.levels[ERROR], expected["levels"][ERROR]):
            raise ValueError("the state of the decisions has other error levels than this version")
        if any(np.isnan(array).any() for array in (decisions.bins, decisions.levels, decisions.clock)):
            raise ValueError("the state of the decisions holds nan; accepted: numbers")
        return decisions


def _level(error: Any) -> int:
    """Return the index of the largest level of at most ``error``; -1: all levels are above it."""
    sentence = f"error must be a number above 0 and below 0.5; got {error!r}"
    try:
        promised = check_number(error, "error", above=0)
    except (TypeError, ValueError):
        raise ValueError(sentence) from None
    if promised >= 0.5:
        raise ValueError(sentence)
    return int(np.searchsorted(ERRORS, promised * (1.0 + 1e-9), side="right")) - 1  # 0.06 / 3 is the level 0.02


def _confidence(log_odds: Floats) -> Floats:
    """Return the confidence, finite: infinite log odds do not reach the threshold of a level that decides nothing."""
    return np.minimum(np.abs(log_odds), N_BINS * BIN_WIDTH)


def _check_log_odds(value: Any, ndim: int) -> Floats:
    """Return log odds as an array that may be infinite, but not NaN."""
    log_odds = np.asarray(value, dtype=np.float64)
    if log_odds.ndim != ndim:
        accepted = "one number" if ndim == 0 else "one number for each pair, shape (n_pairs,)"
        raise ValueError(f"log_odds has shape {log_odds.shape}; accepted: {accepted}")
    if np.isnan(log_odds).any():
        where = f" at position {int(np.flatnonzero(np.isnan(log_odds))[0])}" if ndim else ""
        raise ValueError(f"log_odds holds nan{where}; only numbers are accepted")
    return log_odds
