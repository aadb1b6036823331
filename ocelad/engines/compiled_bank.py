"""CompiledBank, the base class of the banks whose learners are compiled.

It plays rounds one by one or many at once, with the same bits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, ClassVar, NamedTuple, Self, get_args

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import check_choice
from ocelad.engines.kernels import rounds
from ocelad.engines.kernels.rounds import KernelArgs
from ocelad.engines.metric_bank import MetricLearnerBank
from ocelad.ensemble.bank import Finest, LearnerError, ReplayBank, RoundState, Starts
from ocelad.ensemble.sampling import uniforms
from ocelad.ensemble.schedule import MAX_SCALES, FixedExperts, Schedule
from ocelad.ensemble.state_reader import StateReader
from ocelad.ensemble.weight_updates import CBCE, RESCALED, SAOL
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

# The number of events that are prepared at a time; it bounds the memory for their prepared form.
PREPARED_EVENTS = 4096


class EnsembleArrays(NamedTuple):
    """The weighting of the scales in the form that kernels update from round to round."""

    weights: Floats  # the weights of the next round (row 0) and those before its starts (row 1)
    records: Floats  # empty if the records are the weights
    rates: Floats
    weighting: int
    largest_loss: float
    seed: int | None

    @classmethod
    def from_round_state(cls, round_state: RoundState, config: EnsembleConfig) -> EnsembleArrays:
        """Create the arrays at the beginning of a round."""
        n_scales, weighting = len(config.rates), config.kernel_weighting
        weights, records = np.zeros((2, n_scales)), np.zeros((0, 0))
        weights[0, : round_state.n_active] = round_state.weights
        weights[1, : len(round_state.previous_weights)] = round_state.previous_weights
        if weighting.code == CBCE:
            records = np.zeros((len(round_state.records), n_scales))
            records[:, : round_state.n_active] = round_state.records
        return cls(weights, records, config.rates, weighting.code, weighting.largest_loss, config.seed)

    def round_state(self, t: int, schedule: Schedule) -> RoundState:
        """Return the state of round t, the next round."""
        starting, n_active = tuple(schedule.scale(j) for j in range(schedule.n_starting(t))), schedule.n_active(t)
        weights, previous = self.weights[0, :n_active].copy(), self.weights[1, : schedule.n_active(t - 1)].copy()
        return RoundState(t, starting, weights, previous, self.records[:, :n_active].copy())


class PreparedEvent(NamedTuple):
    """One event of a checked stream: the index of its row in the kernel's input."""

    rows: Any
    labels: Floats
    row: int


