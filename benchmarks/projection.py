"""Measure what is lost when an embedding is reduced to few dimensions: the 5-NN error on the digits of scikit-learn.

    python benchmarks/projection.py [--seeds 5]

A linear tracker learns from 1000, 3000 and 10,000 random pairs of half of the digits. The 64 dimensions of its embedding are reduced
to k of them: those with the largest eigenvalues (`Metric.embed(X, k)`), or the principal axes of the embedded digits
(`Metric.projection(X, k)`), found on the half that was learned from. The 5-NN error is that of the other half.
"""

from __future__ import annotations

import argparse

import numpy as np
from results import save, show
from rich.console import Console
from sklearn.datasets import load_digits

from ocelad import MetricTracker
from ocelad._typing import Floats
from ocelad.evaluation.scores import knn_error

DIMENSIONS = (2, 4, 8, 16, 32, 64)
N_PAIRS = (1000, 3000, 10_000)


def measure(seed: int, n_pairs: int, dimensions: tuple[int, ...] = DIMENSIONS) -> list[dict[str, float]]:
    """Return the 5-NN error in % by the number of dimensions, for one split of the digits."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    learned, held_out = order[: len(X) // 2], order[len(X) // 2 :]
    pairs = rng.choice(learned, size=(n_pairs, 2))
    metric = MetricTracker().fit(X[pairs], np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)).metric_
    rows = []
    for k in dimensions:
        projected = X[held_out] @ metric.projection(X[learned], k)
        errors = {"eigenvalues": metric.embed(X[held_out], k), "principal axes": projected}
        rows.append({"answers": n_pairs, "dimensions": k} | {name: _error(points, y[held_out]) for name, points in errors.items()})
    return rows


def _error(points: Floats, labels: Floats) -> float:
    return 100.0 * knn_error(points, labels, 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    runs = [[row for n_pairs in N_PAIRS for row in measure(seed, n_pairs)] for seed in range(seeds)]
    rows = [{name: float(np.mean([row[name] for row in same])) for name in same[0]} for same in zip(*runs, strict=True)]
    rows = [{**row, "answers": int(row["answers"]), "dimensions": int(row["dimensions"])} for row in rows]
    show(Console(), "5-NN error of held-out digits, in %", rows)
    save("projection", {"seeds": seeds, "pairs": list(N_PAIRS)}, rows)


if __name__ == "__main__":
    main()
