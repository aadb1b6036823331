"""Limits of work that takes seconds, such as uploads and exports, so that no other request waits for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from threading import Lock
from typing import Any, Self, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ocelad.service.api_error import ApiError

Result = TypeVar("Result")


class SlowWork:
    """Admits a number of requests at a time and refuses others at once: waiting ones would occupy memory.

    Admitted work runs in threads of its own, not in the shared ones of all other requests.

    Parameters
    ----------
    name : str
        What is admitted, in the plural.
    max_running : int
    retry_after : int
        The seconds after which a refused client is asked to try again.
    """

    def __init__(self, name: str, max_running: int, retry_after: int = 5) -> None:
        self._name, self._max_running, self._retry_after = name, max_running, retry_after
        self._n_running = 0
        self._lock = Lock()

    @property
    def n_running(self) -> int:
        """The number of admitted requests that have not ended."""
        return self._n_running

    def admit(self) -> Admission:
        """Return the admission of a request; raise ApiError if too many are running."""
        with self._lock:
            if self._n_running >= self._max_running:
                raise ApiError(
                    503,
                    f"the service is busy with {self._n_running} {self._name}, as many as it accepts at a time; try "
                    f"again in {self._retry_after} seconds",
                    code="busy",
                    headers={"Retry-After": str(self._retry_after)},
                )
            self._n_running += 1
        return Admission(self._end_one)

    def _end_one(self) -> None:
        with self._lock:
            self._n_running -= 1


class Admission:
    """An admitted request; it ends with its ``with`` block, or later with the last of its threads."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._lock = Lock()
        self._n_threads = 0
        self._left = self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()

    def leave(self) -> None:
        """End the request; leaving twice has no effect."""
        with self._lock:
            self._left = True
        self._end_if_done()

    async def run(self, function: Callable[[], Result]) -> Result:
        """Run a function in a thread. A request that is cancelled meanwhile counts until the thread has ended."""
        started = abandoned = False

        def in_thread() -> Any:
            nonlocal started
            with self._lock:
                if abandoned:
                    return None
                started = True
            try:
                return function()
            finally:
                self._end_thread()

        with self._lock:
            self._n_threads += 1
        try:
            result: Result = await to_thread.run_sync(in_thread, limiter=CapacityLimiter(1))
            return result
        finally:
            with self._lock:
                abandoned = not started
            if abandoned:
                self._end_thread()

    def _end_thread(self) -> None:
        with self._lock:
            self._n_threads -= 1
        self._end_if_done()

    def _end_if_done(self) -> None:
        with self._lock:
            ends = self._left and not self._n_threads and not self._ended
            self._ended = self._ended or ends
        if ends:
            self._on_end()


class SlowStream(StreamingResponse):
    """A response whose chunks are computed in threads of an admission; the admission ends with the response."""

    def __init__(self, admission: Admission, first: bytes, others: Iterator[bytes], **options: Any) -> None:
        super().__init__(_chunks(admission, first, others), **options)
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._admission:
            await super().__call__(scope, receive, send)


async def _chunks(admission: Admission, first: bytes, others: Iterator[bytes]) -> AsyncIterator[bytes]:
    chunk: bytes | None = first
    while chunk is not None:
        if chunk:
            yield chunk
        chunk = await admission.run(lambda: next(others, None))
