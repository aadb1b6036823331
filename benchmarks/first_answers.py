"""Measure what the first answers are worth on data sets that come with scikit-learn.

    python benchmarks/first_answers.py [--seeds 20] [--picture docs/first-answers.png]

Half of the items are held out. Random pairs of the others are answered by their true classes, and the default
``MetricTracker`` learns from them. Two errors are measured on the held-out items:

- ranking error: of two pairs of held-out items, one of the same class and one of different classes, how often the
  distance is smaller for the wrong one, in % (one minus the area under the ROC curve, over 4000 random pairs),
- 5-NN error: how often the five nearest items that are not held out vote for a wrong class, in %.

Euclidean distance, and Euclidean distance of features divided by their standard deviations, are measured on the same
items. Standard errors are over seeds, which begin at 3000 and were never used for tuning.

``--picture`` draws the wines of the first seed that are held out, under Euclidean distance and after 100 answers, and
the ranking errors on wines along the answers. It also draws a dark variant, whose name ends in ``-dark``, and takes the
errors from the results that were saved last.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from results import FOLDER, save, show
from rich.console import Console
from rich.progress import track
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from ocelad import MetricTracker
from ocelad.evaluation.picture_style import GREY, picture_theme, pyplot, save_figure, styled
from ocelad.evaluation.plots import principal_plane
from ocelad.evaluation.scores import pair_auc
from ocelad.lab.statistics import estimate_mean

CHECKPOINTS = (10, 20, 50, 100, 300, 1000)
FIRST_SEED = 3000
N_TEST_PAIRS = 4000
DATA: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "wine": lambda: load_wine(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
}
EUCLIDEAN, STANDARDIZED = "Euclidean", "standardized"


class Items(NamedTuple):
    """Known and held-out items with their classes, and pairs of them."""

    known: np.ndarray
    known_classes: np.ndarray
    held_out: np.ndarray
    held_out_classes: np.ndarray
    asked: np.ndarray
    test_pairs: np.ndarray

    @classmethod
    def draw(cls, name: str, seed: int) -> Items:
        X, classes = DATA[name]()
        known, held_out, known_classes, held_out_classes = train_test_split(
            X, classes, test_size=0.5, stratify=classes, random_state=seed
        )
        rng = np.random.default_rng(seed)
        asked = rng.integers(len(known), size=(CHECKPOINTS[-1], 2))
        test_pairs = rng.integers(len(held_out), size=(N_TEST_PAIRS, 2))
        return cls(known, known_classes, held_out, held_out_classes, asked, test_pairs)

    def errors(self, embed: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
        """Return the ranking error and the 5-NN error of the Euclidean distance between embedded items, in %."""
        known, held_out = embed(self.known), embed(self.held_out)
        left, right = self.test_pairs.T
        distances = np.linalg.norm(held_out[left] - held_out[right], axis=1)
        same = self.held_out_classes[left] == self.held_out_classes[right]
        ranking = 1 - pair_auc(distances, np.where(same, 1, -1))
        knn = 1 - KNeighborsClassifier(5).fit(known, self.known_classes).score(held_out, self.held_out_classes)
        return 100 * ranking, 100 * knn

    def answer(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Return asked pairs and their true answers."""
        asked = self.asked[start:stop]
        return asked, self.known_classes[asked[:, 0]] == self.known_classes[asked[:, 1]]


def measure(name: str, seed: int) -> dict[Any, tuple[float, float]]:
    """Return the errors of both fixed distances and after each number of answers."""
    items = Items.draw(name, seed)
    scaler = StandardScaler().fit(items.known)
    errors: dict[Any, tuple[float, float]] = {
        EUCLIDEAN: items.errors(lambda X: X),
        STANDARDIZED: items.errors(scaler.transform),
    }
    tracker, done = MetricTracker(preprocessor=items.known), 0
    for n_answers in CHECKPOINTS:
        tracker.partial_fit(*items.answer(done, n_answers))
        errors[n_answers], done = items.errors(tracker.transform), n_answers
    return errors


