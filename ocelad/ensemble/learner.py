"""The protocol of an online learner."""

from __future__ import annotations

from typing import Protocol, TypeVar

Event = TypeVar("Event", contravariant=True)
Play = TypeVar("Play", covariant=True)


class Learner(Protocol[Event, Play]):
    """An online learner: it plays, computes the loss of its play on an event, and learns from the event.

    ``copy.deepcopy`` must be able to copy it. ``LearnerBank`` updates copies, so that a learner that fails in the
    middle of a round leaves the ensemble unchanged.
    """

    def play(self) -> Play:
        """Return the current estimate. This must not change the learner."""
        ...

    def loss(self, event: Event) -> float:
        """Return the loss of the current play: a finite number, smaller is better. This must not change the learner."""
        ...

    def update(self, event: Event) -> None:
        """Learn from the event."""
        ...
