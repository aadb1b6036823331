"""Limits: how much, how often and how slowly anybody may ask, and how long an answer may take to begin."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from math import ceil

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ocelad.service.refusal import Refusal, problem
from ocelad.service.security.addresses import client_of, is_loopback, neighbourhood
from ocelad.service.security.rates import Rates

# A body that comes faster than this has all the time that it needs.
_LEAST_BYTES_PER_SECOND = 16 * 1024
# Of failed authentications: one every so many seconds, after so many at once.
_SECONDS_PER_FAILURE, _FAILURES_AT_ONCE = 6.0, 20.0
_DISCONNECT: Message = {"type": "http.disconnect"}
_CLOSE = {"Connection": "close"}


class Limits:
    """ASGI middleware that bounds what a request may cost.

    Parameters
    ----------
    app : ASGI application
    max_body, max_upload : int
        Bytes of a body: of any, and of those that bring items.
    body_timeout : float
        Seconds for a body to come, plus one for every 16 KiB that came.
    request_timeout : float
        Seconds until the answer begins, the coming of the body not counted.
    rate : float or None
        Requests a second from one address, and with one token; twice as many at once. None: no limit.
    max_streams : int
        Event streams that are open at a time.
    limit_loopback : bool
        Whether the rates hold for loopback, too.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        max_body: int,
        max_upload: int,
        body_timeout: float,
        request_timeout: float,
        rate: float | None = None,
        max_streams: int = 256,
        limit_loopback: bool = False,
    ) -> None:
        self._app = app
        self._max_body, self._max_upload, self._max_streams = max_body, max_upload, max_streams
        self._body_timeout, self._request_timeout = body_timeout, request_timeout
        self._rates = None if rate is None else Rates(rate, max(1.0, 2.0 * rate))
        self._failures = Rates(1.0 / _SECONDS_PER_FAILURE, _FAILURES_AT_ONCE)
        self._limit_loopback = limit_loopback
        self._streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = client_of(scope)
        if is_loopback(client) and not self._limit_loopback:
            await self._bounded(scope, receive, send)
            return
        address = neighbourhood(client)

        async def counting_failures(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 401:
                self._failures.take(address)
            await send(message)

        try:
            self._check_rates(address, scope)
        except Refusal as refusal:
            await problem(refusal)(scope, receive, send)
            return
        await self._bounded(scope, receive, counting_failures)

    def _check_rates(self, address: str, scope: Scope) -> None:
        if wait := self._failures.wait(address):
            raise _too_many("too many requests without a valid token came from this address", wait)
        if self._rates is None:
            return
        keys: list[Hashable] = [address]
        keys += [hash(value) for name, value in scope["headers"] if name == b"authorization"]
        if wait := max(self._rates.take(key) for key in keys):
            raise _too_many("too many requests came at once", wait)

    async def _bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _is_stream(scope):
            await self._exchange(scope, receive, send)
            return
        if self._streams >= self._max_streams:
            refusal = Refusal(503, "too many event streams are open; try again later", headers={"Retry-After": "10"})
            await problem(refusal)(scope, receive, send)
            return
        self._streams += 1
        try:
            await self._exchange(scope, receive, send)
        finally:
            self._streams -= 1

    async def _exchange(self, scope: Scope, receive: Receive, send: Send) -> None:
        most = self._max_upload if _brings_items(scope) else self._max_body
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > most:
                await problem(_too_large(most))(scope, receive, send)
                return
        exchange = _Exchange(receive, send, most, self._body_timeout, self._request_timeout)
        refusal = await exchange.run(self._app, scope)
        if refusal is not None:
            await problem(refusal)(scope, receive, send)


class _Exchange:
    """One request and its answer; what goes beyond a limit is cut short, and ``run`` returns the refusal of it."""

    def __init__(self, receive: Receive, send: Send, most: int, body_timeout: float, request_timeout: float) -> None:
        self._receive, self._send, self._most = receive, send, most
        self._body_timeout, self._request_timeout = body_timeout, request_timeout
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self._received = 0
        self._has_body = self._awaits_body = self._started = False
        self._refusal: Refusal | None = None

    async def run(self, app: ASGIApp, scope: Scope) -> Refusal | None:
        try:
            async with asyncio.timeout(self._request_timeout) as self._patience:
                await app(scope, self._receiving, self._sending)
        except Exception as error:
            if isinstance(error, TimeoutError) and self._patience.expired():
                self._refusal = self._too_slow() if self._awaits_body else _too_long(self._request_timeout)
            elif self._refusal is None:
                raise
        return None if self._started else self._refusal

    async def _receiving(self) -> Message:
        if self._refusal is not None:
            return _DISCONNECT
        if self._has_body or self._started:  # what comes now can only be that the client goes away, whenever that is
            return await self._receive()
        self._awaits_body = True
        self._patience.reschedule(self._began + self._body_timeout + self._received / _LEAST_BYTES_PER_SECOND)
        message = await self._receive()
        self._awaits_body = False
        self._patience.reschedule(self._clock() + self._request_timeout)
        self._received += len(message.get("body", b""))
        self._has_body = not message.get("more_body", False)
        if self._received > self._most:
            # The application is told as of a client that went away. Whatever it makes of that is not sent.
            self._refusal = _too_large(self._most)
            return _DISCONNECT
        return message

    async def _sending(self, message: Message) -> None:
        if self._refusal is not None and not self._started:
            return
        if message["type"] == "http.response.start":
            self._started = True
            self._patience.reschedule(None)
        await self._send(message)

    def _too_slow(self) -> Refusal:
        return Refusal(408, f"the body did not come within {self._body_timeout:g} seconds", headers=_CLOSE)


def _is_stream(scope: Scope) -> bool:
    path: str = scope["path"]
    return scope["method"] == "GET" and path.endswith("/events")


def _brings_items(scope: Scope) -> bool:
    """Whether a request makes a project, or adds items to one."""
    path: str = scope["path"].rstrip("/")
    return scope["method"] == "POST" and (path == "/v1/projects" or path.endswith("/items"))


def _too_long(seconds: float) -> Refusal:
    sentence = (
        f"no answer began within {seconds:g} seconds; what was sent may have been kept:"
        " send it again with the same Idempotency-Key"
    )
    return Refusal(503, sentence, code="timeout", headers={"Retry-After": "5"})


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"the body is larger than the {most:,} bytes that are accepted here", headers=_CLOSE)


def _too_many(reason: str, wait: float) -> Refusal:
    seconds = max(1, ceil(wait))
    return Refusal(429, f"{reason}; try again in {seconds} s", headers={"Retry-After": str(seconds)})
