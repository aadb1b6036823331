"""How often k nearest neighbours are right on River's streams: under a tracked metric, and under the Euclidean one.

    python benchmarks/river_knn.py

Every point is predicted, then learned (test, then train), behind River's ``StandardScaler``, with 5 neighbours among
the last 1000 points. "River" is its own ``KNNClassifier`` with an exact search; "Euclidean" is ``MetricKNNClassifier``
that learns no metric, which must come to the same but for ties; "tracked" and "diagonal" learn one, with default
settings. Means over seeds, with the worst and the best of them.

The defaults were chosen on other data: scikit-learn's iris, wine, breast cancer and digits, and small streams such as
"turning" with other seeds. In "turning" one feature of 30 tells three classes apart, another one after every 1000
points. "iris" and "digits" are streams in which nothing changes, in a random order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from statistics import mean

import numpy as np
from results import save, show
from rich.console import Console
from rich.progress import track
from river import base, datasets, evaluate, metrics, neighbors, preprocessing
from sklearn.datasets import load_digits, load_iris

from ocelad.adaptive.precompile import precompile_engines
from ocelad import Rice
from ocelad.river import MetricKNNClassifier

SEEDS = 5
NEIGHBORS = 5
WINDOW = 1000


def turning(seed: int) -> Iterable[tuple[dict[str, float], int]]:
    """4000 points of 30 features."""
    rng = np.random.default_rng(1000 + seed)
    for t in range(4000):
        x, y = rng.normal(size=30), int(rng.integers(3))
        x[t // 1000] += 2.5 * y
        yield {f"feature {i}": value for i, value in enumerate(x.tolist())}, y


def shuffled(load: Callable) -> Callable[[int], Iterable[tuple[dict[str, float], int]]]:
    """A table as a stream in which nothing changes."""

    def stream(seed: int) -> Iterable[tuple[dict[str, float], int]]:
        X, y = load(return_X_y=True)
        for i in np.random.default_rng(2000 + seed).permutation(len(y)):
            yield {f"feature {j}": value for j, value in enumerate(X[i].tolist())}, int(y[i])

    return stream


STREAMS: dict[str, Callable[[int], Iterable]] = {
    "Phishing": lambda seed: datasets.Phishing(),
    "ImageSegments": lambda seed: datasets.ImageSegments(),
    "turning": turning,
    "iris": shuffled(load_iris),
    "digits": shuffled(load_digits),
}
RIVERS_OWN = ("Phishing", "ImageSegments")  # which come in one order


def river(seed: int) -> base.Classifier:
    return neighbors.KNNClassifier(NEIGHBORS, engine=neighbors.LazySearch(window_size=WINDOW))


def metric_knn(**settings) -> Callable[[int], base.Classifier]:
    return lambda seed: MetricKNNClassifier(NEIGHBORS, WINDOW, seed=seed, **settings)


# Which of them draw at random, and so have seeds to average over.
MODELS: dict[str, tuple[Callable[[int], base.Classifier], bool]] = {
    "River": (river, False),
    "Euclidean": (metric_knn(pairs_per_point=0), False),
    "tracked": (metric_knn(), True),
    "diagonal": (metric_knn(method=Rice(diagonal=True)), True),
}


def measure(stream: str, model: str) -> dict:
    make, random = MODELS[model]
    seeds = range(SEEDS) if random or stream not in RIVERS_OWN else range(1)
    right, times = [], []
    for seed in seeds:
        points = list(STREAMS[stream](seed))
        classifier = preprocessing.StandardScaler() | make(seed)
        begun = time.process_time()
        accuracy = evaluate.progressive_val_score(points, classifier, metrics.Accuracy())
        times.append(1e6 * (time.process_time() - begun) / len(points))
        right.append(100.0 * accuracy.get())
    return {
        "stream": stream,
        "points": len(points),
        "model": model,
        "seeds": len(seeds),
        "% right": mean(right),
        "worst": min(right),
        "best": max(right),
        "us per point": mean(times),
    }


def main() -> None:
    precompile_engines()
    console = Console()
    cases = [(stream, model) for stream in STREAMS for model in MODELS]
    rows = [measure(*case) for case in track(cases, "river_knn", console=console)]
    show(console, f"{NEIGHBORS} nearest neighbours among the last {WINDOW} points; CPU time, one thread", rows)
    settings = {"seeds": SEEDS, "neighbors": NEIGHBORS, "window": WINDOW}
    console.print(f"Written to {save('river_knn', settings, rows)}")


if __name__ == "__main__":
    main()
