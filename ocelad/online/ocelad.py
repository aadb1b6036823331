"""OCELAD (Algorithm 1): the meta-algorithm that weighs the learners of all scales, written once, over any bank."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from ocelad.checks import Floats
from ocelad.online.bank import Bank, Turn
from ocelad.online.dyadic import MOST_SCALES, Schedule
from ocelad.online.weights import reweigh
from ocelad.pairs import Events, Relatives

Event = TypeVar("Event")
Play = TypeVar("Play")


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """What happened in a round.

    Attributes
    ----------
    round : int
        Its number t = 1, 2, 3, ...
    started : int
        How many scales (0 .. n-1) began a new interval with it.
    losses : array of shape (n_active,)
        What each active learner lost, by the estimate it held before it saw the event.
    probabilities : array of shape (n_active,)
        What the learners' plays were averaged with in this round.
    """

    round: int
    started: int
    losses: Floats
    probabilities: Floats

    @property
    def loss(self) -> float:
        """The weighted mean of the losses; where the loss is convex, the ensemble's own loss is at most this."""
        return float(self.probabilities @ self.losses)


class Ocelad(Generic[Event, Play]):
    """Online Convex Ensemble StrongLy Adaptive Dynamic Learning over a bank of learners.

    Parameters
    ----------
    bank : Bank
        The learners: a ``LearnerBank`` of your own, or the metric learners of ``track_metric``.
    shortest_interval : int
        I0, the length of the finest scale's intervals.
    n_scales : int or None
        At most this many scales; None: as many as the stream needs, which is about log2 of its length.

    Examples
    --------
    >>> from ocelad import Pair, track_metric
    >>> tracker = track_metric(n_features=2)
    >>> tracker.step(Pair([1.0, 0.0], [0.0, 0.0], similar=False)).round
    1
    >>> tracker.play()
    Metric(n_features=2, threshold=1, round=1)

    Notes
    -----
    Algorithm 2 updates the learners before it averages them. Here, as the regret bounds require, what is
    played in round t is fixed before event t is seen, and learners are judged by what they held then.
    """

    def __init__(self, bank: Bank[Event, Play], *, shortest_interval: int = 1, n_scales: int | None = None) -> None:
        if not all(callable(getattr(bank, method, None)) for method in ("start", "observe", "mix")):
            raise TypeError(f"bank must have start, observe and mix, as LearnerBank has; got {type(bank).__name__}")
        self._schedule = Schedule(shortest_interval, n_scales)
        self._weight_rates = np.array([self._schedule.scale(j).weight_rate for j in range(MOST_SCALES)])
        turn = self._next_turn(1, np.empty(0))
        # The round about to be played, and the bank with the starts of that round. One attribute, so that no
        # interrupt can come between the two.
        self._state = (bank.start(turn), turn)
        self.play()  # plays that cannot be averaged are refused here, not when somebody asks

    @property
    def n_rounds(self) -> int:
        """How many rounds have passed."""
        return self.turn.round - 1

    @property
    def turn(self) -> Turn:
        """The round that is about to be played."""
        return self._state[1]

    @property
    def bank(self) -> Bank[Event, Play]:
        """The learners, those that start with the round about to be played included."""
        return self._state[0]

    def step(self, event: Event) -> Round:
        """A round passes: the learners are judged on the event and learn from it, and are weighed anew.

        When a learner fails, a ``LearnerError`` names its scale and nothing has changed.
        """
        bank, turn = self._state
        losses, bank = bank.observe(event, turn)
        if np.shape(losses) != (turn.active,) or not np.isfinite(losses).all():
            raise ValueError(
                f"a bank must return {turn.active} finite losses in round {turn.round}; it returned {losses}"
            )
        weights = turn.weights.copy()
        reweigh(weights, self._weight_rates, losses, turn.active)
        after = self._next_turn(turn.round + 1, weights)
        self._state = (bank.start(after), after)
        return Round(turn.round, len(turn.starting), losses, turn.probabilities)

    def replay(self, events: Iterable[Event]) -> Floats | None:
        """Many rounds pass: as one step after the other, to the bit, but faster where the bank knows how.

        It is faster for ``Events`` or ``Relatives`` over a compiled bank. When an event is refused, those before it
        have passed.

        Returns
        -------
        array of shape (n_events,), or None
            The ensemble's margin on each event, by what it played before it saw the event: above 0 where that was
            right. None where plays, unlike a ``Metric``, have no ``margin``.

        Examples
        --------
        >>> from ocelad import Events, track_metric
        >>> track_metric(2).replay(Events([[1.0, 0.0], [2.0, 0.0]], [1, 1])) > 0
        array([ True, False])
        """
        margins: list[float] | None = []
        if not isinstance(events, (Events, Relatives)):
            for event in events:
                margins = self._step_judged(event, margins)
            return None if margins is None else np.array(margins)
        done, rest = 0, np.empty(0)
        while done < len(events) and not hasattr(self.bank, "replay"):  # a bank may hand over to one that has it
            margins = self._step_judged(events[done], margins)
            done += 1
        if done < len(events):
            bank, turn = deepcopy(self.bank), self.turn  # an interrupt cannot leave it ahead of the weights
            turn, rest, error = bank.replay(events[done:], turn, self._schedule, self._weight_rates)
            self._state = (bank, turn)
            if error is not None:
                raise error
        return None if margins is None else np.concatenate([margins, rest])

    def _step_judged(self, event: Any, margins: list[float] | None) -> list[float] | None:
        """A round passes; the margins, with that of what was played in it, or None where plays have none."""
        if margins is None or not hasattr(before := self.play(), "margin"):
            self.step(event)
            return None
        self.step(event)  # which checks the event
        margins.append(before.margin(event))
        return margins

    def play(self) -> Play:
        """What the ensemble would say now: what it is judged on in the next round. Changes nothing."""
        bank, turn = self._state
        return bank.mix(turn)

    def __repr__(self) -> str:
        return f"Ocelad({type(self.bank).__name__}, n_rounds={self.n_rounds}, n_active_scales={self.turn.active})"

    def _next_turn(self, t: int, before: Floats) -> Turn:
        starting = tuple(self._schedule.scale(j) for j in range(self._schedule.starting(t)))
        # A scale that becomes active with this round starts with it, so that every weight is set.
        weights = np.empty(self._schedule.active(t))
        weights[: len(before)] = before
        weights[: len(starting)] = self._weight_rates[: len(starting)]
        return Turn(t, starting, weights, before)
