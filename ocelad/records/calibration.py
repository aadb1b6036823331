"""Calibration of the log odds of "same" on all answers so far, by one shift."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit

from ocelad._typing import Floats

# The number of answers with which the prior of the shift is standard normal. Chosen on tuning seeds: a wider prior with
# 10 answers, and a narrower one with 600, gave worse links.
_N_UNIT_PRIOR = 100


def fit_shift(log_odds: Floats, same: npt.NDArray[np.bool_]) -> float:
    """Return the shift of log odds with which they fit the answers best.

    Questions are about uncertain pairs, so that the answers are no random sample, and probabilities that are calibrated
    along the stream of answers are biased for the other pairs: too low, if most uncertain pairs were the same. But
    pairs are chosen by their log odds only, and of pairs with the same log odds the answered ones are a random sample.
    A logistic regression of the answers on the log odds is thus nearly unbiased, as in Platt scaling. Here its slope is
    1: a free slope was worse with fewer than 200 answers, and no better with more. The prior of the shift is normal
    with variance ``n_answers / 100``, because after few answers the log odds change with each further one.

    Parameters
    ----------
    log_odds : array of shape (n_answers,)
        The log odds of the pairs with an answer.
    same : array of bool of shape (n_answers,)

    References
    ----------
    Platt, Probabilistic outputs for support vector machines, 1999.

    Examples
    --------
    >>> round(fit_shift(np.zeros(100), np.arange(100) < 80), 2)              # the log odds of 0.8 are 1.39
    1.31
    """
    n_answers = len(log_odds)
    if not n_answers:
        return 0.0
    precision = _N_UNIT_PRIOR / n_answers

    def gradient(shift: float) -> float:
        """Return the derivative of the negative log posterior, which increases."""
        return precision * shift + float(np.sum(expit(log_odds + shift) - same))

    bound = n_answers / precision  # the sum is between -n_answers and n_answers
    return float(brentq(gradient, -bound, bound))
