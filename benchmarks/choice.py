"""Compare actively chosen pairs, as the service chooses them, with random pairs: the error after some answers.

    python benchmarks/choice.py [--seeds 40] [--quick] [--picture docs/active.png]

The items are split in halves. Pairs of the first half are answered according to the task's classes. The error is that
of 5 nearest neighbours in the first half for the items of the second half, under the metric learned so far. The seed
determines the split, the noise and the pairs. Both strategies use the same splits, noise and tracker settings, which
are those of a project of the service. As in the service, one in five of the active pairs is random. The weights of the
active choice and the tracker settings were chosen on seeds 1000 to 1039.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from results import save, show
from rich.console import Console
from rich.progress import Progress
from sklearn.datasets import load_digits, load_wine

from ocelad import Metric, MetricTracker
from ocelad._typing import Floats
from ocelad.choice import PairChooser
from ocelad.curved_metric import AnyMetric
from ocelad.evaluation.picture_style import GREY, PALETTE, pyplot, save_figure
from ocelad.evaluation.scores import knn_error
from ocelad.evaluation.streams import DriftingClusters
from ocelad.lab.trials import map_trials
from ocelad.service.items import fit_scaling
from ocelad.service.learning import default_settings

TASKS = ("digits by parity", "synthetic", "wine and noise")
STRATEGIES = {"random": 1.0, "active": 0.2}  # with their shares of random pairs
# The number of answers that the documentation reports.
REPORTED = 40
N_NOISE = 13
N_NEIGHBORS = 5


class Task(NamedTuple):
    """Items with their classes, and held-out items."""

    points: Floats
    classes: np.ndarray
    held_out: Floats
    held_out_classes: np.ndarray

    @classmethod
    def create(cls, name: str, seed: int) -> Task:
        """Draw the split and the noise of a task."""
        rng = np.random.default_rng([seed, TASKS.index(name)])
        if name == "digits by parity":
            digits = load_digits()
            features, classes, scaling = digits.data, digits.target % 2, fit_scaling(digits.data, "all")
        elif name == "synthetic":
            step = next(iter(DriftingClusters(seed=seed)))
            features, classes = step.points(), step.labels
            scaling = fit_scaling(features, "features")
        else:
            wine = load_wine()
            noise = rng.normal(size=(len(wine.data), N_NOISE))
            features, classes = np.hstack([wine.data, noise]), wine.target
            scaling = fit_scaling(features, "features")
        points = features * scaling.factors
        first, second = np.array_split(rng.permutation(len(points)), 2)
        return cls(points[first], classes[first], points[second], classes[second])

    def error(self, metric: AnyMetric) -> float:
        """Return the error on the held-out items in percent."""
        train, test = metric.embed(self.points), metric.embed(self.held_out)
        return 100 * knn_error(train, self.classes, N_NEIGHBORS, test_points=test, test_labels=self.held_out_classes)


class CurrentView:
    """The current state of a tracker with the interface that the chooser needs."""

    method = "adaptive"

    def __init__(self, points: Floats, tracker: MetricTracker) -> None:
        self.points, self.metric, self.shares = points, tracker.metric_, tracker.weights_
        self.scale_metrics: list[Metric] = []  # the experts of the method "adaptive" share squared distances

    def margins(self, left: np.ndarray, right: np.ndarray) -> Floats:
        return np.asarray(self.metric.threshold - self.metric.squared_distance(self.points[left], self.points[right]))


def errors(trial: tuple[str, str, int], checkpoints: tuple[int, ...]) -> list[float]:
    """Return the errors of one task and strategy at each number of answers."""
    name, strategy, seed = trial
    task = Task.create(name, seed)
    n_items, n_features = task.points.shape
    tracker = MetricTracker(curved=True).start(n_features, items=task.points)
    chooser = PairChooser(n_items, transitive=False, random_share=STRATEGIES[strategy], seed=seed)
    result = []
    for n_answers in range(max(checkpoints) + 1):
        view = CurrentView(task.points, tracker)
        if n_answers in checkpoints:
            result.append(task.error(view.metric))
        choice = chooser.next(view)
        similar = bool(task.classes[choice.left] == task.classes[choice.right])
        chooser.record(choice.left, choice.right, "same" if similar else "different")
        tracker.learn_one(task.points[choice.left], task.points[choice.right], similar)
    return result


def make_rows(results: Floats, checkpoints: tuple[int, ...]) -> list[dict[str, float | str]]:
    """Return a row per task and number of answers.

    ``results`` has the shape (n_tasks, n_strategies, n_seeds, n_checkpoints).
    """
    rows: list[dict[str, float | str]] = []
    for task, (random, active) in zip(TASKS, results, strict=True):
        for index, n_answers in enumerate(checkpoints[1:], start=1):
            difference = active[:, index] - random[:, index]
            rows.append(
                {
                    "task": task,
                    "answers": n_answers,
                    "none": float(random[:, 0].mean()),
                    "random": float(random[:, index].mean()),
                    "active": float(active[:, index].mean()),
                    "difference": float(difference.mean()),
                    "standard error": float(difference.std(ddof=1) / np.sqrt(len(difference))),
                    "better": int((difference < 0).sum()),
                    "worse": int((difference > 0).sum()),
                }
            )
    return rows


def draw_errors(results: Floats, checkpoints: tuple[int, ...], path: Path) -> None:
    """Draw the mean error by the number of answers, one panel per task."""
    figure, panels = pyplot().subplots(1, len(TASKS), figsize=(10, 3.2), layout="constrained")
    for panel, task, by_strategy in zip(panels, TASKS, results, strict=True):
        for strategy, values, color in zip(STRATEGIES, by_strategy, PALETTE, strict=False):
            mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(values.shape[0])
            panel.plot(checkpoints, mean, color=color, label=strategy)
            panel.fill_between(checkpoints, mean - error, mean + error, color=color, alpha=0.2, linewidth=0)
        panel.axhline(by_strategy[0, :, 0].mean(), color=GREY, linestyle=":", label="Euclidean")
        panel.set(title=task, xlabel="answers", ylim=(0, None))
    panels[0].set_ylabel("held-out 5-NN error (%)")
    panels[0].legend(frameon=False)
    save_figure(figure, path)


@click.command()
@click.option("--seeds", default=40, show_default=True, type=click.IntRange(2), help="The number of seeds.")
@click.option("--first", default=0, show_default=True, type=click.IntRange(0), help="The first seed.")
@click.option("--quick", is_flag=True, help=f"Stop after {REPORTED} answers, and save nothing.")
@click.option("--picture", type=click.Path(path_type=Path), help="Draw the errors into this file.")
def main(seeds: int, first: int, quick: bool, picture: Path | None) -> None:
    """Measure both strategies on all tasks and print the table."""
    console = Console(width=120)
    checkpoints = (0, 20, REPORTED) if quick else (0, 5, 10, 15, 20, 30, REPORTED, 60, 80, 100, 150, 200)
    trials = [(task, strategy, first + seed) for task in TASKS for strategy in STRATEGIES for seed in range(seeds)]
    with Progress(console=console) as bar:
        job = bar.add_task("trials", total=len(trials))
        progress = partial(bar.update, job)
        answers = map_trials(
            partial(errors, checkpoints=checkpoints),
            trials,
            backend="processes",
            progress=lambda done: progress(completed=done),
        )
    results = np.array(answers).reshape(len(TASKS), len(STRATEGIES), seeds, -1)
    rows = make_rows(results, checkpoints)
    printed = [row for row in rows if row["answers"] in (20, REPORTED, 100, 200)]
    show(console, f"Held-out {N_NEIGHBORS}-NN error in %, mean over {seeds} seeds", printed)
    if not quick:
        settings = {"seeds": [first, first + seeds - 1], "tracker": default_settings()}
        console.print(f"Written to {save('choice', settings, rows)}")
    if picture is not None:
        draw_errors(results, checkpoints, picture)


if __name__ == "__main__":
    main()
