"""CPU milliseconds of an evaluation, beside scikit-learn's; and of drawing the paper's stream.

    python benchmarks/scores.py

An evaluation is the leave-one-out 5-NN error and the NMI of k-means (best of ten runs) of points of the paper's
scenario in three classes: as the truth sees them (three dimensions), as a metric that has learned sees them, and as
they are (25 dimensions, of which 22 are noise). CPU time of one thread; the least of several. "same error":
whether the k-NN errors are equal. "both": the two scores of points that are made ready once. The stream is that of
6000 rounds, moment by moment, and all its events at once; beside it its rotations alone, drawn round by round as they
are defined.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from results import save, show
from rich.console import Console
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score, roc_auc_score
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from ocelad.evaluation.prequential import clustering_nmi, knn_error, knn_error_and_nmi, pair_auc
from ocelad.evaluation.scores.precompile import precompile_scores
from ocelad.evaluation.streams import DriftingClusters

REPEATS = 15
# How much a metric that has learned still sees of the dimensions that do not matter.
LEARNED = np.append(np.ones(3), np.full(22, 0.3))


def their_error(X: np.ndarray, labels: np.ndarray) -> float:
    nearest = NearestNeighbors(n_neighbors=5, algorithm="brute").fit(X).kneighbors(return_distance=False)
    votes = np.eye(labels.max() + 1)[labels[nearest]].sum(axis=1)
    return float(np.mean(votes.argmax(axis=1) != labels))


def their_nmi(X: np.ndarray, labels: np.ndarray) -> float:
    clusters = KMeans(labels.max() + 1, n_init=10, random_state=0).fit_predict(X)
    return float(normalized_mutual_info_score(labels, clusters))


def milliseconds(*calls: Callable[[], object], repeats: int = REPEATS) -> list[float]:
    """The least CPU time of each, taken in turns, so that what else the machine does meets all alike."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for call, taken in zip(calls, times, strict=True):
            start = time.thread_time()
            call()
            taken.append(1e3 * (time.thread_time() - start))
    return [min(taken) for taken in times]


def evaluation(name: str, n_points: int, weights: np.ndarray) -> dict[str, Any]:
    moment = next(iter(DriftingClusters(n_points=n_points)))
    X, labels = moment.points()[:, : len(weights)] * weights, moment.labels
    knn, their_knn = milliseconds(lambda: knn_error(X, labels), lambda: their_error(X, labels))
    nmi, theirs = milliseconds(lambda: clustering_nmi(X, labels), lambda: their_nmi(X, labels))
    (both,) = milliseconds(lambda: knn_error_and_nmi(X, labels))
    return {
        "points": f"{n_points} x {len(weights)}, {name}",
        "k-NN ms": knn,
        "NMI ms": nmi,
        "both ms": both,
        "scikit-learn's k-NN": their_knn,
        "its NMI": theirs,
        "times faster": (their_knn + theirs) / both,
        "same error": str(knn_error(X, labels) == their_error(X, labels)),
    }


def one_by_one(stream: DriftingClusters) -> None:
    """The rotations of a stream as they are defined, round by round."""
    draw, eye = np.random.default_rng(0), np.eye(stream.n_features)
    rotation, upper = eye, np.triu_indices(stream.n_features, 1)
    for phase in stream.phases:
        for _ in range(phase.length if phase.drift else 0):
            skew = np.zeros_like(eye)
            skew[upper] = draw.normal(scale=phase.drift / np.sqrt(6 * (stream.n_features - 3)), size=len(upper[0]))
            skew -= skew.T
            rotation = np.linalg.solve(eye - skew / 2, eye + skew / 2) @ rotation


def drawing() -> list[dict[str, Any]]:
    stream = DriftingClusters()
    calls = {
        "moment by moment": lambda: list(stream),
        "all events at once": stream.events,
        "its rotations one by one": lambda: one_by_one(stream),
    }
    times = milliseconds(*calls.values(), repeats=7)
    return [{"6000 rounds, 25 features": name, "ms": taken} for name, taken in zip(calls, times, strict=True)]


def ranking() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    distances, y = rng.random(100), rng.choice([-1, 1], size=100)
    ours, theirs = milliseconds(lambda: pair_auc(distances, y), lambda: roc_auc_score(y, -distances), repeats=200)
    return {"AUC of 100 pairs": "pair_auc, roc_auc_score", "us": 1e3 * ours, "scikit-learn's us": 1e3 * theirs}


def main() -> None:
    console = Console(width=140)
    precompile_scores()
    with threadpool_limits(1):
        evaluations = [
            evaluation("the truth's", 600, np.ones(3)),
            evaluation("a learned metric's", 600, LEARNED),
            evaluation("Euclidean", 600, np.ones(25)),
            evaluation("a learned metric's", 2000, LEARNED),
            evaluation("Euclidean", 2000, np.ones(25)),
        ]
        streams, auc = drawing(), [ranking()]
    for title, rows in (("An evaluation", evaluations), ("Drawing the paper's stream", streams), ("Ranking", auc)):
        show(console, title, rows)
    console.print(f"Written to {save('scores', {'repeats': REPEATS}, [*evaluations, *streams, *auc])}")


if __name__ == "__main__":
    main()
