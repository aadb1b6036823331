"""The dyadic schedule: which scales start a new interval, and which are active, at round t.

Scale j has intervals of length ``L_j = shortest * 2**j``, one after the other, starting at every multiple
of ``L_j``; it is active from round ``L_j`` on. Scale 0 is active from round 1. Both sets are therefore
prefixes ``0 .. n-1`` of the scales, so each is one number, and no interval needs an object of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from ocelad import checks

MOST_SCALES = 62  # an interval of 2**62 rounds is never reached


@dataclass(frozen=True, slots=True)
class Scale:
    """One level of the ensemble: its place, 0 being the finest, and the length of its intervals.

    Examples
    --------
    >>> Scale(index=3, length=8).rate
    0.35355339059327373
    """

    index: int
    length: int

    @property
    def rate(self) -> float:
        """``1 / sqrt(length)``, what this scale's learner multiplies its step size by (section III)."""
        return 1.0 / sqrt(self.length)

    @property
    def weight_rate(self) -> float:
        """``eta_I = min(1/2, 1/sqrt(length))``, start value and step of the weight (section IV)."""
        return min(0.5, self.rate)


class Schedule:
    """Who starts and who is active at each round t = 1, 2, 3, ...

    Parameters
    ----------
    shortest : int
        Length I0 of the finest scale's intervals.
    n_scales : int or None
        At most this many scales; None: as many as the stream needs.

    Examples
    --------
    >>> schedule = Schedule(shortest=1)
    >>> [schedule.starting(t) for t in range(1, 9)]
    [1, 2, 1, 3, 1, 2, 1, 4]
    >>> [schedule.active(t) for t in range(1, 9)]
    [1, 2, 2, 3, 3, 3, 3, 4]
    >>> schedule.scale(3)
    Scale(index=3, length=8)

    Notes
    -----
    The paper counts ``floor(log2 t)`` active intervals; with its own statement that the first interval of
    length L starts at t = L there are ``floor(log2 t) + 1``. It starts the first interval of scale 0 at round
    I0; here scale 0 plays from round 1 on, so that there is always something to play.
    """

    def __init__(self, shortest: int = 1, n_scales: int | None = None) -> None:
        self.shortest = checks.whole(shortest, "shortest_interval", at_least=1, at_most=2**40)
        self.n_scales = None if n_scales is None else checks.whole(n_scales, "n_scales", at_least=1)

    @property
    def most(self) -> int:
        """The largest number of scales there can be."""
        return MOST_SCALES if self.n_scales is None else self.n_scales

    def starting(self, t: int) -> int:
        """How many scales (0 .. n-1) begin a new interval at round t."""
        return starting_scales(t, self.shortest, self.most)

    def active(self, t: int) -> int:
        """How many scales (0 .. n-1) are active at round t."""
        return active_scales(t, self.shortest, self.most)

    def scale(self, index: int) -> Scale:
        """The scale at this index."""
        return Scale(index, self.shortest << index)


def starting_scales(t: int, shortest: int, most: int) -> int:
    """One more than t / shortest has trailing zero bits; where t is no multiple of shortest, none but at round 1."""
    if t % shortest != 0:
        return 1 if t == 1 else 0
    intervals, n = t // shortest, 1
    while intervals % 2 == 0 and n < most:
        intervals //= 2
        n += 1
    return n


def active_scales(t: int, shortest: int, most: int) -> int:
    """As many as t / shortest has bits, and at least one."""
    intervals, n = t // shortest // 2, 1
    while intervals > 0 and n < most:
        intervals //= 2
        n += 1
    return n
