"""The paper's synthetic experiment (section VI-A, figure 3): methods on the same streams, trial by trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer
from ocelad.evaluation.streams import DriftingClusters
from ocelad.evaluation.streams.drifting_clusters import SUBSPACES
from ocelad.lab.compare import METHODS, STREAMS, Method
from ocelad.lab.compare.comparison_streams import SCENE_POINTS
from ocelad.lab.compare.methods import parsed
from ocelad.lab.compare.scoring import FOUND
from ocelad.lab.compare.trial import run_trial
from ocelad.lab.runner import Answer, Runner, Task

#: The paper's methods, then those beside them.
FIGURE_METHODS = (
    "rice-hinge",
    "rice",
    "comid",
    "comid-slow",
    "comid-decaying",
    "itml-online",
    "saol",
    "lmnn-start",
    "cbce",
    "comid-oracle",
)
#: What the others are held against: the paper's method with the paper's loss.
REFERENCE = "rice-hinge"
#: On how many streams it is measured how fast the true metric moves.
DRIFT_TRIALS = 20


def trial(task: Task, given: None) -> Answer:
    """How many of 600 points each method gets wrong at each evaluation, and whether it finds the clusters.

    >>> answer = trial({"seed": 0, "methods": ["comid"], "every": 2000}, None)
    >>> answer["rounds"], len(answer["found"]["comid"])
    ([2000, 4000, 6000], 3)
    """
    records = run_trial(STREAMS["paper"], _methods(task["methods"]), task["seed"], task["every"], by_pairs=False)
    longest = max(records, key=lambda record: len(record.rounds))
    wrong = {r.method: [round(SCENE_POINTS * error) for error in r.measured("knn_error").tolist()] for r in records}
    found = {r.method: "".join("01"[bool(nmi > FOUND)] for nmi in r.measured("nmi")) for r in records}
    failed = {r.method: r.failed for r in records if r.failed is not None}
    return {"rounds": longest.rounds, "phases": longest.phases, "wrong": wrong, "found": found, "failed": failed}


def drift_trial(task: Task, given: None) -> Answer:
    """How far the projector on the subspace of the clustering asked for moves before each round, in Frobenius norm.

    >>> moved = drift_trial({"seed": 0}, None)["moved"]
    >>> moved[500], round(moved[1000], 2), bool(0.01 < moved[1500] < 0.05)
    (0.0, 2.45, True)
    """
    bases = np.array([m.rotation[:, SUBSPACES[m.phase.clustering]] for m in DriftingClusters(seed=task["seed"])])
    # ||P - Q||^2 = 2 rank - 2 tr(PQ), and the trace is that of the bases' inner products, squared.
    overlaps = np.square(bases[:-1].transpose(0, 2, 1) @ bases[1:]).sum(axis=(1, 2))
    moved = np.sqrt(np.maximum(0.0, 2 * bases.shape[2] - 2 * overlaps))
    # Below a millionth it is rounding.
    return {"moved": [0.0, *(round(value, 6) + 0.0 for value in moved.tolist())]}


def tables(
    runner: Runner, data: Path | None, /, *, trials: int, first_seed: int, methods: str, every: int
) -> dict[str, dict[str, Any]]:
    """The curves of all methods over the rounds, their means over the phases, and the drift.

    Parameters
    ----------
    trials, first_seed : int
        How many streams, and the seed of the first.
    methods : str
        Names, with settings where they shall be others (``comid:step_size=1e-3``), and blanks between.
    every : int
        Rounds between evaluations.
    """
    del data  # the streams are drawn
    check_integer(trials, "trials", at_least=1)
    check_integer(first_seed, "first_seed", at_least=0)
    check_integer(every, "every", at_least=1, at_most=STREAMS["paper"].rounds)
    chosen = _methods(methods.split())
    labels = [method.label for method in chosen]
    seeds = range(first_seed, first_seed + trials)
    drifts = runner.run("drift", drift_trial, [{"seed": seed} for seed in seeds[:DRIFT_TRIALS]])
    tasks = [{"seed": seed, "methods": labels, "every": every} for seed in seeds]
    answers = runner.run("tracking", trial, tasks)
    curves, overall = _summed(answers, labels)
    moved = np.mean([answer["moved"] for answer in drifts], axis=0)
    return {
        "curves": curves,
        "overall": overall,
        "drift": {"round": np.arange(1, len(moved) + 1), "moved": moved},
        "methods": {
            "method": labels,
            "about": [method.metadata for method in chosen],
            "settings": [", ".join(f"{key}={value}" for key, value in method.values.items()) for method in chosen],
            "told": [", ".join(sorted(method.needs)) for method in chosen],
            "failures": [sum(label in answer["failed"] for answer in answers) for label in labels],
        },
    }


def _methods(names: Sequence[str]) -> list[Method]:
    if not names:
        raise ValueError("no method is named; accepted: at least one")
    return [parsed(name, METHODS) for name in names]


def _summed(answers: Sequence[Answer], labels: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Means over the trials at each evaluation, and over the phases."""
    longest = max(answers, key=lambda answer: len(answer["rounds"]))
    rounds, phases = longest["rounds"], np.array(longest["phases"])
    scores = {label: _scores(answers, label, len(rounds)) for label in labels}
    curves: dict[str, list[Any]] = {"method": [], "round": [], "phase": []}
    overall: dict[str, list[Any]] = {"method": [], "phase": []}
    for label in labels:
        curves["method"] += [label] * len(rounds)
        curves["round"] += rounds
        curves["phase"] += phases.tolist()
        for measure, of_trials in scores[label].items():
            for column, values in zip(("", "_se"), _means(of_trials), strict=True):
                curves.setdefault(measure + column, []).extend(values.tolist())
        for phase in (*dict.fromkeys(phases.tolist()), "all"):
            overall["method"].append(label)
            overall["phase"].append(phase)
            where = np.ones(len(phases), dtype=bool) if phase == "all" else phases == phase
            for column, value in _of_phase(scores, label, where).items():
                overall.setdefault(column, []).append(value)
    return curves, overall


