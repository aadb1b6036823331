"""L-BFGS for nonsmooth functions, such as a sum of many hinges.

The two-loop recursion is that of Nocedal ("Updating quasi-Newton matrices with limited storage", 1980), the line search
that of Lewis and Overton ("Nonsmooth optimization via quasi-Newton methods", 2013). At a kink no step may satisfy the
strong Wolfe conditions, and the usual line searches, including SciPy's, fail there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ocelad._typing import Floats

# The constants of the Armijo condition (sufficient decrease) and of the Wolfe condition (curvature).
_ARMIJO = 1e-4
_WOLFE = 0.9
_MAX_TRIALS = 40
# The number of past steps that approximate the inverse Hessian.
_MEMORY = 20
# The stopping rule looks at the decrease over this number of steps, because a single step can be short by chance.
_PATIENCE = 5


class LbfgsResult(NamedTuple):
    """The final point, and the values at the start and after each step."""

    x: Floats
    history: tuple[float, ...]


def minimize_lbfgs(
    evaluate: Callable[[Floats], tuple[float, Floats]], start: Floats, *, max_iter: int, tolerance: float
) -> LbfgsResult:
    """Minimise a function of a vector, given its values and gradients; every step decreases the value.

    It stops after max_iter steps, if the relative decrease over five steps is below the tolerance, or if no step
    decreases the value.

    >>> minimize_lbfgs(lambda x: (float(abs(x - [3.0, 1.0]).sum()), np.sign(x - [3.0, 1.0])), np.zeros(2),
    ...                max_iter=50, tolerance=1e-9).x.round(6)
    array([3., 1.])
    """
    x, (value, gradient) = start, evaluate(start)
    history = [value]
    steps: deque[tuple[Floats, Floats]] = deque(maxlen=_MEMORY)
    while len(history) <= max_iter and (norm := float(np.linalg.norm(gradient))) > 0.0:
        direction = -_multiply_inverse_hessian(gradient, steps) if steps else gradient / -norm
        found = _line_search(evaluate, x, value, gradient, direction)
        if found is None:
            break
        x_next, value, next_gradient = found
        if (x_next - x) @ (next_gradient - gradient) > 0.0:
            steps.append((x_next - x, next_gradient - gradient))
        x, gradient = x_next, next_gradient
        history.append(value)
        if len(history) > _PATIENCE and history[-1 - _PATIENCE] - value <= tolerance * abs(value):
            break
    return LbfgsResult(x, tuple(history))


def _multiply_inverse_hessian(gradient: Floats, steps: deque[tuple[Floats, Floats]]) -> Floats:
    """Return the gradient times the inverse Hessian that the past steps approximate."""
    direction, coefficients = gradient.copy(), []
    for step, change in reversed(steps):
        coefficient = float(step @ direction) / float(step @ change)
        direction -= coefficient * change
        coefficients.append(coefficient)
    step, change = steps[-1]
    direction *= float(step @ change) / float(change @ change)
    for (step, change), coefficient in zip(steps, reversed(coefficients), strict=True):
        direction += (coefficient - float(change @ direction) / float(step @ change)) * step
    return direction


def _line_search(
    evaluate: Callable[[Floats], tuple[float, Floats]], x: Floats, value: float, gradient: Floats, direction: Floats
) -> tuple[Floats, float, Floats] | None:
    """Return a step that meets the weak Wolfe conditions, or at least the Armijo condition; None if none does."""
    slope = float(gradient @ direction)
    if not slope < 0.0:
        return None
    shortest, longest, length, accepted = 0.0, np.inf, 1.0, None
    for _ in range(_MAX_TRIALS):
        candidate = x + length * direction
        new_value, new_gradient = evaluate(candidate)
        if not new_value <= value + _ARMIJO * length * slope:
            longest = length
        else:
            accepted = candidate, new_value, new_gradient
            if float(new_gradient @ direction) >= _WOLFE * slope:
                break
            shortest = length
        length = 2.0 * length if longest == np.inf else (shortest + longest) / 2.0
    return accepted
