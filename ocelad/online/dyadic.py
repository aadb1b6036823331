"""The dyadic schedule: which scales start a new interval, and which are active, at round t.

Scale j has intervals of length ``L_j = shortest * 2**j``, one after the other, starting at every multiple
of ``L_j``; it is active from round ``L_j`` on. Scale 0 is active from round 1. Both sets are therefore
prefixes ``0 .. n-1`` of the scales, so each is one number, and no interval needs an object of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from ocelad import checks


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
        self.shortest = checks.whole(shortest, "shortest_interval", at_least=1)
        self.n_scales = None if n_scales is None else checks.whole(n_scales, "n_scales", at_least=1)

    def starting(self, t: int) -> int:
        """How many scales (0 .. n-1) begin a new interval at round t."""
        if t % self.shortest:
            return 1 if t == 1 else 0
        intervals = t // self.shortest
        return self._capped((intervals & -intervals).bit_length())  # 1 + number of trailing zero bits

    def active(self, t: int) -> int:
        """How many scales (0 .. n-1) are active at round t."""
        return self._capped(max(1, (t // self.shortest).bit_length()))

    def scale(self, index: int) -> Scale:
        """The scale at this index."""
        return Scale(index, self.shortest << index)

    def _capped(self, n: int) -> int:
        return n if self.n_scales is None else min(n, self.n_scales)
