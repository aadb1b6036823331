"""Measure how well records are grouped by entity after some answers, with and without implied answers.

    python benchmarks/entities.py [--seeds 10] [--quick]

The records are those of ``EntityRecords``: about 730 records of 300 entities. Questions are answered by the known
entities; then 10 % of the answers are wrong. Questions are

- random pairs, which are almost never the same,
- near pairs: a record and one of its 5 nearest neighbours by Euclidean distance, drawn at random,
- probable pairs: the pair that is most probably the same, of those whose answer is not known (Wang et al. 2013).

Implied answers are not used; or used to choose questions and to form groups; or the distance learns from them, too
(``MetricTracker(transitive=True)``). Groups are formed by average linkage of the probabilities that pairs are the same,
down to a mean probability of 1/2; answers, and implied answers where they are used, replace probabilities. The table
shows precision, recall and F1 of the pairs of records that are in one group, in %. Nothing was tuned on these seeds.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import click
import numpy as np
from results import save, show
from rich.console import Console
from rich.progress import Progress
from scipy.cluster.hierarchy import average, fcluster
from scipy.spatial.distance import pdist, squareform
from scipy.special import expit
from sklearn.metrics.cluster import pair_confusion_matrix

from ocelad import ComparisonGraph, MetricTracker
from ocelad._typing import Floats
from ocelad.evaluation.streams import EntityRecords
from ocelad.lab.statistics import Estimate, estimate_mean, paired_difference
from ocelad.lab.trials import map_trials

QUESTIONS = ("random", "near", "probable")
USES = ("none", "groups", "groups and learning")
WRONG_SHARES = (0.0, 0.1)
CHECKPOINTS = (100, 300, 1000)
FIRST_SEED = 3000
N_NEIGHBORS = 5
#: Answers between two updates of the distance.
BATCH = 10
#: Two records that are known to be different are this far apart, so that no mean with it is below 1/2.
APART = 1e6


class Setup(NamedTuple):
    """One run: how questions are chosen, how implied answers are used, the share of wrong answers, and the seed."""

    questions: str
    use: str
    wrong_share: float
    seed: int


class Knowledge:
    """The answers so far, and what they imply, if that is used."""

    def __init__(self, n_records: int, *, implied: bool) -> None:
        self._n_records, self._uses_implied = n_records, implied
        self._graph = ComparisonGraph()
        self._votes: dict[tuple[int, int], int] = {}

    def add(self, left: int, right: int, same: bool) -> None:
        self._graph.add(left, right, same)
        self._votes[left, right] = 1 if same else -1

    def is_asked(self, left: int, right: int) -> bool:
        return (left, right) in self._votes or (right, left) in self._votes

    def known(self) -> np.ndarray:
        """Return what is known about all pairs of records: 1, the same; -1, different; 0, unknown."""
        known = np.zeros((self._n_records, self._n_records), dtype=np.int8)
        if self._uses_implied:
            groups, apart = self._graph.partition(range(self._n_records))
            used = np.flatnonzero(groups >= 0)
            of_used = groups[used]
            relation = np.where(apart, -1, 0) + np.eye(len(apart), dtype=np.int8)
            known[np.ix_(used, used)] = relation[np.ix_(of_used, of_used)]
            for left, right, _ in self._graph.contradictions():
                known[left, right] = known[right, left] = 0
        else:
            for (left, right), vote in self._votes.items():
                known[left, right] = known[right, left] = vote
        return known


def probabilities(tracker: MetricTracker, points: Floats) -> Floats:
    """Return the probability that two records are the same, for all pairs."""
    metric = tracker.metric_
    return np.asarray(expit(metric.threshold - squareform(pdist(metric.embed(points), "sqeuclidean"))))


def form_groups(same: Floats, known: np.ndarray) -> np.ndarray:
    """Return the group of each record, by average linkage; what is known replaces probabilities."""
    distances = np.where(known > 0, 0.0, np.where(known < 0, APART, np.maximum(1.0 - same, 1e-9)))
    np.fill_diagonal(distances, 0.0)
    return np.asarray(fcluster(average(squareform(distances, checks=False)), 0.5, "distance"))


def score(entities: np.ndarray, groups: np.ndarray) -> tuple[float, float, float]:
    """Return precision, recall and F1 of the pairs of records that are in one group, in %."""
    (_, wrong), (missed, right) = pair_confusion_matrix(entities, groups)
    return (
        100.0 * right / max(right + wrong, 1),
        100.0 * right / max(right + missed, 1),
        200.0 * right / max(2 * right + wrong + missed, 1),
    )


def draw_near_pairs(points: Floats, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Return all pairs of a record and one of its nearest neighbours, in random order."""
    distances = squareform(pdist(points))
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1)[:, :N_NEIGHBORS]
    pairs = sorted({(min(i, j), max(i, j)) for i, row in enumerate(nearest.tolist()) for j in row})
    return [pairs[at] for at in rng.permutation(len(pairs))]


