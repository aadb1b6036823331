"""The regret on every interval of the paper's stream against the true metric (section V)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack

from ocelad._typing import Floats
from ocelad._validation import check_integer
from ocelad.engines.rice import track_metric
from ocelad.ensemble.ocelad import Ocelad
from ocelad.evaluation.regret import Regret, WorstIntervals
from ocelad.evaluation.streams import DriftingClusters
from ocelad.lab.baselines.saol import saol
from ocelad.lab.compare import METHODS
from ocelad.lab.demo import scale_phases
from ocelad.lab.experiments.to_columns import to_columns
from ocelad.lab.runner import Answer, Runner, Task

#: The theorem's method, a single learner, and the method that the paper improves upon; all with the theorem's loss.
METHOD_NAMES = ("rice-hinge", "comid", "saol")
#: The comparators: the true metric as it moves, and the best of some fixed metrics.
COMPARATORS = ("moving", "still")
#: The number of interval lengths in the tables. The bound is checked at all lengths.
N_LENGTHS = 60


class StreamTruth(NamedTuple):
    """The labels of a stream and the distances by its true metrics.

    Attributes
    ----------
    y : array of shape (n_rounds,)
        The labels.
    moving : array of shape (n_rounds,)
        The squared length of each difference by the true metric of its round.
    movements : array of shape (n_rounds - 1,)
        The distance by which the true metric moves after each round, in Frobenius norm.
    still : array of shape (n_rounds, n_phases)
        The squared lengths by the true metric in the middle of each phase.
    """

    y: Floats
    moving: Floats
    movements: Floats
    still: Floats


def trial(task: Task, context: None) -> Answer:
    """Return the worst intervals of one stream for each method and each comparator.

    >>> answer = trial({"seed": 0, "rounds": 60}, None)
    >>> sorted(answer["runs"]), answer["lengths"][-1]
    (['comid', 'rice-hinge', 'saol'], 60)
    """
    stream = DriftingClusters(scale_phases(task["rounds"]), seed=task["seed"])
    truth = _compute_truth(stream)
    scale, threshold = fit_scale(truth.moving, truth.y)
    moving = _hinge_losses(truth.y * (threshold - scale * truth.moving))
    still = _hinge_losses(truth.y[:, None] * (threshold - scale * truth.still))
    lengths = table_lengths(len(stream))
    runs = {}
    for method in METHOD_NAMES:
        margins = _make_tracker(method, stream.n_features, task["seed"]).replay(stream.events())
        assert margins is not None  # ensembles of metrics return margins
        losses = _hinge_losses(margins)
        regrets = {"moving": Regret(losses, moving, scale * truth.movements), "still": Regret(losses, still)}
        worst = {name: _summarize_worst(regret.worst_intervals(), lengths) for name, regret in regrets.items()}
        runs[method] = {"loss": float(losses.mean()), **worst}
    return {
        "lengths": lengths,
        "scale": scale,
        "threshold": threshold,
        "loss": float(moving.mean()),
        "path_length": float(scale * truth.movements.sum()),
        "runs": runs,
    }


def compute_tables(
    runner: Runner, reviews_folder: Path | None, /, *, trials: int, first_seed: int, rounds: int
) -> dict[str, Any]:
    """Compute the worst regret at each length over the trials, and the largest ratio to the bound in each trial.

    Parameters
    ----------
    trials, first_seed : int
        The number of streams, and the seed of the first.
    rounds : int
        The length of the streams; the paper's phases are scaled to fit.
    """
    del reviews_folder  # the streams are synthetic
    check_integer(trials, "trials", at_least=1)
    check_integer(first_seed, "first_seed", at_least=0)
    check_integer(rounds, "rounds", at_least=60)
    tasks = [{"seed": seed, "rounds": rounds} for seed in range(first_seed, first_seed + trials)]
    answers = runner.run("regret", trial, tasks)
    worst, per_trial = [], []
    for method, comparator in product(METHOD_NAMES, COMPARATORS):
        runs = [answer["runs"][method][comparator] for answer in answers]
        key = {"method": method, "comparator": comparator}
        for index, length in enumerate(answers[0]["lengths"]):
            worst.append({**key, "length": length, **_summarize_trials(runs, index)})
        for task, answer, run in zip(tasks, answers, runs, strict=True):
            numbers = {name: run[name] for name in ("total", "share", "length")}
            per_trial.append({"trial": task["seed"], **key, "loss": answer["runs"][method]["loss"], **numbers})
    names = ("scale", "threshold", "loss", "path_length")
    truth = [{"trial": t["seed"], **{name: a[name] for name in names}} for t, a in zip(tasks, answers, strict=True)]
    return {"worst": to_columns(worst), "trials": to_columns(per_trial), "truth": to_columns(truth)}


def table_lengths(rounds: int) -> list[int]:
    """Return interval lengths from 1 to the number of rounds, evenly spaced on a logarithmic scale.

    >>> table_lengths(6)
    [1, 2, 3, 4, 5, 6]
    """
    return sorted({round(length) for length in np.geomspace(1, rounds, N_LENGTHS).tolist()})


def fit_scale(squared: Floats, y: Floats) -> tuple[float, float]:
    """Return the scale c and the threshold mu with which ``c M`` has the least total hinge loss in hindsight.

    The hinge loss requires a margin of 1 on both sides, so that the loss of a comparator depends on its scale. The best
    scale gives the strongest comparator, and hence the largest regret. It is the solution of a linear programme:
    minimise the sum of xi subject to ``xi >= 1 - y (mu - c d2)``.

    Parameters
    ----------
    squared, y : arrays of shape (n_rounds,)
        The squared lengths of the differences by M, and the labels.

    Examples
    --------
    >>> c, mu = fit_scale(np.array([0.0, 1.0]), np.array([1.0, -1.0]))
    >>> round(c, 6), round(mu, 6)
    (2.0, 1.0)
    """
    n = len(y)
    constraints: Any = hstack([csr_array(np.stack([y * squared, -y], axis=1)), -eye_array(n)])
    bounds = [(0, None), (1, None), *[(0, None)] * n]
    solution = linprog(np.append([0.0, 0.0], np.ones(n)), A_ub=constraints, b_ub=-np.ones(n), bounds=bounds)
    if solution.x is None:
        raise ArithmeticError(f"the best scale of the true metric was not found: {solution.message}")
    return float(solution.x[0]), float(solution.x[1])


def _compute_truth(stream: DriftingClusters) -> StreamTruth:
    ends = np.cumsum([phase.length for phase in stream.phases])
    middles = {int(end) - phase.length // 2 for end, phase in zip(ends, stream.phases, strict=True)}
    y, moving, movements, candidates = [], [], [], []
    before = None
    events = stream.events()
    for step, event in zip(stream, events, strict=True):
        M = step.true_metric().matrix
        y.append(event.y)
        moving.append(event.u @ M @ event.u)
        if before is not None:
            movements.append(np.linalg.norm(M - before))
        if step.round in middles:
            candidates.append(M)
        before = M
    still = np.stack([((events.U @ M) * events.U).sum(axis=1) for M in candidates], axis=1)
    return StreamTruth(np.array(y), np.array(moving), np.array(movements), still)


def _make_tracker(name: str, n_features: int, seed: int) -> Ocelad[Any, Any]:
    """Return a method with its default settings of ``ocelad compare``."""
    settings = METHODS[name].settings
    if name == "saol":
        return saol(n_features, seed=seed, **settings)
    return track_metric(n_features, n_scales=1 if name == "comid" else None, **settings)


def _hinge_losses(margins: Floats) -> Floats:
    return np.maximum(1.0 - margins, 0.0)


def _summarize_worst(worst: WorstIntervals, lengths: Sequence[int]) -> dict[str, Any]:
    """Return the worst intervals of some lengths, and the largest ratio to the bound at any length."""
    indices = np.array(lengths) - 1
    columns = {name: getattr(worst, name)[indices].tolist() for name in ("regret", "path_length", "bound", "ratio")}
    top = int(worst.ratio.argmax())
    return {**columns, "share": float(worst.ratio[top]), "length": top + 1, "total": float(worst.regret[-1])}


def _summarize_trials(runs: Sequence[dict[str, Any]], index: int) -> dict[str, float]:
    """Return the means and extremes over the trials of the worst intervals of one length."""
    regrets, paths, bounds, shares = (
        np.array([run[name][index] for run in runs]) for name in ("regret", "path_length", "bound", "ratio")
    )
    return {
        "regret": float(regrets.mean()),
        "regret_min": float(regrets.min()),
        "regret_max": float(regrets.max()),
        "path_length": float(paths.mean()),
        "bound": float(bounds.mean()),
        "share": float(shares.mean()),
        "share_max": float(shares.max()),
    }
