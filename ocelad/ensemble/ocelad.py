"""OCELAD (Algorithm 1): the meta-algorithm that weights the learners of all scales, for any bank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy, deepcopy
from typing import Any, Generic, Protocol, Self, TypeVar, cast, runtime_checkable

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import check_integer
from ocelad.ensemble.bank import Bank, MarginBank, ReplayBank, RoundState, SamplingBank, StatefulBank
from ocelad.ensemble.sampling import sample_learner
from ocelad.ensemble.schedule import MAX_SCALES, FixedExperts, Scale, Schedule
from ocelad.ensemble.state_reader import StateReader, add_prefix
from ocelad.ensemble.weight_updates import MIN_WEIGHT
from ocelad.ensemble.weighting import CompiledWeighting, EnsembleConfig, RescaledRegret, Weighting
from ocelad.ensemble.weighting import RoundInfo as RoundInfo
from ocelad.pairs import Events, Relatives

Event = TypeVar("Event")
Play = TypeVar("Play")


@runtime_checkable
class MarginPlay(Protocol):
    """A play, such as ``Metric``, that has a margin on an event."""

    def margin(self, event: Any) -> float:
        """Return the margin on the event: above 0 if the play is correct."""
        ...


class Ocelad(Generic[Event, Play]):
    """Online Convex Ensemble StrongLy Adaptive Dynamic Learning over a bank of learners.

    Parameters
    ----------
    bank : Bank
        The learners: a ``LearnerBank`` or the bank that ``track_metric`` builds.
    shortest_interval : int
        I0, the length of the finest scale's intervals.
    n_scales : int or None
        The maximum number of scales. None: no limit; a stream needs about log2 of its length.
    schedule : Schedule, FixedExperts or None
        The schedule of starts and active scales. None: the dyadic one with the two settings above.
    weighting : Weighting or None
        The rule that computes the weights. None: ``RescaledRegret`` (equation 5).
    seed : int or None
        None: the ensemble plays the average of the learners' plays. An integer: it plays one learner, drawn with the
        probabilities by random numbers with this seed. The bank must then be a ``SamplingBank``.
    settings : mapping or None
        Further settings, such as the arguments of ``track_metric``. ``restore`` rejects a state with other settings.

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
    Algorithm 2 updates the learners before it averages them. The regret bounds require another order, which is used
    here: the play of round t is fixed before event t is seen, and the losses are those of the learners at that time.
    """

    def __init__(
        self,
        bank: Bank[Event, Play],
        *,
        shortest_interval: int = 1,
        n_scales: int | None = None,
        schedule: Schedule | None = None,
        weighting: Weighting | None = None,
        seed: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        _check_bank(bank, sampling=seed is not None)
        self._schedule = _check_schedule(schedule, shortest_interval, n_scales)
        self._weighting: Weighting = RescaledRegret() if weighting is None else _check_weighting(weighting)
        self._seed = None if seed is None else check_integer(seed, "seed", at_least=0)
        self._settings = {**(settings or {}), **self._schedule.settings}
        if not isinstance(self._weighting, RescaledRegret) or seed is not None:
            self._settings |= {"weighing": self._weighting.settings, "drawn": self._seed}  # the names in saved files
        max_scales = self._schedule.max_scales if isinstance(self._schedule, FixedExperts) else MAX_SCALES
        self._scales = tuple(self._schedule.scale(j) for j in range(max_scales))
        self._weight_rates = np.array([scale.weight_rate for scale in self._scales])
        round_state = self._next_round_state(1, None)
        # The bank with this round's starts, and the round state. They are one attribute, so that an interrupt cannot
        # change only one of them.
        self._state = (bank.start(round_state), round_state)
        self.play()  # raises now, not in a later call, if the plays cannot be averaged

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the ensemble, as saved state holds them."""
        return dict(self._settings)

    @property
    def n_rounds(self) -> int:
        """The number of rounds played."""
        return self.round_state.round - 1

    @property
    def schedule(self) -> Schedule:
        """The schedule of starts and active scales."""
        return self._schedule

    @property
    def round_state(self) -> RoundState:
        """The state at the beginning of the next round."""
        return self._state[1]

    @property
    def bank(self) -> Bank[Event, Play]:
        """The learners, including those that start in the next round."""
        return self._state[0]

    def step(self, event: Event) -> RoundInfo:
        """Play one round: compute the learners' losses on the event, update the learners and then the weights.

        If a learner fails, this raises a ``LearnerError`` that names its scale, and the ensemble does not change.
        """
        bank, round_state = self._state
        losses, bank = bank.observe(event, round_state)
        if np.shape(losses) != (round_state.n_active,) or not np.isfinite(losses).all():
            raise ValueError(
                f"observe must return {round_state.n_active} finite losses in round {round_state.round}; got {losses}"
            )
        probabilities = round_state.probabilities
        drawn = self._draw(round_state)
        info = RoundInfo(round_state.round, len(round_state.starting), losses, probabilities, drawn)
        records = self._weighting.learn(round_state.records, info, self._weight_rates[: round_state.n_active])
        following = self._next_round_state(round_state.round + 1, records)
        self._state = (bank.start(following), following)
        return info

    def replay(self, events: Iterable[Event]) -> Floats | None:
        """Play one round per event, with the same bits as ``step``, but faster if the bank is a ``ReplayBank``.

        The fast path needs ``Events`` or ``Relatives``. If an event is rejected, the rounds before it have been played.

        Returns
        -------
        array of shape (n_events,), or None
            The ensemble's margin on each event before it was learned from: above 0 if the play was correct. None if
            plays, unlike a ``Metric``, have no ``margin``.

        Examples
        --------
        >>> from ocelad import Events, track_metric
        >>> track_metric(2).replay(Events([[1.0, 0.0], [2.0, 0.0]], [1, 1])) > 0
        array([ True, False])
        """
        batch = events if isinstance(events, (Events, Relatives)) else None
        config = self._replay_config() if batch is not None else None
        margins: list[float] | None = []
        for n_stepped, event in enumerate(events if batch is None else self._prepare(batch, config)):
            # A warm-up bank steps through the first events and then hands over to a ReplayBank.
            if batch is not None and self._can_replay(config):
                replayed = self._replay(batch[n_stepped:], config)
                return None if margins is None else np.concatenate([margins, replayed])
            margins = self._step_with_margin(event, margins)
        return None if margins is None else np.array(margins)

    def _replay_config(self) -> EnsembleConfig | None:
        """Return the settings for ``ReplayBank.replay``; None if kernels cannot compute the weighting."""
        weighting = self._weighting
        kernel_weighting = weighting.kernel_weighting if isinstance(weighting, CompiledWeighting) else None
        if kernel_weighting is None:
            return None
        return EnsembleConfig(self._schedule, self._weight_rates, kernel_weighting, self._seed)

    def _can_replay(self, config: EnsembleConfig | None) -> bool:
        return config is not None and isinstance(self.bank, ReplayBank) and self.bank.can_replay(config)

    def _prepare(self, events: Events | Relatives, config: EnsembleConfig | None) -> Iterator[Any]:
        if isinstance(self.bank, ReplayBank) and not self._can_replay(config):
            return self.bank.prepare(events)
        return iter(events)

    def _replay(self, events: Events | Relatives, config: EnsembleConfig | None) -> Floats:
        bank = cast(ReplayBank, deepcopy(self.bank))  # a copy, so that an interrupt leaves the ensemble unchanged
        round_state, margins, error = bank.replay(events, self.round_state, cast(EnsembleConfig, config))
        self._state = (cast(Bank[Event, Play], bank), round_state)
        if error is not None:
            raise error
        return margins

    def _step_with_margin(self, event: Any, margins: list[float] | None) -> list[float] | None:
        """Play one round; return the margins with this round's appended, or None if plays have no margin."""
        bank = self.bank
        if margins is not None and isinstance(bank, MarginBank):
            margins.append(self.step(event).ensemble_value(bank.last_margins))
            return margins
        play = None if margins is None else self.play()
        self.step(event)  # this checks the event, which margin() does not
        if margins is None or not isinstance(play, MarginPlay):
            return None
        margins.append(play.margin(event))
        return margins

    def play(self) -> Play:
        """Return the current estimate, whose loss the next round measures. This does not change the ensemble."""
        bank, round_state = self._state
        drawn = self._draw(round_state)
        if drawn is None:
            return bank.mix(round_state)
        return cast(SamplingBank[Event, Play], bank).pick(drawn, round_state)

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything that later rounds depend on: copies of arrays, and JSON values.

        >>> from ocelad import Pair, track_metric
        >>> tracker, other = track_metric(n_features=2), track_metric(n_features=2)
        >>> _ = tracker.step(Pair([1.0, 0.0], [0.0, 0.0], similar=False))
        >>> other.restore(*tracker.state())
        >>> other.play() == tracker.play()
        True
        """
        bank, round_state = self._state
        if not isinstance(bank, StatefulBank):
            raise TypeError(
                f"a {type(bank).__name__} cannot be saved; accepted: a bank with state and with_state, "
                "such as those of track_metric and track_adaptive"
            )
        arrays, metadata = bank.state()
        own = {"weights": round_state.weights.copy(), "before": round_state.previous_weights.copy()}
        if not isinstance(self._weighting, RescaledRegret):  # whose records are the weights
            own["records"] = round_state.records.copy()
        metadata = {"settings": self.settings, "n_rounds": self.n_rounds, "bank": metadata}
        return {**own, **add_prefix("bank", arrays)}, metadata

    def restore(self, arrays: Arrays, metadata: Metadata) -> None:
        """Continue from what ``state`` returned, with the same bits as the original.

        This ensemble must have the same settings and must not have played a round yet. A state that does not match
        raises a ``ValueError`` and changes nothing.
        """
        bank = self.bank
        if self.n_rounds > 0 or not isinstance(bank, StatefulBank):
            problem = f"has played {self.n_rounds} rounds" if self.n_rounds else f"has a {type(bank).__name__}"
            raise ValueError(f"this tracker {problem}; accepted: a new one from track_metric or track_adaptive")
        saved = StateReader(arrays, metadata)
        self._check_saved_settings(saved.value("settings"))
        t = saved.integer("n_rounds", 0, 2**62) + 1
        round_state = RoundState(t, self._starting(t), *self._read_weights(saved, t))
        bank = bank.with_state(saved.section("bank"), round_state)
        saved.expect_end()
        self._state = (bank, round_state)

    def _read_weights(self, saved: StateReader, t: int) -> tuple[Floats, Floats, Floats]:
        """Return the saved weights of round t, the previous weights, and the records."""
        records_are_weights = isinstance(self._weighting, RescaledRegret)
        lowest, n_active = MIN_WEIGHT if records_are_weights else 0.0, self._schedule.n_active(t)
        previous = saved.floats("before", (self._schedule.n_active(t - 1) if t > 1 else 0,), at_least=lowest)
        weights = saved.floats("weights", (n_active,), at_least=lowest)
        if records_are_weights:
            return weights, previous, weights.reshape(1, -1)
        n_rows = len(self._weighting.begin(self._schedule.scale(0), 1))
        records = saved.floats("records", (n_rows, n_active))
        if (t > 1 and not previous.sum() > 0.0) or not np.array_equal(self._weighting.weights(records), weights):
            raise ValueError("saved array 'weights' does not follow from saved array 'records'")
        return weights, previous, records

    def _check_saved_settings(self, saved: Any) -> None:
        if not isinstance(saved, Mapping) or saved.keys() != self._settings.keys():
            raise ValueError(f"the saved tracker has the settings {saved}; expected {self._settings}")
        for name, value in self._settings.items():
            # The bank compares engines: "auto" may have chosen another engine where the state was saved.
            if name != "engine" and saved[name] != value:
                raise ValueError(f"the saved tracker has {name}={saved[name]!r}; expected {value!r}")

    def with_bank(self, bank: Bank[Event, Play], round_state: RoundState) -> Self:
        """Return an ensemble with these settings that continues from a round state and a bank that has started it."""
        other = copy(self)
        other._state = (bank, round_state)
        return other

    def __repr__(self) -> str:
        return (
            f"Ocelad({type(self.bank).__name__}, n_rounds={self.n_rounds}, n_active_scales={self.round_state.n_active})"
        )

    def _draw(self, round_state: RoundState) -> int | None:
        """Return the scale whose learner is drawn in this round; None if the learners are averaged.

        Repeated calls return the same scale: the draw depends only on the weights, the seed and the round.
        """
        return None if self._seed is None else sample_learner(round_state.weights, self._seed, round_state.round)

    def _next_round_state(self, t: int, previous: Floats | None) -> RoundState:
        """Return the state of round t, given the records after the previous round (None for the first round)."""
        starting, n_active, weighting = self._starting(t), self._schedule.n_active(t), self._weighting
        if previous is None:
            previous = np.empty((len(weighting.begin(starting[0], t)), 0))
        # Every column is set: a scale that becomes active in this round also starts in it.
        records = np.empty((len(previous), n_active))
        records[:, : previous.shape[1]] = previous
        for scale in starting:
            records[:, scale.index] = weighting.begin(scale, t)
        previous_weights = weighting.weights(previous) if t > 1 else np.empty(0)
        return RoundState(t, starting, weighting.weights(records), previous_weights, records)

    def _starting(self, t: int) -> tuple[Scale, ...]:
        return self._scales[: self._schedule.n_starting(t)]


def _check_bank(bank: object, sampling: bool) -> None:
    if isinstance(bank, type) or not isinstance(bank, SamplingBank if sampling else Bank):
        methods = "start, observe, mix and pick" if sampling else "start, observe and mix"
        raise TypeError(f"bank must have the methods {methods}, as a LearnerBank has; got {type(bank).__name__}")


def _check_schedule(schedule: Schedule | None, shortest_interval: int, n_scales: int | None) -> Schedule:
    if schedule is None:
        return Schedule(shortest_interval, n_scales)
    if not isinstance(schedule, Schedule):
        raise TypeError(f"schedule must be a Schedule or FixedExperts; got {type(schedule).__name__}")
    if shortest_interval != 1 or n_scales is not None:
        raise ValueError("give either schedule, or shortest_interval and n_scales; got both")
    return schedule


def _check_weighting(weighting: Weighting) -> Weighting:
    if isinstance(weighting, type) or not isinstance(weighting, Weighting):
        raise TypeError(
            f"weighting must have settings, begin, learn and weights, as RescaledRegret() has; got {weighting!r}"
        )
    return weighting
