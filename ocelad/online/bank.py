"""The learners of all scales: what OCELAD asks of them (Bank), and a bank of any black boxes (LearnerBank)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import isfinite
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, get_args

import numpy as np

from ocelad import checks
from ocelad.checks import Floats
from ocelad.online.dyadic import Scale
from ocelad.online.learner import Learner

Event = TypeVar("Event")
ContraEvent = TypeVar("ContraEvent", contravariant=True)
Play = TypeVar("Play")
CoPlay = TypeVar("CoPlay", covariant=True)

Finest: TypeAlias = Literal["carry", "ensemble", "reset"]


@dataclass(frozen=True, slots=True)
class Turn:
    """A round that is about to be played.

    Attributes
    ----------
    round : int
        Its number t = 1, 2, 3, ...
    starting : tuple of Scale
        The scales that begin a new interval with this round.
    weights : array of shape (n_active,)
        The weight of each active scale, those that start included.
    before : array
        The weights as the last round left them, before any start; empty in round 1.
    """

    round: int
    starting: tuple[Scale, ...]
    weights: Floats
    before: Floats

    @property
    def active(self) -> int:
        """How many scales (0 .. n-1) are active."""
        return len(self.weights)

    @property
    def probabilities(self) -> Floats:
        """The weights, scaled to sum to 1: what the active learners' plays are averaged with."""
        probabilities: Floats = self.weights / self.weights.sum()
        return probabilities


class Bank(Protocol[ContraEvent, CoPlay]):
    """The learners of all scales."""

    def observe(self, event: ContraEvent, turn: Turn) -> Floats:
        """Play the round: scales that start take their start values, each active learner is judged, then learns.

        Returns what each active learner lost, by the estimate it held before it saw the event. All or
        nothing: when it raises, the bank is as it was.
        """
        ...

    def mix(self, turn: Turn) -> CoPlay:
        """What the ensemble plays in this round, its starts included. Changes nothing."""
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
        super().__init__(
            f"in round {round} the learner of scale {scale.index} (interval length {scale.length}) {what}; "
            "the ensemble is as it was before this round"
        )
        self.scale = scale
        self.round = round
        self.what = what

    def __reduce__(self) -> tuple[Any, ...]:
        return LearnerError, (self.scale, self.round, self.what)


def weighted_average(plays: Sequence[Any], probabilities: Floats) -> Any:
    """The convex combination of plays that can be added and scaled: numbers or arrays (equation 7)."""
    return sum(probability * play for probability, play in zip(probabilities, plays, strict=True))


class LearnerBank(Generic[Event, Play]):
    """A bank of any online learners, retro-initialised: each starts from the play of the scale below it.

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

    Examples
    --------
    >>> class Mean:
    ...     def __init__(self, scale, start):
    ...         self.value, self.step = start or 0.0, 0.5 * scale.rate
    ...     def play(self):
    ...         return self.value
    ...     def loss(self, event):
    ...         return (self.value - event) ** 2
    ...     def update(self, event):
    ...         self.value += self.step * (event - self.value)
    >>> from ocelad import Ocelad
    >>> tracker = Ocelad(LearnerBank(Mean))
    >>> for event in [1.0] * 20:
    ...     tracker.step(event).loss
    ...     break
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
    ) -> None:
        self._make = make
        self._mix = mix
        self._finest = checks.choice(finest, "finest", get_args(Finest))
        self._members: list[tuple[Scale, Learner[Event, Play]]] = []

    @property
    def learners(self) -> tuple[Learner[Event, Play], ...]:
        """The learners as the last round left them, the finest scale first."""
        return tuple(learner for _, learner in self._members)

    def observe(self, event: Event, turn: Turn) -> Floats:
        """Play the round: start, judge, learn; all or nothing."""
        members = self._started(turn)
        losses = np.array([_loss(member, event, turn.round) for member in members])
        self._members = [(scale, _updated((scale, learner), event, turn.round)) for scale, learner in members]
        return losses

    def mix(self, turn: Turn) -> Play:
        """What the ensemble plays in this round, its starts included."""
        return self._average(self._started(turn), turn.probabilities)

    def _started(self, turn: Turn) -> list[tuple[Scale, Learner[Event, Play]]]:
        """The members of this round: the scales that start have new learners. Changes nothing."""
        members = list(self._members)
        for scale in turn.starting:
            j = scale.index
            if j == 0 and self._members and self._finest == "carry":
                continue
            try:
                learner = self._make(scale, self._start_value(j, turn))
            except Exception as error:
                raise LearnerError(scale, turn.round, f"could not be started ({_in_words(error)})") from error
            members[j : j + 1] = [(scale, learner)]
        return members

    def _start_value(self, j: int, turn: Turn) -> Play | None:
        # self._members, not the members of this round: what was held before any start.
        if j > 0:
            return self._members[j - 1][1].play()
        if self._members and self._finest == "ensemble":
            return self._average(self._members, turn.before / turn.before.sum())
        return None

    def _average(self, members: Sequence[tuple[Scale, Learner[Event, Play]]], probabilities: Floats) -> Play:
        return self._mix([learner.play() for _, learner in members], probabilities)


def _loss(member: tuple[Scale, Learner[Event, Any]], event: Event, t: int) -> float:
    scale, learner = member
    try:
        loss = float(learner.loss(event))
    except Exception as error:
        raise LearnerError(scale, t, f"could not judge the event ({_in_words(error)})") from error
    if not isfinite(loss):
        raise LearnerError(scale, t, f"returned the loss {loss}, where a finite number is needed")
    return loss


def _updated(member: tuple[Scale, Learner[Event, Play]], event: Event, t: int) -> Learner[Event, Play]:
    """The learner after the event, as a copy: the one before stays as it is."""
    scale, learner = member
    try:
        updated = deepcopy(learner)
        updated.update(event)
        play = updated.play()
    except Exception as error:
        raise LearnerError(scale, t, f"could not learn from the event ({_in_words(error)})") from error
    if isinstance(play, (float, np.floating, np.ndarray)) and not np.isfinite(play).all():
        raise LearnerError(scale, t, "came to play NaN or infinity, where finite numbers are needed")
    return updated


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
