"""The results of the few-answers suite: means and paired differences at each checkpoint, and the targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

import ocelad
from ocelad._typing import Floats
from ocelad.lab.compare.few_answers.answer_benchmarks import AnswerBenchmark
from ocelad.lab.compare.few_answers.answer_methods import EUCLIDEAN, LOGISTIC
from ocelad.lab.compare.few_answers.checkpoint_trial import CheckpointRecord
from ocelad.lab.compare.few_answers.no_harm import no_harm_targets
from ocelad.lab.compare.methods import Method
from ocelad.lab.compare.suites import OURS, Target, format_targets
from ocelad.lab.statistics import Estimate, estimate_mean, paired_difference

#: The measures with their labels.
ANSWER_MEASURES = {
    "knn_error": "5-NN error in %",
    "ranking_error": "wrongly ranked pairs in %, by log odds or else by distance",
    "distance_ranking_error": "wrongly ranked pairs in %, by distance",
    "log_loss": "log loss",
    "calibration_error": "expected calibration error in %",
    "recalibration_slope": "recalibration slope",
}
_PERCENT = frozenset({"knn_error", "ranking_error", "distance_ranking_error", "calibration_error"})


class Cells(NamedTuple):
    """A count of cells, each a benchmark and a checkpoint: those in which a statement holds, and all."""

    holding: int
    total: int


@dataclass(frozen=True, eq=False)
class AnswerResult:
    """The results of all methods on one benchmark.

    Attributes
    ----------
    benchmark : AnswerBenchmark
    checkpoints : tuple of int
        The numbers of answers at which the methods were evaluated.
    records : dict from label to list of CheckpointRecord
        One record for each seed.
    n_held_out : int
        The number of held-out points of each split.
    """

    benchmark: AnswerBenchmark
    checkpoints: tuple[int, ...]
    records: dict[str, list[CheckpointRecord]]
    n_held_out: int

    @property
    def methods(self) -> list[str]:
        """The labels of the methods, ours first."""
        return list(self.records)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds, the same for each method."""
        return tuple(record.seed for record in self.records[OURS])

    @cached_property
    def _values(self) -> dict[tuple[str, str], Floats]:
        missing = np.full(len(self.checkpoints), np.nan)
        return {
            (label, measure): np.array([missing if r.failure is not None else r.values(measure) for r in records])
            * (100.0 if measure in _PERCENT else 1.0)
            for label, records in self.records.items()
            for measure in ANSWER_MEASURES
        }

    def values(self, label: str, measure: str) -> Floats:
        """Return a measure of shape (n_seeds, n_checkpoints), errors in percent.

        NaN for failed runs, and for a method that did not take part.
        """
        missing = np.full((len(self.seeds), len(self.checkpoints)), np.nan)
        return self._values.get((label, measure), missing)

    def has(self, label: str, measure: str) -> bool:
        """Whether a method has a measure at any checkpoint."""
        return bool(np.isfinite(self.values(label, measure)).any())

    def mean(self, label: str, measure: str, answers: int) -> Estimate:
        """Return the mean of a measure over the seeds after some answers."""
        return estimate_mean(self.values(label, measure)[:, self.checkpoints.index(answers)])

    def median(self, label: str, measure: str, answers: int) -> float:
        """Return the median of a measure over the seeds after some answers; for slopes, which can be enormous."""
        values = self.values(label, measure)[:, self.checkpoints.index(answers)]
        return float(np.nanmedian(values)) if np.isfinite(values).any() else float("nan")

    def difference(self, label: str, measure: str, answers: int, reference: str = EUCLIDEAN) -> Estimate:
        """Return a method minus another one after some answers, paired by seed."""
        at = self.checkpoints.index(answers)
        return paired_difference(self.values(label, measure)[:, at], self.values(reference, measure)[:, at])

    def failures(self, label: str) -> list[CheckpointRecord]:
        """Return the records of a method's failed runs, which no mean includes."""
        return [record for record in self.records[label] if record.failure is not None]

    def to_json(self) -> dict[str, Any]:
        """Return the result as a dict for JSON; it may contain NaN."""
        return {
            "benchmark": self.benchmark.name,
            "data_set": self.benchmark.data_set,
            "pairs": "balanced" if self.benchmark.balanced else "natural",
            "held_out_points": self.n_held_out,
            "splits_per_seed": self.benchmark.n_splits,
            "methods": [self._method_json(label) for label in self.methods],
        }

    def _method_json(self, label: str) -> dict[str, Any]:
        measured = {
            measure: [
                {
                    "answers": answers,
                    **self.mean(label, measure, answers)._asdict(),
                    "median": self.median(label, measure, answers),
                    "difference": self.difference(label, measure, answers)._asdict(),
                }
                for answers in self.checkpoints
            ]
            for measure in ANSWER_MEASURES
            if self.has(label, measure)
        }
        failures = [{"seed": record.seed, "reason": record.failure} for record in self.failures(label)]
        return {"method": label, **measured, "failures": failures}


@dataclass(frozen=True, eq=False)
class FewAnswersResult:
    """The results of the few-answers suite, as returned by ``run_few_answers``.

    Attributes
    ----------
    outcomes : tuple of AnswerResult
        One for each benchmark that was run.
    methods : tuple of Method
    skipped : mapping from str to str
        The benchmarks that could not be run, with the reasons.
    """

    outcomes: tuple[AnswerResult, ...]
    methods: tuple[Method, ...]
    skipped: Mapping[str, str]

    def __str__(self) -> str:
        """Return how many targets are met, and a table of those that are missed."""
        return format_targets("few-answers", self.targets, self.skipped, only_missed=True)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds, the same for each benchmark."""
        return self.outcomes[0].seeds

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """The numbers of answers, the same for each benchmark."""
        return self.outcomes[0].checkpoints

    @cached_property
    def targets(self) -> list[Target]:
        """The targets of all benchmarks."""
        return [target for outcome in self.outcomes for target in no_harm_targets(outcome)]

    @property
    def log_loss_cells(self) -> Cells:
        """The cells in which our mean log loss is no worse than that of the refitted logistic regression."""
        differences = [
            outcome.difference(OURS, "log_loss", answers, LOGISTIC).mean
            for outcome in self.outcomes
            for answers in outcome.checkpoints
        ]
        known = [difference for difference in differences if np.isfinite(difference)]
        return Cells(sum(difference <= 0 for difference in known), len(known))

    def to_json(self) -> dict[str, Any]:
        """Return the results as a dict for JSON; it may contain NaN."""
        return {
            "program": f"ocelad {ocelad.__version__}",
            "suite": "few-answers",
            "ours": OURS,
            "reference": EUCLIDEAN,
            "seeds": list(self.seeds),
            "answers": list(self.checkpoints),
            "measures": ANSWER_MEASURES,
            "methods": {method.label: method.settings for method in self.methods},
            "benchmarks": [outcome.to_json() for outcome in self.outcomes],
            "targets": [target._asdict() for target in self.targets],
            "log_loss_no_worse_than_logistic": self.log_loss_cells._asdict(),
            "skipped": dict(self.skipped),
        }
