"""RiceBank: the COMID learners of RICE (Algorithm 2), dense and readable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, get_args

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import check_choice
from ocelad.engines.metric_bank import MetricLearnerBank
from ocelad.ensemble.bank import Finest, LearnerBank, RoundState, Starts
from ocelad.ensemble.schedule import Scale
from ocelad.ensemble.state_reader import StateReader, add_prefix
from ocelad.learners.comid import Comid
from ocelad.learners.diagonal_comid import DiagonalComid
from ocelad.learners.step_schedule import StepSchedule, step_factors
from ocelad.metric import Metric
from ocelad.pairs import Event, EventsName, Pair, Relative, as_dense, as_event, as_relative


class RiceBank(LearnerBank[Event | Relative, Metric], MetricLearnerBank):
    """One COMID learner per scale, with the step size ``eta0 / sqrt(length)``, started from the next finer scale.

    Parameters
    ----------
    start : Metric
        The start of the finest scale's first learner, and of every later one with ``finest="reset"``.
    step_size : float
        eta0.
    finest, starts
        As in ``LearnerBank``.
    events : {"pairs", "relatives"}
        The kind of events.
    step_schedule : callable t -> float, or None
        The factor of all step sizes in round t; None: 1.
    **objective
        ``loss``, ``divergence``, ``regularizer``, ``shrinkage``, ``max_norm`` and ``l1_tolerance`` of ``Comid``.
    """

    engine = "dense"
    learner_class: type[Comid] = Comid

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
        self._step_schedule = step_schedule
        self._initial_learner = self.learner_class(start, step_size=step_size, **objective)

    @property
    def step_size(self) -> float:
        """eta0."""
        return self._initial_learner.step_size

    def metrics(self, round_state: RoundState) -> list[Metric]:
        """Return the metrics of the active learners, the finest scale first."""
        return [learner.play() for learner in self.learners]

    def with_metrics(self, metrics: Sequence[Metric], round_state: RoundState) -> Self:
        """Return a bank whose learners hold these metrics, the finest scale first."""
        scales = [self._scale(j) for j in range(len(metrics))]
        members = [(scale, self._comid(scale, metric)) for scale, metric in zip(scales, metrics, strict=True)]
        return self._with_members(members)

    def _scale(self, j: int) -> Scale:
        """Return scale j of the schedule with which the first round started."""
        return self._members[j][0] if j < len(self._members) else Scale(j, self._members[0][0].length << j)

    def _comid(self, scale: Scale, start: Metric | None, step_factor: float = 1.0) -> Comid:
        return self._initial_learner.with_start(
            start or self._initial_learner.play(), step_factor * (self._initial_learner.step_size * scale.rate)
        )

    def observe(self, event: Event | Pair | Relative, round_state: RoundState) -> tuple[Floats, Self]:
        """Return each learner's loss on the event, and a bank of learners that have learned from it."""
        n: int = self._initial_learner.play().n_features
        bank = self
        if self._step_schedule is not None:
            bank = self._with_step_factor(float(step_factors(self._step_schedule, round_state.round, 1)[0]))
        if self._events == "relatives":
            return super(RiceBank, bank).observe(as_relative(event, n), round_state)
        u, y = as_event(event, n)
        return super(RiceBank, bank).observe(Event(as_dense(u), y), round_state)

    def _with_step_factor(self, factor: float) -> Self:
        """Return a bank whose learners have the step sizes of their scales times this factor."""
        return self._with_members(
            [(scale, self._comid(scale, learner.play(), factor)) for scale, learner in self._members]
        )

    def mix(self, round_state: RoundState) -> Metric:
        """Return the weighted average of the learners' metrics, with the number of rounds played."""
        return super().mix(round_state).with_round(round_state.round - 1)

    def pick(self, j: int, round_state: RoundState) -> Metric:
        """Return the metric of the learner of scale j, with the number of rounds played."""
        return super().pick(j, round_state).with_round(round_state.round - 1)

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything that later rounds depend on: each learner's metric."""
        metrics = [learner.play() for learner in self.learners]
        arrays: Arrays = {
            "thresholds": np.array([metric.threshold for metric in metrics]),
            "rounds": np.array([metric.round for metric in metrics]),
        }
        for j, metric in enumerate(metrics):
            arrays |= add_prefix(str(j), {name: array.copy() for name, array in metric.arrays().items()})
        return arrays, {"engine": self.engine}

    def with_state(self, saved: StateReader, round_state: RoundState) -> Self:
        """Return a bank with a saved state; this bank does not change."""
        saved.expect("engine", self.engine)
        thresholds = saved.floats("thresholds", (round_state.n_active,), at_least=1.0)
        rounds = saved.integers("rounds", (round_state.n_active,), 0, 2**62)
        members = []
        for j in range(round_state.n_active):
            metric = Metric.from_arrays(saved.section(str(j)).remaining_arrays(), float(thresholds[j]), int(rounds[j]))
            expected = self._initial_learner.play().n_features
            if metric.n_features != expected or (self.learner_class is DiagonalComid and not metric.is_diagonal):
                raise ValueError(f"the saved metric of scale {j} does not fit this bank: {metric}")
            scale = self._scale(j)
            members.append((scale, self._comid(scale, metric)))
        return self._with_members(members)


class DiagonalRiceBank(RiceBank):
    """A ``RiceBank`` of ``DiagonalComid`` learners, the definition of ``DiagonalBank``."""

    learner_class = DiagonalComid
