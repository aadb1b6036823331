"""RICE: the retro-initialised ensemble of COMID learners (Algorithm 2), dense and readable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, get_args

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import check_choice
from ocelad.ensemble.bank import Finest, LearnerBank, RoundState, Starts
from ocelad.ensemble.schedule import Scale, Schedule
from ocelad.ensemble.state_reader import StateReader, prefixed
from ocelad.learners.comid import Comid
from ocelad.learners.diagonal_comid import DiagonalComid
from ocelad.learners.step_schedule import StepSchedule, step_factors
from ocelad.metric import Metric
from ocelad.pairs import Event, EventsName, Pair, Relative, as_dense, as_event, as_relative


class RiceBank(LearnerBank[Event | Relative, Metric]):
    """One COMID learner per scale, with step size ``eta0 / sqrt(length)``, each started from the scale below it.

    Parameters
    ----------
    start : Metric
        What the finest scale's first learner starts from (and every one, with ``finest="reset"``).
    step_size : float
        eta0.
    finest, starts
        See ``LearnerBank``.
    events : {"pairs", "relatives"}
        What it learns from.
    pace : callable t -> float, or None
        What all step sizes are multiplied by in round t; None: by 1.
    **objective
        ``loss``, ``divergence``, ``regularizer``, ``shrinkage``, ``max_norm`` and ``l1_tolerance`` of ``Comid``.
    """

    engine = "dense"
    learner: type[Comid] = Comid

    def __init__(
        self,
        start: Metric,
        *,
        step_size: float,
        finest: Finest = "carry",
        events: EventsName = "pairs",
        starts: Starts = "below",
        step_schedule: StepSchedule | None = None,
        **objective: Any,
    ) -> None:
        super().__init__(self._comid, Metric.average, finest=finest, starts=starts)
        self._events = check_choice(events, "events", get_args(EventsName))
        self._pace = step_schedule
        self._first = self.learner(start, step_size=step_size, **objective)

    @property
    def step_size(self) -> float:
        """eta0."""
        return self._first.step_size

    def held(self, round_state: RoundState) -> list[Metric]:
        """The metrics that the active learners hold, the finest scale's first."""
        return [learner.play() for learner in self.learners]

    def taking_over(self, metrics: Sequence[Metric], schedule: Schedule) -> Self:
        """A bank with learners that hold these metrics, the finest scale's first."""
        scales = [schedule.scale(j) for j in range(len(metrics))]
        return self._with([(scale, self._comid(scale, metric)) for scale, metric in zip(scales, metrics, strict=True)])

    def _comid(self, scale: Scale, start: Metric | None, step_schedule: float = 1.0) -> Comid:
        return self._first.started(start or self._first.play(), step_schedule * (self._first.step_size * scale.rate))

    def observe(self, event: Event | Pair | Relative, round_state: RoundState) -> tuple[Floats, Self]:
        """What each learner lost on the event, and a bank in which each has learned from it."""
        n: int = self._first.play().n_features
        bank = self if self._pace is None else self._paced(float(step_factors(self._pace, round_state.round, 1)[0]))
        if self._events == "relatives":
            return super(RiceBank, bank).observe(as_relative(event, n), round_state)
        u, y = as_event(event, n)
        return super(RiceBank, bank).observe(Event(as_dense(u), y), round_state)

    def _paced(self, step_schedule: float) -> Self:
        """A bank whose learners are about to take steps of their scale's size times this."""
        return self._with(
            [(scale, self._comid(scale, learner.play(), step_schedule)) for scale, learner in self._members]
        )

    def mix(self, round_state: RoundState) -> Metric:
        """The weighted average of the learners' metrics, with the number of rounds that have passed."""
        return super().mix(round_state).at(round_state.round - 1)

    def pick(self, j: int, round_state: RoundState) -> Metric:
        """The metric of the learner of scale j, with the number of rounds that have passed."""
        return super().pick(j, round_state).at(round_state.round - 1)

    def state(self) -> tuple[Arrays, Metadata]:
        """All that later rounds depend on: each learner's metric."""
        metrics = [learner.play() for learner in self.learners]
        arrays: Arrays = {
            "thresholds": np.array([metric.threshold for metric in metrics]),
            "rounds": np.array([metric.round for metric in metrics]),
        }
        for j, metric in enumerate(metrics):
            arrays |= prefixed(str(j), {name: array.copy() for name, array in metric.held().items()})
        return arrays, {"engine": self.engine}

    def restored(self, saved: StateReader, round_state: RoundState) -> Self:
        """A bank as it was when ``state`` was called; this one, which has not learned yet, stays as it is."""
        saved.same("engine", self.engine)
        thresholds = saved.floats("thresholds", (round_state.active,), at_least=1.0)
        rounds = saved.integers("rounds", (round_state.active,), 0, 2**62)
        scales, members = [scale for scale, _ in self._members], []
        for j in range(round_state.active):
            metric = Metric.holding(saved.part(str(j)).rest(), float(thresholds[j]), int(rounds[j]))
            expected = self._first.play().n_features
            if metric.n_features != expected or (self.learner is DiagonalComid and not metric.is_diagonal):
                raise ValueError(f"what was kept of the learner of scale {j} is not of this bank: {metric}")
            scale = scales[j] if j < len(scales) else Scale(j, scales[0].length << j)
            members.append((scale, self._comid(scale, metric)))
        return self._with(members)


class DiagonalRiceBank(RiceBank):
    """``RiceBank`` of ``DiagonalComid`` learners: what ``DiagonalBank`` computes, one dense step after the other."""

    learner = DiagonalComid
