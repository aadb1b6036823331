"""Authentication middleware: identify the caller and apply rate limits before the body is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import cast

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from ocelad.service.api_error import ApiError
from ocelad.service.error_handlers import ErrorMapping, to_api_error
from ocelad.service.responses import error_response
from ocelad.service.security.addresses import remote_network
from ocelad.service.security.authenticator import Authenticator
from ocelad.service.security.callers import Caller
from ocelad.service.security.rate_limiter import RateLimiter, rate_limit_error

# The key of the caller in a request's scope.
_CALLER = "ocelad.caller"
# Health checks need neither a token nor a rate limit.
_HEALTH_CHECKS = frozenset({"/v1/health", "/v1/ready"})
_PUBLIC = _HEALTH_CHECKS | {"/v1/openapi.json"}


class Authentication:
    """ASGI middleware that admits callers with a valid token, up to a rate.

    A caller with a token is counted by the token; any other by its address, except on loopback.

    Parameters
    ----------
    app : ASGI application
    authenticate : Authenticator
    errors : sequence of ErrorMapping
        The responses to errors of the store.
    rate : float or None
        Requests per second of one token or address, with a burst of twice as many; None: no limit.
    max_streams, max_streams_per_caller : int
        The largest number of open event streams: in total, and of one token or address.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticate: Authenticator,
        errors: Sequence[ErrorMapping],
        rate: float | None = None,
        max_streams: int = 256,
        max_streams_per_caller: int = 32,
    ) -> None:
        self._app, self._authenticate, self._errors = app, authenticate, errors
        self._limiter = None if rate is None else RateLimiter(rate, max(1.0, 2.0 * rate))
        self._max_streams, self._max_streams_per_caller = max_streams, max_streams_per_caller
        self._streams: Counter[Hashable] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _HEALTH_CHECKS:
            await self._app(scope, receive, send)
            return
        try:
            counted_as = await self._admit(scope)
        except Exception as error:
            api_error = error if isinstance(error, ApiError) else to_api_error(error, self._errors)
            if api_error is None:
                raise
            await error_response(api_error)(scope, receive, send)
            return
        if not _is_stream(scope):
            await self._app(scope, receive, send)
            return
        self._streams[counted_as] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._streams[counted_as] -= 1
            self._streams += Counter()  # drops callers without open streams

    async def _admit(self, scope: Scope) -> Hashable:
        """Store the caller in the scope and return what it is counted by: its token, its address, or None."""
        address = remote_network(scope)
        try:
            caller = await self._authenticate(HTTPConnection(scope)) if _needs_caller(scope["path"]) else None
        except ApiError:
            self._count(address)
            raise
        scope[_CALLER] = caller
        counted_as = ("token", caller.name) if caller is not None and caller.name else address
        self._count(counted_as)
        if _is_stream(scope):
            n_streams = 0 if counted_as is None else self._streams[counted_as]
            if n_streams >= self._max_streams_per_caller or self._streams.total() >= self._max_streams:
                message = "too many event streams are open; try again later"
                raise ApiError(503, message, headers={"Retry-After": "10"})
        return counted_as

    def _count(self, counted_as: Hashable) -> None:
        if self._limiter is not None and counted_as is not None and (wait := self._limiter.take(counted_as)):
            raise rate_limit_error("too many requests", wait)


def current_caller(request: HTTPConnection) -> Caller:
    """Return the authenticated caller of a request."""
    return cast(Caller, request.scope[_CALLER])


def _needs_caller(path: str) -> bool:
    return path == "/metrics" or (path.startswith("/v1/") and path not in _PUBLIC)


def _is_stream(scope: Scope) -> bool:
    path: str = scope["path"]
    return scope["method"] == "GET" and path.endswith("/events")
