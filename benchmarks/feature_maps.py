"""Compare feature maps of curved distances: the ranking error on held-out items after 300 and 1000 answers.

    python benchmarks/feature_maps.py [--seeds 5]

Each map is fitted to the training items and given to ``MetricTracker(curved=...)``. Seeds begin at 100, so these are
tuning seeds: the table shows how the map was chosen. A second result is about embeddings whose lengths differ (it needs
the reviews, see docs/explanation/few-answers.md): how unequally often points are neighbours of others, as the skewness
of the number of times that a point is one of another's five nearest.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.metrics.pairwise import euclidean_distances

from ocelad import MetricTracker
from ocelad.feature_maps import to_unit_length
from ocelad.lab.compare.few_answers import BENCHMARKS
from ocelad.lab.compare.few_answers.held_out_split import draw_split

ROWS = (
    "digits-pca/natural",
    "digits-parity/balanced",
    "digits-loop/natural",
    "breast-cancer/natural",
    "image-segments/balanced",
    "wine/natural",
    "phishing/balanced",
)
FIRST_SEED, CHECKPOINTS, N_OUTPUTS, N_LANDMARKS = 100, (300, 1000), 64, 100


class ArcCosineMap:
    """The Nystroem map of the arc-cosine kernel of degree 1 (Cho and Saul 2009), centred, with a constant feature."""

    def __init__(self, points: np.ndarray, keep_lengths: bool) -> None:
        landmarks = points[np.random.default_rng(0).permutation(len(points))[:N_LANDMARKS]]
        self._origin, self._constant = np.median(landmarks, axis=0), np.sqrt(median_square(landmarks) / 2.0)
        self._keep_lengths, self._landmarks = keep_lengths, self._lift(landmarks)
        eigenvalues, vectors = np.linalg.eigh(self._kernel(self._landmarks))
        kept = np.argsort(-eigenvalues)[:N_OUTPUTS]
        kept = kept[eigenvalues[kept] > 1e-3 * eigenvalues.max()]
        self._projection = vectors[:, kept] / np.sqrt(eigenvalues[kept])

    def _lift(self, points: np.ndarray) -> np.ndarray:
        return np.column_stack([points - self._origin, np.full(len(points), self._constant)]) / self._constant

    def _kernel(self, lifted: np.ndarray) -> np.ndarray:
        lengths = np.outer(np.linalg.norm(lifted, axis=1), np.linalg.norm(self._landmarks, axis=1))
        cosines = np.clip(lifted @ self._landmarks.T / lengths, -1.0, 1.0)
        angles = np.arccos(cosines)
        values = (np.sin(angles) + (np.pi - angles) * cosines) / np.pi
        return values * lengths if self._keep_lengths else values

    def __call__(self, points: np.ndarray) -> np.ndarray:
        return self._kernel(self._lift(points)) @ self._projection


def median_square(points: np.ndarray) -> float:
    """Return the median squared distance of points."""
    return float(np.median(euclidean_distances(points, squared=True)[np.triu_indices(len(points), 1)]))


def sampled(kind: type, width: float, n_components: int) -> Callable[[np.ndarray], Any]:
    """Return a function that fits a map of scikit-learn, with a width relative to the median squared distance."""

    def fit(points: np.ndarray) -> Any:
        gamma = 1.0 / (width * median_square(points[:500]))
        return kind(gamma=gamma, n_components=min(n_components, len(points)), random_state=0).fit(points)

    return fit


#: Each map by name: a function of the training items whose result is the argument ``curved``.
MAPS: dict[str, Callable[[np.ndarray], Any]] = {
    "landmarks (curved=True)": lambda points: True,
    "linear (curved=False)": lambda points: False,
    "Nystroem, 100 outputs": sampled(Nystroem, 1.0, 100),
    "Nystroem, half the width": sampled(Nystroem, 0.5, 100),
    "Nystroem, twice the width": sampled(Nystroem, 2.0, 100),
    "random Fourier features": sampled(RBFSampler, 1.0, N_OUTPUTS),
    "arc-cosine": lambda points: ArcCosineMap(points, keep_lengths=True),
    "arc-cosine without lengths": lambda points: ArcCosineMap(points, keep_lengths=False),
    "points of length 1": lambda points: to_unit_length,
}


def ranking_errors(row: str, seed: int) -> np.ndarray:
    """Return the ranking error in % of each map at each checkpoint."""
    benchmark = BENCHMARKS[row]
    split = draw_split(benchmark.load(seed), CHECKPOINTS[-1], seed, number=0, balanced=benchmark.balanced)
    answers, held_out, items = split.answers, split.test_pairs, split.training.points
    errors = np.empty((len(MAPS), len(CHECKPOINTS)))
    for k, fit_map in enumerate(MAPS.values()):
        tracker = MetricTracker(curved=fit_map(items), preprocessor=items).start(items.shape[1])
        for column, (first, last) in enumerate(zip((0, *CHECKPOINTS), CHECKPOINTS, strict=False)):
            pairs = np.stack([answers.X[first:last], answers.Z[first:last]], axis=1)
            tracker.partial_fit(pairs, answers.y[first:last])
            errors[k, column] = 100.0 * (1.0 - tracker.score(np.stack([held_out.X, held_out.Z], axis=1), held_out.y))
    return errors


def neighbour_skewness(points: np.ndarray) -> float:
    """Return the skewness of how often a point is one of another's five nearest."""
    distances = euclidean_distances(points, squared=True)
    np.fill_diagonal(distances, np.inf)
    counts = np.bincount(np.argsort(distances, axis=1)[:, :5].ravel(), minlength=len(points))
    return float(np.mean((counts - counts.mean()) ** 3) / counts.std() ** 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = range(FIRST_SEED, FIRST_SEED + parser.parse_args().seeds)
    errors = np.array([np.mean([ranking_errors(row, seed) for seed in seeds], axis=0) for row in ROWS])
    print(f"Ranking error in %, means over {len(ROWS)} benchmarks and {len(seeds)} seeds\n")
    print(f"{'map':28}" + "".join(f"{count:>8} answers" for count in CHECKPOINTS))
    for name, means in zip(MAPS, errors.mean(axis=0), strict=True):
        print(f"{name:28}" + "".join(f"{mean:16.1f}" for mean in means))
    try:
        points = BENCHMARKS["lsa-300-type/natural"].load(0).X
    except (FileNotFoundError, ImportError) as error:
        print(f"\nNo table of neighbours: {error}")
        return
    chosen = points[np.random.default_rng(0).permutation(len(points))[:1000]]
    print(f"\nSkewness of neighbours, 1000 reviews by LSA: Euclidean {neighbour_skewness(chosen):.1f}, ", end="")
    print(f"of points of length 1 {neighbour_skewness(to_unit_length(chosen)):.1f}")


if __name__ == "__main__":
    main()
