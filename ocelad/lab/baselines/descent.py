"""L-BFGS for functions with kinks: a sum of many hinges.

The two loops are Nocedal's ("Updating quasi-Newton matrices with limited storage", 1980), the line search is that of
Lewis and Overton ("Nonsmooth optimization via quasi-Newton methods", 2013). Where a function has kinks, no step may
meet the strong Wolfe conditions, and the usual line searches, SciPy's among them, give up there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ocelad._typing import Floats

# Armijo's and Wolfe's constants: a step falls by this share of its slope, and leaves at most that share of the slope.
_FALLS = 1e-4
_FLATTENS = 0.9
_MOST_TRIALS = 40
# So many past steps are remembered.
_MEMORY = 20
# It stops where so many steps together gained less than the tolerance: one alone may be short by chance.
_STEPS_TOGETHER = 5


class Descent(NamedTuple):
    """Where it arrived, and the value at the start and after each step."""

    x: Floats
    history: tuple[float, ...]


def descend(
    evaluate: Callable[[Floats], tuple[float, Floats]], start: Floats, *, max_iter: int, tolerance: float
) -> Descent:
    """Minimise a function of a vector from its values and gradients; every step falls.

    It stops after max_iter steps, where five steps gained less than the tolerance, relative to the value, or where no
    step falls.

    >>> descend(lambda x: (float(abs(x - [3.0, 1.0]).sum()), np.sign(x - [3.0, 1.0])), np.zeros(2),
    ...         max_iter=50, tolerance=1e-9).x.round(6)
    array([3., 1.])
    """
    x, (value, gradient) = start, evaluate(start)
    history = [value]
    steps: deque[tuple[Floats, Floats]] = deque(maxlen=_MEMORY)
    while len(history) <= max_iter and (norm := float(np.linalg.norm(gradient))) > 0.0:
        direction = -_newton(gradient, steps) if steps else gradient / -norm
        found = _search(evaluate, x, value, gradient, direction)
        if found is None:
            break
        x_next, value, next_gradient = found
        if (x_next - x) @ (next_gradient - gradient) > 0.0:
            steps.append((x_next - x, next_gradient - gradient))
        x, gradient = x_next, next_gradient
        history.append(value)
        if len(history) > _STEPS_TOGETHER and history[-1 - _STEPS_TOGETHER] - value <= tolerance * abs(value):
            break
    return Descent(x, tuple(history))


def _newton(gradient: Floats, steps: deque[tuple[Floats, Floats]]) -> Floats:
    """The gradient times the inverse Hessian that the past steps show."""
    direction, shares = gradient.copy(), []
    for step, change in reversed(steps):
        share = float(step @ direction) / float(step @ change)
        direction -= share * change
        shares.append(share)
    step, change = steps[-1]
    direction *= float(step @ change) / float(change @ change)
    for (step, change), share in zip(steps, reversed(shares), strict=True):
        direction += (share - float(change @ direction) / float(step @ change)) * step
    return direction


def _search(
    evaluate: Callable[[Floats], tuple[float, Floats]], x: Floats, value: float, gradient: Floats, direction: Floats
) -> tuple[Floats, float, Floats] | None:
    """A step that falls and flattens (the weak Wolfe conditions), or at least falls; None where none was found."""
    slope = float(gradient @ direction)
    if not slope < 0.0:
        return None
    shortest, longest, length, falling = 0.0, np.inf, 1.0, None
    for _ in range(_MOST_TRIALS):
        nearby = x + length * direction
        there, slopes = evaluate(nearby)
        if not there <= value + _FALLS * length * slope:
            longest = length
        else:
            falling = nearby, there, slopes
            if float(slopes @ direction) >= _FLATTENS * slope:
                break
            shortest = length
        length = 2.0 * length if longest == np.inf else (shortest + longest) / 2.0
    return falling
