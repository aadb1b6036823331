"""Measure whether few answers make the neighbours of embeddings worse than Euclidean distance, in the service itself.

    OCELAD_DATA=... python benchmarks/service_few_answers.py [--seeds 20] [--items 1000]

A project with the default settings is created for each seed. Its ``PairChooser`` chooses the pairs, the true classes
answer them, and answers are stored and learned from as those of people are. After 10, 30 and 60 answers, each of 400
items is classified by its five nearest neighbours among all other items, as the view of the service finds them. The
error is compared with that of Euclidean distance on the same features and the same items. All embeddings have 384
dimensions and unit length:

- reviews by latent semantic analysis, about their kind of product, their sentiment, or both; this needs the folder
  ``OCELAD_DATA`` with the multi-domain sentiment data, and is left out without it
- "spectrum": ten classes whose centres and noise have the same decreasing variances, as trained embeddings do
- "few directions": four classes that differ in five of all directions only; the noise has the same variance everywhere

"worse" is the difference of the errors in points (percent); negative means that teaching has helped. The standard error
is over seeds, which begin at 5000 and were never used for tuning.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import click
import numpy as np
from results import save, show
from rich.console import Console

from ocelad.choice import PairChooser
from ocelad.service.entries import NewEntry
from ocelad.service.items import fit_scaling
from ocelad.service.itemset import ItemSet
from ocelad.service.learning import View
from ocelad.service.served_project import ServedProject
from ocelad.service.service import Service
from ocelad.service.settings import Settings

N_FEATURES, N_NEIGHBORS, N_QUERIES, FIRST_SEED = 384, 5, 400, 5000
CHECKPOINTS = (10, 30, 60)
Labelled = tuple[np.ndarray, np.ndarray]


def normalize(X: np.ndarray) -> np.ndarray:
    """Return points of unit length in float32, as models give them."""
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


def draw_reviews(question: str, n_items: int, seed: int) -> Labelled:
    """Draw reviews of all kinds, and their classes for a question."""
    from ocelad.lab.compare.few_answers.labelled_points import reviews

    points = reviews(N_FEATURES, question)
    rows = np.random.default_rng(seed).choice(len(points), n_items, replace=False)
    return normalize(points.X[rows]), np.unique(points.classes, return_inverse=True)[1][rows]


def draw_spectrum(n_items: int, seed: int) -> Labelled:
    """Draw ten classes whose centres and noise have decreasing variances."""
    rng = np.random.default_rng(seed)
    deviations = np.arange(1, N_FEATURES + 1) ** -0.5
    classes = rng.integers(10, size=n_items)
    centers = rng.normal(size=(10, N_FEATURES)) * deviations
    noise = 2.0 * rng.normal(size=(n_items, N_FEATURES)) * deviations
    return normalize(centers[classes] + noise), classes


def draw_few_directions(n_items: int, seed: int) -> Labelled:
    """Draw four classes that differ in five random directions only."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(4, size=n_items)
    directions = np.linalg.qr(rng.normal(size=(N_FEATURES, 5)))[0]
    means = rng.normal(size=(4, 5))
    means *= 4.0 / np.linalg.norm(means, axis=1, keepdims=True)
    return normalize(means[classes] @ directions.T + rng.normal(size=(n_items, N_FEATURES))), classes


def benchmarks() -> dict[str, Callable[[int, int], Labelled]]:
    """Return the functions that draw items and classes, by name."""
    drawn: dict[str, Callable[[int, int], Labelled]] = {
        "spectrum": draw_spectrum,
        "few directions": draw_few_directions,
    }
    if "OCELAD_DATA" not in os.environ:
        return drawn
    return {
        f"reviews: {question}": partial(draw_reviews, question) for question in ("type", "sentiment", "both")
    } | drawn


def vote(classes: np.ndarray, neighbors: np.ndarray) -> int:
    """Return the most frequent class of the neighbours; of several, that of the nearest."""
    found = classes[neighbors]
    counts = np.bincount(found)
    return int(next(each for each in found if counts[each] == counts.max()))


