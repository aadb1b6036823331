"""Step sizes that change from round to round, for all learners alike."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TypeAlias

import numpy as np

from ocelad import checks
from ocelad.checks import Floats

#: What all step sizes are multiplied by in round t = 1, 2, 3, ...; a function of t and nothing else.
Pace: TypeAlias = Callable[[int], float]


def paces(pace: Pace | None, first: int, count: int) -> Floats:
    """The pace of so many rounds from the first on, each checked; 1 where there is none.

    >>> paces(lambda t: 1 / t, first=1, count=2)
    array([1. , 0.5])
    """
    if pace is None:
        return np.ones(count)
    numbers = [pace(t) for t in range(first, first + count)]
    if not all(type(number) is float and 0.0 < number < inf for number in numbers):  # what nearly all are
        numbers = [checks.number(x, f"the rate of round {first + i}", above=0) for i, x in enumerate(numbers)]
    return np.array(numbers, dtype=np.float64)
