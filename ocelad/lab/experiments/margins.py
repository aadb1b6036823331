"""The margin constraints of equation (2) before and after a COMID learner has seen pairs, in the plane (figure 1)."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer
from ocelad.lab.experiments.columns import columns
from ocelad.lab.runner import Answer, Runner, Task
from ocelad.learners.comid import Comid
from ocelad.metric import Metric
from ocelad.pairs import Event

#: Three classes side by side, long in one direction and narrow in the other, which tells them apart.
CENTRES = ((0.0, 0.0), (1.6, -0.9), (-1.5, 1.3))
SPREADS = (0.3, 1.4)
ANGLE = 0.6
POINTS_PER_CLASS = 16
#: Where the learner starts: such distances that most pairs are near the threshold.
FIRST_SCALE, FIRST_THRESHOLD = 0.7, 3.0
STEP_SIZE = 0.02


class Places(NamedTuple):
    """Points of the plane and their classes; the point of interest is the first."""

    points: Floats
    classes: np.ndarray


def scattered(seed: int, per_class: int = POINTS_PER_CLASS) -> Places:
    """Three classes, as many points in each, and first the one that is nearest to the middle of its class.

    >>> places = scattered(seed=0)
    >>> places.points.shape, places.classes[0]
    ((48, 2), np.int64(0))
    """
    rng = np.random.default_rng(seed)
    classes = np.repeat(np.arange(len(CENTRES)), per_class)
    points = rng.normal(size=(len(classes), 2)) * SPREADS + np.array(CENTRES)[classes]
    first = np.square(points[:per_class]).sum(axis=1).argmin()
    order = np.append(first, np.delete(np.arange(len(classes)), first))
    round_state = np.array([[np.cos(ANGLE), -np.sin(ANGLE)], [np.sin(ANGLE), np.cos(ANGLE)]])
    return Places((points @ round_state.T)[order], classes[order])


def trial(task: Task, given: None) -> Answer:
    """A COMID learner sees pairs of points; what is violated before and after, among them and among new points.

    >>> answer = trial({"seed": 0, "pairs": 100}, None)
    >>> answer["before"]["violated"]["all"] > answer["after"]["violated"]["all"]
    True
    """
    places, others = scattered(2 * task["seed"]), scattered(2 * task["seed"] + 1)
    learner = Comid(Metric(FIRST_SCALE * np.eye(2), FIRST_THRESHOLD), step_size=STEP_SIZE)
    before = learner.play()
    rng = np.random.default_rng([task["seed"], task["pairs"]])
    for _ in range(task["pairs"]):
        first, second = rng.choice(len(places.points), size=2, replace=False)
        same = places.classes[first] == places.classes[second]
        learner.update(Event(places.points[first] - places.points[second], 1.0 if same else -1.0))
    told = {"before": _told(before, places, others), "after": _told(learner.play(), places, others)}
    return {"points": places.points.tolist(), "classes": places.classes.tolist(), **told}


def tables(runner: Runner, data: Path | None, /, *, trials: int, first_seed: int, pairs: int) -> dict[str, Any]:
    """Where the points of the first trial are, what the metric is, and how much is violated in all trials.

    Parameters
    ----------
    trials, first_seed : int
        How many sets of points, and the seed of the first, which is drawn.
    pairs : int
        How many pairs the learner sees.
    """
    del data  # the points are drawn
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
    return {"points": _points(answers[0]), "metrics": columns(metrics), "violated": columns(violated)}


def in_place(metric: Metric, points: Floats) -> Floats:
    """The points where the metric sees them, the first of them at the origin.

    By the symmetric root of M, so that nothing turns: of all maps with these distances the one nearest to the points.

    >>> in_place(Metric([[4.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 1.0], [2.0, 3.0]]))
    array([[0., 0.],
           [2., 2.]])
    """
    eigenvalues, vectors = np.linalg.eigh(metric.matrix)
    root = (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T
    return np.asarray((points - points[0]) @ root)


def is_violated(squared: Floats, same: np.ndarray, threshold: float) -> np.ndarray:
    """Whether a pair breaks equation (2): ``d2 <= mu - 1`` if it is similar, ``d2 >= mu + 1`` if not.

    >>> is_violated(np.array([1.0, 1.5, 3.0, 2.5]), np.array([True, True, False, False]), threshold=2.0)
    array([False,  True, False,  True])
    """
    return np.where(same, squared > threshold - 1.0, squared < threshold + 1.0)


def _told(metric: Metric, places: Places, others: Places) -> dict[str, Any]:
    violated = {}
    for name, (points, classes) in (("", places), ("new_", others)):
        first, second = np.array(list(combinations(range(len(points)), 2))).T
        u, same = points[first] - points[second], classes[first] == classes[second]
        broken = is_violated(((u @ metric.matrix) * u).sum(axis=1), same, metric.threshold)
        violated[f"{name}similar"] = float(broken[same].mean())
        violated[f"{name}dissimilar"] = float(broken[~same].mean())
        violated[f"{name}all"] = float(broken.mean())
    return {"matrix": metric.matrix.tolist(), "threshold": metric.threshold, "violated": violated}


def _points(shown: Answer) -> dict[str, Any]:
    points, classes = np.array(shown["points"]), np.array(shown["classes"])
    table: dict[str, Any] = {"class": classes, "x1": points[:, 0], "x2": points[:, 1]}
    for when in ("before", "after"):
        metric = Metric(shown[when]["matrix"], shown[when]["threshold"])
        places = in_place(metric, points)
        squared = np.square(places).sum(axis=1)
        table[f"{when}_x1"], table[f"{when}_x2"] = places.T
        table[f"{when}_violated"] = is_violated(squared, classes == classes[0], metric.threshold)
    return table