def summarise(name: str, trials: list[dict[Any, tuple[float, float]]]) -> list[dict[str, Any]]:
    """Return one row per distance: means and standard errors of both errors."""
    rows = []
    for distance in trials[0]:
        ranking, knn = (estimate_mean(np.array([trial[distance][which] for trial in trials])) for which in (0, 1))
        label = distance if isinstance(distance, str) else f"ocelad, {distance} answers"
        rows.append(
            {
                "data": name,
                "distance": label,
                "ranking error": ranking.mean,
                "+-": ranking.standard_error,
                "5-NN error": knn.mean,
                "+- ": knn.standard_error,
            }
        )
    return rows


@styled
def draw(rows: list[dict[str, Any]]) -> Any:
    """Draw two maps of wines, and the ranking errors along the answers."""
    items = Items.draw("wine", FIRST_SEED)
    tracker = MetricTracker(preprocessor=items.known).fit(*items.answer(0, 100))
    figure, (before, after, errors) = pyplot().subplots(
        1, 3, figsize=(9.6, 3.2), width_ratios=[1, 1, 1.25], layout="constrained"
    )
    maps = {
        before: ("Euclidean distance", items.held_out),
        after: ("after 100 answers", tracker.transform(items.held_out)),
    }
    for ax, (title, points) in maps.items():
        x, y = principal_plane(points).T
        for grower, marker in enumerate("o^s"):
            chosen = items.held_out_classes == grower
            ax.scatter(x[chosen], y[chosen], s=22, color=f"C{grower}", marker=marker, alpha=0.8, linewidths=0)
        ax.set(title=title, xticks=[], yticks=[])
    wine = {row["distance"]: row for row in rows if row["data"] == "wine"}
    for name, line in ((EUCLIDEAN, ":"), (STANDARDIZED, "--")):
        errors.axhline(wine[name]["ranking error"], linestyle=line, color=GREY)
        errors.annotate(
            name,
            (1, wine[name]["ranking error"]),
            (-2, 3),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
        )
    learned = [wine[f"ocelad, {n} answers"] for n in CHECKPOINTS]
    mean, error = (np.array([row[column] for row in learned]) for column in ("ranking error", "+-"))
    errors.plot(CHECKPOINTS, mean, color="C0", marker="o", markersize=4)
    errors.fill_between(CHECKPOINTS, mean - error, mean + error, color="C0", alpha=0.25, linewidth=0)
    errors.annotate("learned", (CHECKPOINTS[-1], mean[-1]), (0, 6), textcoords="offset points", ha="right", color="C0")
    errors.set(title="pairs in the wrong order (%)", xlabel="answers", xscale="log", ylim=(0, None))
    errors.set_xticks(CHECKPOINTS, [str(n) for n in CHECKPOINTS])
    errors.minorticks_off()
    return figure


@click.command()
@click.option("--seeds", default=20, show_default=True, type=click.IntRange(2))
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="Only draw the saved results.")
def main(seeds: int, picture: Path | None) -> None:
    console = Console()
    if picture is not None:
        rows = json.loads((FOLDER / "first_answers.json").read_text())["rows"]
        for theme, path in (("light", picture), ("dark", picture.with_stem(f"{picture.stem}-dark"))):
            with picture_theme(theme):
                save_figure(draw(rows), path)
            console.print(f"Picture: {path}")
        return
    rows = []
    for name in DATA:
        trials = [
            measure(name, seed)
            for seed in track(range(FIRST_SEED, FIRST_SEED + seeds), description=name, console=console)
        ]
        rows += summarise(name, trials)
    show(console, f"Errors on held-out items in %, means over {seeds} seeds", rows)
    console.print(f"Saved: {save('first_answers', {'seeds': seeds}, rows)}")


if __name__ == "__main__":
    main()
