"""Regret on every interval of the paper's stream, against the true metric (section V), trial by trial."""

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
from ocelad.engines.track import track_metric
from ocelad.ensemble.ocelad import Ocelad
from ocelad.evaluation.regret import Regret, Worst
from ocelad.evaluation.streams import DriftingClusters
from ocelad.lab.baselines.saol import saol
from ocelad.lab.compare import METHODS
from ocelad.lab.demo import phases_of
from ocelad.lab.experiments.columns import columns
from ocelad.lab.runner import Answer, Runner, Task

#: The theorem's own method, one learner alone, and what the paper improves upon; all with the theorem's loss.
PLAYERS = ("rice-hinge", "comid", "saol")
#: What they are held against: the true metric as it moves, and the best of some metrics that never move.
COMPARATORS = ("moving", "still")
#: Of how many lengths of intervals the worst are told; all lengths are looked at.
LENGTHS = 60


class World(NamedTuple):
    """A stream as one sees it who knows the truth.

    Attributes
    ----------
    y : array of shape (n_rounds,)
        The answers.
    moving : array of shape (n_rounds,)
        The squared length of each difference by the true metric of its round.
    movements : array of shape (n_rounds - 1,)
        How far the true metric moves after each round, in Frobenius norm.
    still : array of shape (n_rounds, n_phases)
        The squared lengths by the true metrics of the middle of each phase.
    """

    y: Floats
    moving: Floats
    movements: Floats
    still: Floats


def trial(task: Task, given: None) -> Answer:
    """The worst intervals of one stream, for each method and each comparator.

    >>> answer = trial({"seed": 0, "rounds": 60}, None)
    >>> sorted(answer["runs"]), answer["lengths"][-1]
    (['comid', 'rice-hinge', 'saol'], 60)
    """
    stream = DriftingClusters(phases_of(task["rounds"]), seed=task["seed"])
    world = _world(stream)
    scale, threshold = fitted_scale(world.moving, world.y)
    truth = _losses(world.y * (threshold - scale * world.moving))
    still = _losses(world.y[:, None] * (threshold - scale * world.still))
    lengths = told_lengths(len(stream))
    runs = {}
    for name in PLAYERS:
        margins = _player(name, stream.n_features, task["seed"]).replay(stream.events())
        assert margins is not None  # metrics have them
        played = _losses(margins)
        against = {"moving": Regret(played, truth, scale * world.movements), "still": Regret(played, still)}
        worst = {comparator: _told(regret.worst(), lengths) for comparator, regret in against.items()}
        runs[name] = {"loss": float(played.mean()), **worst}
    return {
        "lengths": lengths,
        "scale": scale,
        "threshold": threshold,
        "loss": float(truth.mean()),
        "path_length": float(scale * world.movements.sum()),
        "runs": runs,
    }


def tables(runner: Runner, data: Path | None, /, *, trials: int, first_seed: int, rounds: int) -> dict[str, Any]:
    """The worst regret at each length over the trials, and the largest share of the bound in each trial.

    Parameters
    ----------
    trials, first_seed : int
        How many streams, and the seed of the first.
    rounds : int
        How long they are; the paper's phases are stretched or squeezed.
    """
    del data  # the streams are drawn
    check_integer(trials, "trials", at_least=1)
    check_integer(first_seed, "first_seed", at_least=0)
    check_integer(rounds, "rounds", at_least=60)
    tasks = [{"seed": seed, "rounds": rounds} for seed in range(first_seed, first_seed + trials)]
    answers = runner.run("regret", trial, tasks)
    worst, of_trials = [], []
    for method, comparator in product(PLAYERS, COMPARATORS):
        runs = [answer["runs"][method][comparator] for answer in answers]
        metadata = {"method": method, "comparator": comparator}
        for at, length in enumerate(answers[0]["lengths"]):
            worst.append({**metadata, "length": length, **_over_trials(runs, at)})
        for task, answer, run in zip(tasks, answers, runs, strict=True):
            numbers = {key: run[key] for key in ("total", "share", "length")}
            of_trials.append({"trial": task["seed"], **metadata, "loss": answer["runs"][method]["loss"], **numbers})
    known = ("scale", "threshold", "loss", "path_length")
    truth = [{"trial": t["seed"], **{key: a[key] for key in known}} for t, a in zip(tasks, answers, strict=True)]
    return {"worst": columns(worst), "trials": columns(of_trials), "truth": columns(truth)}


