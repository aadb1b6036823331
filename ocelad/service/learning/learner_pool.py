"""LearnerPool: a few threads in which the learners of all projects take turns."""

from __future__ import annotations

import logging
from heapq import heappop, heappush
from itertools import count
from threading import Condition, Thread
from time import monotonic
from typing import Protocol

_NEVER = float("inf")
# The pause after a step that raised an exception, in seconds; learners handle their own failures.
_FAILURE_PAUSE = 30.0
_logger = logging.getLogger(__name__)


class Steps(Protocol):
    """Work that is done in short steps."""

    def step(self) -> float | None:
        """Do a step; return the seconds until the next one is due, or None: when ``wake`` is called."""
        ...


class _Turn:
    """The state of a worker in the pool: when its next step is due, and whether one is running."""

    __slots__ = ("due", "removed", "running", "work")

    def __init__(self, work: Steps) -> None:
        self.work = work
        self.due = _NEVER
        self.running = self.removed = False


class LearnerPool:
    """Threads that run the steps of many learners. The steps of one learner never overlap.

    The step that has been due for longest comes next. So a learner with a large backlog gets its turn again only after
    all others whose step is due, and what a learner computes does not depend on the others.

    Parameters
    ----------
    n_threads : int
    """

    def __init__(self, n_threads: int = 1) -> None:
        self._changed = Condition()
        self._turns: dict[Steps, _Turn] = {}
        self._heap: list[tuple[float, int, _Turn]] = []  # with outdated entries, whose time is not that of the turn
        self._numbers = count()
        self._closing = False
        self._threads = [Thread(target=self._run, name=f"learner-{i}", daemon=True) for i in range(n_threads)]
        for thread in self._threads:
            thread.start()

    def add(self, work: Steps) -> None:
        """Run a first step soon, and then whenever one is due, until ``remove``."""
        with self._changed:
            turn = self._turns[work] = _Turn(work)
            self._schedule(turn, monotonic())

    def wake(self, work: Steps, at: float) -> None:
        """Run the next step at this time (of ``monotonic``) at the latest; it may be past."""
        with self._changed:
            turn = self._turns.get(work)
            if turn is not None:
                self._schedule(turn, at)

    def remove(self, work: Steps, *, wait: bool = True) -> None:
        """Run no further step; unless ``wait`` is false, return when the present one has ended."""
        with self._changed:
            turn = self._turns.pop(work, None)
            if turn is None:
                return
            turn.removed = True
            if wait:
                self._changed.wait_for(lambda: not turn.running)

    def close(self) -> None:
        """End the threads after their present steps."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _schedule(self, turn: _Turn, at: float) -> None:
        if at < turn.due:
            turn.due = at
            if not turn.running:  # otherwise it is scheduled after its step
                heappush(self._heap, (at, next(self._numbers), turn))
                self._changed.notify()

    def _take(self) -> _Turn | None:
        """Wait for the next step that is due; None: the pool is closed."""
        with self._changed:
            while not self._closing:
                now = monotonic()
                while self._heap:
                    due, _, turn = self._heap[0]
                    if turn.removed or turn.running or due != turn.due:
                        heappop(self._heap)
                        continue
                    if due > now:
                        break
                    heappop(self._heap)
                    turn.running, turn.due = True, _NEVER
                    return turn
                self._changed.wait(self._heap[0][0] - now if self._heap else None)
            return None

    def _run(self) -> None:
        while (turn := self._take()) is not None:
            try:
                delay = turn.work.step()
            except Exception:
                _logger.exception("a step of learning failed")
                delay = _FAILURE_PAUSE
            with self._changed:
                turn.running = False
                woken, turn.due = turn.due, _NEVER
                due = min(woken, _NEVER if delay is None else monotonic() + delay)
                if not turn.removed and due < _NEVER:
                    self._schedule(turn, due)
                self._changed.notify_all()
