"""The authenticator: find the caller of a request by its bearer token."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from time import monotonic
from typing import Protocol

from starlette.requests import HTTPConnection

from ocelad.service.api_error import ApiError
from ocelad.service.security.addresses import remote_network
from ocelad.service.security.callers import LOCAL_ADMIN, Caller
from ocelad.service.security.rate_limiter import RateLimiter, rate_limit_error
from ocelad.service.token_secret import hash_secret, looks_like_secret
from ocelad.service.wire import Permission

# Headers that proxies add to the requests that they forward.
_PROXY_HEADERS = frozenset(
    {
        b"forwarded",
        b"via",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-proto",
        b"x-forwarded-server",
        b"x-real-ip",
    }
)
_MAX_CACHED = 1000
# Unknown tokens from one address: the accepted rate, and the burst before it applies.
_FAILURES_PER_SECOND, _FAILURE_BURST = 1.0, 20.0


class Token(Protocol):
    """A token as the store returns it."""

    @property
    def name(self) -> str: ...
    @property
    def permissions(self) -> Mapping[str, Permission]: ...
    @property
    def revoked_at(self) -> int | None: ...


class TokenLookup(Protocol):
    """What the authenticator needs of the store."""

    def find_token(self, secret_hash: str) -> Token | None: ...


@dataclass(frozen=True)
class _CachedCaller:
    """A caller, when its token must be looked up again, and until when it is accepted if the look-up fails."""

    caller: Caller
    refresh_at: float
    expires_at: float


class Authenticator:
    """Find the caller of a request by its bearer token.

    Parameters
    ----------
    tokens : TokenLookup
        The store. It compares hashes of secrets, so that the time of a look-up leaks nothing: a client cannot choose a
        secret by its hash.
    token_required : bool
        If False, every caller is an admin.
    unavailable : type of Exception
        What the store raises while it cannot look up tokens.
    cache_seconds : float
        How long a token is accepted before it is looked up again; a revoked token is refused after that time.
    max_stale_seconds : float
        How long a token is accepted while look-ups fail, so that reading continues without the database.
    lookup_timeout : float
        Seconds after which the look-up of a cached token counts as failed.
    """

    def __init__(
        self,
        tokens: TokenLookup,
        token_required: bool,
        *,
        unavailable: type[Exception],
        cache_seconds: float = 2.0,
        max_stale_seconds: float = 60.0,
        lookup_timeout: float = 1.0,
    ) -> None:
        self._tokens, self._token_required, self._unavailable = tokens, token_required, unavailable
        self._cache_seconds, self._max_stale_seconds = cache_seconds, max_stale_seconds
        self._lookup_timeout = lookup_timeout
        self._cache: dict[str, _CachedCaller] = {}  # by the hash of the secret, in the order of the look-ups
        self._lookups: dict[str, asyncio.Task[Caller]] = {}
        self._failures = RateLimiter(_FAILURES_PER_SECOND, _FAILURE_BURST)

    async def __call__(self, request: HTTPConnection) -> Caller:
        """Return the caller of a request; raise ApiError if the token is missing, unknown or revoked."""
        if not self._token_required:
            _reject_proxies(request.scope["headers"])
            return LOCAL_ADMIN
        hash = hash_secret(_parse_secret(request.headers.get("authorization")))
        cached, now = self._cache.get(hash), monotonic()
        if cached is None:
            return await self._look_up_new(hash, remote_network(request.scope))
        if now < cached.refresh_at:
            return cached.caller
        if now >= cached.expires_at:
            return await self._look_up(hash)
        return await self._refresh(hash, cached)

    async def _look_up_new(self, hash: str, address: str | None) -> Caller:
        """Look up a token that is not cached, unless its address has sent too many unknown tokens."""
        if address is not None and (wait := self._failures.wait(address)):
            raise rate_limit_error("too many unknown tokens from this address", wait)
        try:
            return await self._look_up(hash)
        except ApiError:
            if address is not None:
                self._failures.take(address)
            raise

    async def _refresh(self, hash: str, cached: _CachedCaller) -> Caller:
        """Look up a cached token again; keep the cached caller if the look-up fails or takes too long."""
        lookup = self._start_lookup(hash)
        await asyncio.wait({lookup}, timeout=self._lookup_timeout)
        if lookup.done() and not isinstance(lookup.exception(), self._unavailable):
            return lookup.result()
        if self._cache.get(hash) == cached:
            self._cache[hash] = replace(cached, refresh_at=monotonic() + self._cache_seconds)
        return cached.caller

    async def _look_up(self, hash: str) -> Caller:
        lookup = self._start_lookup(hash)
        await asyncio.wait({lookup})  # a cancelled request must not cancel the look-up, which others share
        return lookup.result()

    def _start_lookup(self, hash: str) -> asyncio.Task[Caller]:
        """Return the running look-up of this hash, or start one."""
        if hash not in self._lookups:
            lookup = self._lookups[hash] = asyncio.create_task(self._find(hash))
            # Retrieves the exception, so that asyncio does not report it if every request was cancelled.
            lookup.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return self._lookups[hash]

    async def _find(self, hash: str) -> Caller:
        try:
            token = await asyncio.to_thread(self._tokens.find_token, hash)  # the database may be slow
        finally:
            del self._lookups[hash]
        if token is None or token.revoked_at is not None:
            self._cache.pop(hash, None)
            raise _unauthorized("this token is unknown or revoked; `ocelad token create` makes a new one")
        caller, now = Caller(token.name, dict(token.permissions)), monotonic()
        self._cache.pop(hash, None)
        if len(self._cache) >= _MAX_CACHED:
            del self._cache[next(iter(self._cache))]
        self._cache[hash] = _CachedCaller(caller, now + self._cache_seconds, now + self._max_stale_seconds)
        return caller


def _parse_secret(authorization: str | None) -> str:
    if authorization is None:
        raise _unauthorized("a token is required; accepted: the header 'Authorization: Bearer ocelad_...'")
    scheme, _, secret = authorization.partition(" ")
    if scheme.lower() != "bearer" or not looks_like_secret(secret.strip()):
        raise _unauthorized("the header Authorization holds no token of this service; accepted: 'Bearer ocelad_...'")
    return secret.strip()


def _unauthorized(message: str) -> ApiError:
    return ApiError(401, message, headers={"WWW-Authenticate": 'Bearer realm="ocelad"'})


def _reject_proxies(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Reject forwarded requests: through a proxy, every client would appear to be on loopback and be an admin."""
    if not _PROXY_HEADERS.isdisjoint(name for name, _ in headers):
        raise ApiError(
            403,
            "this request came through a proxy, but without tokens the service accepts local requests only; "
            "see --require-token",
            code="behind_proxy",
        )
