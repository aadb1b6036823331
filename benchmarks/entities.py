"""Measure how well records are grouped by entity after some answers, with and without implied answers.

    python benchmarks/entities.py [--seeds 10] [--quick]

The records are those of ``EntityRecords``: about 730 records of 300 entities. Questions are answered by the known
entities, all correctly or, with near and chosen pairs, 10 % wrongly. The distance is updated after every 10 answers.
Questions are

- random pairs, which are almost never the same, so that nothing is implied,
- near pairs: a record and one of its 5 nearest neighbours by Euclidean distance, drawn at random,
- chosen by ``PairChooser``, with ``transitive`` where implied answers are used,
- probable pairs: half of them are near pairs, and half are most probably the same, of the pairs whose answer is not
  known (Wang et al. 2013, Leveraging transitive relations for crowdsourced joins).

Implied answers are not used; or used to choose questions and to form groups; or the distance learns from them, too
(``MetricTracker(transitive=True)``). Groups are formed by average linkage of the probabilities that pairs are the same,
down to a mean probability of 1/2; answers, and implied answers where they are used, replace probabilities by 0 and 1.
The table shows precision, recall and F1 of the pairs of records that are in one group, in %, and the mean number of
questions whose true answer is "same". The questions and the rule of groups were chosen on seeds 0 and 1.
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
from ocelad.choice import PairChooser, TrackerView
from ocelad.evaluation.streams import EntityRecords
from ocelad.lab.statistics import Estimate, estimate_mean, paired_difference
from ocelad.lab.trials import map_trials

QUESTIONS = ("random", "near", "chooser", "probable")
USES = ("none", "groups", "groups and learning")
WRONG_SHARES = (0.0, 0.1)
CHECKPOINTS = (100, 300, 1000)
FIRST_SEED = 3000
N_NEIGHBORS = 5
#: Answers between two updates of the distance.
BATCH = 10
#: Of the pairs that are most probably the same, this many are considered in each batch.
N_CANDIDATES = 4000


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
    distances = np.where(known == 0, 1.0 - same, np.where(known > 0, 0.0, 1.0))
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


def probable_pairs(same: Floats, known: np.ndarray, knowledge: Knowledge, count: int) -> list[tuple[int, int]]:
    """Return the pairs that are most probably the same, of those whose answer is not known; no record twice."""
    left, right = np.triu_indices(len(same), 1)
    odds = np.where(known[left, right] == 0, same[left, right], 0.0)
    best = np.argpartition(-odds, N_CANDIDATES)[:N_CANDIDATES]
    best = best[np.argsort(-odds[best], kind="stable")]
    pairs: list[tuple[int, int]] = []
    used: set[int] = set()
    for i, j in zip(left[best].tolist(), right[best].tolist(), strict=True):
        if used.isdisjoint((i, j)) and not knowledge.is_asked(i, j):
            pairs.append((i, j))
            used |= {i, j}
        if len(pairs) == count:
            break
    return pairs


class Questions:
    """Chooses the next pairs to ask about."""

    def __init__(self, setup: Setup, table: EntityRecords, knowledge: Knowledge) -> None:
        rng = np.random.default_rng([setup.seed, QUESTIONS.index(setup.questions)])
        self._kind, self._points, self._knowledge = setup.questions, table.points, knowledge
        self._waiting: list[tuple[int, int]] = []
        if self._kind == "random":
            self._waiting = draw_random_pairs(len(table), max(CHECKPOINTS), rng)
        elif self._kind != "chooser":
            self._waiting = draw_near_pairs(table.points, rng)
        self._chooser = PairChooser(len(table), transitive=setup.use != USES[0], seed=setup.seed)

    def next(self, tracker: MetricTracker) -> list[tuple[int, int]]:
        """Return the next pairs."""
        if self._kind == "chooser":
            view = TrackerView(tracker, self._points)
            choices = [self._chooser.next(view) for _ in range(BATCH)]
            return [(choice.left, choice.right) for choice in choices]
        probable: list[tuple[int, int]] = []
        if self._kind == "probable":
            known = self._knowledge.known()
            probable = probable_pairs(probabilities(tracker, self._points), known, self._knowledge, BATCH // 2)
            self._waiting = [pair for pair in self._waiting if not known[pair] and not self._knowledge.is_asked(*pair)]
        others = [pair for pair in self._waiting if pair not in probable][: BATCH - len(probable)]
        self._waiting = [pair for pair in self._waiting if pair not in others]
        return probable + others

    def record(self, left: int, right: int, same: bool) -> None:
        """Record an answer."""
        self._knowledge.add(left, right, same)
        self._chooser.record(left, right, "same" if same else "different")


def run(setup: Setup, checkpoints: tuple[int, ...]) -> list[dict[str, float]]:
    """Return the scores of one run at each number of answers."""
    table = EntityRecords(seed=setup.seed)
    wrong = np.random.default_rng([setup.seed, len(QUESTIONS)]).random(max(checkpoints)) < setup.wrong_share
    knowledge = Knowledge(len(table), implied=setup.use != USES[0])
    questions = Questions(setup, table, knowledge)
    tracker = MetricTracker(preprocessor=table.points, transitive=setup.use == USES[2]).start(table.points.shape[1])
    scores, n_same = [], 0
    for n_answers in range(BATCH, max(checkpoints) + 1, BATCH):
        pairs = np.array(questions.next(tracker))
        truth = table.entities[pairs[:, 0]] == table.entities[pairs[:, 1]]
        answers = truth != wrong[n_answers - BATCH : n_answers]
        for (left, right), same in zip(pairs.tolist(), answers.tolist(), strict=True):
            questions.record(left, right, same)
        tracker.partial_fit(pairs, answers)
        n_same += int(truth.sum())
        if n_answers in checkpoints:
            groups = form_groups(probabilities(tracker, table.points), knowledge.known())
            precision, recall, f1 = score(table.entities, groups)
            scores.append({"precision": precision, "recall": recall, "F1": f1, "same": n_same})
    return scores


def best_euclidean(seed: int) -> list[float]:
    """Return precision, recall and F1 by Euclidean distance, with the threshold that is best for the true entities."""
    table = EntityRecords(seed=seed)
    linkage = average(pdist(table.points))
    cuts = np.quantile(linkage[:, 2], np.linspace(0.02, 0.98, 49))
    return list(max((score(table.entities, fcluster(linkage, cut, "distance")) for cut in cuts), key=lambda s: s[2]))


def describe(estimate: Estimate) -> str:
    return f"{estimate.mean:.1f} ± {estimate.standard_error:.1f}"


def make_rows(setups: list[Setup], results: list[list[dict[str, float]]], checkpoints: tuple[int, ...]) -> list[Any]:
    """Return one row for each way to ask, use of implied answers, share of wrong answers and number of answers."""
    values = {
        (setup, n_answers): scores
        for setup, of_run in zip(setups, results, strict=True)
        for n_answers, scores in zip(checkpoints, of_run, strict=True)
    }
    seeds = sorted({setup.seed for setup in setups})
    rows = []
    for first in [setup for setup in setups if setup.seed == seeds[0]]:
        for n_answers in checkpoints:
            runs = [values[first._replace(seed=seed), n_answers] for seed in seeds]
            baseline = [values[first._replace(seed=seed, use=USES[0]), n_answers]["F1"] for seed in seeds]
            f1 = np.array([scores["F1"] for scores in runs])
            rows.append(
                {
                    "wrong": f"{100 * first.wrong_share:.0f} %",
                    "questions": first.questions,
                    "implied": first.use,
                    "answers": n_answers,
                    "same": float(np.mean([scores["same"] for scores in runs])),
                    "precision": float(np.mean([scores["precision"] for scores in runs])),
                    "recall": float(np.mean([scores["recall"] for scores in runs])),
                    "F1": describe(estimate_mean(f1)),
                    "F1 - none": describe(paired_difference(f1, np.array(baseline))),
                }
            )
    return rows


@click.command()
@click.option("--seeds", default=10, show_default=True, type=click.IntRange(2), help="The number of seeds.")
@click.option("--first", default=FIRST_SEED, show_default=True, type=click.IntRange(0), help="The first seed.")
@click.option("--quick", is_flag=True, help="Stop after 100 answers, and save nothing.")
def main(seeds: int, first: int, quick: bool) -> None:
    """Measure all ways to ask and to use implied answers, and print the table."""
    console = Console(width=120)
    checkpoints = CHECKPOINTS[:1] if quick else CHECKPOINTS
    setups = [
        Setup(questions, use, wrong_share, seed)
        for wrong_share in WRONG_SHARES
        for questions in QUESTIONS
        for use in USES
        for seed in range(first, first + seeds)
        if wrong_share == 0.0 or questions in ("near", "chooser")
        if use == USES[0] or questions != "random"  # random pairs find hardly any records to group
    ]
    with Progress(console=console) as bar:
        job = bar.add_task("runs", total=len(setups))
        results = map_trials(
            partial(run, checkpoints=checkpoints),
            setups,
            backend="processes",
            progress=lambda done: bar.update(job, completed=done),
        )
    rows = make_rows(setups, results, checkpoints)
    show(console, f"Pairs of records in one group: precision, recall and F1 in %, means over {seeds} seeds", rows)
    reference = [best_euclidean(seed) for seed in range(first, first + seeds)]
    precision, recall, f1 = (describe(estimate_mean(column)) for column in np.array(reference).T)
    console.print(f"Euclidean distance with the best threshold: precision {precision}, recall {recall}, F1 {f1}")
    if not quick:
        settings = {"seeds": [first, first + seeds - 1], "best Euclidean": [precision, recall, f1]}
        console.print(f"Written to {save('entities', settings, rows)}")


if __name__ == "__main__":
    main()
