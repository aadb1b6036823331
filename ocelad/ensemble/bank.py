"""Banks, which hold the learners of all scales: the protocols that ``Ocelad`` uses, and ``LearnerBank``.

Every bank implements ``Bank``. What else a bank can do is declared by these types:

- ``SamplingBank``: it can play a single learner's play, which ``Ocelad(..., seed=...)`` needs;
- ``StatefulBank``: its state can be saved and restored;
- ``MarginBank``: it records the learners' margins on each event;
- ``ReplayBank``: it can play many rounds at once.

``Bank``, ``SamplingBank`` and ``StatefulBank`` are protocols, satisfied by any object with their methods.
``MarginBank`` and ``ReplayBank`` are base classes, because ``Ocelad`` checks for them in every round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, is_dataclass
from math import isfinite
from typing import Any, Generic, Literal, Protocol, Self, TypeAlias, TypeVar, get_args, runtime_checkable

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import check_choice
from ocelad.ensemble.learner import Learner
from ocelad.ensemble.schedule import Scale
from ocelad.ensemble.state_reader import StateReader
from ocelad.ensemble.weighting import EnsembleConfig
from ocelad.pairs import Events, Relatives

Event = TypeVar("Event")
ContraEvent = TypeVar("ContraEvent", contravariant=True)
Play = TypeVar("Play")
CoPlay = TypeVar("CoPlay", covariant=True)

Finest: TypeAlias = Literal["carry", "ensemble", "reset"]
Starts: TypeAlias = Literal["below", "ensemble", "scratch"]


@dataclass(frozen=True, slots=True, eq=False)
class RoundState:
    """The state of the ensemble at the beginning of a round.

    Attributes
    ----------
    round : int
        The round number t = 1, 2, 3, ...
    starting : tuple of Scale
        The scales that start a new interval in this round.
    weights : array of shape (n_active,)
        The weight of each active scale, including the starting ones; read-only.
    previous_weights : array
        The weights after the previous round, before any start; empty in round 1; read-only.
    records : array of shape (n_rows, n_active)
        The records of the ``Weighting``, one column per active scale. By default the weights themselves.
    """

    round: int
    starting: tuple[Scale, ...]
    weights: Floats
    previous_weights: Floats
    records: Floats = field(default_factory=lambda: np.empty((0, 0)))

    def __post_init__(self) -> None:
        if not self.records.size:
            object.__setattr__(self, "records", self.weights[None])
        for array in (self.weights, self.previous_weights, self.records):
            array.flags.writeable = False

    @property
    def n_active(self) -> int:
        """The number of active scales (0 .. n-1)."""
        return len(self.weights)

    @property
    def probabilities(self) -> Floats:
        """The weights divided by their sum: the coefficients of the average of the plays."""
        probabilities: Floats = self.weights / self.weights.sum()
        return probabilities


@runtime_checkable
class Bank(Protocol[ContraEvent, CoPlay]):
    """The learners of all scales.

    ``start`` and ``observe`` return the bank to use from then on, which may be another object. If they leave the
    original unchanged, as those of ``LearnerBank`` do, an error or an interrupt cannot leave a round half done. If they
    change the bank in place, a call that raises must leave it unchanged.
    """

    def start(self, round_state: RoundState) -> Bank[ContraEvent, CoPlay]:
        """Start the learners of the scales that start in this round."""
        ...

    def observe(self, event: ContraEvent, round_state: RoundState) -> tuple[Floats, Bank[ContraEvent, CoPlay]]:
        """Return the losses of the active learners on the event, and the bank after they have learned from it.

        The losses are those of the estimates that the learners held before they saw the event.
        """
        ...

    def mix(self, round_state: RoundState) -> CoPlay:
        """Return the ensemble's play in this round. This must not change the bank."""
        ...


@runtime_checkable
class SamplingBank(Bank[ContraEvent, CoPlay], Protocol[ContraEvent, CoPlay]):
    """A bank that can play a single learner's play."""

    def pick(self, j: int, round_state: RoundState) -> CoPlay:
        """Return the play of the learner of scale j in this round. This must not change the bank."""
        ...


