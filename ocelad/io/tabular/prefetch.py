"""Reading ahead in a thread, so that parsing and learning overlap."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

Item = TypeVar("Item")
_N_AHEAD = 2


class Prefetch(Generic[Item]):
    """An iterator whose next items are computed in a thread. An exception is raised in place of its item.

    >>> list(Prefetch(iter("abc")))
    ['a', 'b', 'c']
    """

    def __init__(self, items: Iterator[Item], *, may_block: bool = False) -> None:
        self._queue: SimpleQueue[tuple[Item | None, BaseException | None]] = SimpleQueue()
        self._slots = threading.Semaphore(_N_AHEAD)
        self._closed = threading.Event()
        # A thread that is blocked in a read from a pipe cannot be stopped; ``close`` does not wait for it.
        self._may_block = may_block
        # The thread holds no reference to self, so that an abandoned iterator is garbage-collected and closed.
        arguments = (items, self._queue, self._slots, self._closed)
        self._thread = threading.Thread(target=_produce, args=arguments, name="ocelad-files", daemon=True)
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
        self._slots.release()
        return item

    def stop(self) -> None:
        """End the iteration, also for a caller that waits for an item. A signal handler may call this."""
        self._closed.set()
        self._queue.put((None, None))

    def close(self) -> None:
        """Stop reading ahead, and wait until the current item is finished."""
        self._closed.set()
        self._slots.release()
        if not self._may_block:
            self._thread.join()

    def __del__(self) -> None:
        self._closed.set()
        self._slots.release()


def _produce(
    items: Iterator[Item],
    queue: SimpleQueue[tuple[Item | None, BaseException | None]],
    slots: threading.Semaphore,
    closed: threading.Event,
) -> None:
    try:
        while True:
            slots.acquire()
            if closed.is_set():
                return
            item = next(items, None)
            queue.put((item, None))
            if item is None:
                return
    except BaseException as error:  # raised again in the thread of the caller
        queue.put((None, error))