def told_lengths(rounds: int) -> list[int]:
    """Lengths from 1 to all rounds, about as many in each order of magnitude.

    >>> told_lengths(6)
    [1, 2, 3, 4, 5, 6]
    """
    return sorted({round(length) for length in np.geomspace(1, rounds, LENGTHS).tolist()})


def fitted_scale(squared: Floats, y: Floats) -> tuple[float, float]:
    """The scale c and the threshold mu of ``c M`` with the least hinge loss in all, known in hindsight.

    The hinge asks for a margin of 1 on both sides, so that the scale of a comparator decides how good it is; the best
    one makes the regret the largest. A linear programme: the least sum of xi with ``xi >= 1 - y (mu - c d2)``.

    Parameters
    ----------
    squared, y : arrays of shape (n_rounds,)
        The squared lengths of the differences by M, and the answers.

    Examples
    --------
    >>> c, mu = fitted_scale(np.array([0.0, 1.0]), np.array([1.0, -1.0]))
    >>> round(c, 6), round(mu, 6)
    (2.0, 1.0)
    """
    n = len(y)
    constraints: Any = hstack([csr_array(np.stack([y * squared, -y], axis=1)), -eye_array(n)])
    bounds = [(0, None), (1, None), *[(0, None)] * n]
    solved = linprog(np.append([0.0, 0.0], np.ones(n)), A_ub=constraints, b_ub=-np.ones(n), bounds=bounds)
    if solved.x is None:
        raise ArithmeticError(f"the best scale of the true metric was not found: {solved.message}")
    return float(solved.x[0]), float(solved.x[1])


def _world(stream: DriftingClusters) -> World:
    ends = np.cumsum([phase.length for phase in stream.phases])
    middles = {int(end) - phase.length // 2 for end, phase in zip(ends, stream.phases, strict=True)}
    y, moving, movements, candidates = [], [], [], []
    before = None
    events = stream.events()
    for moment, event in zip(stream, events, strict=True):
        M = moment.true_metric().matrix
        y.append(event.y)
        moving.append(event.u @ M @ event.u)
        if before is not None:
            movements.append(np.linalg.norm(M - before))
        if moment.round in middles:
            candidates.append(M)
        before = M
    still = np.stack([((events.U @ M) * events.U).sum(axis=1) for M in candidates], axis=1)
    return World(np.array(y), np.array(moving), np.array(movements), still)


def _player(name: str, n_features: int, seed: int) -> Ocelad[Any, Any]:
    """As it is compared elsewhere, with its usual settings."""
    settings = METHODS[name].values
    if name == "saol":
        return saol(n_features, seed=seed, **settings)
    return track_metric(n_features, n_scales=1 if name == "comid" else None, **settings)


def _losses(margins: Floats) -> Floats:
    """The hinge, round by round."""
    return np.maximum(1.0 - margins, 0.0)


def _told(worst: Worst, lengths: Sequence[int]) -> dict[str, Any]:
    """What is kept: some of the lengths, and the largest share of the bound at any."""
    at = np.array(lengths) - 1
    columns = {name: getattr(worst, name)[at].tolist() for name in ("regret", "path_length", "bound", "ratio")}
    top = int(worst.ratio.argmax())
    return {**columns, "share": float(worst.ratio[top]), "length": top + 1, "total": float(worst.regret[-1])}


def _over_trials(runs: Sequence[dict[str, Any]], at: int) -> dict[str, float]:
    """Of the worst intervals of one length: the means over the trials, and the extremes."""
    regrets, paths, bounds, shares = (
        np.array([run[name][at] for run in runs]) for name in ("regret", "path_length", "bound", "ratio")
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
