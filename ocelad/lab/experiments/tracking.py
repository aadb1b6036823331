"""The paper's synthetic experiment (section VI-A, figure 3): methods on the same drifting streams."""

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
from ocelad.lab.compare.block_streams import N_EVAL_POINTS
from ocelad.lab.compare.methods import check_known, parse_method
from ocelad.lab.compare.scoring import NMI_THRESHOLD
from ocelad.lab.compare.trial import run_trial
from ocelad.lab.runner import Answer, Runner, Task
from ocelad.lab.statistics import estimate_columns

#: The paper's methods, then additional ones.
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
#: The method that the others are compared with: the paper's method with the paper's loss.
REFERENCE = "rice-hinge"
#: The number of streams over which the speed of the true metric is averaged.
DRIFT_TRIALS = 20


def trial(task: Task, context: None) -> Answer:
    """Return how many of 600 points each method misclassifies at each evaluation, and whether it finds the clusters.

    >>> answer = trial({"seed": 0, "methods": ["comid"], "every": 2000}, None)
    >>> answer["rounds"], len(answer["found"]["comid"])
    ([2000, 4000, 6000], 3)
    """
    records = run_trial(STREAMS["paper"], _methods(task["methods"]), task["seed"], task["every"], score_pairs=False)
    longest = max(records, key=lambda record: len(record.rounds))
    wrong = {r.method: [round(N_EVAL_POINTS * error) for error in r.values("knn_error").tolist()] for r in records}
    found = {r.method: "".join("01"[bool(nmi > NMI_THRESHOLD)] for nmi in r.values("nmi")) for r in records}
    failed = {r.method: r.failure for r in records if r.failure is not None}
    return {"rounds": longest.rounds, "phases": longest.phases, "wrong": wrong, "found": found, "failed": failed}


def drift_trial(task: Task, context: None) -> Answer:
    """Return how far the projector onto the current clustering's subspace moves before each round (Frobenius norm).

    >>> moved = drift_trial({"seed": 0}, None)["moved"]
    >>> moved[500], round(moved[1000], 2), bool(0.01 < moved[1500] < 0.05)
    (0.0, 2.45, True)
    """
    bases = np.array([m.rotation[:, SUBSPACES[m.phase.clustering]] for m in DriftingClusters(seed=task["seed"])])
    # ||P - Q||^2 = 2 rank - 2 tr(PQ), and tr(PQ) is the sum of the squared inner products of the bases.
    overlaps = np.square(bases[:-1].transpose(0, 2, 1) @ bases[1:]).sum(axis=(1, 2))
    moved = np.sqrt(np.maximum(0.0, 2 * bases.shape[2] - 2 * overlaps))
    # Movements below 1e-6 are rounding errors.
    return {"moved": [0.0, *(round(value, 6) + 0.0 for value in moved.tolist())]}


def compute_tables(
    runner: Runner, reviews_folder: Path | None, /, *, trials: int, first_seed: int, methods: str, every: int
) -> dict[str, dict[str, Any]]:
    """Compute the curves of all methods over the rounds, their means in each phase, and the drift.

    Parameters
    ----------
    trials, first_seed : int
        The number of streams, and the seed of the first.
    methods : str
        Names, separated by blanks, each optionally with settings (``comid:step_size=1e-3``).
    every : int
        Rounds between evaluations.
    """
    del reviews_folder  # the streams are synthetic
    check_settings(trials=trials, first_seed=first_seed, methods=methods, every=every)
    chosen = _methods(methods.split())
    labels = [method.label for method in chosen]
    seeds = range(first_seed, first_seed + trials)
    drifts = runner.run("drift", drift_trial, [{"seed": seed} for seed in seeds[:DRIFT_TRIALS]])
    tasks = [{"seed": seed, "methods": labels, "every": every} for seed in seeds]
    answers = runner.run("tracking", trial, tasks)
    curves, overall = _summarize(answers, labels)
    moved = np.mean([answer["moved"] for answer in drifts], axis=0)
    return {
        "curves": curves,
        "overall": overall,
        "drift": {"round": np.arange(1, len(moved) + 1), "moved": moved},
        "methods": {
            "method": labels,
            "about": [method.description for method in chosen],
            "settings": [", ".join(f"{key}={value}" for key, value in method.settings.items()) for method in chosen],
            "told": [", ".join(sorted(method.requires)) for method in chosen],
            "failures": [sum(label in answer["failed"] for answer in answers) for label in labels],
        },
    }


