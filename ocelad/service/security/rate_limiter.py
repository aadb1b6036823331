"""Rate limits by token buckets."""

from __future__ import annotations

from collections.abc import Hashable
from math import ceil
from time import monotonic

from ocelad.service.api_error import ApiError


class RateLimiter:
    """One token bucket per key: it fills at a constant rate up to a burst, and each request takes one token.

    Parameters
    ----------
    per_second : float
        The rate at which a bucket fills.
    burst : float
        The capacity of a bucket, at least 1; the bucket of a new key is full.
    max_keys : int
        The largest number of buckets. The least recently used one is dropped first: it has had the longest time to
        fill, and dropping a full bucket has no effect.

    Examples
    --------
    >>> limiter = RateLimiter(per_second=2.0, burst=2.0)
    >>> [limiter.take("alice", now) for now in (0.0, 0.0, 0.0, 0.5)]
    [0.0, 0.0, 0.5, 0.0]
    """

    def __init__(self, per_second: float, burst: float, max_keys: int = 10_000) -> None:
        self._per_second, self._burst, self._max_keys = per_second, burst, max_keys
        # The level of each bucket and the time of that level, the least recently used first.
        self._buckets: dict[Hashable, tuple[float, float]] = {}

    def take(self, key: Hashable, now: float | None = None) -> float:
        """Take a token from a bucket and return 0; if it has none, return the seconds until it has one."""
        now = monotonic() if now is None else now
        level = self._level(key, now)
        if level < 1.0:
            return (1.0 - level) / self._per_second
        self._buckets.pop(key, None)
        if len(self._buckets) >= self._max_keys:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[key] = (level - 1.0, now)
        return 0.0

    def wait(self, key: Hashable, now: float | None = None) -> float:
        """Return the seconds until a bucket has a token, without taking it."""
        level = self._level(key, monotonic() if now is None else now)
        return max(0.0, (1.0 - level) / self._per_second)

    def _level(self, key: Hashable, now: float) -> float:
        level, since = self._buckets.get(key, (self._burst, now))
        return min(self._burst, level + (now - since) * self._per_second)


def rate_limit_error(reason: str, wait: float) -> ApiError:
    """Return the error for a caller who has to wait for some seconds."""
    seconds = max(1, ceil(wait))
    return ApiError(429, f"{reason}; try again in {seconds} s", headers={"Retry-After": str(seconds)})
