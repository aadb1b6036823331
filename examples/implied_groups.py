"""Answers that imply others: few answers about tumours, the groups that follow, and what the distance gains.

    python examples/implied_groups.py [PICTURE]

The items are the tumours of scikit-learn's breast cancer data, and the question is whether two of them are of one kind:
malignant or benign. One tracker learns from pairs that ``PairChooser`` chooses, and from the answers that they imply.
The other one learns from random pairs, and nothing is implied. The ranking error is the share of held-out pairs, one
same and one different, that the distance puts in the wrong order. Means over the seeds 0 to 4.
"""

from __future__ import annotations

import sys

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from ocelad import MetricTracker, PairChooser
from ocelad.choice import TrackerView

CHECKPOINTS = (0, 10, 20, 30, 50, 70, 100, 150, 200)
N_TRAINING, N_SHOWN, N_SEEDS = 300, 30, 5
WAYS = ("random pairs", "chosen pairs and what they imply")
COLORS = ("#7f7f7f", "#1f77b4", "#d55e00", "#009e73", "#cc79a7", "#e69f00")


def draw_items(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return standardized features and kinds of tumours, in random order."""
    X, kinds = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    return StandardScaler().fit_transform(X)[order], kinds[order]


def ranking_error(tracker: MetricTracker, X: np.ndarray, kinds: np.ndarray) -> float:
    """Return the share of pairs of held-out pairs in the wrong order, in %."""
    pairs = np.random.default_rng(0).integers(len(X), size=(4000, 2))
    same = kinds[pairs[:, 0]] == kinds[pairs[:, 1]]
    return 100.0 - 100.0 * tracker.score(X[pairs], same)


def learn(way: str, seed: int) -> tuple[list[float], MetricTracker, list[tuple[int, int, bool]]]:
    """Return the errors after some answers, the tracker after the first few answers, and these answers."""
    X, kinds = draw_items(seed)
    items, is_random = X[:N_TRAINING], way == WAYS[0]
    tracker = MetricTracker(preprocessor=items, transitive=not is_random).start(X.shape[1])
    chooser = PairChooser(N_TRAINING, transitive=not is_random, random_share=1.0 if is_random else None, seed=seed)
    errors, answers = [], []
    shown = tracker
    for n_answers in range(max(CHECKPOINTS) + 1):
        if n_answers in CHECKPOINTS:
            errors.append(ranking_error(tracker, X[N_TRAINING:], kinds[N_TRAINING:]))
        if n_answers == N_SHOWN:
            arrays, metadata = tracker.state()
            shown = MetricTracker.from_state(arrays, metadata)
        choice = chooser.next(TrackerView(tracker, items))
        same = bool(kinds[choice.left] == kinds[choice.right])
        chooser.record(choice.left, choice.right, "same" if same else "different")
        tracker.learn_one(choice.left, choice.right, same)
        if n_answers < N_SHOWN:
            answers.append((choice.left, choice.right, same))
    return errors, shown, answers


def draw_groups(axes: Axes, tracker: MetricTracker, answers: list[tuple[int, int, bool]]) -> None:
    """Draw the items of some answers by the learned distance, in the colours of their groups."""
    items, _ = draw_items(0)
    points = PCA(2).fit_transform(tracker.transform(items[:N_TRAINING]))
    axes.scatter(*points.T, s=8, color="#dddddd", label="items without answers")
    for left, right, same in answers:
        style = {"color": "#333333", "linewidth": 1.2} if same else {"color": "#666666", "linewidth": 1.0, "ls": ":"}
        axes.plot(*points[[left, right]].T, zorder=1, **style)
    grouped = {item: number for number, group in enumerate(tracker.groups_, start=1) for item in group}
    for item in {item for left, right, _ in answers for item in (left, right)}:
        color = COLORS[min(grouped.get(item, 0), len(COLORS) - 1)]
        axes.scatter(*points[item], s=36, color=color, edgecolor="white", linewidth=0.6, zorder=2)
    axes.plot([], [], color="#333333", linewidth=1.2, label="same")
    axes.plot([], [], color="#666666", linewidth=1.0, ls=":", label="different")
    axes.set(title=f"{len(answers)} answers imply {tracker.n_implied_} comparisons", xticks=[], yticks=[])
    axes.legend(frameon=False, fontsize=8)


def main(picture: str) -> None:
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for way, color in zip(WAYS, COLORS, strict=False):
        runs = [learn(way, seed) for seed in range(N_SEEDS)]
        errors = np.array([run[0] for run in runs])
        mean, spread = errors.mean(axis=0), errors.std(axis=0, ddof=1) / np.sqrt(N_SEEDS)
        right.plot(CHECKPOINTS, mean, color=color, marker="o", markersize=3, label=way)
        right.fill_between(CHECKPOINTS, mean - spread, mean + spread, color=color, alpha=0.2, linewidth=0)
        for n_answers, error in zip(CHECKPOINTS, mean.tolist(), strict=True):
            print(f"{way}, {n_answers} answers: {error:.1f} % ranking error")
        if way == WAYS[1]:
            draw_groups(left, *runs[0][1:])
    right.set(xlabel="answers", ylabel="held-out ranking error (%)", ylim=(0, None))
    right.set_title(f"breast cancer, mean over {N_SEEDS} seeds")
    right.legend(frameon=False)
    figure.savefig(picture, dpi=110)
    print(f"Picture: {picture}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "implied-answers.png")
