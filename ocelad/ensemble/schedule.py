"""Which scales start a new interval, and which are active, at round t: the dyadic schedule, and a grid of learners.

Scale j has intervals of length ``L_j = shortest * 2**j``, one after the other, starting at every multiple
of ``L_j``; it is active from round ``L_j`` on. Scale 0 is active from round 1. Both sets are therefore
prefixes ``0 .. n-1`` of the scales, so each is one number, and no interval needs an object of its own.

On a grid all learners are there from round 1 on, and none is ever started again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from typing import Any

from ocelad._validation import check_integer, check_number

MOST_SCALES = 62  # an interval of 2**62 rounds is never reached
ENDLESS = 2**40  # the longest interval that a schedule takes; a grid has no other


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

    def __str__(self) -> str:
        return f"scale {self.index} (interval length {self.length})"


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
        self.shortest = check_integer(shortest, "shortest_interval", at_least=1, at_most=2**40)
        self.n_scales = None if n_scales is None else check_integer(n_scales, "n_scales", at_least=1)

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

    def clock(self, t: int) -> tuple[int, int, int]:
        """Round t, I0 and the most scales, by which kernels know who is active."""
        return t, self.shortest, self.most

    @property
    def settings(self) -> dict[str, Any]:
        """What it was made with."""
        return {"shortest_interval": self.shortest, "n_scales": self.n_scales}


@dataclass(frozen=True, slots=True)
class Expert(Scale):
    """One learner of a grid: a scale whose interval never ends, with a rate of its own."""

    factor: float

    @property
    def rate(self) -> float:
        """What this learner multiplies its step size by."""
        return self.factor

    @property
    def weight_rate(self) -> float:
        """1/2: there is no length that it could follow from."""
        return 0.5

    def __str__(self) -> str:
        return f"candidate {self.index} (rate {self.factor:g})"


class FixedExperts(Schedule):
    """Learners that differ in their rates, all of them active from round 1 on and started once.

    Parameters
    ----------
    rates : sequence of float
        What each learner multiplies its step size by; 1 to 62 numbers above 0.
    name : str
        What they are called where they are refused.

    Examples
    --------
    >>> grid = FixedExperts([0.1, 0.01])
    >>> [grid.starting(t) for t in range(1, 5)], grid.active(1)
    ([2, 0, 0, 0], 2)
    >>> grid.scale(1).rate
    0.01
    """

    def __init__(self, rates: Iterable[float], name: str = "rates") -> None:
        if isinstance(rates, (str, bytes)) or not isinstance(rates, Iterable):
            raise TypeError(f"{name} must be numbers above 0, one per learner; got {rates!r}")
        self._rates = [check_number(rate, f"{name}[{i}]", above=0) for i, rate in enumerate(rates)]
        if not 1 <= len(self._rates) <= MOST_SCALES:
            raise ValueError(f"{name} must be 1 to {MOST_SCALES} numbers; got {len(self._rates)}")
        super().__init__(ENDLESS, len(self._rates))

    def starting(self, t: int) -> int:
        """All of them at round 1, and none later."""
        return self.most if t == 1 else 0

    def active(self, t: int) -> int:
        """All of them."""
        return self.most

    def scale(self, index: int) -> Expert:
        """The learner at this index."""
        return Expert(index, ENDLESS, self._rates[index])

    def clock(self, t: int) -> tuple[int, int, int]:
        """A round of the dyadic schedule at which as many scales are active as there are learners here."""
        return 1 << (self.most - 1), 1, self.most

    @property
    def settings(self) -> dict[str, Any]:
        """What it was made with."""
        return {"rates": list(self._rates)}


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
