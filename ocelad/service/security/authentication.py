"""Doors: who asks is known before anything of what they send is read, and how often they may."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import cast

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from ocelad.service.problems import Known, refusal_of
from ocelad.service.refusal import Refusal, problem
from ocelad.service.security.addresses import far_address
from ocelad.service.security.authenticator import Authenticator
from ocelad.service.security.callers import Caller
from ocelad.service.security.token_buckets import Rates, too_many

# Where a request's scope holds its caller.
_CALLER = "ocelad.caller"
# Whether the service is there is for everyone to know, however often they ask.
_SIGNS_OF_LIFE = frozenset({"/v1/health", "/v1/ready"})
_OPEN = _SIGNS_OF_LIFE | {"/v1/openapi.json"}


class Authentication:
    """ASGI middleware that lets in who has a token that is known, as often as they may.

    Whoever has a token is counted by it, wherever they are; others by their address, unless it is of this machine.

    Parameters
    ----------
    app : ASGI application
    authenticate : Authenticator
    known : sequence
        How errors of the store are told.
    rate : float or None
        Requests a second of one token or address; twice as many at once. None: no limit.
    max_streams, streams_each : int
        Event streams that are open at a time: in all, and of one token or address.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticate: Authenticator,
        known: Sequence[Known],
        rate: float | None = None,
        max_streams: int = 256,
        streams_each: int = 32,
    ) -> None:
        self._app, self._authenticate, self._known = app, authenticate, known
        self._rates = None if rate is None else Rates(rate, max(1.0, 2.0 * rate))
        self._max_streams, self._streams_each = max_streams, streams_each
        self._streams: Counter[Hashable] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _SIGNS_OF_LIFE:
            await self._app(scope, receive, send)
            return
        try:
            counted_as = await self._let_in(scope)
        except Exception as error:
            refusal = error if isinstance(error, Refusal) else refusal_of(error, self._known)
            if refusal is None:
                raise
            await problem(refusal)(scope, receive, send)
            return
        if not _is_stream(scope):
            await self._app(scope, receive, send)
            return
        self._streams[counted_as] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._streams[counted_as] -= 1
            self._streams += Counter()  # forgets who has none left

    async def _let_in(self, scope: Scope) -> Hashable:
        """Find out who asks, and by what they are counted: their token, their address, or neither."""
        address = far_address(scope)
        try:
            caller = await self._authenticate(HTTPConnection(scope)) if _needs_caller(scope["path"]) else None
        except Refusal:
            self._count(address)
            raise
        scope[_CALLER] = caller
        counted_as = ("token", caller.name) if caller is not None and caller.name else address
        self._count(counted_as)
        if _is_stream(scope):
            each = 0 if counted_as is None else self._streams[counted_as]
            if each >= self._streams_each or self._streams.total() >= self._max_streams:
                sentence = "too many event streams are open; try again later"
                raise Refusal(503, sentence, headers={"Retry-After": "10"})
        return counted_as

    def _count(self, counted_as: Hashable) -> None:
        if self._rates is not None and counted_as is not None and (wait := self._rates.take(counted_as)):
            raise too_many("too many requests came at once", wait)


def known_caller(request: HTTPConnection) -> Caller:
    """Who the doors let in with this request."""
    return cast(Caller, request.scope[_CALLER])


def _needs_caller(path: str) -> bool:
    return path == "/metrics" or (path.startswith("/v1/") and path not in _OPEN)


def _is_stream(scope: Scope) -> bool:
    path: str = scope["path"]
    return scope["method"] == "GET" and path.endswith("/events")
