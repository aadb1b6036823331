"""The paper's embeddings of product reviews (section VI-B, figures 4 and 5): learned, PCA, and the words themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator, svds

from ocelad._typing import Floats
from ocelad._validation import check_choice, check_integer, check_number
from ocelad.evaluation.scores import knn_error
from ocelad.evaluation.scores.sparse import sparse_knn_error
from ocelad.evaluation.streams import draw_pairs
from ocelad.evaluation.streams.reviews import PREPROCESSINGS, find_reviews, load_reviews, reviews_known
from ocelad.lab.baselines.comid_variants import inverse_root, rated_comid
from ocelad.lab.experiments.to_columns import columns
from ocelad.lab.runner import Answer, Runner, Task
from ocelad.pairs import Events

#: How many neighbours vote.
N_NEIGHBORS = 15
#: The learner's steps have fallen by sqrt(2) after so many pairs; 1 / sqrt(t) from the first pair on falls too early:
#: hundreds of words must be seen before the metric has a direction at all.
DECAY, MAX_RANK = 1000, 30
#: The embeddings, and the control: learned from labels that were dealt out anew, which tell nothing.
LEARNED, PCA, ORIGINAL, PERMUTED = "learned", "PCA", "original", "permuted"


def trial(task: Task, folder: str) -> Answer:
    """How many reviews their neighbours get wrong in each embedding, in percent, for one split and its pairs.

    Reviews that are held out are in no pair, nor in the shares of words or the PCA, and duplicates of them neither.
    (Which words are counted at all, the most frequent ones, is known from all reviews.)
    """
    reviews = reviews_known(folder, task["reviews"], task["words"])
    train, held_out = reviews.split(seed=task["seed"])
    labels = np.unique(reviews.labels(task["question"]), return_inverse=True)[1]
    points = reviews.points_for(train, task["features"])
    if task["permuted"]:
        labels = np.random.default_rng([task["seed"], 1]).permutation(labels)  # not as the split was drawn
        embedded = {PERMUTED: learned(points, labels, train, task)}
    else:
        embedded = {LEARNED: learned(points, labels, train, task), PCA: principal(points, train)}
    errors = {name: _errors(knn_error, X, labels, train, held_out) for name, X in embedded.items()}
    if not task["permuted"]:
        original = reviews.points(task["features"], idf_from=train)
        errors[ORIGINAL] = _errors(sparse_knn_error, original, labels, train, held_out)
    answer: Answer = {"errors": errors}
    if task["shown"]:
        answer["points"] = {name: _rounded(X).tolist() for name, X in embedded.items()}
    return answer


def learned(points: Any, labels: npt.NDArray[Any], train: npt.NDArray[np.int64], task: Task) -> Floats:
    """The first two directions of the metric that a single COMID learner finds from random pairs of training rows."""
    left, right, y = draw_pairs(labels, task["pairs"], task["seed"], rows=train)
    rate = inverse_root(task["step_size"], after=DECAY)
    learner = rated_comid(points.shape[1], rate=rate, engine="sparse", max_rank=MAX_RANK)
    learner.replay(Events(points[left] - points[right], y))
    return learner.play().embed(points, 2)


def principal(points: Any, train: npt.NDArray[np.int64]) -> Floats:
    """The two directions in which the training rows are spread most (PCA); sparse rows stay sparse."""
    rows = points[train]
    mean = np.asarray(rows.mean(axis=0)).ravel()
    centred = LinearOperator(
        rows.shape, matvec=lambda v: rows @ v - mean @ v, rmatvec=lambda v: rows.T @ v - mean * v.sum(), dtype=float
    )
    _, values, axes = svds(centred, k=2, v0=np.ones(min(rows.shape)))
    axes = axes[np.argsort(-values)]
    axes *= np.sign(axes[np.arange(2), np.abs(axes).argmax(axis=1)])[:, None]  # else a matter of chance
    return np.asarray(points @ axes.T)


def _errors(error: Callable[..., float], X: Any, labels: Any, train: Any, held_out: Any) -> list[float]:
    """Leave-one-out over all reviews, and of those held out by the training reviews; in percent.

    Counts make many ties, in which earlier rows vote. Reviews come sorted by their type, so they are shuffled first.
    """
    draw = np.random.default_rng(0)
    everyone, train = draw.permutation(len(labels)), draw.permutation(train)
    loo = error(X[everyone], labels[everyone], N_NEIGHBORS)
    unseen = error(X[train], labels[train], N_NEIGHBORS, test_points=X[held_out], test_labels=labels[held_out])
    return [100 * loo, 100 * unseen]


def _rounded(X: Floats) -> Floats:
    """To what a picture can show."""
    return np.asarray(np.round(X - np.median(X, axis=0), 4))


def tables(
    runner: Runner,
    data: Path | None,
    /,
    *,
    question: str,
    trials: int,
    first_seed: int,
    features: str,
    words: int,
    pairs: int,
    step_size: float,
) -> dict[str, dict[str, Any]]:
    """The errors in each embedding, trial by trial, and the points of the first trial.

    Parameters
    ----------
    question : {"type", "sentiment", "both", "star"}
        What makes two reviews similar.
    trials, first_seed : int
        How many splits into training and held-out reviews, and the seed of the first.
    features : str
        Preprocessings of the counts (``Reviews.points``), with blanks between.
    words : int
        How many words are counted, the most frequent ones.
    pairs : int
        From how many pairs the metric is learned.
    step_size : float
        eta0 of the learner.
    """
    check_integer(trials, "trials", at_least=1)
    check_integer(first_seed, "first_seed", at_least=0)
    check_integer(words, "words", at_least=3)  # PCA makes two dimensions of them
    check_integer(pairs, "pairs", at_least=1)
    check_number(step_size, "step_size", above=0)
    folder = str(find_reviews(data))
    reviews = load_reviews(folder, n_words=words)
    names = reviews.labels(question)
    chosen = features.split()
    for name in chosen or [""]:
        check_choice(name, "features", PREPROCESSINGS)
    common = {"reviews": reviews.fingerprint(), "words": words, "question": question, "pairs": pairs}
    tasks = [
        {**common, "step_size": step_size, "features": name, "seed": s, "permuted": permuted, "shown": shown}
        for name in chosen
        for s in range(first_seed, first_seed + trials)
        for permuted, shown in ((False, s == first_seed), (True, False))
    ]
    answers = runner.run(f"embeddings by {question}", trial, tasks, given=folder)
    errors = [
        {"features": task["features"], "embedding": embedding, "seed": task["seed"], "loo": loo, "held_out": held_out}
        for task, answer in zip(tasks, answers, strict=True)
        for embedding, (loo, held_out) in answer["errors"].items()
    ]
    is_held_out = np.isin(np.arange(len(reviews)), reviews.split(seed=first_seed)[1])
    points = [
        {"features": task["features"], "embedding": embedding, "x": x, "y": y, "label": label, "held_out": held}
        for task, answer in zip(tasks, answers, strict=True)
        for embedding, X in answer.get("points", {}).items()
        for (x, y), label, held in zip(X, names.tolist(), is_held_out.tolist(), strict=True)
    ]
    metadata = {**reviews.described(), "held_out": int(is_held_out.sum())}
    return {"errors": columns(errors), "points": columns(points), "reviews": columns([metadata])}
