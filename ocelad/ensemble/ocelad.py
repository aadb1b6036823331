"""OCELAD (Algorithm 1): the meta-algorithm that weighs the learners of all scales, written once, over any bank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy, deepcopy
from typing import Any, Generic, Self, TypeVar

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import check_integer
from ocelad.ensemble.bank import Bank, RoundState
from ocelad.ensemble.sampling import drawn_one
from ocelad.ensemble.schedule import MOST_SCALES, FixedExperts, Scale, Schedule
from ocelad.ensemble.state_reader import StateReader, prefixed
from ocelad.ensemble.weight_updates import SMALLEST
from ocelad.ensemble.weighting import EnsembleConfig, RescaledRegret, Weighting
from ocelad.ensemble.weighting import RoundInfo as RoundInfo
from ocelad.pairs import Events, Relatives

Event = TypeVar("Event")
Play = TypeVar("Play")


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
    schedule : Schedule, Grid or None
        Who starts and who is active when; None: the dyadic one, of the two settings above.
    weighing : Weighing or None
        How scales are weighed; None: by equation (5) (``RescaledRegret``).
    drawn : int or None
        None: what is played is the average of the learners. A number: one learner is drawn by the probabilities, by
        random numbers of which this is the seed; the bank must have ``pick``.
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
        schedule: Schedule | None = None,
        weighting: Weighting | None = None,
        drawn: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        needed = ("start", "observe", "mix") if drawn is None else ("start", "observe", "pick")
        if not all(callable(getattr(bank, method, None)) for method in needed):
            words = f"{needed[0]}, {needed[1]} and {needed[2]}"
            raise TypeError(f"bank must have {words}, as LearnerBank has; got {type(bank).__name__}")
        self._schedule = _schedule(schedule, shortest_interval, n_scales)
        self._weighing: Weighting = RescaledRegret() if weighting is None else _weighing(weighting)
        self._seed = None if drawn is None else check_integer(drawn, "drawn", at_least=0)
        self._settings = {**(settings or {}), **self._schedule.settings}
        if not isinstance(self._weighing, RescaledRegret) or drawn is not None:
            self._settings |= {"weighing": self._weighing.settings, "drawn": self._seed}
        n_scales = self._schedule.most if isinstance(self._schedule, FixedExperts) else MOST_SCALES
        self._scales = tuple(self._schedule.scale(j) for j in range(n_scales))
        self._weight_rates = np.array([scale.weight_rate for scale in self._scales])
        round_state = self._next_turn(1, None)
        # The round about to be played, and the bank with the starts of that round. One attribute, so that no
        # interrupt can come between the two.
        self._state = (bank.start(round_state), round_state)
        self.play()  # plays that cannot be averaged are refused here, not when somebody asks

    @property
    def settings(self) -> dict[str, Any]:
        """What it was made with, as far as it was told."""
        return dict(self._settings)

    @property
    def n_rounds(self) -> int:
        """How many rounds have passed."""
        return self.round_state.round - 1

    @property
    def schedule(self) -> Schedule:
        """Who starts and who is active when."""
        return self._schedule

    @property
    def round_state(self) -> RoundState:
        """The round that is about to be played."""
        return self._state[1]

    @property
    def bank(self) -> Bank[Event, Play]:
        """The learners, those that start with the round about to be played included."""
        return self._state[0]

    def step(self, event: Event) -> RoundInfo:
        """A round passes: the learners are judged on the event and learn from it, and are weighed anew.

        When a learner fails, a ``LearnerError`` names its scale and nothing has changed.
        """
        bank, round_state = self._state
        losses, bank = bank.observe(event, round_state)
        if np.shape(losses) != (round_state.active,) or not np.isfinite(losses).all():
            raise ValueError(
                f"a bank must return {round_state.active} finite losses in round {round_state.round}; it returned {losses}"
            )
        probabilities = round_state.probabilities
        info = RoundInfo(round_state.round, len(round_state.starting), losses, probabilities, self._drawn(round_state))
        records = self._weighing.learn(round_state.records, info, self._weight_rates[: round_state.active])
        after = self._next_turn(round_state.round + 1, records)
        self._state = (bank.start(after), after)
        return info

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
        if not isinstance(events, (Events, Relatives)) or not self._is_compiled():
            prepared = getattr(self.bank, "prepared", iter) if isinstance(events, (Events, Relatives)) else iter
            for event in prepared(events):
                margins = self._step_judged(event, margins)
            return None if margins is None else np.array(margins)
        done, rest = 0, np.empty(0)
        while done < len(events) and not hasattr(self.bank, "replay"):  # a bank may hand over to one that has it
            margins = self._step_judged(events[done], margins)
            done += 1
        if done < len(events):
            bank, round_state = (
                deepcopy(self.bank),
                self.round_state,
            )  # an interrupt cannot leave it ahead of the weights
            weighting: Any = self._weighing
            rules = EnsembleConfig(self._schedule, self._weight_rates, weighting.kernel_weighting, self._seed)
            round_state, rest, error = bank.replay(events[done:], round_state, rules)
            self._state = (bank, round_state)
            if error is not None:
                raise error
        return None if margins is None else np.concatenate([margins, rest])

    def _is_compiled(self) -> bool:
        """Whether its parts are those that kernels know; starts are the bank's own affair."""
        known = getattr(self.bank, "starts", "below") in getattr(self.bank, "fused_starts", ("below",))
        # A class that is made of a known one may weigh in another way: it must say so itself.
        fitting = getattr(self.bank, "fused_grid", False) if isinstance(self._schedule, FixedExperts) else known
        return fitting and "kernel_weighting" in vars(type(self._weighing))

    def _step_judged(self, event: Any, margins: list[float] | None) -> list[float] | None:
        """A round passes; the margins, with that of what was played in it, or None where plays have none."""
        bank = self.bank
        if margins is not None and hasattr(bank, "last_margins"):  # a margin is linear in the metric
            margins.append(self.step(event).played(bank.last_margins))
            return margins
        if margins is None or not hasattr(before := self.play(), "margin"):
            self.step(event)
            return None
        self.step(event)  # which checks the event
        margins.append(before.margin(event))
        return margins

    def play(self) -> Play:
        """What the ensemble would say now: what it is judged on in the next round. Changes nothing."""
        bank, round_state = self._state
        one = self._drawn(round_state)
        return bank.mix(round_state) if one is None else bank.pick(one, round_state)  # type: ignore[attr-defined]

    def state(self) -> tuple[Arrays, Metadata]:
        """All that its future depends on: arrays, which are copies, and values that JSON can hold.

        >>> from ocelad import Pair, track_metric
        >>> tracker, other = track_metric(n_features=2), track_metric(n_features=2)
        >>> _ = tracker.step(Pair([1.0, 0.0], [0.0, 0.0], similar=False))
        >>> other.restore(*tracker.state())
        >>> other.play() == tracker.play()
        True
        """
        bank, round_state = self._state
        if not hasattr(bank, "state"):
            raise TypeError(
                f"a {type(bank).__name__} has no state(), by which it could be saved; what track_metric makes has"
            )
        arrays, metadata = bank.state()
        own = {"weights": round_state.weights.copy(), "before": round_state.before.copy()}
        if not isinstance(self._weighing, RescaledRegret):  # whose records are the weights
            own["records"] = round_state.records.copy()
        metadata = {"settings": self.settings, "n_rounds": self.n_rounds, "bank": metadata}
        return {**own, **prefixed("bank", arrays)}, metadata

    def restore(self, arrays: Arrays, metadata: Metadata) -> None:
        """Go on from what ``state`` gave, to the same bits. What does not fit is refused, and has changed nothing.

        It must have been made with the same settings, and no round must have passed yet.
        """
        if self.n_rounds > 0 or not hasattr(self.bank, "restored"):
            what = f"has passed {self.n_rounds} rounds" if self.n_rounds else f"has a {type(self.bank).__name__}"
            raise ValueError(f"this tracker {what}; accepted: one fresh from track_metric")
        saved = StateReader(arrays, metadata)
        self._check_settings(saved.value("settings"))
        t = saved.whole("n_rounds", 0, 2**62) + 1
        round_state = RoundState(t, self._starting(t), *self._kept_weights(saved, t))
        bank = self.bank.restored(saved.part("bank"), round_state)
        saved.nothing_left()
        self._state = (bank, round_state)

    def _kept_weights(self, saved: StateReader, t: int) -> tuple[Floats, Floats, Floats]:
        """The weights of round t, those before its starts, and the records that they follow from."""
        own = isinstance(self._weighing, RescaledRegret)
        lowest, active = SMALLEST if own else 0.0, self._schedule.active(t)
        before = saved.floats("before", (self._schedule.active(t - 1) if t > 1 else 0,), at_least=lowest)
        weights = saved.floats("weights", (active,), at_least=lowest)
        if own:
            return weights, before, weights.reshape(1, -1)
        n_rows = len(self._weighing.begin(self._schedule.scale(0), 1))
        records = saved.floats("records", (n_rows, active))
        if (t > 1 and not before.sum() > 0.0) or not np.array_equal(self._weighing.weights(records), weights):
            raise ValueError("what was kept as 'weights' does not follow from what was kept as 'records'")
        return weights, before, records

    def _check_settings(self, theirs: Any) -> None:
        if not isinstance(theirs, Mapping) or theirs.keys() != self._settings.keys():
            raise ValueError(f"it was kept of a tracker with the settings {theirs}; here they are {self._settings}")
        for name, mine in self._settings.items():
            # Engines are the bank's to compare: "auto" need not come to the same one everywhere.
            if name != "engine" and theirs[name] != mine:
                raise ValueError(f"it was kept of a tracker with {name}={theirs[name]!r}; here it is {mine!r}")

    def resumed(self, bank: Bank[Event, Play], round_state: RoundState) -> Self:
        """An ensemble with this one's schedule that goes on with a turn, over a bank in which its starts are made."""
        resumed = copy(self)
        resumed._state = (bank, round_state)
        return resumed

    def __repr__(self) -> str:
        return (
            f"Ocelad({type(self.bank).__name__}, n_rounds={self.n_rounds}, n_active_scales={self.round_state.active})"
        )

    def _drawn(self, round_state: RoundState) -> int | None:
        """The scale whose learner is drawn in this round, the same whenever it is asked; None where it is not."""
        return None if self._seed is None else drawn_one(round_state.weights, self._seed, round_state.round)

    def _next_turn(self, t: int, before: Floats | None) -> RoundState:
        """Round t, of the records as the last round left them; None before there was one."""
        starting, active, weighting = self._starting(t), self._schedule.active(t), self._weighing
        if before is None:
            before = np.empty((len(weighting.begin(starting[0], t)), 0))
        # A scale that becomes active with this round starts with it, so that every record is set.
        records = np.empty((len(before), active))
        records[:, : before.shape[1]] = before
        for scale in starting:
            records[:, scale.index] = weighting.begin(scale, t)
        weights_before = weighting.weights(before) if t > 1 else np.empty(0)
        return RoundState(t, starting, weighting.weights(records), weights_before, records)

    def _starting(self, t: int) -> tuple[Scale, ...]:
        return self._scales[: self._schedule.starting(t)]


def _schedule(schedule: Schedule | None, shortest_interval: int, n_scales: int | None) -> Schedule:
    if schedule is None:
        return Schedule(shortest_interval, n_scales)
    if not isinstance(schedule, Schedule):
        raise TypeError(f"schedule must be a Schedule or a Grid; got {type(schedule).__name__}")
    if shortest_interval != 1 or n_scales is not None:
        raise ValueError("shortest_interval and n_scales are the schedule's own; accepted: one or the other")
    return schedule


def _weighing(weighting: Weighting) -> Weighting:
    if isinstance(weighting, type) or not all(
        callable(getattr(weighting, m, None)) for m in ("begin", "learn", "weights")
    ):
        raise TypeError(f"weighing must have begin, learn and weights, as Rescaled() has; got {weighting!r}")
    return weighting
