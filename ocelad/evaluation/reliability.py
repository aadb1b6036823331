"""How well probabilities of "same" agree with the answers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from ocelad._validation import check_array, check_labels
from ocelad.evaluation.scores import pair_auc

N_BINS = 10


class Bin(NamedTuple):
    """Pairs whose probabilities are near each other.

    Attributes
    ----------
    predicted : float
        The mean of their probabilities of "same".
    observed : float
        The share of them that are the same.
    pairs : int
        How many they are.
    """

    predicted: float
    observed: float
    pairs: int


class Reliability(NamedTuple):
    """What probabilities are worth.

    Attributes
    ----------
    roc_auc : float
        The probability that a pair that is the same has the larger one of two probabilities; NaN where all are the
        same, or none. 0.5 is chance.
    log_loss : float
        The mean of minus the logarithm of the probability of what came; log 2 = 0.693 is what "one half" always gets.
    brier_score : float
        The mean squared error of the probabilities; 0.25 is what "one half" always gets.
    calibration_error : float
        The expected calibration error: the mean, over the pairs, of how far the predicted share of their bin is from
        the observed one. 0 is perfect; with few pairs chance alone makes it larger.
    bins : tuple of Bin
        From the least probable to the most.
    """

    roc_auc: float
    log_loss: float
    brier_score: float
    calibration_error: float
    bins: tuple[Bin, ...]


def reliability(log_odds: Any, y: Any) -> Reliability:
    """How well the log odds of "same" agree with the answers.

    Parameters
    ----------
    log_odds : array-like of shape (n_pairs,)
        Of "same"; see ``MetricTracker.log_odds``. (The logarithm of a probability that was rounded to 0 says nothing.)
    y : array-like of shape (n_pairs,)
        +1 (or True) for similar, -1 (or False) for dissimilar.

    Returns
    -------
    Reliability
        With at most 10 bins of about as many pairs each; equal probabilities are in one bin.

    Examples
    --------
    >>> reliability([-30.0, -30.0, 0.0, 0.0], [-1, -1, 1, -1]).bins
    (Bin(predicted=9.357622968839299e-14, observed=0.0, pairs=2), Bin(predicted=0.5, observed=0.5, pairs=2))
    """
    odds = check_array(log_odds, "log_odds", 1, shapes={1: "numbers of shape (n_pairs,)"})
    labels = check_labels(y, "y", len(odds))
    probabilities, same = expit(odds), labels > 0
    order = np.argsort(probabilities, kind="stable")
    ascending, same_ascending = probabilities[order], same[order]
    last = ascending[(np.arange(1, N_BINS + 1) * len(odds) + N_BINS - 1) // N_BINS - 1]
    ends = np.unique(ascending.searchsorted(last, "right"))
    bins = tuple(
        Bin(float(ascending[first:end].mean()), float(same_ascending[first:end].mean()), int(end - first))
        for first, end in pairwise([0, *ends.tolist()])
    )
    return Reliability(
        roc_auc=pair_auc(-odds, labels),
        log_loss=float(np.logaddexp(0.0, -labels * odds).mean()),
        brier_score=float(np.square(probabilities - same).mean()),
        calibration_error=sum(each.pairs * abs(each.predicted - each.observed) for each in bins) / len(odds),
        bins=bins,
    )
