"""The paper's embeddings of product reviews (section VI-B, figures 4 and 5): learned, PCA, and all words."""

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
from ocelad.evaluation.scores.sparse_knn import sparse_knn_error
from ocelad.evaluation.streams import draw_pairs
from ocelad.evaluation.streams.reviews import PREPROCESSINGS, find_review_folder, load_reviews, load_verified_reviews
from ocelad.lab.baselines.comid_variants import inverse_root, scheduled_comid
from ocelad.lab.experiments.review_domains import check_domains, parse_domains
from ocelad.lab.experiments.to_columns import to_columns
from ocelad.lab.runner import Answer, Runner, Task
from ocelad.pairs import Events

#: The number of neighbours that vote.
N_NEIGHBORS = 15
#: The number of pairs after which the learner's step size has fallen by sqrt(2). A step size of 1 / sqrt(t) from the
#: first pair on falls too early: the metric has no useful direction before hundreds of words have been seen.
DECAY = 1000
MAX_RANK = 30
#: The embeddings, and the control, which is learned from randomly permuted labels.
LEARNED, PCA, ORIGINAL, PERMUTED = "learned", "PCA", "original", "permuted"


def trial(task: Task, folder: str) -> Answer:
    """Return the k-NN errors in each embedding, in percent, for one split into training and held-out reviews.

    Held-out reviews and their duplicates are used neither for pairs nor for the document frequencies nor for the PCA.
    Only the vocabulary, the most frequent words, comes from all reviews.
    """
    reviews = load_verified_reviews(folder, task["reviews"], task["words"], tuple(task["domains"]))
    train, held_out = reviews.split(seed=task["seed"])
    labels = np.unique(reviews.labels(task["question"]), return_inverse=True)[1]
    points = reviews.points_for(train, task["features"])
    if task["permuted"]:
        # Another seed than that of the split, so that the permutation is independent of it.
        labels = np.random.default_rng([task["seed"], 1]).permutation(labels)
        embedded = {PERMUTED: embed_learned(points, labels, train, task)}
    else:
        embedded = {LEARNED: embed_learned(points, labels, train, task), PCA: embed_pca(points, train)}
    errors = {name: _errors(knn_error, X, labels, train, held_out) for name, X in embedded.items()}
    if not task["permuted"]:
        original = reviews.points(task["features"], idf_from=train)
        errors[ORIGINAL] = _errors(sparse_knn_error, original, labels, train, held_out)
    answer: Answer = {"errors": errors}
    if task["shown"]:
        answer["points"] = {name: _center_and_round(X).tolist() for name, X in embedded.items()}
    return answer


def embed_learned(points: Any, labels: npt.NDArray[Any], train: npt.NDArray[np.int64], task: Task) -> Floats:
    """Embed by the first two directions of the metric that one COMID learner finds from random training pairs."""
    left, right, y = draw_pairs(labels, task["pairs"], task["seed"], rows=train)
    rate = inverse_root(task["step_size"], after=DECAY)
    learner = scheduled_comid(points.shape[1], rate=rate, engine="sparse", max_rank=MAX_RANK)
    learner.replay(Events(points[left] - points[right], y))
    return learner.play().embed(points, 2)


def embed_pca(points: Any, train: npt.NDArray[np.int64]) -> Floats:
    """Embed by the first two principal components of the training rows, without making sparse rows dense."""
    rows = points[train]
    mean = np.asarray(rows.mean(axis=0)).ravel()
    centred = LinearOperator(
        rows.shape, matvec=lambda v: rows @ v - mean @ v, rmatvec=lambda v: rows.T @ v - mean * v.sum(), dtype=float
    )
    _, values, axes = svds(centred, k=2, v0=np.ones(min(rows.shape)))
    axes = axes[np.argsort(-values)]
    axes *= np.sign(axes[np.arange(2), np.abs(axes).argmax(axis=1)])[:, None]  # makes the signs deterministic
    return np.asarray(points @ axes.T)


def _errors(error: Callable[..., float], X: Any, labels: Any, train: Any, held_out: Any) -> list[float]:
    """Return the leave-one-out error over all reviews and the error on the held-out reviews, in percent.

    Counts give many equal distances, among which earlier rows vote. The reviews are sorted by type, so that they are
    shuffled first.
    """
    rng = np.random.default_rng(0)
    shuffled, train = rng.permutation(len(labels)), rng.permutation(train)
    loo = error(X[shuffled], labels[shuffled], N_NEIGHBORS)
    unseen = error(X[train], labels[train], N_NEIGHBORS, test_points=X[held_out], test_labels=labels[held_out])
    return [100 * loo, 100 * unseen]


def _center_and_round(X: Floats) -> Floats:
    """Move the median to the origin, and round to the precision that a picture can show."""
    return np.asarray(np.round(X - np.median(X, axis=0), 4))


def compute_tables(
    runner: Runner,
    reviews_folder: Path | None,
    /,
    *,
    question: str,
    trials: int,
    first_seed: int,
    domains: str,
    features: str,
    words: int,
    pairs: int,
    step_size: float,
) -> dict[str, dict[str, Any]]:
    """Compute the errors of each trial in each embedding, and the points of the first trial.

    Parameters
    ----------
    question : {"type", "sentiment", "both", "star"}
        The property that two similar reviews share.
    trials, first_seed : int
        The number of splits into training and held-out reviews, and the seed of the first.
    domains : str
        The two product types, separated by a blank.
    features : str
        Preprocessings of the counts (``Reviews.points``), separated by blanks.
    words : int
        The size of the vocabulary, the most frequent words.
    pairs : int
        The number of pairs that the metric is learned from.
    step_size : float
        eta0 of the learner.
    """
    check_integer(trials, "trials", at_least=1)
    check_integer(first_seed, "first_seed", at_least=0)
    check_integer(words, "words", at_least=3)  # the truncated SVD needs more columns than components
    check_integer(pairs, "pairs", at_least=1)
    check_number(step_size, "step_size", above=0)
    folder, pair = str(find_review_folder(reviews_folder)), parse_domains(domains)
    check_domains(pair, folder)
    reviews = load_reviews(folder, n_words=words, domains=pair)
    names = reviews.labels(question)
    preprocessings = features.split()
    for name in preprocessings or [""]:
        check_choice(name, "features", PREPROCESSINGS)
    common = {
        "reviews": reviews.fingerprint(),
        "domains": list(pair),
        "words": words,
        "question": question,
        "pairs": pairs,
    }
    tasks = [
        {**common, "step_size": step_size, "features": name, "seed": s, "permuted": permuted, "shown": shown}
        for name in preprocessings
        for s in range(first_seed, first_seed + trials)
        for permuted, shown in ((False, s == first_seed), (True, False))
    ]
    answers = runner.run(f"embeddings by {question}", trial, tasks, context=folder)
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
    metadata = {**reviews.summary(), "held_out": int(is_held_out.sum())}
    return {"errors": to_columns(errors), "points": to_columns(points), "reviews": to_columns([metadata])}
