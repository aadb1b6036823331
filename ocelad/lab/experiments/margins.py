"""The margin constraints of equation (2) in the plane, before and after learning by COMID (figure 1)."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer
from ocelad.lab.experiments.to_columns import to_columns
from ocelad.lab.runner import Answer, Runner, Task
from ocelad.learners.comid import Comid
from ocelad.metric import Metric
from ocelad.pairs import Event

#: Three classes side by side, elongated in one direction and narrow in the other, which separates them.
CENTRES = ((0.0, 0.0), (1.6, -0.9), (-1.5, 1.3))
SPREADS = (0.3, 1.4)
ANGLE = 0.6
POINTS_PER_CLASS = 16
#: The start of the learner, with which most pairs are near the threshold.
FIRST_SCALE, FIRST_THRESHOLD = 0.7, 3.0
STEP_SIZE = 0.02


class LabelledPoints(NamedTuple):
    """Points of the plane with their classes; the first is the point of interest."""

    points: Floats
    classes: np.ndarray


def draw_points(seed: int, per_class: int = POINTS_PER_CLASS) -> LabelledPoints:
    """Draw three classes of equal size; the first point is the one nearest to the centre of its class.

    >>> sample = draw_points(seed=0)
    >>> sample.points.shape, sample.classes[0]
    ((48, 2), np.int64(0))
    """
    rng = np.random.default_rng(seed)
    classes = np.repeat(np.arange(len(CENTRES)), per_class)
    points = rng.normal(size=(len(classes), 2)) * SPREADS + np.array(CENTRES)[classes]
    first = np.square(points[:per_class]).sum(axis=1).argmin()
    order = np.append(first, np.delete(np.arange(len(classes)), first))
    rotation = np.array([[np.cos(ANGLE), -np.sin(ANGLE)], [np.sin(ANGLE), np.cos(ANGLE)]])
    return LabelledPoints((points @ rotation.T)[order], classes[order])


def trial(task: Task, context: None) -> Answer:
    """Train a COMID learner on pairs of points; return the violations before and after, also among new points.

    >>> answer = trial({"seed": 0, "pairs": 100}, None)
    >>> answer["before"]["violated"]["all"] > answer["after"]["violated"]["all"]
    True
    """
    sample, new = draw_points(2 * task["seed"]), draw_points(2 * task["seed"] + 1)
    learner = Comid(Metric(FIRST_SCALE * np.eye(2), FIRST_THRESHOLD), step_size=STEP_SIZE)
    before = learner.play()
    rng = np.random.default_rng([task["seed"], task["pairs"]])
    for _ in range(task["pairs"]):
        first, second = rng.choice(len(sample.points), size=2, replace=False)
        same = sample.classes[first] == sample.classes[second]
        learner.update(Event(sample.points[first] - sample.points[second], 1.0 if same else -1.0))
    return {
        "points": sample.points.tolist(),
        "classes": sample.classes.tolist(),
        "before": _evaluate(before, sample, new),
        "after": _evaluate(learner.play(), sample, new),
    }


def compute_tables(
    runner: Runner, reviews_folder: Path | None, /, *, trials: int, first_seed: int, pairs: int
) -> dict[str, Any]:
    """Compute the points and metrics of the first trial, and the shares of violated constraints in all trials.

    Parameters
    ----------
    trials, first_seed : int
        The number of samples of points, and the seed of the first, which the figure shows.
    pairs : int
        The number of pairs that the learner sees.
    """
    del reviews_folder  # the points are synthetic
    check_integer(trials, "trials", at_least=1)
    check_integer(first_seed, "first_seed", at_least=0)
    check_integer(pairs, "pairs", at_least=1)
    tasks = [{"seed": first_seed + at, "pairs": pairs} for at in range(trials)]
    answers = runner.run("margins", trial, tasks)
    metrics, violated = [], []
    for when in ("before", "after"):
        (M11, M12), (_, M22) = answers[0][when]["matrix"]
        metrics.append({"when": when, "threshold": answers[0][when]["threshold"], "M11": M11, "M12": M12, "M22": M22})
        for task, answer in zip(tasks, answers, strict=True):
            violated.append({"trial": task["seed"], "when": when, **answer[when]["violated"]})
    return {"points": _point_table(answers[0]), "metrics": to_columns(metrics), "violated": to_columns(violated)}


def map_points(metric: Metric, points: Floats) -> Floats:
    """Map points so that their Euclidean distances are those of the metric, with the first point at the origin.

    The map is the symmetric square root of M, which does not rotate the points: of all linear maps with these
    distances it changes the points least.

    >>> map_points(Metric([[4.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 1.0], [2.0, 3.0]]))
    array([[0., 0.],
           [2., 2.]])
    """
    eigenvalues, vectors = np.linalg.eigh(metric.matrix)
    root = (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T
    return np.asarray((points - points[0]) @ root)


def is_violated(squared: Floats, same: np.ndarray, threshold: float) -> np.ndarray:
    """Return whether each pair violates equation (2): ``d2 <= mu - 1`` if it is similar, ``d2 >= mu + 1`` if not.

    >>> is_violated(np.array([1.0, 1.5, 3.0, 2.5]), np.array([True, True, False, False]), threshold=2.0)
    array([False,  True, False,  True])
    """
    return np.where(same, squared > threshold - 1.0, squared < threshold + 1.0)


def _evaluate(metric: Metric, sample: LabelledPoints, new: LabelledPoints) -> dict[str, Any]:
    """Return the metric, and the shares of violated constraints among the sample and among new points."""
    violated = {}
    for name, (points, classes) in (("", sample), ("new_", new)):
        first, second = np.array(list(combinations(range(len(points)), 2))).T
        u, same = points[first] - points[second], classes[first] == classes[second]
        broken = is_violated(((u @ metric.matrix) * u).sum(axis=1), same, metric.threshold)
        violated[f"{name}similar"] = float(broken[same].mean())
        violated[f"{name}dissimilar"] = float(broken[~same].mean())
        violated[f"{name}all"] = float(broken.mean())
    return {"matrix": metric.matrix.tolist(), "threshold": metric.threshold, "violated": violated}


def _point_table(answer: Answer) -> dict[str, Any]:
    points, classes = np.array(answer["points"]), np.array(answer["classes"])
    table: dict[str, Any] = {"class": classes, "x1": points[:, 0], "x2": points[:, 1]}
    for when in ("before", "after"):
        metric = Metric(answer[when]["matrix"], answer[when]["threshold"])
        mapped = map_points(metric, points)
        squared = np.square(mapped).sum(axis=1)
        table[f"{when}_x1"], table[f"{when}_x2"] = mapped.T
        table[f"{when}_violated"] = is_violated(squared, classes == classes[0], metric.threshold)
    return table
