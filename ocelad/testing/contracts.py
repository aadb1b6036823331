"""What every learner and every bank must keep to, as checks that raise an AssertionError with a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, TypeVar

import numpy as np

from ocelad.online.bank import Bank
from ocelad.online.learner import Learner
from ocelad.online.ocelad import Ocelad

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
    _need(len(events) > 0, "check_learner needs at least one event")
    learner, twin = make(), make()
    for number, event in enumerate(events, start=1):
        at = f"at event {number}"
        before = deepcopy(learner.play())
        loss = learner.loss(event)
        _need(np.ndim(loss) == 0 and bool(np.isfinite(loss)), f"loss must be one finite number; {at} it is {loss!r}")
        _need(learner.loss(event) == loss, f"loss must give the same number twice; {at} it does not")
        _need(_same(learner.play(), before), f"play and loss must change nothing; {at} what it plays changed")
        copy = deepcopy(learner)
        copy.update(event)
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
    >>> from ocelad.online.rice import Rice
    >>> event = Pair([1.0, 2.0], [0.0, 0.0], similar=True).event()
    >>> check_bank(lambda: Rice(Metric(np.eye(2)), step_size=0.1), [event] * 10)
    """
    _need(len(events) > 0, "check_bank needs at least one event")
    read, unread = (Ocelad(make(), shortest_interval=shortest_interval, n_scales=n_scales) for _ in range(2))
    for event in events:
        at = f"in round {read.n_rounds + 1}"
        if refused is not None:
            _check_refusal(read, refused, at)
        before = deepcopy(read.play())
        _need(_same(read.play(), before), f"mix must give the same twice; {at} it does not")
        active = read.turn.active
        losses, others = read.step(event).losses, unread.step(event).losses
        _need(losses.shape == (active,), f"observe must return {active} losses {at}; it returned shape {losses.shape}")
        _need(bool(np.isfinite(losses).all()), f"losses must be finite; {at} they are {losses}")
        _need(
            _same(losses, others), f"reading must change nothing; {at} the losses differ from a run that was not read"
        )
    _need(_same(read.play(), unread.play()), "reading must change nothing; the run that was read plays something else")


def _check_refusal(ocelad: Ocelad[Event, Play], refused: Event, at: str) -> None:
    before, turn = deepcopy(ocelad.play()), ocelad.turn
    try:
        ocelad.step(refused)
    except Exception:
        unchanged = ocelad.turn is turn and _same(ocelad.play(), before)
        _need(unchanged, f"an event that is refused must change nothing; {at} it did")
    else:
        raise AssertionError(f"the event that must be refused was taken {at}")


def _same(one: Any, other: Any) -> bool:
    """Same bits, for numbers, arrays and anything else that knows equality."""
    equal = one == other
    return bool(np.all(equal)) and np.shape(one) == np.shape(other)


def _need(condition: bool, sentence: str) -> None:
    if not condition:
        raise AssertionError(sentence)
