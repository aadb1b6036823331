"""Measure the accuracy of k nearest neighbours on River's streams, with a tracked metric and the Euclidean distance.

    python benchmarks/river_knn.py [--streams Phishing,Agrawal] [--models River,tracked] [--seeds 5]

Each point is predicted, then learned (prequential evaluation), after River's ``StandardScaler``, with 5 neighbours
among the last 1000 points. "River" is River's ``KNNClassifier`` with an exact search. "Euclidean" is
``MetricKNNClassifier`` without metric learning, which must agree with it except for ties. "tracked" and "diagonal"
learn a metric with default settings. The table has the mean, the minimum and the maximum over the seeds.

The defaults were chosen on other data: scikit-learn's iris, wine, breast cancer and digits, and small streams like
"turning" with other seeds. In "turning" one of 30 features separates three classes, and another one after every 1000
points. "iris" and "digits" are stationary streams in random order. "RandomRBFDrift" (four classes, ten of twenty
centroids move) and "Agrawal" are River's generators, 3000 points each.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from statistics import mean

import numpy as np
from results import save, show
from rich.console import Console
from rich.progress import track
from river import base, datasets, evaluate, metrics, neighbors, preprocessing
from river.datasets import synth
from sklearn.datasets import load_digits, load_iris

from ocelad import Rice
from ocelad.adaptive.precompile import precompile_engines
from ocelad.river import MetricKNNClassifier

NEIGHBORS = 5
WINDOW = 1000


def turning(seed: int) -> Iterable[tuple[dict[str, float], int]]:
    """Yield 4000 points of 30 features, of which one at a time is informative."""
    rng = np.random.default_rng(1000 + seed)
    for t in range(4000):
        x, y = rng.normal(size=30), int(rng.integers(3))
        x[t // 1000] += 2.5 * y
        yield {f"feature {i}": value for i, value in enumerate(x.tolist())}, y


def shuffle(load: Callable) -> Callable[[int], Iterable[tuple[dict[str, float], int]]]:
    """Return a stationary stream with the rows of a data set in random order."""

    def stream(seed: int) -> Iterable[tuple[dict[str, float], int]]:
        X, y = load(return_X_y=True)
        for i in np.random.default_rng(2000 + seed).permutation(len(y)):
            yield {f"feature {j}": value for j, value in enumerate(X[i].tolist())}, int(y[i])

    return stream


STREAMS: dict[str, Callable[[int], Iterable]] = {
    "Phishing": lambda seed: datasets.Phishing(),
    "ImageSegments": lambda seed: datasets.ImageSegments(),
    "turning": turning,
    "RandomRBFDrift": lambda seed: synth.RandomRBFDrift(
        seed_model=42,
        seed_sample=seed,
        n_classes=4,
        n_features=10,
        n_centroids=20,
        change_speed=0.87,
        n_drift_centroids=10,
    ).take(3000),
    "Agrawal": lambda seed: synth.Agrawal(seed=seed).take(3000),
    "iris": shuffle(load_iris),
    "digits": shuffle(load_digits),
}
FIXED_STREAMS = ("Phishing", "ImageSegments")  # River's streams do not depend on the seed


def river_knn(seed: int) -> base.Classifier:
    return neighbors.KNNClassifier(NEIGHBORS, engine=neighbors.LazySearch(window_size=WINDOW))


def metric_knn(**settings) -> Callable[[int], base.Classifier]:
    return lambda seed: MetricKNNClassifier(NEIGHBORS, WINDOW, seed=seed, **settings)


# The models, and whether they depend on the seed.
MODELS: dict[str, tuple[Callable[[int], base.Classifier], bool]] = {
    "River": (river_knn, False),
    "Euclidean": (metric_knn(pairs_per_point=0), False),
    "tracked": (metric_knn(), True),
    "diagonal": (metric_knn(method=Rice(diagonal=True)), True),
}


def measure(stream: str, model: str, n_seeds: int) -> dict:
    make, random = MODELS[model]
    seeds = range(n_seeds) if random or stream not in FIXED_STREAMS else range(1)
    accuracies, times = [], []
    for seed in seeds:
        points = list(STREAMS[stream](seed))
        classifier = preprocessing.StandardScaler() | make(seed)
        start = time.process_time()
        accuracy = evaluate.progressive_val_score(points, classifier, metrics.Accuracy())
        times.append(1e6 * (time.process_time() - start) / len(points))
        accuracies.append(100.0 * accuracy.get())
    return {
        "stream": stream,
        "points": len(points),
        "model": model,
        "seeds": len(seeds),
        "% right": mean(accuracies),
        "worst": min(accuracies),
        "best": max(accuracies),
        "us per point": mean(times),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", default=",".join(STREAMS))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    precompile_engines()
    console = Console()
    cases = [(stream, model) for stream in arguments.streams.split(",") for model in arguments.models.split(",")]
    rows = [measure(*case, arguments.seeds) for case in track(cases, "river_knn", console=console)]
    show(console, f"{NEIGHBORS} nearest neighbours among the last {WINDOW} points; CPU time, one thread", rows)
    settings = {"seeds": arguments.seeds, "neighbors": NEIGHBORS, "window": WINDOW}
    console.print(f"Written to {save('river_knn', settings, rows)}")


if __name__ == "__main__":
    main()
