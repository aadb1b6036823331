"""What every learner and every bank must keep to, as checks that raise an AssertionError with a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, is_dataclass
from numbers import Real
from typing import Any, TypeVar

import numpy as np

from ocelad.ensemble.bank import Bank, is_finite
from ocelad.ensemble.learner import Learner
from ocelad.ensemble.ocelad import Ocelad

Event = TypeVar("Event")
Play = TypeVar("Play")


def check_learner(make: Callable[[], Learner[Event, Play]], events: Sequence[Event]) -> None:
    """Check that a learner can be one of OCELAD's.

    Playing and judging change nothing; losses are finite numbers; a deep copy learns apart from the
    original; and two learners that see the same events come to the same play.

    Parameters
    ----------
    make : callable () -> Learner
        Makes a fresh learner, the same one every time.
    events : sequence
        At least one event, of the kind it learns from.

    Examples
    --------
    >>> from ocelad import Comid, Metric, Pair
    >>> event = Pair([1.0, 2.0], [0.0, 0.0], similar=True).event()
    >>> check_learner(lambda: Comid(Metric([[1.0, 0.0], [0.0, 1.0]]), step_size=0.1), [event])
    """
    events = list(events)
    _need(callable(make), f"make must be a function that makes a learner; it is a {type(make).__name__}")
    _need(len(events) > 0, "check_learner needs at least one event")
    learner, twin = make(), make()
    _need(learner is not twin, "make must make a new learner every time; it returned the same one twice")
    for number, event in enumerate(events, start=1):
        at = f"at event {number}"
        before = deepcopy(_tried("play", learner.play, at))
        _need(is_finite(before), f"play must give finite numbers; {at} it gives {before!r}")
        loss = _tried("loss", lambda: learner.loss(event), at)  # noqa: B023
        _need(_is_finite_number(loss), f"loss must be one finite number; {at} it is {loss!r}")
        _need(learner.loss(event) == loss, f"loss must give the same number twice; {at} it does not")
        _need(_same(learner.play(), before), f"play and loss must change nothing; {at} what it plays changed")
        copy = _tried("deepcopy", lambda: deepcopy(learner), at)
        _tried("update", lambda: copy.update(event), at)  # noqa: B023
        _need(is_finite(copy.play()), f"play must give finite numbers; after event {number} it gives {copy.play()!r}")
        _need(
            _same(learner.play(), before) and learner.loss(event) == loss,
            f"a deep copy must learn apart from the original; {at} updating the copy changed the original",
        )
        learner.update(event)
        twin.update(event)
        _need(_same(learner.play(), copy.play()), f"a deep copy must learn as the original does; {at} they differ")
        _need(
            _same(learner.play(), twin.play()), f"two learners that see the same must play the same; {at} they differ"
        )


def check_bank(
    make: Callable[[], Bank[Event, Play]],
    events: Sequence[Event],
    *,
    shortest_interval: int = 1,
    n_scales: int | None = None,
    refused: Event | None = None,
) -> None:
    """Check that OCELAD can stand on a bank.

    ``observe`` returns one finite loss for each active scale; ``mix`` changes nothing, so that a run that is
    read all the time is bit for bit the run that nobody reads; and an event that is refused changes nothing.

    Parameters
    ----------
    make : callable () -> Bank
        Makes a fresh bank, the same one every time.
    events : sequence
        Events that it learns from; ten or more reach several scales.
    shortest_interval, n_scales
        The schedule on which it is checked.
    refused : event, optional
        One that the bank must refuse with an error.

    Examples
    --------
    >>> import numpy as np
    >>> from ocelad import Metric, Pair
    >>> from ocelad.engines.rice_bank import RiceBank
    >>> event = Pair([1.0, 2.0], [0.0, 0.0], similar=True).event()
    >>> check_bank(lambda: RiceBank(Metric(np.eye(2)), step_size=0.1), [event] * 10)
    """
    events = list(events)
    _need(callable(make), f"make must be a function that makes a bank; it is a {type(make).__name__}")
    _need(len(events) > 0, "check_bank needs at least one event")
    read, unread = (Ocelad(make(), shortest_interval=shortest_interval, n_scales=n_scales) for _ in range(2))
    for event in events:
        at = f"in round {read.n_rounds + 1}"
        if refused is not None:
            _check_refusal(read, refused, at)
        before = deepcopy(read.play())
        _need(is_finite(before), f"mix must give finite numbers; {at} it gives {before!r}")
        _need(_same(read.play(), before), f"mix must give the same twice; {at} it does not")
        losses, others = (
            read.step(event).losses,
            unread.step(event).losses,
        )  # checks their number and that they are finite
        _need(
            _same(losses, others), f"reading must change nothing; {at} the losses differ from a run that was not read"
        )
    _need(_same(read.play(), unread.play()), "reading must change nothing; the run that was read plays something else")


def _check_refusal(ocelad: Ocelad[Event, Play], refused: Event, at: str) -> None:
    before, round_state = deepcopy(ocelad.play()), ocelad.round_state
    try:
        ocelad.step(refused)
    except Exception:
        unchanged = ocelad.round_state is round_state and _same(ocelad.play(), before)
        _need(unchanged, f"an event that is refused must change nothing; {at} it did")
    else:
        raise AssertionError(f"the event that must be refused was taken {at}")


def _tried(name: str, call: Callable[[], Any], at: str) -> Any:
    try:
        return call()
    except Exception as error:
        raise AssertionError(f"{name} must not fail; {at} it raised {type(error).__name__}: {error}") from error


def _is_finite_number(value: object) -> bool:
    return isinstance(value, (Real, np.number)) and is_finite(value)


def _same(one: Any, other: Any) -> bool:
    """Same bits: numbers, arrays, containers of them, and anything else that knows equality."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return bool(np.array_equal(one, other))
    if is_dataclass(one) and type(one) is type(other):
        return all(_same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    return bool(one == other)


def _need(condition: bool, sentence: str) -> None:
    if not condition:
        raise AssertionError(sentence)
