"""The paper's drift experiment on product reviews (section VI-B, figure 6): the definition of "similar" changes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from ocelad._validation import check_choice, check_integer, check_number
from ocelad.engines.rice import track_metric
from ocelad.evaluation.scores import knn_error
from ocelad.evaluation.streams.reviews import PREPROCESSINGS, find_review_folder, load_reviews, load_verified_reviews
from ocelad.lab.baselines.comid_variants import inverse_root, scheduled_comid
from ocelad.lab.experiments.review_domains import check_domains, parse_domains
from ocelad.lab.experiments.to_columns import to_columns
from ocelad.lab.runner import Answer, Runner, Task
from ocelad.metric import Metric
from ocelad.pairs import Events

#: The number of neighbours that vote, and the number of dimensions of the embedding.
N_NEIGHBORS, N_DIMENSIONS = 15, 5
#: The questions before the change (one per experiment) and after it.
BEFORE, AFTER = ("both", "sentiment"), "type"
RICE, ORACLE, FROZEN = "rice", "oracle", "frozen"
#: The numbers of pairs since the change after which the metrics are evaluated.
CHECKPOINTS = (0, 100, 200, 500, 1000, 2000, 5000, 10_000)
#: The number of pairs after which the single learners' step size has fallen by sqrt(2).
DECAY = 1000
MAX_RANK = 30
#: RICE-OCELAD's shortest interval and its number of scales.
SHORTEST_INTERVAL, N_SCALES = 64, 9


def trial(task: Task, folder: str) -> Answer:
    """Return the error on held-out reviews, in percent, of each method at each checkpoint after the change.

    All methods see the same pairs of training reviews. The oracle is restarted at the change. The frozen learner stops
    learning at the change.
    """
    reviews = load_verified_reviews(folder, task["reviews"], task["words"], tuple(task["domains"]))
    split = reviews.split(seed=task["seed"])
    points = reviews.points_for(split[0], task["features"])

    def events(question: str, n_pairs: int, seed: int) -> Events:
        left, right, y = reviews.pairs(split[0], question, n_pairs, seed)
        return Events(points[left] - points[right], y)

    def held_out_error(metric: Metric, question: str = AFTER) -> float:
        embedded, labels = metric.embed(points, N_DIMENSIONS), reviews.labels(question)
        (X, y), (test_points, test_labels) = ((embedded[rows], labels[rows]) for rows in split)
        return 100 * knn_error(X, y, N_NEIGHBORS, test_points=test_points, test_labels=test_labels)

    n = points.shape[1]
    rice = track_metric(
        n,
        loss="hinge",
        step_size=task["step_size"],
        shortest_interval=SHORTEST_INTERVAL,
        n_scales=N_SCALES,
        max_norm=task["max_norm"],
        engine="sparse",
        max_rank=MAX_RANK,
    )
    frozen, oracle = (
        scheduled_comid(
            n, rate=inverse_root(task[f"{name}_step_size"], after=DECAY), engine="sparse", max_rank=MAX_RANK
        )
        for name in ("static", "oracle")
    )
    before = events(task["before"], task["pairs_before"], 2 * task["seed"])
    after = events(AFTER, task["pairs_after"], 2 * task["seed"] + 1)
    rice.replay(before)
    frozen.replay(before)
    before_change = {
        RICE: held_out_error(rice.play(), task["before"]),
        FROZEN: held_out_error(frozen.play(), task["before"]),
    }
    frozen_error = held_out_error(frozen.play())
    errors: dict[str, list[tuple[int, float]]] = {
        RICE: [(0, held_out_error(rice.play()))],
        ORACLE: [],
        FROZEN: [(0, frozen_error)],
    }
    for first, last in pairwise(checkpoints(task["pairs_after"])):
        rice.replay(after[first:last])
        oracle.replay(after[first:last])
        errors[RICE].append((last, held_out_error(rice.play())))
        errors[ORACLE].append((last, held_out_error(oracle.play())))
        errors[FROZEN].append((last, frozen_error))
    return {"errors": errors, "before": before_change}


def checkpoints(pairs_after: int) -> list[int]:
    """Return the checkpoints that are reached, and the last pair.

    >>> checkpoints(600)
    [0, 100, 200, 500, 600]
    """
    return [*(at for at in CHECKPOINTS if at < pairs_after), pairs_after]


def compute_tables(
    runner: Runner,
    reviews_folder: Path | None,
    /,
    *,
    trials: int,
    first_seed: int,
    domains: str,
    features: str,
    words: int,
    pairs_before: int,
    pairs_after: int,
    step_size: float,
    max_norm: float,
    oracle_step_size: float,
    static_step_size: float,
) -> dict[str, dict[str, Any]]:
    """Compute the errors of all methods in each trial by the number of pairs since the change.

    Parameters
    ----------
    trials, first_seed : int
        The number of splits into training and held-out reviews, and the seed of the first.
    domains : str
        The two product types, separated by a blank.
    features : str
        The preprocessing of the counts (``Reviews.points``).
    words : int
        The size of the vocabulary, the most frequent words.
    pairs_before, pairs_after : int
        The number of pairs before the change, and after it.
    step_size, max_norm : float
        Settings of RICE-OCELAD. The paper's regret bounds assume bounded metrics. Here the bound matters: a metric that
        has grown for a long time needs thousands of pairs to turn.
    oracle_step_size, static_step_size : float
        eta0 of the oracle, and of the frozen learner.
    """
    for name, count in (("trials", trials), ("pairs_before", pairs_before), ("pairs_after", pairs_after)):
        check_integer(count, name, at_least=1)
    check_integer(first_seed, "first_seed", at_least=0)
    check_integer(words, "words", at_least=N_DIMENSIONS)
    sizes = {"step_size": step_size, "oracle_step_size": oracle_step_size, "static_step_size": static_step_size}
    for name, value in {**sizes, "max_norm": max_norm}.items():
        check_number(value, name, above=0)
    folder, pair = str(find_review_folder(reviews_folder)), parse_domains(domains)
    check_domains(pair, folder)
    reviews = load_reviews(folder, n_words=words, domains=pair)
    check_choice(features, "features", PREPROCESSINGS)
    common = {
        "reviews": reviews.fingerprint(),
        "domains": list(pair),
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
    answers = runner.run("reviews that change", trial, tasks, context=folder)
    errors = [
        {"before": task["before"], "method": method, "seed": task["seed"], "pairs": pairs, "error": error}
        for task, answer in zip(tasks, answers, strict=True)
        for method, by_pairs in answer["errors"].items()
        for pairs, error in by_pairs
    ]
    before_change = [
        {"question": task["before"], "method": method, "seed": task["seed"], "error": error}
        for task, answer in zip(tasks, answers, strict=True)
        for method, error in answer["before"].items()
    ]
    return {
        "errors": to_columns(errors),
        "before": to_columns(before_change),
        "reviews": to_columns([reviews.summary()]),
    }
