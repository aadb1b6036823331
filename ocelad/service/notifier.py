"""Beacon: rings in the event loop when something has changed in whatever thread."""

from __future__ import annotations

import asyncio


class Notifier:
    """Who waits is woken by the next ring, and looks for itself what has changed. Many rings may come to one.

    What changes must be changed before the ring; who waits must look in the loop's thread, and wait without a pause
    in between. Then no change is missed.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._called = False

    def attach(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Ring in this loop from now on; None: nowhere."""
        self._loop = loop

    def ring(self) -> None:
        """Wake all who wait; from any thread."""
        loop = self._loop
        if loop is not None and not self._called:
            self._called = True
            loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._called = False  # before anyone looks: what changes from here on needs another ring
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self, timeout: float) -> bool:
        """Whether it rang within so many seconds."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            async with asyncio.timeout(timeout):
                await future
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(future)
        return True
