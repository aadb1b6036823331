"""The learners of all scales: what OCELAD asks of them (Bank), and a bank of any black boxes (LearnerBank)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, is_dataclass
from math import isfinite
from typing import Any, Generic, Literal, Protocol, Self, TypeAlias, TypeVar, get_args

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_choice
from ocelad.ensemble.learner import Learner
from ocelad.ensemble.schedule import Scale

Event = TypeVar("Event")
ContraEvent = TypeVar("ContraEvent", contravariant=True)
Play = TypeVar("Play")
CoPlay = TypeVar("CoPlay", covariant=True)

Finest: TypeAlias = Literal["carry", "ensemble", "reset"]
Starts: TypeAlias = Literal["below", "ensemble", "scratch"]


@dataclass(frozen=True, slots=True, eq=False)
class RoundState:
    """A round that is about to be played.

    Attributes
    ----------
    round : int
        Its number t = 1, 2, 3, ...
    starting : tuple of Scale
        The scales that begin a new interval with this round.
    weights : array of shape (n_active,)
        The weight of each active scale, those that start included; read-only.
    before : array
        The weights as the last round left them, before any start; empty in round 1; read-only.
    records : array of shape (n_rows, n_active)
        What the weights follow from (``Weighting``): one column per active scale. By default the weights themselves.
    """

    round: int
    starting: tuple[Scale, ...]
    weights: Floats
    before: Floats
    records: Floats = field(default_factory=lambda: np.empty((0, 0)))

    def __post_init__(self) -> None:
        if not self.records.size:
            object.__setattr__(self, "records", self.weights.reshape(1, -1))
        self.weights.flags.writeable = self.before.flags.writeable = self.records.flags.writeable = False

    @property
    def active(self) -> int:
        """How many scales (0 .. n-1) are active."""
        return len(self.weights)

    @property
    def probabilities(self) -> Floats:
        """The weights scaled to sum to 1, by which the active learners' plays are averaged."""
        probabilities: Floats = self.weights / self.weights.sum()
        return probabilities


class Bank(Protocol[ContraEvent, CoPlay]):
    """The learners of all scales, one round after the other.

    ``start`` and ``observe`` return the bank as it is afterwards. A bank that is not changed by them, such as
    ``LearnerBank``, makes every round all or nothing, interrupts included. One that changes and returns
    itself must see to it that a round which raises has changed nothing.
    """

    def start(self, round_state: RoundState) -> Self:
        """Give the scales that start with this round the learners that they start with."""
        ...

    def observe(self, event: ContraEvent, round_state: RoundState) -> tuple[Floats, Self]:
        """Judge each active learner on the event, then let it learn.

        Returns what each active learner lost, by the estimate it held before it saw the event.
        """
        ...

    def mix(self, round_state: RoundState) -> CoPlay:
        """What the ensemble plays in this round. Changes nothing."""
        ...


class LearnerError(RuntimeError):
    """A learner failed; the ensemble is as it was before the round.

    Attributes
    ----------
    scale : Scale
        Whose learner it was.
    round : int
        In which round.
    """

    def __init__(self, scale: Scale, round: int, what: str) -> None:
        super().__init__(f"in round {round} the learner of {scale} {what}; the ensemble is as it was")
        self.scale = scale
        self.round = round
        self.what = what

    def __reduce__(self) -> tuple[Any, ...]:
        return LearnerError, (self.scale, self.round, self.what)


def weighted_average(plays: Sequence[Any], probabilities: Floats) -> Any:
    """The convex combination of plays that can be added and scaled: numbers or arrays (equation 6)."""
    return sum(probability * play for probability, play in zip(probabilities, plays, strict=True))


