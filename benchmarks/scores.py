"""Measure the CPU time of an evaluation, also with scikit-learn, and of drawing the paper's stream.

    python benchmarks/scores.py

An evaluation is the leave-one-out 5-NN error and the NMI of k-means (best of ten runs) of points of the paper's
scenario in three classes: under the true metric (three dimensions), under a typical learned metric, and under the
Euclidean distance (25 dimensions, of which 22 are noise). Times are those of one thread, minima over the repeats. "same
error": whether the k-NN errors are equal. "both": both scores with the shared preparation done once. The stream has
6000 rounds; it is drawn step by step, and as all events at once. Its rotations drawn round by round, as they are
defined, are a reference.
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

from ocelad.evaluation.scores import clustering_nmi, knn_error, knn_error_and_nmi, pair_auc
from ocelad.evaluation.scores.precompile import precompile_scores
from ocelad.evaluation.streams import DriftingClusters

REPEATS = 15
# The weights of a typical learned metric: 22 dimensions are noise.
LEARNED = np.append(np.ones(3), np.full(22, 0.3))


def sklearn_error(X: np.ndarray, labels: np.ndarray) -> float:
    nearest = NearestNeighbors(n_neighbors=5, algorithm="brute").fit(X).kneighbors(return_distance=False)
    votes = np.eye(labels.max() + 1)[labels[nearest]].sum(axis=1)
    return float(np.mean(votes.argmax(axis=1) != labels))


def sklearn_nmi(X: np.ndarray, labels: np.ndarray) -> float:
    clusters = KMeans(labels.max() + 1, n_init=10, random_state=0).fit_predict(X)
    return float(normalized_mutual_info_score(labels, clusters))


def milliseconds(*calls: Callable[[], object], repeats: int = REPEATS) -> list[float]:
    """Return the least CPU time of each call; calls alternate, so that other load affects all of them."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for call, call_times in zip(calls, times, strict=True):
            start = time.thread_time()
            call()
            call_times.append(1e3 * (time.thread_time() - start))
    return [min(call_times) for call_times in times]


def measure_evaluation(name: str, n_points: int, weights: np.ndarray) -> dict[str, Any]:
    step = next(iter(DriftingClusters(n_points=n_points)))
    X, labels = step.points()[:, : len(weights)] * weights, step.labels
    knn, their_knn = milliseconds(lambda: knn_error(X, labels), lambda: sklearn_error(X, labels))
    nmi, their_nmi = milliseconds(lambda: clustering_nmi(X, labels), lambda: sklearn_nmi(X, labels))
    (both,) = milliseconds(lambda: knn_error_and_nmi(X, labels))
    return {
        "points": f"{n_points} x {len(weights)}, {name}",
        "k-NN ms": knn,
        "NMI ms": nmi,
        "both ms": both,
        "scikit-learn's k-NN": their_knn,
        "its NMI": their_nmi,
        "times faster": (their_knn + their_nmi) / both,
        "same error": str(knn_error(X, labels) == sklearn_error(X, labels)),
    }


def draw_rotations(stream: DriftingClusters) -> None:
    """Draw the rotations of a stream round by round, as they are defined."""
    rng, eye = np.random.default_rng(0), np.eye(stream.n_features)
    rotation, upper = eye, np.triu_indices(stream.n_features, 1)
    for phase in stream.phases:
        for _ in range(phase.length if phase.drift else 0):
            skew = np.zeros_like(eye)
            skew[upper] = rng.normal(scale=phase.drift / np.sqrt(6 * (stream.n_features - 3)), size=len(upper[0]))
            skew -= skew.T
            rotation = np.linalg.solve(eye - skew / 2, eye + skew / 2) @ rotation


def measure_drawing() -> list[dict[str, Any]]:
    stream = DriftingClusters()
    calls = {
        "step by step": lambda: list(stream),
        "all events at once": stream.events,
        "its rotations one by one": lambda: draw_rotations(stream),
    }
    times = milliseconds(*calls.values(), repeats=7)
    return [{"6000 rounds, 25 features": name, "ms": duration} for name, duration in zip(calls, times, strict=True)]


def measure_ranking() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    distances, y = rng.random(100), rng.choice([-1, 1], size=100)
    ours, theirs = milliseconds(lambda: pair_auc(distances, y), lambda: roc_auc_score(y, -distances), repeats=200)
    return {"AUC of 100 pairs": "pair_auc, roc_auc_score", "us": 1e3 * ours, "scikit-learn's us": 1e3 * theirs}


def main() -> None:
    console = Console(width=140)
    precompile_scores()
    with threadpool_limits(1):
        evaluations = [
            measure_evaluation("true metric", 600, np.ones(3)),
            measure_evaluation("learned metric", 600, LEARNED),
            measure_evaluation("Euclidean", 600, np.ones(25)),
            measure_evaluation("learned metric", 2000, LEARNED),
            measure_evaluation("Euclidean", 2000, np.ones(25)),
        ]
        streams, auc = measure_drawing(), [measure_ranking()]
    for title, rows in (("Evaluation", evaluations), ("Drawing the paper's stream", streams), ("Ranking", auc)):
        show(console, title, rows)
    console.print(f"Written to {save('scores', {'repeats': REPEATS}, [*evaluations, *streams, *auc])}")


if __name__ == "__main__":
    main()
