"""What the banks of compiled learners share: rounds played one by one or a whole stream at once, to the same bits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, ClassVar, NamedTuple, Self, get_args

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import check_choice
from ocelad.engines.kernels import rounds
from ocelad.ensemble.bank import Finest, LearnerError, RoundState, Starts
from ocelad.ensemble.sampling import uniforms
from ocelad.ensemble.schedule import MOST_SCALES, Schedule
from ocelad.ensemble.state_reader import StateReader
from ocelad.ensemble.weight_updates import CBCE, RESCALED
from ocelad.ensemble.weighting import EnsembleConfig
from ocelad.learners.comid import LossName
from ocelad.learners.step_schedule import StepSchedule, step_factors
from ocelad.metric import Metric
from ocelad.pairs import Event, Events, EventsName, Pair, Relative, Relatives, as_event, as_relative

LOSS_CODES: dict[LossName, int] = {
    "hinge": rounds.HINGE,
    "squared_hinge": rounds.SQUARED_HINGE,
    "logistic": rounds.LOGISTIC,
}

# How many pairs are prepared at a time.
PART = 4096


class KernelArgs(NamedTuple):
    """Rounds t, t + 1, ... to be played on rows first, ..., last - 1; in the order in which kernels take it."""

    y: Floats  # the labels of all rows; 1 of relative comparisons
    first: int
    last: int
    t: int
    shortest: int  # of the schedule, as the next
    most: int
    weights: Floats  # those of the round about to be played (row 0), and those before its starts (row 1)
    rates: Floats
    lost: Floats  # what each learner lost in the last round comes here
    margin: Floats  # and its margin
    margins: Floats  # the ensemble's own margin on each row; not where it is ``alone``
    alone: bool  # only judge and learn; somebody else keeps the weights and starts the scales
    step_factors: Floats  # what all step sizes are multiplied by in round t, t + 1, ...
    records: Floats  # what the weights follow from, where that is more than themselves
    weighing: int  # how scales are weighed
    largest_loss: float  # of the weighing
    uniforms: Floats  # what one learner is drawn by in round t, t + 1, ...; empty where they are averaged


class Ensemble(NamedTuple):
    """How the scales are weighed, as kernels change it from round to round."""

    weights: Floats  # those of the round about to be played (row 0), and those before its starts (row 1)
    records: Floats  # empty where they are the weights themselves
    rates: Floats
    weighing: int
    largest_loss: float
    seed: int | None

    @classmethod
    def of(cls, round_state: RoundState, rules: EnsembleConfig) -> Ensemble:
        """The ensemble in a turn."""
        n_scales, own = len(rules.rates), rules.kernel_weighting.code == CBCE
        weights, records = np.zeros((2, n_scales)), np.zeros((len(round_state.records), n_scales) if own else (0, 0))
        weights[0, : round_state.active], weights[1, : len(round_state.before)] = (
            round_state.weights,
            round_state.before,
        )
        if own:
            records[:, : round_state.active] = round_state.records
        return cls(weights, records, rules.rates, *rules.kernel_weighting, rules.seed)

    def round_state(self, t: int, schedule: Schedule) -> RoundState:
        """The turn of round t, which is the one about to be played."""
        starting, active = tuple(schedule.scale(j) for j in range(schedule.starting(t))), schedule.active(t)
        weights, before = self.weights[0, :active].copy(), self.weights[1, : schedule.active(t - 1)].copy()
        return RoundState(t, starting, weights, before, self.records[:, :active].copy())


class Prepared(NamedTuple):
    """An event of a stream that was checked as a whole: a row of what kernels want."""

    rows: Any
    labels: Floats
    row: int


class CompiledBank(ABC):
    """The COMID learners of all scales behind one kernel, ``_play``, which plays any number of rounds.

    It changes in place. A pair that is refused changes nothing; an interrupt in the middle of a step may leave
    it one round ahead of the weights. (``Ocelad.replay`` works on a copy.)

    Parameters
    ----------
    n_features : int
    schedule : Schedule
        Of the ``Ocelad`` that it is for; it gives the step sizes.
    initial_scale, initial_threshold, step_size, finest, events
        As in ``track_metric``.
    starts : {"below", "ensemble", "scratch"}
        As in ``LearnerBank``.
    pace : callable t -> float, or None
        What all step sizes are multiplied by in round t; None: by 1.
    """

    #: What it can be made to learn from.
    takes: ClassVar[tuple[EventsName, ...]] = get_args(EventsName)
    #: What ``track_metric`` calls it.
    engine: ClassVar[str]
    #: With which ``starts`` many rounds can be played at once.
    fused_starts: ClassVar[tuple[Starts, ...]] = ("below",)
    #: Every so many rounds ``_check_up`` is called.
    check_up_every: int = 1 << 62
    #: The learners, as the kernel has them; ``slots[j]`` says where the one of scale j is.
    _state: Any
    #: Which of their arrays, beside the slots, later rounds depend on, and between what limits; the others are scratch.
    _kept: ClassVar[dict[str, tuple[float, float]]]

    def __init__(
        self,
        n_features: int,
        schedule: Schedule,
        *,
        initial_scale: float,
        initial_threshold: float,
        step_size: float,
        finest: Finest,
        events: EventsName = "pairs",
        starts: Starts = "below",
        step_schedule: StepSchedule | None = None,
    ) -> None:
        self._events = check_choice(events, "events", self.takes)
        self._n = n_features
        self._schedule = schedule
        self._initial = (float(initial_scale), float(initial_threshold))
        self._step_size = float(step_size)
        self._pace = step_schedule
        self._finest = check_choice(finest, "finest", get_args(Finest))
        self.starts = check_choice(starts, "starts", get_args(Starts))
        self._learned = False
        #: The learners' margins on the event that was observed last, by what they held before it.
        self.last_margins = np.empty(0)

    @abstractmethod
    def mix(self, round_state: RoundState) -> Metric:
        """The weighted average of the learners' metrics."""

    @abstractmethod
    def learner(self, j: int) -> Metric:
        """The metric that the learner of scale j holds."""

    @abstractmethod
    def _rows(self, events: Events) -> Any:
        """The events' differences as the kernel wants them."""

    @abstractmethod
    def _row(self, u: Any) -> Any:
        """The same of one difference."""

    @abstractmethod
    def _relative_rows(self, near: Floats, far: Floats) -> Any:
        """Relative comparisons as the kernel wants them, where it learns from those."""

    @abstractmethod
    def _play(self, rows: Any, stretch: KernelArgs) -> tuple[int, int]:
        """Play the rounds of a stretch: how many rows are done, counted from the first of all, and the outcome."""

    @abstractmethod
    def _start(self, round_state: RoundState) -> None:
        """Give the scales that start with this round, which is not the first, the metrics of the scales below them."""

    @abstractmethod
    def _make_room(self, n_active: int) -> None:
        """Have slots for so many scales; what is held is kept."""

    @abstractmethod
    def _hold(self, slot: int, metric: Metric) -> None:
        """Let the learner in a slot hold this metric."""

    @abstractmethod
    def _make_same_room(self, n_slots: int, saved: StateReader) -> None:
        """Have so many slots, and otherwise as much room as there was where it was kept."""

    @abstractmethod
    def _hold_first(self, slots: np.ndarray) -> None:
        """Let the learners in these slots hold what learning starts from."""

    def _hold_average(self, slots: np.ndarray, weights: Floats) -> None:
        """Let the learners in these slots hold the weighted average of all that are held by the first scales."""
        average = self.mix(RoundState(1, (), weights.copy(), weights))
        for slot in slots:
            self._hold(int(slot), average)

    def _widen(self) -> None:
        """Have room for more directions."""
        raise NotImplementedError

    def _check_up(self) -> None:  # noqa: B027  (most banks need none)
        """See to it that rounding has not spoiled anything."""

    def pick(self, j: int, round_state: RoundState) -> Metric:
        """The metric of the learner of scale j, with the number of rounds that have passed."""
        return self.learner(j).at(round_state.round - 1)

    def held(self, round_state: RoundState) -> list[Metric]:
        """The metrics that the active learners hold, the finest scale's first."""
        return [self.learner(j) for j in range(round_state.active)]

    def taking_over(self, metrics: Sequence[Metric]) -> Self:
        """This bank, with learners that hold these metrics, the finest scale's first."""
        self._make_room(len(metrics))
        for slot, metric in zip(self._state.slots[: len(metrics)].tolist(), metrics, strict=True):
            self._hold(slot, metric)
        self._learned = True
        return self

    def state(self) -> tuple[Arrays, Metadata]:
        """All that later rounds depend on: copies of arrays, and values that JSON can hold."""
        return {name: getattr(self._state, name).copy() for name in ("slots", *self._kept)}, {"engine": self.engine}

    def restored(self, saved: StateReader, round_state: RoundState) -> Self:
        """A bank as it was when ``state`` was called; this one, which has not learned yet, stays as it is."""
        bank = deepcopy(self)
        bank._restore(saved, round_state)
        bank._learned = True
        return bank

    def _restore(self, saved: StateReader, round_state: RoundState) -> None:
        saved.same("engine", self.engine)
        n_slots = saved.size("slots")
        if not round_state.active <= n_slots <= 2 * MOST_SCALES:
            raise ValueError(f"it has {n_slots} slots for {round_state.active} scales")
        self._make_same_room(n_slots, saved)
        state = self._state
        state.slots[:] = saved.permutation("slots", len(state.slots))
        for name, limits in self._kept.items():
            array = getattr(state, name)
            array[...] = saved.like(name, array, *limits)

    def start(self, round_state: RoundState) -> Self:
        """Give the scales that start with this round the metrics that they start from."""
        name = type(self).__name__
        if round_state.starting and round_state.starting[0].length != self._schedule.shortest:
            raise ValueError(
                f"this {name} was made for intervals of {self._schedule.shortest} rounds and up, "
                f"not of {round_state.starting[0].length}"
            )
        if round_state.round == 1 and self._learned:
            raise ValueError(f"this {name} has learned already; every Ocelad needs one of its own")
        self._make_room(round_state.active)
        if round_state.round > 1:
            if round_state.starting and self.starts == "below":
                self._start(round_state)
            elif round_state.starting:
                self._start_alike(round_state)
            if round_state.round % self.check_up_every == 0:
                self._check_up()
        return self

    def _start_alike(self, round_state: RoundState) -> None:
        """The same where no scale starts from the one below it: from the ensemble, or from scratch."""
        sources = [self._finest, *[self.starts] * (len(round_state.starting) - 1)]
        slots = self._state.slots[: len(sources)].copy()
        averaged = [source == "ensemble" for source in sources]
        anew = [source in ("reset", "scratch") for source in sources]
        if any(averaged):  # first of all, as it is of what was held before any start
            self._hold_average(slots[averaged], round_state.before)
        if any(anew):
            self._hold_first(slots[anew])

    def prepared(self, events: Events | Relatives) -> Iterator[Prepared]:
        """The events as ``observe`` takes them without looking at each again."""
        if len(events):
            self._checked(events[0])  # all of them are of its kind, and have as many features
        for first in range(0, len(events), PART):
            part = events[first : first + PART]
            rows, labels = self._prepared_rows(part)
            for row in range(len(part)):
                yield Prepared(rows, labels, row)

    def observe(self, event: Event | Pair | Relative | Prepared, round_state: RoundState) -> tuple[Floats, Self]:
        """What each learner lost on the event; each has learned from it."""
        rows, labels, row = event if isinstance(event, Prepared) else self._prepared(event)
        lost, margin, none = np.zeros(round_state.active), np.zeros(round_state.active), np.empty((2, 0))
        only = Ensemble(none, none, none[0], RESCALED, 1.0, None)
        stretch = self._stretch(labels, row, row + 1, round_state.round, only, lost, margin, none[0], True)
        self._learned = True
        while True:
            _, outcome = self._played(rows, stretch)
            if outcome != rounds.NO_ROOM:
                break
            self._widen()
        if outcome != rounds.PLAYED:
            raise self._error(outcome, round_state.round)
        self.last_margins = margin
        return lost, self

    def replay(
        self, events: Events | Relatives, round_state: RoundState, rules: EnsembleConfig
    ) -> tuple[RoundState, Floats, LearnerError | None]:
        """Play a round on each of the events without coming back to Python; the turn after them.

        With it the ensemble's margin on each event, by what it played before. Where an event is refused, the turn is
        the one of that event, and the error says why.
        """
        if len(events):
            self._checked(events[0])  # all of them are of its kind, and have as many features
        schedule, ensemble = rules.schedule, Ensemble.of(round_state, rules)
        lost, margin, margins = np.zeros(MOST_SCALES), np.zeros(MOST_SCALES), np.empty(len(events))
        done, t, error = 0, round_state.round, None
        self._learned = True
        while done < len(events) and error is None:
            # A part at a time, so that what rows are made into takes little memory.
            part = events[done : done + min(PART, self.check_up_every - t % self.check_up_every)]
            (rows, labels), of_part, first = self._prepared_rows(part), margins[done:], 0
            while first < len(part) and error is None:
                self._make_room(schedule.active(t))
                stretch = self._stretch(labels, first, len(part), t, ensemble, lost, margin, of_part, False)
                now, outcome = self._played(rows, stretch)
                t, done, first = t + now - first, done + now - first, now
                if outcome == rounds.NO_ROOM:
                    self._widen()
                elif outcome == rounds.NO_SCALE:
                    self.start(ensemble.round_state(t, schedule))
                elif outcome != rounds.PLAYED:
                    error = self._error(outcome, t)
                elif t % self.check_up_every == 0:
                    self._check_up()
        return ensemble.round_state(t, schedule) if t > round_state.round else round_state, margins, error

    def _checked(self, event: Event | Pair | Relative) -> Event | Relative:
        """An event of the kind that it learns from."""
        return as_relative(event, self._n) if self._events == "relatives" else as_event(event, self._n)

    def _prepared(self, event: Event | Pair | Relative) -> Prepared:
        """An event, checked, as the kernel wants it, and its label."""
        event = self._checked(event)
        if isinstance(event, Relative):
            near, far = event.near.reshape(1, -1), event.far.reshape(1, -1)
            return Prepared(self._relative_rows(near, far), np.ones(1), 0)
        return Prepared(self._row(event.u), np.array([event.y]), 0)

    def _prepared_rows(self, events: Events | Relatives) -> tuple[Any, Floats]:
        """The same of many events."""
        if isinstance(events, Relatives):
            return self._relative_rows(events.near, events.far), np.ones(len(events))
        return self._rows(events), events.y

    def _stretch(
        self,
        y: Floats,
        first: int,
        last: int,
        t: int,
        ensemble: Ensemble,
        lost: Floats,
        margin: Floats,
        margins: Floats,
        alone: bool,
    ) -> KernelArgs:
        weights, records, rates, weighing, largest, seed = ensemble
        return KernelArgs(
            y,
            first,
            last,
            *self._schedule.clock(t),
            weights,
            rates,
            lost,
            margin,
            margins,
            alone,
            step_factors(self._pace, t, last - first),
            records,
            weighing,
            largest,
            np.empty(0) if seed is None else uniforms(seed, t, last - first),
        )

    def _played(self, rows: Any, stretch: KernelArgs) -> tuple[int, int]:
        with np.errstate(over="ignore", invalid="ignore"):  # where kernels run as plain Python; told by the outcome
            return self._play(rows, stretch)

    def _error(self, outcome: int, t: int) -> LearnerError:
        what = "loss is not finite" if outcome == rounds.INFINITE_LOSS else "metric overflows"
        event = "comparison" if self._events == "relatives" else "pair"
        words = (
            f"could not learn from the {event} (its {what}; a smaller step_size or data of a smaller scale is needed)"
        )
        return LearnerError(self._schedule.scale(int(self._state.failed[0])), t, words)

    def _steps(self, n_scales: int) -> Floats:
        """The step size of each scale."""
        there = range(min(n_scales, self._schedule.most))  # slots beyond them are never those of a learner
        rates = np.array([self._schedule.scale(j).rate for j in there])
        return self._step_size * np.pad(rates, (0, n_scales - len(there)))


def zero_cancellations(near: Floats, far: Floats) -> tuple[Floats, Floats]:
    """Relative comparisons, with zeros where the two differences are the same, which changes nothing of what they say.

    To add what is then taken away again would leave rounding behind, and that has directions, too.
    """
    same = (near == far).all(axis=1) | (near == -far).all(axis=1)
    if not same.any():
        return near, far
    return np.where(same[:, None], 0.0, near), np.where(same[:, None], 0.0, far)
