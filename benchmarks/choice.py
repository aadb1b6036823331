"""What 40 answers are worth: pairs chosen as the service chooses them, beside pairs drawn at random.

    python benchmarks/choice.py [--seeds 40] [--quick] [--picture docs/active.png]

Items are split in halves. Pairs of the first half are asked about and answered by the task's classes; the second half
is judged by its 5 nearest neighbours in the first half, under the metric learned so far. A seed draws the split, the
noise and the pairs; both ways of asking have the same splits, noise and settings of the tracker, which are those of a
project of the service. One pair in five of those that are called active is drawn at random, as in the service. The
weights of the choice and the settings were chosen on seeds 1000 to 1039.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from results import save, show
from rich.console import Console
from rich.progress import Progress
from sklearn.datasets import load_digits, load_wine

from ocelad import Metric, MetricTracker
from ocelad._typing import Floats
from ocelad.ensemble.ocelad import Ocelad
from ocelad.estimators.methods import method_from_settings
from ocelad.evaluation.plots import GREY, PALETTE, pyplot
from ocelad.evaluation.plots import save as save_picture
from ocelad.evaluation.scores import knn_error
from ocelad.evaluation.streams import DriftingClusters
from ocelad.lab.trials import map_trials
from ocelad.service.choice import Chooser
from ocelad.service.items import scaled
from ocelad.service.learning import default_settings

TASKS = ("digits by parity", "synthetic", "wine and noise")
WAYS = {"random": 1.0, "active": 0.2}  # the share that is drawn at random
CLAIMED = 40
N_NOISE = 13
N_NEIGHBORS = 5


class Task(NamedTuple):
    """Items with their classes, and others that are held out."""

    points: Floats
    classes: np.ndarray
    held_out: Floats
    held_out_classes: np.ndarray

    @classmethod
    def drawn(cls, name: str, seed: int) -> Task:
        draw = np.random.default_rng([seed, TASKS.index(name)])
        if name == "digits by parity":
            digits = load_digits()
            features, classes, scaling = digits.data, digits.target % 2, scaled(digits.data, "all")
        elif name == "synthetic":
            moment = next(iter(DriftingClusters(seed=seed)))
            features, classes = moment.points(), moment.labels
            scaling = scaled(features, "features")
        else:
            wine = load_wine()
            noise = draw.normal(size=(len(wine.data), N_NOISE))
            features, classes = np.hstack([wine.data, noise]), wine.target
            scaling = scaled(features, "features")
        points = features * scaling.factors
        first, second = np.array_split(draw.permutation(len(points)), 2)
        return cls(points[first], classes[first], points[second], classes[second])

    def error(self, metric: Metric) -> float:
        """In percent."""
        places, others = metric.embed(self.points), metric.embed(self.held_out)
        return 100 * knn_error(places, self.classes, N_NEIGHBORS, test_points=others, test_labels=self.held_out_classes)


class Now:
    """What the chooser asks of a view, of a tracker as it is now."""

    def __init__(self, points: Floats, ocelad: Ocelad[Any, Metric]) -> None:
        self.points, self._ocelad = points, ocelad
        self.metric, self.shares = ocelad.play(), ocelad.round_state.probabilities

    @property
    def learners(self) -> list[Metric]:
        bank: Any = self._ocelad.bank
        return [bank.learner(j) for j in range(len(self.shares))]

    def margins(self, left: np.ndarray, right: np.ndarray) -> Floats:
        differences = self.points[left] - self.points[right]
        return np.asarray(self.metric.threshold - self.metric.squared_length(differences))


def errors(trial: tuple[str, str, int], checkpoints: tuple[int, ...]) -> list[float]:
    """The error after so many answers, of one task and way of asking."""
    name, way, seed = trial
    task = Task.drawn(name, seed)
    n_items, n_features = task.points.shape
    # Not the engine of the first rounds, whose learners are held otherwise; the results are the same.
    tracker = MetricTracker(method=method_from_settings({"engine": "fullrank", **default_settings(n_features)})).start(n_features)
    chooser = Chooser(n_items, random_share=WAYS[way], seed=seed)
    found = []
    for n_answers in range(max(checkpoints) + 1):
        view = Now(task.points, tracker._fitted.ocelad)
        if n_answers in checkpoints:
            found.append(task.error(view.metric))
        choice = chooser.next(view)
        similar = bool(task.classes[choice.left] == task.classes[choice.right])
        chooser.note(choice.left, choice.right, "same" if similar else "different")
        tracker.learn_one(task.points[choice.left], task.points[choice.right], similar)
    return found


def rows_of(found: Floats, checkpoints: tuple[int, ...]) -> list[dict[str, float | str]]:
    """One row per task and number of answers; ``found`` is of shape (n_tasks, n_ways, n_seeds, n_checkpoints)."""
    rows: list[dict[str, float | str]] = []
    for task, (random, active) in zip(TASKS, found, strict=True):
        for place, n_answers in enumerate(checkpoints[1:], start=1):
            difference = active[:, place] - random[:, place]
            rows.append(
                {
                    "task": task,
                    "answers": n_answers,
                    "none": float(random[:, 0].mean()),
                    "random": float(random[:, place].mean()),
                    "active": float(active[:, place].mean()),
                    "difference": float(difference.mean()),
                    "standard error": float(difference.std(ddof=1) / np.sqrt(len(difference))),
                    "better": int((difference < 0).sum()),
                    "worse": int((difference > 0).sum()),
                }
            )
    return rows


def draw_errors(found: Floats, checkpoints: tuple[int, ...], path: Path) -> None:
    """The mean error against the number of answers, one panel per task."""
    figure, panels = pyplot().subplots(1, len(TASKS), figsize=(10, 3.2), layout="constrained")
    for panel, task, ways in zip(panels, TASKS, found, strict=True):
        for way, values, colour in zip(WAYS, ways, PALETTE, strict=False):
            mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(values.shape[0])
            panel.plot(checkpoints, mean, color=colour, label=way)
            panel.fill_between(checkpoints, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
        panel.axhline(ways[0, :, 0].mean(), color=GREY, linestyle=":", label="Euclidean")
        panel.set(title=task, xlabel="answers", ylim=(0, None))
    panels[0].set_ylabel("5-NN error, held out (%)")
    panels[0].legend(frameon=False)
    save_picture(figure, path)


@click.command()
@click.option("--seeds", default=40, show_default=True, type=click.IntRange(2), help="How many, from the first on.")
@click.option("--first", default=0, show_default=True, type=click.IntRange(0), help="The first seed.")
@click.option("--quick", is_flag=True, help=f"Only up to {CLAIMED} answers, and no picture.")
@click.option("--picture", type=click.Path(path_type=Path), help="Draw the errors into this file.")
def main(seeds: int, first: int, quick: bool, picture: Path | None) -> None:
    """Measure both ways of asking on all tasks and print the table."""
    console = Console(width=120)
    checkpoints = (0, 20, CLAIMED) if quick else (0, 5, 10, 15, 20, 30, CLAIMED, 60, 80, 100, 150, 200)
    trials = [(task, way, first + seed) for task in TASKS for way in WAYS for seed in range(seeds)]
    with Progress(console=console) as bar:
        job = bar.add_task("trials", total=len(trials))
        progress = partial(bar.update, job)
        answers = map_trials(
            partial(errors, checkpoints=checkpoints),
            trials,
            backend="processes",
            progress=lambda done: progress(completed=done),
        )
    found = np.array(answers).reshape(len(TASKS), len(WAYS), seeds, -1)
    rows = rows_of(found, checkpoints)
    shown = [row for row in rows if row["answers"] in (20, CLAIMED, 100, 200)]
    show(console, f"Held-out {N_NEIGHBORS}-NN error in %, mean over {seeds} seeds", shown)
    if not quick:
        settings = {"seeds": [first, first + seeds - 1], "tracker": default_settings(25)}
        console.print(f"Written to {save('choice', settings, rows)}")
    if picture is not None:
        draw_errors(found, checkpoints, picture)


if __name__ == "__main__":
    main()