def _of_phase(scores: Mapping[str, Mapping[str, Floats]], label: str, where: np.ndarray) -> dict[str, float]:
    """Means over some evaluations with their standard errors, and what the reference has less, trial by trial."""
    result: dict[str, float] = {}
    for measure, of_trials in scores[label].items():
        means = of_trials[:, where].mean(axis=1)
        result[measure], result[f"{measure}_se"] = (float(value[0]) for value in _means(means[:, None]))
        if REFERENCE in scores:
            more = means - scores[REFERENCE][measure][:, where].mean(axis=1)
            result[f"{measure}_more"], result[f"{measure}_more_se"] = (float(v[0]) for v in _means(more[:, None]))
    result["trials"] = int(np.isfinite(scores[label]["knn_error"][:, where]).all(axis=1).sum())
    return result


def _scores(answers: Sequence[Answer], label: str, n_rounds: int) -> dict[str, Floats]:
    """Errors and findings in percent, a row for each trial; NaN from where a method failed."""
    knn_error, found = np.full((2, len(answers), n_rounds), np.nan)
    for row, answer in enumerate(answers):
        wrong, hits = answer["wrong"][label], answer["found"][label]
        knn_error[row, : len(wrong)] = wrong
        found[row, : len(hits)] = [int(hit) for hit in hits]
    return {"knn_error": 100 * knn_error / SCENE_POINTS, "found": 100 * found}


def _means(values: Floats) -> tuple[Floats, Floats]:
    """Of each column the mean over the trials that came so far, and its standard error."""
    count = np.isfinite(values).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(values, axis=0) / count
        variance = np.nansum((values - mean) ** 2, axis=0) / (count - 1)
        return mean, np.sqrt(variance / count)
