"""What an online learner is, seen from outside."""

from __future__ import annotations

from typing import Protocol, TypeVar

Event = TypeVar("Event", contravariant=True)
Play = TypeVar("Play", covariant=True)


class Learner(Protocol[Event, Play]):
    """An online learner as a black box: it plays, is judged on what it played, and adapts.

    Nothing else is asked of it, except that ``copy.deepcopy`` copies it: a round is taken on copies, so that
    a learner that fails half-way leaves the ensemble as it was.
    """

    def play(self) -> Play:
        """What it would say now. Changes nothing."""
        ...

    def loss(self, event: Event) -> float:
        """What its current play loses on the event: any finite number, the smaller the better. Changes nothing."""
        ...

    def update(self, event: Event) -> None:
        """Learn from the event."""
        ...
