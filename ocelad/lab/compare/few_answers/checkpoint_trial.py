"""``run_checkpoints``: let methods learn from the answers of one seed, and score them at each checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad.lab.compare.few_answers.answer_benchmarks import AnswerBenchmark
from ocelad.lab.compare.few_answers.checkpoint_scores import CheckpointScores, score_checkpoint
from ocelad.lab.compare.few_answers.held_out_split import Split, draw_split
from ocelad.lab.compare.methods import Method, StreamInfo
from ocelad.lab.compare.scoring import BlockLearner, OddsLearner, Play
from ocelad.lab.compare.trial import caught_errors, describe_failure, scores_from_json, scores_to_json


@dataclass(frozen=True)
class CheckpointRecord:
    """The scores of one method on one seed of a benchmark, averaged over its splits.

    Attributes
    ----------
    method : str
        The label of the method.
    seed : int
    scores : list of CheckpointScores
        One for each checkpoint; empty after a failure.
    failure : str or None
        The reason why the run ended early, or None.
    """

    method: str
    seed: int
    scores: list[CheckpointScores] = field(default_factory=list)
    failure: str | None = None

    def values(self, measure: str) -> Floats:
        """Return one of the scores at each checkpoint."""
        return np.array([getattr(scores, measure) for scores in self.scores])

    def to_json(self) -> dict[str, Any]:
        """Return the record as a JSON-serializable dict; NaN becomes None."""
        scores = scores_to_json(self.scores, CheckpointScores)
        return {"method": self.method, "seed": self.seed, "scores": scores, "failure": self.failure}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> CheckpointRecord:
        """Return the record that ``to_json`` converted."""
        scores = scores_from_json(content["scores"], CheckpointScores)
        return cls(content["method"], content["seed"], scores, content["failure"])


def run_checkpoints(
    benchmark: AnswerBenchmark, methods: Sequence[Method], seed: int, checkpoints: Sequence[int]
) -> list[CheckpointRecord]:
    """Run the methods on the splits of a seed, and return one record per method.

    >>> from ocelad.lab.compare.few_answers import BENCHMARKS, METHODS
    >>> (record,) = run_checkpoints(BENCHMARKS["iris/natural"], [METHODS["euclidean"]], 0, [10, 20])
    >>> record.values("knn_error").round(2)
    array([0.05, 0.05])
    """
    points = benchmark.load(seed)
    scores: dict[str, list[list[CheckpointScores]]] = {method.label: [] for method in methods}
    failures: dict[str, str] = {}
    for number in range(benchmark.n_splits):
        split = draw_split(points, checkpoints[-1], seed, number=number, balanced=benchmark.balanced)
        for method in methods:
            if method.label in failures:
                continue
            try:
                with np.errstate(all="ignore"):  # a diverging method raises an error of its own
                    scores[method.label].append(_run_split(split, method, seed, checkpoints))
            except caught_errors(method) as error:
                failures[method.label] = describe_failure(error)
    return [
        CheckpointRecord(label, seed, failure=failures[label])
        if label in failures
        else CheckpointRecord(label, seed, _average(scores[label]))
        for label in scores
    ]


def _run_split(split: Split, method: Method, seed: int, checkpoints: Sequence[int]) -> list[CheckpointScores]:
    """Return the scores of a method on a split, one for each checkpoint."""
    points = split.training if "labels" in method.requires else None
    items = split.training.points if "items" in method.requires else None
    info = StreamInfo(split.training.points.shape[1], checkpoints[-1], seed, points, items=items)
    learner = method.create(info)
    scores: list[CheckpointScores] = []
    last_play: Play | None = None
    for first, last in pairwise((0, *checkpoints)):
        learner.update(split.answers[first:last].restricted_to(method.requires))
        play = learner.play() if isinstance(learner, BlockLearner) else None
        log_odds = None
        if isinstance(learner, OddsLearner):
            log_odds = learner.log_odds(split.test_pairs.X, split.test_pairs.Z)
        if scores and play is not None and play is last_play and log_odds is None:
            scores.append(scores[-1])  # a fixed distance
        else:
            scores.append(score_checkpoint(play, log_odds, split))
        last_play = play
    return scores


def _average(splits: Sequence[Sequence[CheckpointScores]]) -> list[CheckpointScores]:
    """Return the means over the splits, one for each checkpoint; a score that a split lacks is ignored."""
    table = np.array(splits)
    known = np.isfinite(table)
    counts = known.sum(axis=0)
    means = np.where(known, table, 0.0).sum(axis=0) / np.maximum(counts, 1)
    return [CheckpointScores(*row) for row in np.where(counts > 0, means, np.nan).tolist()]
