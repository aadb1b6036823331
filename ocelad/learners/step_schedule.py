"""Step sizes that change from round to round, for all learners alike."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TypeAlias

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_number

#: What all step sizes are multiplied by in round t = 1, 2, 3, ...; a function of t and nothing else.
StepSchedule: TypeAlias = Callable[[int], float]


def step_factors(step_schedule: StepSchedule | None, first: int, count: int) -> Floats:
    """The pace of so many rounds from the first on, each checked; 1 where there is none.

    >>> step_factors(lambda t: 1 / t, first=1, count=2)
    array([1. , 0.5])
    """
    if step_schedule is None:
        return np.ones(count)
    numbers = [step_schedule(t) for t in range(first, first + count)]
    if not all(type(number) is float and 0.0 < number < inf for number in numbers):  # what nearly all are
        numbers = [check_number(x, f"the rate of round {first + i}", above=0) for i, x in enumerate(numbers)]
    return np.array(numbers, dtype=np.float64)
