"""The targets of the few-answers suite: learning must not make the distance worse than one that learns nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ocelad.lab.compare.few_answers.answer_methods import COSINE, CURVED, CURVED_ITEMS, EUCLIDEAN, STANDARDIZED
from ocelad.lab.compare.suites import OURS, Target
from ocelad.lab.statistics import Estimate

if TYPE_CHECKING:
    from ocelad.lab.compare.few_answers.few_answers_results import AnswerResult

#: The largest accepted differences from the reference, in percentage points.
MAX_EXCESS = {"knn_error": 0.5, "ranking_error": 1.0, "distance_ranking_error": 1.0}
#: The names of these measures in targets.
NAMES = {
    "knn_error": "k-NN error",
    "ranking_error": "ranking error",
    "distance_ranking_error": "ranking error of the distance",
}
#: From this number of answers on, the reference is the better of Euclidean and standardized Euclidean distance.
STANDARDIZED_FROM = 100
#: With at least this number of held-out points, no single seed may exceed Euclidean distance by more points than this.
MIN_HELD_OUT, MAX_EXCESS_OF_A_SEED = 500, 5.0


def no_harm_targets(outcome: AnswerResult) -> list[Target]:
    """Return the targets of a benchmark.

    A target that bounds a mean difference is missed only if the difference is significantly above the limit: if its
    one-sided 95 % lower confidence bound exceeds the limit. A single seed gives no such bound. No target of a method is
    met if one of its runs failed.
    """
    return [
        target._replace(met=target.met and not outcome.failures(method))
        for method in (OURS, CURVED, CURVED_ITEMS)
        if method in outcome.methods
        for target in (*_cells(outcome, method), *_single_seeds(outcome, method))
    ]


def better_reference(outcome: AnswerResult, measure: str, answers: int) -> str:
    """Return which of Euclidean and standardized Euclidean distance has the lower mean on the benchmark."""
    euclidean, standardized = (outcome.mean(label, measure, answers).mean for label in (EUCLIDEAN, STANDARDIZED))
    return STANDARDIZED if standardized < euclidean else EUCLIDEAN


def _cells(outcome: AnswerResult, method: str) -> Iterator[Target]:
    for measure, limit in MAX_EXCESS.items():
        for answers in outcome.checkpoints:
            references = {EUCLIDEAN}
            if outcome.benchmark.cosine_target and method != OURS:
                references.add(COSINE)
            if answers >= STANDARDIZED_FROM:
                references.add(better_reference(outcome, measure, answers))
            for reference in sorted(references):
                difference = outcome.difference(method, measure, answers, reference)
                quantity = f"{method}: {NAMES[measure]} minus that of {reference} after {answers} answers"
                bound = f"at most {limit:g}"
                yield Target(outcome.benchmark.name, quantity, bound, difference.mean, not exceeds(difference, limit))


def exceeds(difference: Estimate, limit: float) -> bool:
    """Whether a mean difference is significantly above a limit; an undefined difference counts as such.

    >>> exceeds(Estimate(1.0, 0.1, 20), 0.5), exceeds(Estimate(1.0, 0.4, 20), 0.5)
    (True, False)
    """
    return bool(np.isnan(difference.mean) or difference.lower_bound > limit)


def _single_seeds(outcome: AnswerResult, method: str) -> Iterator[Target]:
    if outcome.n_held_out < MIN_HELD_OUT:
        return
    for measure, name in NAMES.items():
        differences = outcome.values(method, measure) - outcome.values(EUCLIDEAN, measure)
        worst = float(np.nanmax(differences)) if np.isfinite(differences).any() else np.nan
        yield Target(
            outcome.benchmark.name,
            f"{method}: {name} minus that of {EUCLIDEAN}, worst seed",
            f"at most {MAX_EXCESS_OF_A_SEED:g}",
            worst,
            worst <= MAX_EXCESS_OF_A_SEED,
        )
