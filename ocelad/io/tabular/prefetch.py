"""Reads ahead in a thread: what comes next is parsed while the caller learns from what came."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

Item = TypeVar("Item")
_AHEAD = 2


class Prefetch(Generic[Item]):
    """An iterator whose next few items are made in a thread; errors come out where their item would have.

    >>> list(Prefetch(iter("abc")))
    ['a', 'b', 'c']
    """

    def __init__(self, items: Iterator[Item], *, may_wait: bool = False) -> None:
        self._queue: SimpleQueue[tuple[Item | None, BaseException | None]] = SimpleQueue()
        self._room = threading.Semaphore(_AHEAD)
        self._closed = threading.Event()
        # A thread that waits for a pipe can be left there, never be stopped.
        self._may_wait = may_wait
        # The thread holds no reference to self, so that one that is dropped is closed.
        parts = (items, self._queue, self._room, self._closed)
        self._thread = threading.Thread(target=_produce, args=parts, name="ocelad-files", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        if self._closed.is_set():
            raise StopIteration
        item, error = self._queue.get()
        if error is not None:
            self.close()
            raise error
        if item is None:
            self.close()
            raise StopIteration
        self._room.release()
        return item

    def stop(self) -> None:
        """No item comes any more, not even one that is waited for; a signal handler may call it."""
        self._closed.set()
        self._queue.put((None, None))

    def close(self) -> None:
        """Stop reading ahead; waits for the item that is being made."""
        self._closed.set()
        self._room.release()
        if not self._may_wait:
            self._thread.join()

    def __del__(self) -> None:
        self._closed.set()
        self._room.release()


def _produce(
    items: Iterator[Item],
    queue: SimpleQueue[tuple[Item | None, BaseException | None]],
    room: threading.Semaphore,
    closed: threading.Event,
) -> None:
    try:
        while True:
            room.acquire()
            if closed.is_set():
                return
            item = next(items, None)
            queue.put((item, None))
            if item is None:
                return
    except BaseException as error:  # whatever it is, it belongs to the caller
        queue.put((None, error))
