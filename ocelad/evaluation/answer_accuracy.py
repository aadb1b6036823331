"""How often each person is right, from the answers of several people about the same questions.

References
----------
A. P. Dawid and A. M. Skene (1979). Maximum likelihood estimation of observer error-rates using the EM algorithm.
Journal of the Royal Statistical Society C 28, 20-28. Here with one number per person ("one coin"): the probability of
a right answer is the same for both answers.
S. Nitzan and J. Paroush (1982). Optimal decision rules in uncertain dichotomous choice situations. International
Economic Review 23, 289-297: votes weighted by the log odds of being right decide best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

#: Before any answer, a person is taken to be right this often, as if seen in this many answers.
PRIOR_ACCURACY, PRIOR_ANSWERS = 0.9, 4.0
#: A weight is the average of 1, counted as this many questions, and what the answers say.
SHRINKAGE = 10.0
#: Accuracies above this one have the same weight: nobody is seen to be right more often.
MAX_ACCURACY = 0.98
_MAX_STEPS, _TOLERANCE = 500, 1e-9


class PersonAccuracy(NamedTuple):
    """The estimated share of right answers of a person, and the number of questions that it is estimated from."""

    accuracy: float
    n_questions: int


class Question(NamedTuple):
    """The answers of people to one question: whether two items are the same.

    Attributes
    ----------
    answers : mapping of str to bool
        By person.
    truth : bool or None
        The settled answer; None: the pair is not settled.
    """

    answers: Mapping[str, bool]
    truth: bool | None = None


def estimate_accuracies(questions: Sequence[Question]) -> dict[str, PersonAccuracy]:
    """Return the accuracy of each person, by expectation maximization.

    Only questions that are settled, or that two people or more have answered, say anything. The prior keeps an
    estimate from few answers near ``PRIOR_ACCURACY``. Without a third person or settled questions, hardly anything
    shows which of two people is right.

    >>> rows = 30 * [Question({"anna": True, "ben": True, "eve": False})] + 30 * [
    ...     Question({"anna": False, "ben": False, "eve": False})
    ... ]
    >>> found = estimate_accuracies(rows)
    >>> {name: round(each.accuracy, 1) for name, each in found.items()}
    {'anna': 1.0, 'ben': 1.0, 'eve': 0.5}
    """
    telling = [each for each in questions if len(each.answers) + (each.truth is not None) >= 2]
    people = sorted({person for each in telling for person in each.answers})
    if not people:
        return {}
    index = {person: i for i, person in enumerate(people)}
    votes = np.zeros((len(telling), len(people)))
    for row, each in enumerate(telling):
        for person, same in each.answers.items():
            votes[row, index[person]] = 1.0 if same else -1.0
    settled = np.array([np.nan if each.truth is None else float(each.truth) for each in telling])
    # Equal votes have equal posteriors; there are few different ones.
    rows, n_equal = np.unique(np.column_stack([votes, np.nan_to_num(settled, nan=-1.0)]), axis=0, return_counts=True)
    accuracies, n_answers = _maximize(rows[:, :-1], rows[:, -1], n_equal)
    return {person: PersonAccuracy(float(accuracies[i]), int(n_answers[i])) for person, i in index.items()}


def _maximize(
    votes: npt.NDArray[np.float64], settled: npt.NDArray[np.float64], n_equal: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return the accuracies and the numbers of answers; ``settled`` is -1 where there is no settled answer."""
    answered = votes != 0
    n_answers = n_equal @ answered
    is_open, truth = settled < 0, np.maximum(settled, 0.0)
    accuracies, share_same = np.full(votes.shape[1], PRIOR_ACCURACY), 0.5
    for _ in range(_MAX_STEPS):
        log_odds = np.log(accuracies / (1.0 - accuracies))
        evidence = votes @ log_odds + np.log(share_same / (1.0 - share_same))
        same = np.where(is_open, 0.5 * (1.0 + np.tanh(0.5 * evidence)), truth)  # the posterior probability
        right = np.where(votes > 0, same[:, None], 1.0 - same[:, None]) * answered
        prior = PRIOR_ACCURACY * PRIOR_ANSWERS
        updated = (n_equal @ right + prior) / (n_answers + PRIOR_ANSWERS)
        share_same = float((n_equal @ same + 1.0) / (n_equal.sum() + 2.0))
        change = float(np.abs(updated - accuracies).max())
        accuracies = updated
        if change < _TOLERANCE:
            break
    return accuracies, n_answers


def answer_weights(accuracies: Mapping[str, PersonAccuracy]) -> dict[str, float]:
    """Return the weight of each person's answers, from 0 to 1.

    The weight is ``(n w + 10) / (n + 10)``: n is the number of questions, and w the log odds of being right relative to
    those of the best person, or 0 for a person who is wrong more often than right. People who are equally good all have
    the weight 1, and so has a person of whom nothing is known.

    >>> answer_weights({"anna": PersonAccuracy(0.95, 90), "ben": PersonAccuracy(0.7, 90)})
    {'anna': 1.0, 'ben': 0.359}
    """
    odds = {name: max(_log_odds(each.accuracy), 0.0) for name, each in accuracies.items()}
    best = max(odds.values(), default=0.0)
    weights = {}
    for name, (_, n) in accuracies.items():
        relative = odds[name] / best if best > 0.0 else 1.0
        weights[name] = round((n * relative + SHRINKAGE) / (n + SHRINKAGE), 3)
    return weights


def _log_odds(accuracy: float) -> float:
    bounded = min(accuracy, MAX_ACCURACY)
    return log(bounded / (1.0 - bounded)) if bounded > 0.0 else -np.inf
