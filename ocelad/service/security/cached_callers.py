"""Callers by the hash of a secret: cached for seconds, and for a minute while the database is down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from time import monotonic, time

from ocelad.service.api_error import ApiError
from ocelad.service.security.callers import Caller
from ocelad.service.security.rate_limiter import RateLimiter, rate_limit_error

_MAX_CACHED = 1000
# Unknown secrets from one address: the accepted rate, and the burst before it applies.
_FAILURES_PER_SECOND, _FAILURE_BURST = 1.0, 20.0


@dataclass(frozen=True)
class KnownCaller:
    """A caller, and until when its secret is valid, in seconds since 1970; infinite if it does not expire."""

    caller: Caller
    valid_until: float = inf


@dataclass(frozen=True)
class _CachedCaller:
    """A caller, when it must be looked up again, and until when it is accepted if the look-up fails."""

    known: KnownCaller
    refresh_at: float
    expires_at: float


class CachedCallers:
    """Look up callers by the hash of their secret, and keep the results for some seconds.

    Parameters
    ----------
    find : callable
        Returns the ``KnownCaller`` of a hash; raises ApiError if it is unknown. It runs in a thread.
    what : str
        What the secrets belong to, in messages.
    unavailable : type of Exception
        What ``find`` raises while it cannot look up anything.
    cache_seconds : float
        How long a caller is accepted before it is looked up again; a revoked secret is refused after that time, and
        an expired one at once.
    max_stale_seconds : float
        How long a caller is accepted while look-ups fail, so that reading continues without the database.
    lookup_timeout : float
        Seconds after which the look-up of a cached caller counts as failed.
    """

    def __init__(
        self,
        find: Callable[[str], KnownCaller],
        what: str,
        *,
        unavailable: type[Exception],
        cache_seconds: float,
        max_stale_seconds: float,
        lookup_timeout: float,
    ) -> None:
        self._find, self._what, self._unavailable = find, what, unavailable
        self._cache_seconds, self._max_stale_seconds = cache_seconds, max_stale_seconds
        self._lookup_timeout = lookup_timeout
        self._cache: dict[str, _CachedCaller] = {}  # by hash, in the order of the look-ups
        self._lookups: dict[str, asyncio.Task[Caller]] = {}
        self._failures = RateLimiter(_FAILURES_PER_SECOND, _FAILURE_BURST)

    async def get(self, hash: str, address: str | None) -> Caller:
        """Return the caller of a hash; raise ApiError if it is unknown, or if its address has sent many unknown."""
        cached, now = self._cache.get(hash), monotonic()
        if cached is None:
            return await self._look_up_new(hash, address)
        if time() >= cached.known.valid_until or now >= cached.expires_at:
            return await self._look_up(hash)
        if now < cached.refresh_at:
            return cached.known.caller
        return await self._refresh(hash, cached)

    def forget(self, hash: str) -> None:
        """Look up this hash again at the next request."""
        self._cache.pop(hash, None)

    async def _look_up_new(self, hash: str, address: str | None) -> Caller:
        """Look up a hash that is not cached, unless its address has sent too many unknown ones."""
        if address is not None and (wait := self._failures.wait(address)):
            raise rate_limit_error(f"too many unknown {self._what} from this address", wait)
        try:
            return await self._look_up(hash)
        except ApiError:
            if address is not None:
                self._failures.take(address)
            raise

    async def _refresh(self, hash: str, cached: _CachedCaller) -> Caller:
        """Look up a cached caller again; keep it if the look-up fails or takes too long."""
        lookup = self._start_lookup(hash)
        await asyncio.wait({lookup}, timeout=self._lookup_timeout)
        if lookup.done() and not isinstance(lookup.exception(), self._unavailable):
            return lookup.result()
        if time() >= cached.known.valid_until:
            return await self._look_up(hash)
        if self._cache.get(hash) == cached:
            self._cache[hash] = replace(cached, refresh_at=monotonic() + self._cache_seconds)
        return cached.known.caller

    async def _look_up(self, hash: str) -> Caller:
        lookup = self._start_lookup(hash)
        await asyncio.wait({lookup})  # a cancelled request must not cancel the look-up, which others share
        return lookup.result()

    def _start_lookup(self, hash: str) -> asyncio.Task[Caller]:
        """Return the running look-up of this hash, or start one."""
        if hash not in self._lookups:
            lookup = self._lookups[hash] = asyncio.create_task(self._look_up_in_thread(hash))
            # Retrieves the exception, so that asyncio does not report it if every request was cancelled.
            lookup.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return self._lookups[hash]

    async def _look_up_in_thread(self, hash: str) -> Caller:
        try:
            known = await asyncio.to_thread(self._find, hash)  # the database may be slow
        except ApiError:
            self._cache.pop(hash, None)
            raise
        finally:
            del self._lookups[hash]
        now = monotonic()
        self._cache.pop(hash, None)
        if len(self._cache) >= _MAX_CACHED:
            del self._cache[next(iter(self._cache))]
        self._cache[hash] = _CachedCaller(known, now + self._cache_seconds, now + self._max_stale_seconds)
        return known.caller
