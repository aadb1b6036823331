"""The dyadic intervals of RICE in a run: the start of each learner, its source, and the weights (figure 2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from ocelad._validation import check_integer
from ocelad.engines.rice import track_metric
from ocelad.engines.rice_bank import RiceBank
from ocelad.ensemble.bank import RoundState
from ocelad.ensemble.ocelad import Ocelad
from ocelad.ensemble.schedule import Schedule
from ocelad.evaluation.streams import DriftingClusters, Phase
from ocelad.lab.compare import METHODS
from ocelad.lab.demo import scale_phases
from ocelad.lab.experiments.to_columns import to_columns
from ocelad.lab.runner import Answer, Runner, Task
from ocelad.metric import Metric

#: The paper's method with the paper's loss.
METHOD = "rice-hinge"
#: The number of rounds over which shares and losses are averaged, since the weights change with every start of an
#: interval.
BLOCK = 100


class StartRecorder(RiceBank):
    """``RiceBank`` that records from which scale's metric each learner was started.

    Metrics are immutable and every update creates a new one. Hence a learner that was started from another holds the
    same object as the other did.

    Parameters
    ----------
    recorded : list of (round, scale, source)
        Each start is appended to this list. The source is None for a learner that starts from the first metric.
    **settings
        The settings of ``RiceBank``.
    """

    def __init__(self, recorded: list[tuple[int, int, int | None]], **settings: Any) -> None:
        super().__init__(**settings)
        self._recorded = recorded

    def start(self, round_state: RoundState) -> Self:
        """Start learners as ``RiceBank`` does, and record their sources."""
        before = self.metrics(round_state)
        started = super().start(round_state)
        after = started.metrics(round_state)
        for scale in round_state.starting:
            source = next((j for j, metric in enumerate(before) if metric is after[scale.index]), None)
            self._recorded.append((round_state.round, scale.index, source))
        return started


def schedule_trial(task: Task, context: None) -> Answer:
    """Return the share of each active scale in each of the first rounds, and the starts of the learners.

    >>> answer = schedule_trial({"seed": 0, "rounds": 4}, None)
    >>> answer["starts"]
    [[1, 0, None], [2, 0, 0], [2, 1, 0], [3, 0, 0], [4, 0, 0], [4, 1, 0], [4, 2, 1]]
    >>> [len(shares) for shares in answer["shares"]]
    [1, 2, 2, 3]
    """
    stream = DriftingClusters([Phase("", "A", 0.0, task["rounds"])], seed=task["seed"])
    settings = dict(METHODS[METHOD].settings)
    recorded: list[tuple[int, int, int | None]] = []
    first = Metric(np.eye(stream.n_features) / stream.n_features)
    tracker = Ocelad(StartRecorder(recorded, start=first, **settings))
    shares = [tracker.step(step.event()).probabilities.tolist() for step in stream]
    # The starts of the round after the last one are recorded, too.
    starts = [list(start) for start in recorded if start[0] <= task["rounds"]]
    lengths = [tracker.schedule.scale(j).length for j in range(len(shares[-1]))]
    steps = [settings["step_size"] * tracker.schedule.scale(j).rate for j in range(len(lengths))]
    return {"shares": shares, "starts": starts, "lengths": lengths, "step_sizes": steps}


def long_trial(task: Task, context: None) -> Answer:
    """Return the share and the loss of each scale over the paper's stream, averaged over blocks of rounds.

    >>> answer = long_trial({"seed": 0, "rounds": 200}, None)
    >>> len(answer["shares"]), len(answer["shares"][-1])
    (2, 8)
    """
    stream = DriftingClusters(scale_phases(task["rounds"]), seed=task["seed"])
    tracker = track_metric(stream.n_features, **METHODS[METHOD].settings)
    shares, losses = (np.zeros((len(stream), tracker.schedule.n_active(len(stream)))) for _ in range(2))
    for t, event in enumerate(stream.events()):
        info = tracker.step(event)
        active = len(info.losses)
        shares[t, :active], losses[t, :active] = info.probabilities, info.losses
    blocks = range(0, len(stream), BLOCK)
    means = {"shares": shares, "losses": losses}
    return {name: [values[at : at + BLOCK].mean(axis=0).tolist() for at in blocks] for name, values in means.items()}


def compute_tables(
    runner: Runner, reviews_folder: Path | None, /, *, trials: int, first_seed: int, shown_rounds: int, rounds: int
) -> dict[str, Any]:
    """Compute the intervals and weights of the first rounds of one run, and the means of long runs.

    Parameters
    ----------
    trials, first_seed : int
        The number of long runs, and the seed of the first.
    shown_rounds : int
        The number of rounds of which all intervals are shown.
    rounds : int
        The length of the long runs; the paper's phases are scaled to fit.
    """
    del reviews_folder  # the streams are synthetic
    check_integer(trials, "trials", at_least=1)
    check_integer(first_seed, "first_seed", at_least=0)
    check_integer(shown_rounds, "shown_rounds", at_least=2, at_most=128)
    check_integer(rounds, "rounds", at_least=2 * BLOCK)
    (schedule,) = runner.run("intervals", schedule_trial, [{"seed": first_seed, "rounds": shown_rounds}])
    tasks = [{"seed": first_seed + at, "rounds": rounds} for at in range(trials)]
    answers = runner.run("long runs", long_trial, tasks)
    phases = scale_phases(rounds)
    ends = np.cumsum([phase.length for phase in phases])
    scales = zip(schedule["lengths"], schedule["step_sizes"], strict=True)
    return {
        "scales": to_columns(
            {"scale": j, "length": length, "step_size": eta} for j, (length, eta) in enumerate(scales)
        ),
        "weights": to_columns(
            {"round": t, "scale": j, "share": share}
            for t, shares in enumerate(schedule["shares"], start=1)
            for j, share in enumerate(shares)
        ),
        # -1 stands for the first metric.
        "starts": to_columns(
            {"round": t, "scale": j, "source": -1 if source is None else source} for t, j, source in schedule["starts"]
        ),
        "long": _average_runs(answers, rounds),
        "phases": {"phase": [phase.name for phase in phases], "last_round": ends},
    }


def _average_runs(answers: Sequence[Answer], rounds: int) -> dict[str, Any]:
    """Return the means over the trials for each block and scale; the loss is NaN if a scale was not always active."""
    shares, losses = (np.mean([answer[name] for answer in answers], axis=0) for name in ("shares", "losses"))
    last = np.minimum(np.arange(1, len(shares) + 1) * BLOCK, rounds)
    first = np.append(0, last[:-1]) + 1
    lengths = np.array([Schedule().scale(j).length for j in range(shares.shape[1])])
    return {
        "last_round": np.repeat(last, len(lengths)),
        "length": np.tile(lengths, len(last)),
        "share": shares.ravel(),
        "loss": np.where(first[:, None] >= lengths, losses, np.nan).ravel(),
    }