class LearnerBank(Generic[Event, Play]):
    """A bank of any online learners; retro-initialised, unless told otherwise: each starts from the one below it.

    Parameters
    ----------
    make : callable (Scale, Play or None) -> Learner
        Makes the learner of a scale, which starts from the given play, or from scratch when it is None. A
        larger scale should take smaller steps: ``scale.rate`` is ``1 / sqrt(scale.length)``.
    mix : callable (plays, probabilities) -> Play
        How plays are averaged; the default fits numbers and arrays.
    finest : {"carry", "ensemble", "reset"}
        What the finest scale, which has none below it, starts from when an interval ends: it carries on,
        takes over what the ensemble plays, or begins from scratch.
    starts : {"below", "ensemble", "scratch"}
        What the other scales start from: the play of the scale below, what the ensemble plays on average, or nothing.

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
    The paper initialises every learner "besides the coarsest" from the next shorter scale, which must mean
    the finest. What the finest does is left open there; to carry on measured best.
    """

    def __init__(
        self,
        make: Callable[[Scale, Play | None], Learner[Event, Play]],
        mix: Callable[[Sequence[Play], Floats], Play] = weighted_average,
        *,
        finest: Finest = "carry",
        starts: Starts = "below",
    ) -> None:
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
        """A bank in which the scales that start have new learners."""
        members = list(self._members)
        for scale in round_state.starting:
            j = scale.index
            if j == 0 and self._members and self._finest == "carry":
                continue
            start = deepcopy(self._start_value(j, round_state))
            try:
                learner = self._make(scale, start)
            except Exception as error:
                raise LearnerError(scale, round_state.round, f"could not be started ({_in_words(error)})") from error
            _play(scale, learner, round_state.round)
            members[j : j + 1] = [(scale, learner)]
        return self._with(members)

    def observe(self, event: Event, round_state: RoundState) -> tuple[Floats, Self]:
        """What each learner lost, and a bank in which each has learned."""
        losses = np.array([_loss(scale, learner, event, round_state.round) for scale, learner in self._members])
        learned = [(scale, _updated(scale, learner, event, round_state.round)) for scale, learner in self._members]
        return losses, self._with(learned)

    def mix(self, round_state: RoundState) -> Play:
        """What the ensemble plays in this round."""
        return self._average(round_state.probabilities, round_state.round)

    def pick(self, j: int, round_state: RoundState) -> Play:
        """What the learner of scale j plays in this round."""
        return _play(*self._members[j], round_state.round)

    def _start_value(self, j: int, round_state: RoundState) -> Play | None:
        # self._members holds what was there before any start.
        source = self._starts if j > 0 else self._finest
        if self._members and source == "below":
            return _play(*self._members[j - 1], round_state.round)
        if self._members and source == "ensemble":
            return self._average(round_state.before / round_state.before.sum(), round_state.round)
        return None

    def _average(self, probabilities: Floats, t: int) -> Play:
        plays = [_play(scale, learner, t) for scale, learner in self._members]
        try:
            return self._mix(plays, probabilities)
        except Exception as error:
            kind = type(plays[0]).__name__
            raise TypeError(
                f"plays of type {kind} could not be averaged ({_in_words(error)}); "
                "LearnerBank(make, mix) takes a function mix(plays, probabilities) that can"
            ) from error

    def _with(self, members: Sequence[tuple[Scale, Learner[Event, Play]]]) -> Self:
        bank = type(self).__new__(type(self))
        bank.__dict__.update(self.__dict__)
        bank._members = tuple(members)
        return bank


def _loss(scale: Scale, learner: Learner[Event, Any], event: Event, t: int) -> float:
    try:
        loss = float(learner.loss(event))
    except Exception as error:
        raise LearnerError(scale, t, f"could not judge the event ({_in_words(error)})") from error
    if not isfinite(loss):
        raise LearnerError(scale, t, f"returned the loss {loss}, where a finite number is needed")
    return loss


def _updated(scale: Scale, learner: Learner[Event, Play], event: Event, t: int) -> Learner[Event, Play]:
    """The learner after the event, as a copy: the one before stays as it is."""
    try:
        updated = deepcopy(learner)
        updated.update(event)
    except Exception as error:
        raise LearnerError(scale, t, f"could not learn from the event ({_in_words(error)})") from error
    _play(scale, updated, t)
    return updated


def _play(scale: Scale, learner: Learner[Any, Play], t: int) -> Play:
    try:
        play = learner.play()
    except Exception as error:
        raise LearnerError(scale, t, f"could not play ({_in_words(error)})") from error
    if not is_finite(play):
        raise LearnerError(scale, t, f"came to play {play!r}, where finite numbers are needed")
    return play


def is_finite(play: object) -> bool:
    """Whether all numbers in a play are finite, as far as one can look into it; None is no play at all."""
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


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