def draw_random_pairs(n_records: int, count: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Return different pairs of records."""
    pairs: dict[tuple[int, int], None] = {}
    while len(pairs) < count:
        left, right = sorted(rng.choice(n_records, size=2, replace=False).tolist())
        pairs[left, right] = None
    return list(pairs)


def probable_pairs(same: Floats, known: np.ndarray, knowledge: Knowledge) -> list[tuple[int, int]]:
    """Return the pairs that are most probably the same, of those whose answer is not known; no record twice."""
    left, right = np.triu_indices(len(same), 1)
    is_open = known[left, right] == 0
    left, right = left[is_open], right[is_open]
    order = np.argsort(-same[left, right], kind="stable")
    pairs: list[tuple[int, int]] = []
    used: set[int] = set()
    for i, j in zip(left[order].tolist(), right[order].tolist(), strict=True):
        if used.isdisjoint((i, j)) and not knowledge.is_asked(i, j):
            pairs.append((i, j))
            used |= {i, j}
        if len(pairs) == BATCH:
            break
    return pairs


def run(setup: Setup, checkpoints: tuple[int, ...]) -> list[dict[str, float]]:
    """Return the scores of one run at each number of answers."""
    table = EntityRecords(seed=setup.seed)
    points, entities = table.points, table.entities
    rng = np.random.default_rng([setup.seed, QUESTIONS.index(setup.questions)])
    wrong = np.random.default_rng([setup.seed, 17]).random(max(checkpoints)) < setup.wrong_share
    waiting = {
        "random": lambda: draw_random_pairs(len(table), max(checkpoints), rng),
        "near": lambda: draw_near_pairs(points, rng),
        "probable": list,
    }[setup.questions]()
    tracker = MetricTracker(preprocessor=points, transitive=setup.use == USES[2]).start(points.shape[1])
    knowledge = Knowledge(len(table), implied=setup.use != USES[0])
    scores, n_same = [], 0
    for n_answers in range(BATCH, max(checkpoints) + 1, BATCH):
        if setup.questions == "probable":
            waiting = probable_pairs(probabilities(tracker, points), knowledge.known(), knowledge)
        pairs, waiting = waiting[:BATCH], waiting[BATCH:]
        truth = np.array([entities[left] == entities[right] for left, right in pairs])
        answers = truth != wrong[n_answers - BATCH : n_answers][: len(pairs)]
        for (left, right), same in zip(pairs, answers.tolist(), strict=True):
            knowledge.add(left, right, same)
        tracker.partial_fit(np.array(pairs), answers)
        n_same += int(truth.sum())
        if n_answers in checkpoints:
            groups = form_groups(probabilities(tracker, points), knowledge.known())
            precision, recall, f1 = score(entities, groups)
            scores.append({"precision": precision, "recall": recall, "F1": f1, "same": n_same})
    return scores
