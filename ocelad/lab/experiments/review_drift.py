"""The paper's drift experiment on product reviews (section VI-B, figure 6): what is asked of the reviews changes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from ocelad._validation import check_choice, check_integer, check_number
from ocelad.engines.track import track_metric
from ocelad.evaluation.scores import knn_error
from ocelad.evaluation.streams.reviews import PREPROCESSINGS, find_reviews, load_reviews, reviews_known
from ocelad.lab.baselines.comid_variants import inverse_root, rated_comid
from ocelad.lab.experiments.columns import columns
from ocelad.lab.runner import Answer, Runner, Task
from ocelad.metric import Metric
from ocelad.pairs import Events

#: How many neighbours vote, in how many dimensions of the embedding.
N_NEIGHBORS, N_DIMENSIONS = 15, 5
#: What is asked first; then it is the type.
BEFORE, AFTER = ("both", "sentiment"), "type"
RICE, ORACLE, FROZEN = "rice", "oracle", "frozen"
#: After how many pairs since the change the metrics are judged, as far as there are so many.
CHECKPOINTS = (0, 100, 200, 500, 1000, 2000, 5000, 10_000)
#: The single learners' steps have fallen by sqrt(2) after so many pairs.
DECAY, MAX_RANK = 1000, 30


def trial(task: Task, folder: str) -> Answer:
    """The error on held-out reviews, in percent, of each method at each checkpoint after the change.

    All methods see the same pairs of training reviews. The oracle knows of the change and starts anew with it; the
    frozen one has learned what was asked before, and learns no more.
    """
    reviews = reviews_known(folder, task["reviews"], task["words"])
    split = reviews.split(seed=task["seed"])
    points = reviews.points_for(split[0], task["features"])

    def events(question: str, n_pairs: int, seed: int) -> Events:
        left, right, y = reviews.pairs(split[0], question, n_pairs, seed)
        return Events(points[left] - points[right], y)

    def judged(metric: Metric, question: str = AFTER) -> float:
        embedded, labels = metric.embed(points, N_DIMENSIONS), reviews.labels(question)
        (X, y), (test_points, test_labels) = ((embedded[rows], labels[rows]) for rows in split)
        return 100 * knn_error(X, y, N_NEIGHBORS, test_points=test_points, test_labels=test_labels)

    n = points.shape[1]
    rice = track_metric(
        n,
        loss="hinge",
        step_size=task["step_size"],
        shortest_interval=64,
        n_scales=9,
        max_norm=task["max_norm"],
        engine="sparse",
        max_rank=MAX_RANK,
    )
    frozen, oracle = (
        rated_comid(n, rate=inverse_root(task[f"{name}_step_size"], after=DECAY), engine="sparse", max_rank=MAX_RANK)
        for name in ("static", "oracle")
    )
    before = events(task["before"], task["pairs_before"], 2 * task["seed"])
    after = events(AFTER, task["pairs_after"], 2 * task["seed"] + 1)
    rice.replay(before)
    frozen.replay(before)
    own = {RICE: judged(rice.play(), task["before"]), FROZEN: judged(frozen.play(), task["before"])}
    stays = judged(frozen.play())
    errors: dict[str, list[tuple[int, float]]] = {RICE: [(0, judged(rice.play()))], ORACLE: [], FROZEN: [(0, stays)]}
    for first, last in pairwise(checkpoints(task["pairs_after"])):
        rice.replay(after[first:last])
        oracle.replay(after[first:last])
        errors[RICE].append((last, judged(rice.play())))
        errors[ORACLE].append((last, judged(oracle.play())))
        errors[FROZEN].append((last, stays))
    return {"errors": errors, "before": own}


def checkpoints(pairs_after: int) -> list[int]:
    """Those that are reached, and the end.

    >>> checkpoints(600)
    [0, 100, 200, 500, 600]
    """
    return [*(at for at in CHECKPOINTS if at < pairs_after), pairs_after]


def tables(
    runner: Runner,
    data: Path | None,
    /,
    *,
    trials: int,
    first_seed: int,
    features: str,
    words: int,
    pairs_before: int,
    pairs_after: int,
    step_size: float,
    max_norm: float,
    oracle_step_size: float,
    static_step_size: float,
) -> dict[str, dict[str, Any]]:
    """The errors of all methods by the number of pairs since the change, trial by trial.

    Parameters
    ----------
    trials, first_seed : int
        How many splits into training and held-out reviews, and the seed of the first.
    features : str
        The preprocessing of the counts (``Reviews.points``).
    words : int
        How many words are counted, the most frequent ones.
    pairs_before, pairs_after : int
        From how many pairs is learned before the change, and after it.
    step_size, max_norm : float
        Of RICE-OCELAD. The paper's regret bounds suppose that the metrics are bounded, and here it decides: one that
        has grown for long takes thousands of pairs to turn.
    oracle_step_size, static_step_size : float
        eta0 of the learner that starts anew with the change, and of the one that learns no more after it.
    """
    for name, count in (("trials", trials), ("pairs_before", pairs_before), ("pairs_after", pairs_after)):
        check_integer(count, name, at_least=1)
    check_integer(first_seed, "first_seed", at_least=0)
    check_integer(words, "words", at_least=N_DIMENSIONS)
    sizes = {"step_size": step_size, "oracle_step_size": oracle_step_size, "static_step_size": static_step_size}
    for name, value in {**sizes, "max_norm": max_norm}.items():
        check_number(value, name, above=0)
    folder = str(find_reviews(data))
    reviews = load_reviews(folder, n_words=words)
    check_choice(features, "features", PREPROCESSINGS)
    common = {
        "reviews": reviews.fingerprint(),
        "words": words,
        "features": features,
        "pairs_before": pairs_before,
        "pairs_after": pairs_after,
        **sizes,
        "max_norm": max_norm,
    }
    tasks = [
        {**common, "before": before, "seed": s} for before in BEFORE for s in range(first_seed, first_seed + trials)
    ]
    answers = runner.run("reviews that change", trial, tasks, given=folder)
    errors = [
        {"before": task["before"], "method": method, "seed": task["seed"], "pairs": pairs, "error": error}
        for task, answer in zip(tasks, answers, strict=True)
        for method, by_pairs in answer["errors"].items()
        for pairs, error in by_pairs
    ]
    own = [
        {"question": task["before"], "method": method, "seed": task["seed"], "error": error}
        for task, answer in zip(tasks, answers, strict=True)
        for method, error in answer["before"].items()
    ]
    return {"errors": columns(errors), "before": columns(own), "reviews": columns([reviews.described()])}