@runtime_checkable
class StatefulBank(Bank[ContraEvent, CoPlay], Protocol[ContraEvent, CoPlay]):
    """A bank whose state can be saved and restored."""

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything that later rounds depend on: copies of arrays, and JSON values."""
        ...

    def with_state(self, saved: StateReader, round_state: RoundState) -> Bank[ContraEvent, CoPlay]:
        """Return a bank with a saved state; ``self``, which must not have learned yet, does not change."""
        ...


class MarginBank(ABC):
    """A bank that records the learners' margins.

    Attributes
    ----------
    last_margins : array of shape (n_active,)
        Each learner's margin on the last observed event, for the estimate that it held before it saw the event. The
        ensemble's margin must be their weighted mean.
    """

    last_margins: Floats


class ReplayBank(MarginBank):
    """A bank that can play many rounds at once."""

    @abstractmethod
    def can_replay(self, config: EnsembleConfig) -> bool:
        """Return whether ``replay`` supports these settings of the ensemble."""

    @abstractmethod
    def replay(
        self, events: Events | Relatives, round_state: RoundState, config: EnsembleConfig
    ) -> tuple[RoundState, Floats, LearnerError | None]:
        """Play one round on each event, with the same bits as ``start`` and ``observe`` give.

        Returns the next round's state, the ensemble's margin on each event before it was learned from, and None. If an
        event is rejected, returns that event's round state and the error; the rounds before it have been played.
        """

    def prepare(self, events: Events | Relatives) -> Iterator[Any]:
        """Iterate over the events in a form that ``observe`` accepts and need not check again."""
        return iter(events)


class LearnerError(RuntimeError):
    """The failure of a learner, after which the ensemble is in the state before the round.

    Attributes
    ----------
    scale : Scale
        The scale of the learner.
    round : int
        The round number.
    problem : str
        What went wrong.
    """

    def __init__(self, scale: Scale, round: int, problem: str) -> None:
        super().__init__(f"in round {round} the learner of {scale} {problem}; the ensemble is unchanged")
        self.scale = scale
        self.round = round
        self.problem = problem

    def __reduce__(self) -> tuple[Any, ...]:
        return LearnerError, (self.scale, self.round, self.problem)


def weighted_average(plays: Sequence[Any], probabilities: Floats) -> Any:
    """Return the convex combination of plays that support addition and scaling, such as numbers and arrays (eq. 6)."""
    return sum(probability * play for probability, play in zip(probabilities, plays, strict=True))


class LearnerBank(Generic[Event, Play]):
    """A bank of any online learners; by default each scale starts from the play of the next finer scale.

    Parameters
    ----------
    make : callable (Scale, Play or None) -> Learner
        Creates the learner of a scale. It starts from the given play, or from scratch if that is None. Coarser scales
        should take smaller steps: ``scale.rate`` is ``1 / sqrt(scale.length)``.
    mix : callable (plays, probabilities) -> Play
        Averages plays; the default works for numbers and arrays.
    finest : {"carry", "ensemble", "reset"}
        The start of the finest scale, which has no finer one, when its interval ends: "carry" keeps the learner,
        "ensemble" starts from the average of all plays, and "reset" starts from scratch.
    starts : {"below", "ensemble", "scratch"}
        The start of the other scales: from the play of the next finer scale, from the average of all plays, or from
        scratch.

    Examples
    --------
    >>> from ocelad import Ocelad
    >>> class Mean:
    ...     def __init__(self, scale, start):
    ...         self.value, self.step = 0.0 if start is None else start, 0.5 * scale.rate
    ...     def play(self):
    ...         return self.value
    ...     def loss(self, event):
    ...         return (self.value - event) ** 2
    ...     def update(self, event):
    ...         self.value += self.step * (event - self.value)
    >>> tracker = Ocelad(LearnerBank(Mean))
    >>> for event in [1.0] * 20:
    ...     last = tracker.step(event)
    >>> round(float(tracker.play()), 3)
    1.0

    Notes
    -----
    The paper initialises every learner "besides the coarsest" from the next finer scale; it must mean the finest. The
    paper does not define the start of the finest scale; "carry" had the lowest errors in our measurements.
    """

    def __init__(
        self,
        make: Callable[[Scale, Play | None], Learner[Event, Play]],
        mix: Callable[[Sequence[Play], Floats], Play] = weighted_average,
        *,
        finest: Finest = "carry",
        starts: Starts = "below",
    ) -> None:
        if not callable(make):
            kind = type(make).__name__
            raise TypeError(f"make must be a function make(scale, start) that creates a learner; got a {kind} object")
        self._make = make
        self._mix = mix
        self._finest = check_choice(finest, "finest", get_args(Finest))
        self._starts = check_choice(starts, "starts", get_args(Starts))
        self._members: tuple[tuple[Scale, Learner[Event, Play]], ...] = ()

    @property
    def learners(self) -> tuple[Learner[Event, Play], ...]:
        """The learners, the finest scale first."""
        return tuple(learner for _, learner in self._members)

    def start(self, round_state: RoundState) -> Self:
        """Return a bank with new learners for the scales that start in this round."""
        members = list(self._members)
        for scale in round_state.starting:
            j = scale.index
            if j == 0 and self._members and self._finest == "carry":
                continue
            start = deepcopy(self._start_value(j, round_state))
            try:
                learner = self._make(scale, start)
            except Exception as error:
                raise LearnerError(scale, round_state.round, f"could not start ({_describe(error)})") from error
            _play(scale, learner, round_state.round)
            members[j : j + 1] = [(scale, learner)]
        return self._with_members(members)

    def observe(self, event: Event, round_state: RoundState) -> tuple[Floats, Self]:
        """Return the loss of each learner, and a bank of learners that have learned from the event."""
        losses = np.array([_loss(scale, learner, event, round_state.round) for scale, learner in self._members])
        members = [(scale, _update_copy(scale, learner, event, round_state.round)) for scale, learner in self._members]
        return losses, self._with_members(members)

    def mix(self, round_state: RoundState) -> Play:
        """Return the average of the learners' plays."""
        return self._average(round_state.probabilities, round_state.round)

    def pick(self, j: int, round_state: RoundState) -> Play:
        """Return the play of the learner of scale j."""
        return _play(*self._members[j], round_state.round)

    def _start_value(self, j: int, round_state: RoundState) -> Play | None:
        # start() does not change self._members, so every scale sees the plays before the first start.
        source = self._starts if j > 0 else self._finest
        if self._members and source == "below":
            return _play(*self._members[j - 1], round_state.round)
        if self._members and source == "ensemble":
            weights = round_state.previous_weights
            return self._average(weights / weights.sum(), round_state.round)
        return None

    def _average(self, probabilities: Floats, t: int) -> Play:
        plays = [_play(scale, learner, t) for scale, learner in self._members]
        try:
            return self._mix(plays, probabilities)
        except Exception as error:
            kind = type(plays[0]).__name__
            raise TypeError(
                f"plays of type {kind} could not be averaged ({_describe(error)}); "
                "give LearnerBank(make, mix) a function mix(plays, probabilities) that averages them"
            ) from error

    def _with_members(self, members: Sequence[tuple[Scale, Learner[Event, Play]]]) -> Self:
        bank = type(self).__new__(type(self))
        bank.__dict__.update(self.__dict__)
        bank._members = tuple(members)
        return bank


