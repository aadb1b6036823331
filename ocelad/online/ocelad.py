"""OCELAD (Algorithm 1): the meta-algorithm that weighs the learners of all scales, written once, over any bank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import numpy as np

from ocelad.checks import About, Arrays, Floats
from ocelad.online.bank import Bank, Turn
from ocelad.online.dyadic import MOST_SCALES, Scale, Schedule
from ocelad.online.kept import Kept, prefixed
from ocelad.online.weights import SMALLEST, reweigh
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
    settings : mapping or None
        More of what it was made with, such as what ``track_metric`` was given; ``restore`` refuses the state of a
        tracker that was made with other settings.

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

    def __init__(
        self,
        bank: Bank[Event, Play],
        *,
        shortest_interval: int = 1,
        n_scales: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        if not all(callable(getattr(bank, method, None)) for method in ("start", "observe", "mix")):
            raise TypeError(f"bank must have start, observe and mix, as LearnerBank has; got {type(bank).__name__}")
        self._schedule = Schedule(shortest_interval, n_scales)
        schedule = {"shortest_interval": self._schedule.shortest, "n_scales": self._schedule.n_scales}
        self._settings = {**(settings or {}), **schedule}
        self._weight_rates = np.array([self._schedule.scale(j).weight_rate for j in range(MOST_SCALES)])
        turn = self._next_turn(1, np.empty(0))
        # The round about to be played, and the bank with the starts of that round. One attribute, so that no
        # interrupt can come between the two.
        self._state = (bank.start(turn), turn)
        self.play()  # plays that cannot be averaged are refused here, not when somebody asks

    @property
    def settings(self) -> dict[str, Any]:
        """What it was made with, as far as it was told."""
        return dict(self._settings)

    @property
    def n_rounds(self) -> int:
        """How many rounds have passed."""
        return self.turn.round - 1

    @property
    def schedule(self) -> Schedule:
        """Who starts and who is active when."""
        return self._schedule

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

    def state(self) -> tuple[Arrays, About]:
        """All that its future depends on: arrays, which are copies, and values that JSON can hold.

        >>> from ocelad import Pair, track_metric
        >>> tracker, other = track_metric(n_features=2), track_metric(n_features=2)
        >>> _ = tracker.step(Pair([1.0, 0.0], [0.0, 0.0], similar=False))
        >>> other.restore(*tracker.state())
        >>> other.play() == tracker.play()
        True
        """
        bank, turn = self._state
        if not hasattr(bank, "state"):
            raise TypeError(
                f"a {type(bank).__name__} has no state(), by which it could be saved; what track_metric makes has"
            )
        arrays, about = bank.state()
        weights = {"weights": turn.weights.copy(), "before": turn.before.copy()}
        about = {"settings": self.settings, "n_rounds": self.n_rounds, "bank": about}
        return {**weights, **prefixed("bank", arrays)}, about

    def restore(self, arrays: Arrays, about: About) -> None:
        """Go on from what ``state`` gave, to the same bits. What does not fit is refused, and has changed nothing.

        It must have been made with the same settings, and no round must have passed yet.
        """
        if self.n_rounds > 0 or not hasattr(self.bank, "restored"):
            what = f"has passed {self.n_rounds} rounds" if self.n_rounds else f"has a {type(self.bank).__name__}"
            raise ValueError(f"this tracker {what}; accepted: one fresh from track_metric")
        kept = Kept(arrays, about)
        self._check_settings(kept.value("settings"))
        t = kept.whole("n_rounds", 0, 2**62) + 1
        before = kept.floats("before", (self._schedule.active(t - 1) if t > 1 else 0,), at_least=SMALLEST)
        weights = kept.floats("weights", (self._schedule.active(t),), at_least=SMALLEST)
        turn = Turn(t, self._starting(t), weights, before)
        bank = self.bank.restored(kept.part("bank"), turn)
        kept.nothing_left()
        self._state = (bank, turn)

    def _check_settings(self, theirs: Any) -> None:
        if not isinstance(theirs, Mapping) or theirs.keys() != self._settings.keys():
            raise ValueError(f"it was kept of a tracker with the settings {theirs}; here they are {self._settings}")
        for name, mine in self._settings.items():
            # Engines are the bank's to compare: "auto" need not come to the same one everywhere.
            if name != "engine" and theirs[name] != mine:
                raise ValueError(f"it was kept of a tracker with {name}={theirs[name]!r}; here it is {mine!r}")

    def resumed(self, bank: Bank[Event, Play], turn: Turn) -> Self:
        """An ensemble with this one's schedule that goes on with a turn, over a bank in which its starts are made."""
        resumed = copy(self)
        resumed._state = (bank, turn)
        return resumed

    def __repr__(self) -> str:
        return f"Ocelad({type(self.bank).__name__}, n_rounds={self.n_rounds}, n_active_scales={self.turn.active})"

    def _next_turn(self, t: int, before: Floats) -> Turn:
        starting = self._starting(t)
        # A scale that becomes active with this round starts with it, so that every weight is set.
        weights = np.empty(self._schedule.active(t))
        weights[: len(before)] = before
        weights[: len(starting)] = self._weight_rates[: len(starting)]
        return Turn(t, starting, weights, before)

    def _starting(self, t: int) -> tuple[Scale, ...]:
        return tuple(self._schedule.scale(j) for j in range(self._schedule.starting(t)))
