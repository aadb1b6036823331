"""Calibration of the predicted probabilities that pairs are similar."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from ocelad._validation import check_array, check_labels
from ocelad.evaluation.scores import pair_auc

N_BINS = 10


class CalibrationBin(NamedTuple):
    """Pairs with nearly equal predicted probabilities.

    Attributes
    ----------
    predicted : float
        The mean predicted probability of "same".
    observed : float
        The share of similar pairs.
    pairs : int
        The number of pairs.
    """

    predicted: float
    observed: float
    pairs: int


class Reliability(NamedTuple):
    """Scores of predicted probabilities.

    Attributes
    ----------
    roc_auc : float
        The area under the ROC curve: the probability that a similar pair has a larger predicted probability than a
        dissimilar pair. 0.5 is chance; NaN if all pairs have the same label.
    log_loss : float
        The mean negative logarithm of the predicted probability of the true label. The constant prediction 1/2 gets
        log 2 = 0.693.
    brier_score : float
        The mean squared error of the probabilities. The constant prediction 1/2 gets 0.25.
    calibration_error : float
        The expected calibration error: the mean over the pairs of the absolute difference between the predicted and the
        observed share of their bin. 0 is perfect. With few pairs it is larger by chance.
    bins : tuple of CalibrationBin
        In increasing order of the predicted probability.
    """

    roc_auc: float
    log_loss: float
    brier_score: float
    calibration_error: float
    bins: tuple[CalibrationBin, ...]


def reliability(log_odds: Any, y: Any) -> Reliability:
    """Compare predicted log odds of "same" with labels.

    Parameters
    ----------
    log_odds : array-like of shape (n_pairs,)
        The log odds of "same"; see ``MetricTracker.log_odds``. Log odds, unlike probabilities, do not round to 0 or 1.
    y : array-like of shape (n_pairs,)
        +1 (or True) for similar, -1 (or False) for dissimilar.

    Returns
    -------
    Reliability
        With at most 10 bins of about equally many pairs. Equal probabilities are in the same bin.

    Examples
    --------
    >>> reliability([-30.0, -30.0, 0.0, 0.0], [-1, -1, 1, -1]).bins[1]
    CalibrationBin(predicted=0.5, observed=0.5, pairs=2)
    """
    odds = check_array(log_odds, "log_odds", 1, shapes={1: "numbers of shape (n_pairs,)"})
    labels = check_labels(y, "y", len(odds))
    probabilities, same = expit(odds), labels > 0
    order = np.argsort(probabilities, kind="stable")
    ascending, same_ascending = probabilities[order], same[order]
    last = ascending[(np.arange(1, N_BINS + 1) * len(odds) + N_BINS - 1) // N_BINS - 1]
    ends = np.unique(ascending.searchsorted(last, "right"))
    bins = tuple(
        CalibrationBin(float(ascending[first:end].mean()), float(same_ascending[first:end].mean()), int(end - first))
        for first, end in pairwise([0, *ends.tolist()])
    )
    return Reliability(
        roc_auc=pair_auc(-odds, labels),
        log_loss=float(np.logaddexp(0.0, -labels * odds).mean()),
        brier_score=float(np.square(probabilities - same).mean()),
        calibration_error=sum(each.pairs * abs(each.predicted - each.observed) for each in bins) / len(odds),
        bins=bins,
    )
