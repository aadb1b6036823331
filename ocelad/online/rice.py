"""RICE: the retro-initialised ensemble of COMID learners (Algorithm 2), dense and readable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from ocelad.checks import Floats
from ocelad.metric import Metric
from ocelad.online.bank import Finest, LearnerBank, Turn
from ocelad.online.comid import Comid
from ocelad.online.diagonal import DiagonalComid
from ocelad.online.dyadic import Scale, Schedule
from ocelad.pairs import Event, Pair, as_dense, as_event


class Rice(LearnerBank[Event, Metric]):
    """One COMID learner per scale, with step size ``eta0 / sqrt(length)``, each started from the scale below it.

    Parameters
    ----------
    start : Metric
        What the finest scale's first learner starts from (and every one, with ``finest="reset"``).
    step_size : float
        eta0.
    finest : {"carry", "ensemble", "reset"}
        See ``LearnerBank``.
    **objective
        ``loss``, ``divergence``, ``regularizer``, ``shrinkage``, ``max_norm`` and ``l1_tolerance`` of ``Comid``.
    """

    engine = "dense"
    learner: type[Comid] = Comid

    def __init__(self, start: Metric, *, step_size: float, finest: Finest = "carry", **objective: Any) -> None:
        super().__init__(self._comid, Metric.average, finest=finest)
        self._first = self.learner(start, step_size=step_size, **objective)

    @property
    def step_size(self) -> float:
        """eta0."""
        return self._first.step_size

    def held(self, turn: Turn) -> list[Metric]:
        """The metrics that the active learners hold, the finest scale's first."""
        return [learner.play() for learner in self.learners]

    def taking_over(self, metrics: Sequence[Metric], schedule: Schedule) -> Self:
        """A bank with learners that hold these metrics, the finest scale's first."""
        scales = [schedule.scale(j) for j in range(len(metrics))]
        return self._with([(scale, self._comid(scale, metric)) for scale, metric in zip(scales, metrics, strict=True)])

    def _comid(self, scale: Scale, start: Metric | None) -> Comid:
        return self._first.started(start or self._first.play(), self._first.step_size * scale.rate)

    def observe(self, event: Event | Pair, turn: Turn) -> tuple[Floats, Self]:
        """What each learner lost on the pair, and a bank in which each has learned from it."""
        u, y = as_event(event, self._first.play().n_features)
        return super().observe(Event(as_dense(u), y), turn)

    def mix(self, turn: Turn) -> Metric:
        """The weighted average of the learners' metrics, with the number of rounds that have passed."""
        return super().mix(turn).at(turn.round - 1)


class DiagonalRice(Rice):
    """``Rice`` of ``DiagonalComid`` learners: what ``DiagonalBank`` computes, one dense step after the other."""

    learner = DiagonalComid
