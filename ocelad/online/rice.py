"""RICE: the retro-initialised ensemble of COMID learners (Algorithm 2), dense and readable."""

from __future__ import annotations

from typing import Any, Self, get_args

from ocelad import checks
from ocelad.checks import Floats
from ocelad.metric import Metric
from ocelad.online.bank import Finest, LearnerBank, Turn
from ocelad.online.comid import Comid
from ocelad.online.diagonal import DiagonalComid
from ocelad.online.dyadic import Scale
from ocelad.pairs import Event, EventsName, Pair, Relative, as_dense, as_event, as_relative


class Rice(LearnerBank[Event | Relative, Metric]):
    """One COMID learner per scale, with step size ``eta0 / sqrt(length)``, each started from the scale below it.

    Parameters
    ----------
    start : Metric
        What the finest scale's first learner starts from (and every one, with ``finest="reset"``).
    step_size : float
        eta0.
    finest : {"carry", "ensemble", "reset"}
        See ``LearnerBank``.
    events : {"pairs", "relatives"}
        What it learns from.
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
        **objective: Any,
    ) -> None:
        super().__init__(self._comid, Metric.average, finest=finest)
        self._events = checks.choice(events, "events", get_args(EventsName))
        self._first = self.learner(start, step_size=step_size, **objective)

    @property
    def step_size(self) -> float:
        """eta0."""
        return self._first.step_size

    def _comid(self, scale: Scale, start: Metric | None) -> Comid:
        return self._first.started(start or self._first.play(), self._first.step_size * scale.rate)

    def observe(self, event: Event | Pair | Relative, turn: Turn) -> tuple[Floats, Self]:
        """What each learner lost on the event, and a bank in which each has learned from it."""
        n: int = self._first.play().n_features
        if self._events == "relatives":
            return super().observe(as_relative(event, n), turn)
        u, y = as_event(event, n)
        return super().observe(Event(as_dense(u), y), turn)

    def mix(self, turn: Turn) -> Metric:
        """The weighted average of the learners' metrics, with the number of rounds that have passed."""
        return super().mix(turn).at(turn.round - 1)


class DiagonalRice(Rice):
    """``Rice`` of ``DiagonalComid`` learners: what ``DiagonalBank`` computes, one dense step after the other."""

    learner = DiagonalComid