def _loss(scale: Scale, learner: Learner[Event, Any], event: Event, t: int) -> float:
    try:
        loss = float(learner.loss(event))
    except Exception as error:
        raise LearnerError(scale, t, f"could not compute its loss ({_describe(error)})") from error
    if not isfinite(loss):
        raise LearnerError(scale, t, f"returned the loss {loss}, which is not finite")
    return loss


def _update_copy(scale: Scale, learner: Learner[Event, Play], event: Event, t: int) -> Learner[Event, Play]:
    """Return a copy of the learner that has learned from the event."""
    try:
        updated = deepcopy(learner)
        updated.update(event)
    except Exception as error:
        raise LearnerError(scale, t, f"could not learn from the event ({_describe(error)})") from error
    _play(scale, updated, t)
    return updated


def _play(scale: Scale, learner: Learner[Any, Play], t: int) -> Play:
    try:
        play = learner.play()
    except Exception as error:
        raise LearnerError(scale, t, f"could not play ({_describe(error)})") from error
    if not is_finite(play):
        raise LearnerError(scale, t, f"returned the play {play!r}, which is not finite")
    return play


def is_finite(play: object) -> bool:
    """Return whether all numbers that can be found in a play are finite; False for None.

    The search covers numbers, arrays, mappings, tuples, lists and dataclasses. Objects of other types pass.
    """
    if play is None:
        return False
    if isinstance(play, (int, float, complex, np.number, np.ndarray)):
        numbers = np.asarray(play)
        return numbers.dtype.kind not in "fc" or bool(np.isfinite(numbers).all())
    if isinstance(play, Mapping):
        return all(map(is_finite, play.values()))
    if isinstance(play, (tuple, list)):
        return all(map(is_finite, play))
    if is_dataclass(play) and not isinstance(play, type):
        return all(is_finite(getattr(play, field.name)) for field in fields(play))
    return True


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
