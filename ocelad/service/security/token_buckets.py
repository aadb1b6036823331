"""Rates: how often somebody may ask, by token buckets."""

from __future__ import annotations

from collections.abc import Hashable
from math import ceil
from time import monotonic

from ocelad.service.refusal import Refusal


class Rates:
    """A bucket for each key: it fills at a steady rate up to a burst, and each request takes one out.

    Parameters
    ----------
    per_second : float
        How fast a bucket fills.
    burst : float
        How much it holds, at least 1; it is full when a key is first seen.
    most_keys : int
        So many buckets are kept. The one least lately used goes first: it has had the most time to fill, and a full
        bucket is as good as none.

    Examples
    --------
    >>> rates = Rates(per_second=2.0, burst=2.0)
    >>> [rates.take("alice", now) for now in (0.0, 0.0, 0.0, 0.5)]
    [0.0, 0.0, 0.5, 0.0]
    """

    def __init__(self, per_second: float, burst: float, most_keys: int = 10_000) -> None:
        self._per_second, self._burst, self._most_keys = per_second, burst, most_keys
        self._buckets: dict[
            Hashable, tuple[float, float]
        ] = {}  # what is in it, and since when; least lately used first

    def take(self, key: Hashable, now: float | None = None) -> float:
        """Take one from a key's bucket: 0, or the seconds until there will be one, and then none is taken."""
        now = monotonic() if now is None else now
        held = self._held(key, now)
        if held < 1.0:
            return (1.0 - held) / self._per_second
        self._buckets.pop(key, None)
        if len(self._buckets) >= self._most_keys:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[key] = (held - 1.0, now)
        return 0.0

    def wait(self, key: Hashable, now: float | None = None) -> float:
        """The seconds until there will be one in a key's bucket; takes nothing."""
        held = self._held(key, monotonic() if now is None else now)
        return max(0.0, (1.0 - held) / self._per_second)

    def _held(self, key: Hashable, now: float) -> float:
        held, since = self._buckets.get(key, (self._burst, now))
        return min(self._burst, held + (now - since) * self._per_second)


def too_many(reason: str, wait: float) -> Refusal:
    """The refusal of one who has to wait for so many seconds."""
    seconds = max(1, ceil(wait))
    return Refusal(429, f"{reason}; try again in {seconds} s", headers={"Retry-After": str(seconds)})