def knn_error(classes: np.ndarray, queries: np.ndarray, find: Callable[[int], np.ndarray]) -> float:
    """Return the error in percent of the classes that the neighbours vote for."""
    return 100 * float(np.mean([vote(classes, find(int(query))) != classes[query] for query in queries]))


def euclidean_neighbors(X: np.ndarray, query: int) -> np.ndarray:
    """Return the nearest items by Euclidean distance, without the item itself."""
    squares = np.square(X.astype(np.float64) - X[query]).sum(axis=1)
    squares[query] = np.inf
    return np.argsort(squares, kind="stable")[:N_NEIGHBORS]


def view_neighbors(view: View, query: int) -> np.ndarray:
    """Return the nearest items as the service finds them, without the item itself."""
    return view.neighbors(query, N_NEIGHBORS)[0]


def answer(service: Service, project: ServedProject, classes: np.ndarray, count: int) -> None:
    """Answer as many pairs as given, each chosen after the last one has been learned from."""
    for _ in range(count):
        choice = project.chooser.next(project.view)
        same = "same" if classes[choice.left] == classes[choice.right] else "different"
        service.store.append(project.id, [NewEntry(choice.left, choice.right, same, choice.source)]).result()
        assert project.learner.wait(project.seq, 120)


def run_seed(draw: Callable[[int, int], Labelled], n_items: int, seed: int) -> list[float]:
    """Return the errors of one project: Euclidean, without answers, and after each checkpoint."""
    X, classes = draw(n_items, seed)
    ids, names = tuple(map(str, range(n_items))), tuple(map(str, range(N_FEATURES)))
    queries = np.random.default_rng([seed, 1]).choice(n_items, min(N_QUERIES, n_items), replace=False)
    errors = [knn_error(classes, queries, partial(euclidean_neighbors, X))]
    # The service draws pairs differently in each run; the seed makes this one reproducible.
    seeded = patch("ocelad.service.served_project.PairChooser", partial(PairChooser, seed=seed))
    with TemporaryDirectory() as folder, seeded:
        service = Service.open(Settings(folder=Path(folder)))
        try:
            service.create("few", "Few answers", ItemSet(ids, X, names, fit_scaling(X, "all")))
            project = service.project("few")
            for first, last in pairwise((0, 0, *CHECKPOINTS)):
                answer(service, project, classes, last - first)
                errors.append(knn_error(classes, queries, partial(view_neighbors, project.view)))
        finally:
            service.close()
    return errors


def summarize(name: str, errors: np.ndarray) -> list[dict[str, Any]]:
    """Return a row for each number of answers."""
    rows = []
    for column, n_answers in enumerate((0, *CHECKPOINTS), 1):
        worse = errors[:, column] - errors[:, 0]
        rows.append(
            {
                "embeddings": name,
                "answers": n_answers,
                "Euclidean error, %": float(errors[:, 0].mean()),
                "error, %": float(errors[:, column].mean()),
                "worse, points": float(worse.mean()),
                "standard error": float(worse.std(ddof=1) / np.sqrt(len(worse))) if len(worse) > 1 else 0.0,
                "worst seed": float(worse.max()),
            }
        )
    return rows


@click.command()
@click.option("--seeds", default=20, show_default=True, type=click.IntRange(1), help="The number of seeds.")
@click.option("--items", default=1000, show_default=True, type=click.IntRange(50), help="The number of items.")
def main(seeds: int, items: int) -> None:
    """Measure all embeddings, print the table and store it."""
    console = Console(width=120)
    rows: list[dict[str, Any]] = []
    for name, draw in benchmarks().items():
        errors = np.array([run_seed(draw, items, FIRST_SEED + i) for i in range(seeds)])
        rows += summarize(name, errors)
        show(console, f"{name}: {seeds} seeds", rows[-1 - len(CHECKPOINTS) :])
    settings = {"seeds": seeds, "first seed": FIRST_SEED, "items": items, "features": N_FEATURES, "k": N_NEIGHBORS}
    console.print(f"Written to {save('service-few-answers', settings, rows)}")


if __name__ == "__main__":
    main()