class CompiledBank(ReplayBank, MetricLearnerBank):
    """The COMID learners of all scales, updated by one kernel, ``_play``, that plays any number of rounds.

    The bank changes in place. An event that is rejected changes nothing. An interrupt during ``observe`` may leave the
    bank one round ahead of the weights; ``Ocelad.replay`` works on a copy.

    Parameters
    ----------
    n_features : int
    schedule : Schedule
        The schedule of the ``Ocelad``; it determines the step sizes.
    initial_scale, initial_threshold, step_size, finest, events
        As in ``track_metric``.
    starts : {"below", "ensemble", "scratch"}
        As in ``LearnerBank``.
    step_schedule : callable t -> float, or None
        The factor of all step sizes in round t; None: 1.
    """

    #: The kinds of events that the engine supports.
    supported_events: ClassVar[tuple[EventsName, ...]] = get_args(EventsName)
    #: The values of ``starts`` with which ``replay`` works.
    replayable_starts: ClassVar[tuple[Starts, ...]] = ("below",)
    #: ``_repair_rounding`` is called after every this many rounds.
    repair_interval: int = 1 << 62
    #: The learners as the kernel holds them; ``slots[j]`` is the slot of the learner of scale j.
    _state: Any
    #: The arrays of ``_state``, besides the slots, that later rounds depend on, and their limits.
    _saved_arrays: ClassVar[dict[str, tuple[float, float]]]

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
        self._events = check_choice(events, "events", self.supported_events)
        self._n = n_features
        self._schedule = schedule
        self._initial = (float(initial_scale), float(initial_threshold))
        self._step_size = float(step_size)
        self._step_schedule = step_schedule
        self._finest = check_choice(finest, "finest", get_args(Finest))
        self._starts = check_choice(starts, "starts", get_args(Starts))
        self._has_learned = False
        self.last_margins = np.empty(0)

    @abstractmethod
    def mix(self, round_state: RoundState) -> Metric:
        """Return the weighted average of the learners' metrics."""

    @abstractmethod
    def learner(self, j: int) -> Metric:
        """Return the metric of the learner of scale j."""

    @property
    def kernel_state(self) -> Any:
        """The learners as kernels hold them."""
        return self._state

    @property
    def kernel_schedule(self) -> tuple[int, int, int]:
        """The arguments from which kernels know which learners are active."""
        return self._schedule.kernel_schedule(1)

    @abstractmethod
    def _rows(self, events: Events) -> Any:
        """Return the events' differences in the kernel's form."""

    @abstractmethod
    def _row(self, u: Any) -> Any:
        """Return one difference in the kernel's form."""

    @abstractmethod
    def _relative_rows(self, near: Floats, far: Floats) -> Any:
        """Return relative comparisons in the kernel's form."""

    @abstractmethod
    def _play(self, rows: Any, args: KernelArgs) -> tuple[int, int]:
        """Play the rounds of ``args``; return the first row that was not played, and the outcome."""

    @abstractmethod
    def _start_from_below(self, round_state: RoundState) -> None:
        """Give the scales that start after round 1 the metrics of the next finer scales."""

    @abstractmethod
    def _reserve_slots(self, n_active: int) -> None:
        """Make sure that this many scales have slots; the learners keep their metrics."""

    @abstractmethod
    def _reserve_saved(self, n_slots: int, saved: StateReader) -> None:
        """Allocate this many slots, and the same capacity as the saved bank had."""

    @abstractmethod
    def _set_metric(self, slot: int, metric: Metric) -> None:
        """Set the metric of the learner in a slot."""

    @abstractmethod
    def _set_initial(self, slots: np.ndarray) -> None:
        """Set the learners in these slots to the initial metric."""

    def _set_average(self, slots: np.ndarray, weights: Floats) -> None:
        """Set the learners in these slots to the weighted average of the first ``len(weights)`` scales."""
        average = self.mix(RoundState(1, (), weights.copy(), weights))
        for slot in slots:
            self._set_metric(int(slot), average)

    def _grow_capacity(self) -> None:
        """Allocate room for more directions."""
        raise NotImplementedError

    def _repair_rounding(self) -> None:
        """Remove accumulated rounding errors."""

    def pick(self, j: int, round_state: RoundState) -> Metric:
        """Return the metric of the learner of scale j, with the number of rounds played."""
        return self.learner(j).with_round(round_state.round - 1)

    def metrics(self, round_state: RoundState) -> list[Metric]:
        """Return the metrics of the active learners, the finest scale first."""
        return [self.learner(j) for j in range(round_state.n_active)]

    def with_metrics(self, metrics: Sequence[Metric], round_state: RoundState) -> Self:
        """Set the learners' metrics, the finest scale first, and return this bank."""
        self._reserve_slots(len(metrics))
        for slot, metric in zip(self._state.slots[: len(metrics)].tolist(), metrics, strict=True):
            self._set_metric(slot, metric)
        self._has_learned = True
        return self

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything that later rounds depend on: copies of arrays, and JSON values."""
        arrays = self._state._asdict()
        return {name: arrays[name].copy() for name in ("slots", *self._saved_arrays)}, {"engine": self.engine}

    def with_state(self, saved: StateReader, round_state: RoundState) -> Self:
        """Return a bank with a saved state; this bank, which must not have learned yet, does not change."""
        bank = deepcopy(self)
        bank._restore(saved, round_state)
        bank._has_learned = True
        return bank

    def _restore(self, saved: StateReader, round_state: RoundState) -> None:
        saved.expect("engine", self.engine)
        n_slots = saved.size("slots")
        if not round_state.n_active <= n_slots <= 2 * MAX_SCALES:
            raise ValueError(f"saved array 'slots' has {n_slots} numbers for {round_state.n_active} active scales")
        self._reserve_saved(n_slots, saved)
        arrays = self._state._asdict()
        arrays["slots"][:] = saved.permutation("slots", len(arrays["slots"]))
        for name, limits in self._saved_arrays.items():
            arrays[name][...] = saved.array_like(name, arrays[name], *limits)

    def start(self, round_state: RoundState) -> Self:
        """Give the scales that start in this round their initial metrics."""
        name = type(self).__name__
        if round_state.starting and round_state.starting[0].length != self._schedule.shortest_interval:
            raise ValueError(
                f"this {name} was created for a shortest interval of {self._schedule.shortest_interval} rounds; "
                f"the ensemble has {round_state.starting[0].length}"
            )
        if round_state.round == 1 and self._has_learned:
            raise ValueError(f"this {name} has already learned; create a new one for every Ocelad")
        self._reserve_slots(round_state.n_active)
        if round_state.round > 1:
            if round_state.starting and self._starts == "below":
                self._start_from_below(round_state)
            elif round_state.starting:
                self._start_from_ensemble_or_scratch(round_state)
            if round_state.round % self.repair_interval == 0:
                self._repair_rounding()
        return self

    def _start_from_ensemble_or_scratch(self, round_state: RoundState) -> None:
        """Start scales when ``starts`` is "ensemble" or "scratch"."""
        sources = [self._finest, *[self._starts] * (len(round_state.starting) - 1)]
        slots = self._state.slots[: len(sources)].copy()
        averaged = [source == "ensemble" for source in sources]
        initial = [source in ("reset", "scratch") for source in sources]
        if any(averaged):  # first, because the average is that of the metrics before any start
            self._set_average(slots[averaged], round_state.previous_weights)
        if any(initial):
            self._set_initial(slots[initial])

    def prepare(self, events: Events | Relatives) -> Iterator[PreparedEvent]:
        """Iterate over the events in a form that ``observe`` need not check again."""
        if len(events):
            self._check_event(events[0])  # all events have the same kind and number of features
        for first in range(0, len(events), PREPARED_EVENTS):
            part = events[first : first + PREPARED_EVENTS]
            rows, labels = self._prepare_rows(part)
            for row in range(len(part)):
                yield PreparedEvent(rows, labels, row)

    def observe(self, event: Event | Pair | Relative | PreparedEvent, round_state: RoundState) -> tuple[Floats, Self]:
        """Update every learner on the event; return their losses before the update, and this bank."""
        rows, labels, row = event if isinstance(event, PreparedEvent) else self._prepare_event(event)
        losses, margins, none = np.zeros(round_state.n_active), np.zeros(round_state.n_active), np.empty((2, 0))
        unused = EnsembleArrays(none, none, none[0], RESCALED, 1.0, None)
        args = self._kernel_args(labels, row, row + 1, round_state.round, unused, losses, margins, none[0], True)
        self._has_learned = True
        while True:
            _, outcome = self._run_kernel(rows, args)
            if outcome != rounds.RANK_FULL:
                break
            self._grow_capacity()
        if outcome != rounds.PLAYED:
            raise self._error(outcome, round_state.round)
        self.last_margins = margins
        return losses, self

    @property
    def row_width(self) -> int:
        """The number of columns that dense rows must have; those after the features are zero."""
        return self._n

    def measure_and_learn(self, rows: Any, y: Floats, t: int, step_factors: Floats, squares: Floats) -> None:
        """Update the learners of ``FixedExperts`` on the events of rounds t, t + 1, ..., without an ensemble.

        Parameters
        ----------
        rows : array of shape (n_events, row_width), a pair (near, far) of them, or a CSR array
            The differences; nothing is checked.
        y : array of shape (n_events,)
            The labels; 1 for relative comparisons.
        t : int
            The first round. No multiple of ``repair_interval`` may lie between the first and the last round.
        step_factors : array of shape (n_events,)
            Factors of the step sizes.
        squares : array of shape (n_events, n_learners)
            Receives the squared distance of each pair by each learner before its update; of a relative comparison,
            that of near minus that of far.
        """
        losses, margins, none = np.zeros(squares.shape[1]), np.zeros(squares.shape[1]), np.empty((2, 0))
        unused = EnsembleArrays(none, none, none[0], RESCALED, 1.0, None)
        self._has_learned = True
        done = 0
        while done < len(y):
            args = self._kernel_args(
                y,
                done,
                len(y),
                t + done,
                unused,
                losses,
                margins,
                none[0],
                True,
                squares[done:],
                step_factors[done:],
            )
            done, outcome = self._run_kernel(rows, args)
            if outcome == rounds.RANK_FULL:
                self._grow_capacity()
            elif outcome != rounds.PLAYED:
                raise self._error(outcome, t + done)
        if (t + done) % self.repair_interval == 0:
            self._repair_rounding()

    def can_replay(self, config: EnsembleConfig) -> bool:
        """Return whether kernels implement the ensemble's starts, schedule and weighting."""
        return (
            self._starts in self.replayable_starts
            and not isinstance(config.schedule, FixedExperts)
            and config.kernel_weighting.code in (RESCALED, SAOL, CBCE)
        )

    def replay(
        self, events: Events | Relatives, round_state: RoundState, config: EnsembleConfig
    ) -> tuple[RoundState, Floats, LearnerError | None]:
        """Play one round on each event in compiled code; see ``ReplayBank``."""
        if len(events):
            self._check_event(events[0])  # all events have the same kind and number of features
        schedule, ensemble = config.schedule, EnsembleArrays.from_round_state(round_state, config)
        losses, learner_margins, margins = np.zeros(MAX_SCALES), np.zeros(MAX_SCALES), np.empty(len(events))
        done, t, error = 0, round_state.round, None
        self._has_learned = True
        while done < len(events) and error is None:
            part = events[done : done + min(PREPARED_EVENTS, self.repair_interval - t % self.repair_interval)]
            (rows, labels), part_margins, first = self._prepare_rows(part), margins[done:], 0
            while first < len(part) and error is None:
                self._reserve_slots(schedule.n_active(t))
                args = self._kernel_args(
                    labels, first, len(part), t, ensemble, losses, learner_margins, part_margins, False
                )
                following, outcome = self._run_kernel(rows, args)
                t, done, first = t + following - first, done + following - first, following
                if outcome == rounds.RANK_FULL:
                    self._grow_capacity()
                elif outcome == rounds.START_IN_PYTHON:
                    self.start(ensemble.round_state(t, schedule))
                elif outcome != rounds.PLAYED:
                    error = self._error(outcome, t)
                elif t % self.repair_interval == 0:
                    self._repair_rounding()
        return ensemble.round_state(t, schedule) if t > round_state.round else round_state, margins, error

    def _check_event(self, event: Event | Pair | Relative) -> Event | Relative:
        return as_relative(event, self._n) if self._events == "relatives" else as_event(event, self._n)

    def _prepare_event(self, event: Event | Pair | Relative) -> PreparedEvent:
        event = self._check_event(event)
        if isinstance(event, Relative):
            near, far = event.near.reshape(1, -1), event.far.reshape(1, -1)
            return PreparedEvent(self._relative_rows(near, far), np.ones(1), 0)
        return PreparedEvent(self._row(event.u), np.array([event.y]), 0)

    def _prepare_rows(self, events: Events | Relatives) -> tuple[Any, Floats]:
        """Return the events in the kernel's form, and their labels."""
        if isinstance(events, Relatives):
            return self._relative_rows(events.near, events.far), np.ones(len(events))
        return self._rows(events), events.y

    def _kernel_args(
        self,
        y: Floats,
        first: int,
        last: int,
        t: int,
        ensemble: EnsembleArrays,
        losses: Floats,
        learner_margins: Floats,
        margins: Floats,
        observe_only: bool,
        squares: Floats | None = None,
        factors: Floats | None = None,
    ) -> KernelArgs:
        weights, records, rates, weighting, largest_loss, seed = ensemble
        return KernelArgs(
            y,
            first,
            last,
            *self._schedule.kernel_schedule(t),
            weights,
            rates,
            losses,
            learner_margins,
            margins,
            observe_only,
            np.empty((last - first, len(losses))) if squares is None else squares,
            step_factors(self._step_schedule, t, last - first) if factors is None else factors,
            records,
            weighting,
            largest_loss,
            np.empty(0) if seed is None else uniforms(seed, t, last - first),
        )

    def _run_kernel(self, rows: Any, args: KernelArgs) -> tuple[int, int]:
        # The outcome reports overflows; NumPy would warn of them where kernels run as plain Python.
        with np.errstate(over="ignore", invalid="ignore"):
            return self._play(rows, args)

    def _error(self, outcome: int, t: int) -> LearnerError:
        problem = "loss is not finite" if outcome == rounds.INFINITE_LOSS else "metric overflows"
        event = "comparison" if self._events == "relatives" else "pair"
        remedy = "use a smaller step_size or rescale the data"
        scale = self._schedule.scale(int(self._state.failed[0]))
        return LearnerError(scale, t, f"could not learn from the {event} (its {problem}; {remedy})")

    def _step_sizes(self, n_scales: int) -> Floats:
        """Return the step size of each scale, and 0 for slots beyond the schedule's scales, which hold no learner."""
        n_used = min(n_scales, self._schedule.max_scales)
        rates = np.array([self._schedule.scale(j).rate for j in range(n_used)])
        return self._step_size * np.pad(rates, (0, n_scales - n_used))


def zero_cancellations(near: Floats, far: Floats) -> tuple[Floats, Floats]:
    """Set both differences of a relative comparison to zero where they are equal up to sign.

    Such a comparison has no effect. Adding and subtracting the same rank-one matrix would leave rounding errors, which
    the low-rank engine would treat as further directions.
    """
    same = (near == far).all(axis=1) | (near == -far).all(axis=1)
    if not same.any():
        return near, far
    return np.where(same[:, None], 0.0, near), np.where(same[:, None], 0.0, far)
