"""Step schedules: factors of all learners' step sizes that depend on the round."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TypeAlias

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_number

#: A function of the round t = 1, 2, 3, ... that returns the factor of all step sizes.
StepSchedule: TypeAlias = Callable[[int], float]


def step_factors(step_schedule: StepSchedule | None, first: int, count: int) -> Floats:
    """Return the factors of ``count`` rounds, beginning with round ``first``; without a schedule, they are 1.

    >>> step_factors(lambda t: 1 / t, first=1, count=2)
    array([1. , 0.5])
    """
    if step_schedule is None:
        return np.ones(count)
    numbers = [step_schedule(t) for t in range(first, first + count)]
    if not all(type(number) is float and 0.0 < number < inf for number in numbers):  # fast path
        numbers = [check_number(x, f"the rate of round {first + i}", above=0) for i, x in enumerate(numbers)]
    return np.array(numbers, dtype=np.float64)
