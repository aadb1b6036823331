"""The dyadic intervals of RICE as a run makes them: who starts from whom, with which weights (figure 2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from ocelad._validation import check_integer
from ocelad.engines.rice_bank import RiceBank
from ocelad.engines.track import track_metric
from ocelad.ensemble.bank import RoundState
from ocelad.ensemble.ocelad import Ocelad
from ocelad.ensemble.schedule import Schedule
from ocelad.evaluation.streams import DriftingClusters, Phase
from ocelad.lab.compare import METHODS
from ocelad.lab.demo import phases_of
from ocelad.lab.experiments.columns import columns
from ocelad.lab.runner import Answer, Runner, Task
from ocelad.metric import Metric

#: The paper's method, with the paper's loss.
METHOD = "rice-hinge"
#: Rounds over which shares and losses are averaged: the weights swing with every start of an interval.
BLOCK = 100


class Watched(RiceBank):
    """``RiceBank`` that tells, of each start, whose metric it was started from.

    A metric is immutable and every update makes a new one, so that a learner which was started from another holds the
    very object that the other held.

    Parameters
    ----------
    seen : list of (round, scale, source)
        What is added to with every start; the source is None for a learner that begins from the first metric.
    **settings
        Of ``RiceBank``.
    """

    def __init__(self, seen: list[tuple[int, int, int | None]], **settings: Any) -> None:
        super().__init__(**settings)
        self._seen = seen

    def start(self, round_state: RoundState) -> Self:
        """As ``RiceBank`` does, with a look before and after."""
        before = self.held(round_state)
        started = super().start(round_state)
        after = started.held(round_state)
        for scale in round_state.starting:
            source = next((j for j, metric in enumerate(before) if metric is after[scale.index]), None)
            self._seen.append((round_state.round, scale.index, source))
        return started


def schedule_trial(task: Task, given: None) -> Answer:
    """The first rounds of a run: the share of each active scale in each round, and who was started from whom.

    >>> answer = schedule_trial({"seed": 0, "rounds": 4}, None)
    >>> answer["starts"]
    [[1, 0, None], [2, 0, 0], [2, 1, 0], [3, 0, 0], [4, 0, 0], [4, 1, 0], [4, 2, 1]]
    >>> [len(shares) for shares in answer["shares"]]
    [1, 2, 2, 3]
    """
    stream = DriftingClusters([Phase("", "A", 0.0, task["rounds"])], seed=task["seed"])
    settings = dict(METHODS[METHOD].values)
    seen: list[tuple[int, int, int | None]] = []
    first = Metric(np.eye(stream.n_features) / stream.n_features)
    tracker = Ocelad(Watched(seen, start=first, **settings))
    shares = [tracker.step(moment.event()).probabilities.tolist() for moment in stream]
    starts = [list(start) for start in seen if start[0] <= task["rounds"]]  # those of the round to come are made, too
    lengths = [tracker.schedule.scale(j).length for j in range(len(shares[-1]))]
    steps = [settings["step_size"] * tracker.schedule.scale(j).rate for j in range(len(lengths))]
    return {"shares": shares, "starts": starts, "lengths": lengths, "step_sizes": steps}


def long_trial(task: Task, given: None) -> Answer:
    """The share and the loss of each scale over the paper's stream, averaged over each hundred rounds.

    >>> answer = long_trial({"seed": 0, "rounds": 200}, None)
    >>> len(answer["shares"]), len(answer["shares"][-1])
    (2, 8)
    """
    stream = DriftingClusters(phases_of(task["rounds"]), seed=task["seed"])
    tracker = track_metric(stream.n_features, **METHODS[METHOD].values)
    shares, losses = (np.zeros((len(stream), tracker.schedule.active(len(stream)))) for _ in range(2))
    for t, event in enumerate(stream.events()):
        passed = tracker.step(event)
        active = len(passed.losses)
        shares[t, :active], losses[t, :active] = passed.probabilities, passed.losses
    blocks = range(0, len(stream), BLOCK)
    means = {"shares": shares, "losses": losses}
    return {name: [values[at : at + BLOCK].mean(axis=0).tolist() for at in blocks] for name, values in means.items()}


def tables(
    runner: Runner, data: Path | None, /, *, trials: int, first_seed: int, shown_rounds: int, rounds: int
) -> dict[str, Any]:
    """The first rounds of one run, scale by scale, and the means of long runs.

    Parameters
    ----------
    trials, first_seed : int
        How many long runs, and the seed of the first, of which the first rounds are shown.
    shown_rounds : int
        How many of them.
    rounds : int
        How long the long runs are; the paper's phases are stretched or squeezed.
    """
    del data  # the streams are drawn
    check_integer(trials, "trials", at_least=1)
    check_integer(first_seed, "first_seed", at_least=0)
    check_integer(shown_rounds, "shown_rounds", at_least=2, at_most=128)
    check_integer(rounds, "rounds", at_least=2 * BLOCK)
    (shown,) = runner.run("intervals", schedule_trial, [{"seed": first_seed, "rounds": shown_rounds}])
    tasks = [{"seed": first_seed + at, "rounds": rounds} for at in range(trials)]
    answers = runner.run("long runs", long_trial, tasks)
    phases = phases_of(rounds)
    ends = np.cumsum([phase.length for phase in phases])
    scales = zip(shown["lengths"], shown["step_sizes"], strict=True)
    return {
        "scales": columns({"scale": j, "length": length, "step_size": eta} for j, (length, eta) in enumerate(scales)),
        "weights": columns(
            {"round": t, "scale": j, "share": share}
            for t, shares in enumerate(shown["shares"], start=1)
            for j, share in enumerate(shares)
        ),
        # A source of -1 is the first metric.
        "starts": columns(
            {"round": t, "scale": j, "source": -1 if source is None else source} for t, j, source in shown["starts"]
        ),
        "long": _long(answers, rounds),
        "phases": {"phase": [phase.name for phase in phases], "last_round": ends},
    }


def _long(answers: Sequence[Answer], rounds: int) -> dict[str, Any]:
    """Means over the trials, a row for each stretch and scale; no loss where a scale was not there all the time."""
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
