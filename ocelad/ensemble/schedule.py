"""The schedules: which scales start a new interval at round t, and which are active.

In the dyadic schedule, scale j has consecutive intervals of length ``L_j = shortest_interval * 2**j``. They start at
the multiples of ``L_j``, and the scale is active from round ``L_j`` on; scale 0 is active from round 1 on. The starting
scales and the active scales are therefore prefixes ``0 .. n-1`` of all scales, so one number describes each set, and
intervals need no objects.

With fixed experts, all learners start at round 1 and never start again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from typing import Any

from ocelad._validation import check_integer, check_number

MAX_SCALES = 62  # no stream reaches an interval of 2**62 rounds
MAX_INTERVAL = 2**40  # the longest shortest_interval; the length of a fixed expert's only interval


@dataclass(frozen=True, slots=True)
class Scale:
    """One level of the ensemble: its index, 0 for the finest scale, and the length of its intervals.

    Examples
    --------
    >>> Scale(index=3, length=8).rate
    0.35355339059327373
    """

    index: int
    length: int

    @property
    def rate(self) -> float:
        """``1 / sqrt(length)``, the factor of this scale's step size (section III)."""
        return 1.0 / sqrt(self.length)

    @property
    def weight_rate(self) -> float:
        """``eta_I = min(1/2, 1/sqrt(length))``, the initial weight and the step of the weight (section IV)."""
        return min(0.5, self.rate)

    def __str__(self) -> str:
        return f"scale {self.index} (interval length {self.length})"


class Schedule:
    """The dyadic schedule of rounds t = 1, 2, 3, ...

    Parameters
    ----------
    shortest_interval : int
        I0, the length of the finest scale's intervals.
    n_scales : int or None
        The maximum number of scales. None: no limit; a stream needs about log2 of its length.

    Examples
    --------
    >>> schedule = Schedule(shortest_interval=1)
    >>> [schedule.n_starting(t) for t in range(1, 9)]
    [1, 2, 1, 3, 1, 2, 1, 4]
    >>> [schedule.n_active(t) for t in range(1, 9)]
    [1, 2, 2, 3, 3, 3, 3, 4]
    >>> schedule.scale(3)
    Scale(index=3, length=8)

    Notes
    -----
    The paper counts ``floor(log2 t)`` active intervals. It also states that the first interval of length L starts at
    t = L, which makes ``floor(log2 t) + 1`` of them; this class follows the latter. The paper starts the first interval
    of scale 0 at round I0; here scale 0 is active from round 1 on, so that the ensemble can play in every round.
    """

    def __init__(self, shortest_interval: int = 1, n_scales: int | None = None) -> None:
        self.shortest_interval = check_integer(shortest_interval, "shortest_interval", at_least=1, at_most=MAX_INTERVAL)
        self.n_scales = None if n_scales is None else check_integer(n_scales, "n_scales", at_least=1)

    @property
    def max_scales(self) -> int:
        """The largest possible number of scales."""
        return MAX_SCALES if self.n_scales is None else self.n_scales

    def n_starting(self, t: int) -> int:
        """Return how many scales (0 .. n-1) start a new interval at round t."""
        return starting_scales(t, self.shortest_interval, self.max_scales)

    def n_active(self, t: int) -> int:
        """Return how many scales (0 .. n-1) are active at round t."""
        return active_scales(t, self.shortest_interval, self.max_scales)

    def scale(self, index: int) -> Scale:
        """Return the scale at this index."""
        return Scale(index, self.shortest_interval << index)

    def kernel_schedule(self, t: int) -> tuple[int, int, int]:
        """Return the arguments with which ``active_scales`` gives this schedule's ``n_active(t)`` in a kernel."""
        return t, self.shortest_interval, self.max_scales

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments, as saved state holds them."""
        return {"shortest_interval": self.shortest_interval, "n_scales": self.n_scales}


@dataclass(frozen=True, slots=True)
class Expert(Scale):
    """One learner of ``FixedExperts``: a scale with a single endless interval and a given rate."""

    factor: float

    @property
    def rate(self) -> float:
        """The factor of this learner's step size."""
        return self.factor

    @property
    def weight_rate(self) -> float:
        """1/2, the largest weight rate of a scale."""
        return 0.5

    def __str__(self) -> str:
        return f"expert {self.index} (rate {self.factor:g})"


class FixedExperts(Schedule):
    """Learners with different rates that all start at round 1 and stay active.

    Parameters
    ----------
    rates : sequence of float
        The factor of each learner's step size; 1 to 62 numbers above 0.
    name : str
        The name of ``rates`` in error messages.

    Examples
    --------
    >>> schedule = FixedExperts([0.1, 0.01])
    >>> [schedule.n_starting(t) for t in range(1, 5)], schedule.n_active(1)
    ([2, 0, 0, 0], 2)
    >>> schedule.scale(1).rate
    0.01
    """

    def __init__(self, rates: Iterable[float], name: str = "rates") -> None:
        if isinstance(rates, (str, bytes)) or not isinstance(rates, Iterable):
            raise TypeError(f"{name} must be numbers above 0, one per learner; got {rates!r}")
        self._rates = [check_number(rate, f"{name}[{i}]", above=0) for i, rate in enumerate(rates)]
        if not 1 <= len(self._rates) <= MAX_SCALES:
            raise ValueError(f"{name} must be 1 to {MAX_SCALES} numbers; got {len(self._rates)}")
        super().__init__(MAX_INTERVAL, len(self._rates))

    def n_starting(self, t: int) -> int:
        """Return the number of learners at round 1, and 0 afterwards."""
        return self.max_scales if t == 1 else 0

    def n_active(self, t: int) -> int:
        """Return the number of learners."""
        return self.max_scales

    def scale(self, index: int) -> Expert:
        """Return the learner at this index."""
        return Expert(index, MAX_INTERVAL, self._rates[index])

    def kernel_schedule(self, t: int) -> tuple[int, int, int]:
        """Return a round of the dyadic schedule at which exactly these learners are active."""
        return 1 << (self.max_scales - 1), 1, self.max_scales

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments, as saved state holds them."""
        return {"rates": list(self._rates)}


def starting_scales(t: int, shortest_interval: int, max_scales: int) -> int:
    """Return one more than the number of trailing zero bits of t / shortest_interval.

    If t is not a multiple of shortest_interval, return 1 at round 1 and 0 at later rounds.
    """
    if t % shortest_interval != 0:
        return 1 if t == 1 else 0
    intervals, n = t // shortest_interval, 1
    while intervals % 2 == 0 and n < max_scales:
        intervals //= 2
        n += 1
    return n


def active_scales(t: int, shortest_interval: int, max_scales: int) -> int:
    """Return the number of bits of t / shortest_interval, and at least 1."""
    intervals, n = t // shortest_interval // 2, 1
    while intervals > 0 and n < max_scales:
        intervals //= 2
        n += 1
    return n