def check_settings(*, trials: int, first_seed: int, methods: str, every: int) -> None:
    """Raise ValueError or TypeError if a setting of ``compute_tables`` is wrong, before anything is computed."""
    check_integer(trials, "trials", at_least=1)
    check_integer(first_seed, "first_seed", at_least=0)
    check_integer(every, "every", at_least=1, at_most=STREAMS["paper"].rounds)
    for method in _methods(methods.split()):
        method.check_settings(STREAMS["paper"])


def _methods(names: Sequence[str]) -> list[Method]:
    if not names:
        raise ValueError("methods must name at least one method; got none")
    check_known(names, METHODS)
    return [parse_method(name, METHODS) for name in names]


def _summarize(answers: Sequence[Answer], labels: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the means over the trials at each evaluation, and in each phase."""
    longest = max(answers, key=lambda answer: len(answer["rounds"]))
    rounds, phases = longest["rounds"], np.array(longest["phases"])
    scores = {label: _scores(answers, label, len(rounds)) for label in labels}
    curves: dict[str, list[Any]] = {"method": [], "round": [], "phase": []}
    overall: dict[str, list[Any]] = {"method": [], "phase": []}
    for label in labels:
        curves["method"] += [label] * len(rounds)
        curves["round"] += rounds
        curves["phase"] += phases.tolist()
        for measure, values_of_trials in scores[label].items():
            for column, values in zip(("", "_se"), estimate_columns(values_of_trials), strict=True):
                curves.setdefault(measure + column, []).extend(values.tolist())
        for phase in (*dict.fromkeys(phases.tolist()), "all"):
            overall["method"].append(label)
            overall["phase"].append(phase)
            where = np.ones(len(phases), dtype=bool) if phase == "all" else phases == phase
            for column, value in _summarize_phase(scores, label, where).items():
                overall.setdefault(column, []).append(value)
    return curves, overall


def _summarize_phase(scores: Mapping[str, Mapping[str, Floats]], label: str, where: np.ndarray) -> dict[str, float]:
    """Return the means over some evaluations and the paired differences to the reference, with standard errors."""
    result: dict[str, float] = {}
    for measure, values in scores[label].items():
        means = values[:, where].mean(axis=1)
        result[measure], result[f"{measure}_se"] = (float(value[0]) for value in estimate_columns(means[:, None]))
        if REFERENCE in scores:
            more = means - scores[REFERENCE][measure][:, where].mean(axis=1)
            result[f"{measure}_more"], result[f"{measure}_more_se"] = (
                float(v[0]) for v in estimate_columns(more[:, None])
            )
    result["trials"] = int(np.isfinite(scores[label]["knn_error"][:, where]).all(axis=1).sum())
    return result


def _scores(answers: Sequence[Answer], label: str, n_rounds: int) -> dict[str, Floats]:
    """Return the errors and the shares of found clusters in percent, one row per trial; NaN after a failure."""
    knn_error, found = np.full((2, len(answers), n_rounds), np.nan)
    for row, answer in enumerate(answers):
        wrong, hits = answer["wrong"][label], answer["found"][label]
        knn_error[row, : len(wrong)] = wrong
        found[row, : len(hits)] = [int(hit) for hit in hits]
    return {"knn_error": 100 * knn_error / N_EVAL_POINTS, "found": 100 * found}
