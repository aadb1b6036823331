"""A notifier that wakes coroutines of an event loop from any thread."""

from __future__ import annotations

import asyncio


class Notifier:
    """Wakes all waiting coroutines at the next notification; several notifications may be merged into one.

    No change is missed if the state is changed before ``notify``, and if a waiting coroutine reads the state in the
    loop's thread and then calls ``wait`` without awaiting anything else in between.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._scheduled = False

    def attach(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Wake coroutines of this loop from now on; None: notifications are dropped."""
        self._loop = loop

    def notify(self) -> None:
        """Wake all waiting coroutines; may be called from any thread."""
        loop = self._loop
        if loop is not None and not self._scheduled:
            self._scheduled = True
            loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._scheduled = False  # before any coroutine reads the state: later changes need another notification
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self, timeout: float) -> bool:
        """Wait for a notification and return whether one came within ``timeout`` seconds."""
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
