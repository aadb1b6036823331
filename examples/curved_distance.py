"""When the linear distance is not enough: bananas and digits, before and after a curved part is added.

    python examples/curved_distance.py [PICTURE]

The bananas are two bent classes with two features; the question about the digits is whether the digit has a closed loop
(0, 6, 8, 9). A tracker with a linear distance and one with a curved part learn from the same 2000 answers. The picture
shows the held-out points by the two directions in which their embeddings vary most.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

from ocelad import MetricTracker

N_ANSWERS, N_TRAINING = 2000, 1000


def bananas(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return points of two bent classes."""
    classes = rng.integers(2, size=2000)
    angles = rng.uniform(0.0, np.pi, size=2000) + np.pi * classes
    X = np.column_stack([np.cos(angles) + 0.5 * (2 * classes - 1), np.sin(angles)])
    return X + 0.2 * rng.normal(size=X.shape), classes


def loops(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the pixels of digits, and whether the digit has a closed loop."""
    X, digits = load_digits(return_X_y=True)
    order = rng.permutation(len(X))
    return X[order], np.isin(digits[order], (0, 6, 8, 9)).astype(int)


def results(X: np.ndarray, classes: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[str, MetricTracker, float]]:
    """Yield the name of each tracker, the tracker, and its error on held-out pairs in %."""
    answered = rng.integers(N_TRAINING, size=(N_ANSWERS, 2))
    held_out = rng.integers(N_TRAINING, len(X), size=(2000, 2))
    same, truth = (np.where(classes[pairs[:, 0]] == classes[pairs[:, 1]], 1, -1) for pairs in (answered, held_out))
    for name, curved in (("linear", False), ("curved", True)):
        tracker = MetricTracker(preprocessor=X[:N_TRAINING], curved=curved).fit(answered, same)
        pairs = np.stack([X[held_out[:, 0]], X[held_out[:, 1]]], axis=1)
        yield name, tracker, 100.0 * float(np.mean(tracker.predict(pairs) != truth))


def main(picture: str) -> None:
    figure = Figure(figsize=(9, 8), layout="constrained")
    axes = figure.subplots(2, 2)
    for row, (title, draw) in enumerate({"bananas": bananas, "digits with a loop": loops}.items()):
        rng = np.random.default_rng(0)
        X, classes = draw(rng)
        for column, (name, tracker, error) in enumerate(results(X, classes, rng)):
            points = tracker.transform(X)
            neighbors = KNeighborsClassifier(5).fit(points[:N_TRAINING], classes[:N_TRAINING])
            wrong = 100.0 - 100.0 * neighbors.score(points[N_TRAINING:], classes[N_TRAINING:])
            print(f"{title}, {name}: {error:.1f} % of held-out pairs are wrong, and {wrong:.1f} % of 5-NN predictions")
            shown = PCA(2).fit_transform(points)[N_TRAINING:]
            for which, marker in ((0, "o"), (1, "^")):
                chosen = classes[N_TRAINING:] == which
                axes[row, column].scatter(*shown[chosen].T, s=10, marker=marker, alpha=0.6)
            axes[row, column].set_title(f"{title}, {name}: {error:.1f} % of pairs wrong")
            axes[row, column].set(xticks=[], yticks=[])
            axes[row, column].set_aspect("equal", adjustable="datalim")
    figure.savefig(picture, dpi=110)
    print(f"Picture: {picture}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "curved.png")
