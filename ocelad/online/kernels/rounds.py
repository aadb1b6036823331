"""What the compiled banks share: the losses, the outcomes of a round, and the step from one round to the next."""

from __future__ import annotations

from ocelad.checks import Floats
from ocelad.online import dyadic, losses, weights
from ocelad.online.compiled import compiled, compiled_as_written

hinge, hinge_slope = compiled(losses.hinge), compiled(losses.hinge_slope)
squared_hinge, squared_hinge_slope = compiled(losses.squared_hinge), compiled(losses.squared_hinge_slope)
logistic, logistic_slope = compiled(losses.logistic), compiled(losses.logistic_slope)
starting_scales, active_scales = compiled(dyadic.starting_scales), compiled(dyadic.active_scales)
reweigh = compiled_as_written(weights.reweigh)  # OCELAD weighs by the same function, step by step

HINGE, SQUARED_HINGE, LOGISTIC = 0, 1, 2
CARRY, REPLACE = 0, 1
# What became of a round: played; refused, with nothing changed, because a loss or a step is not finite; or not
# begun, because a learner has no room for another direction. NO_SCALE: played, but what starts next needs Python.
# DEGENERATE: not begun, because what u has outside some metric's directions is too small to be known from inner
# products alone; that round must be played without a frame.
PLAYED, INFINITE_LOSS, INFINITE_STEP, NO_ROOM, NO_SCALE, DEGENERATE = 0, 1, 2, 3, 4, 5


@compiled
def loss_of(loss: int, m: float) -> float:
    if loss == HINGE:
        return hinge(m)
    if loss == SQUARED_HINGE:
        return squared_hinge(m)
    return logistic(m)


@compiled
def slope_of(loss: int, m: float) -> float:
    if loss == HINGE:
        return hinge_slope(m)
    if loss == SQUARED_HINGE:
        return squared_hinge_slope(m)
    return logistic_slope(m)


@compiled
def mean_margin(turn: Floats, margin: Floats, n: int) -> float:
    """The ensemble's own margin: a margin is linear in the metric, so that it is the learners' weighted mean."""
    total, mean = 0.0, 0.0
    for level in range(n):
        total += turn[0, level]
        mean += turn[0, level] * margin[level]
    return mean / total


@compiled
def next_round(
    turn: Floats,
    rates: Floats,
    lost: Floats,
    margin: Floats,
    margins: Floats,
    row: int,
    t: int,
    shortest: int,
    most: int,
) -> tuple[int, int]:
    """After round t: weigh the scales anew. How many are active in round t + 1, and how many start with it.

    ``turn`` holds the weights of the round about to be played (row 0) and those before its starts (row 1). The margin
    of what the ensemble has played comes to ``margins[row]``.
    """
    n_active = active_scales(t, shortest, most)
    margins[row] = mean_margin(turn, margin, n_active)
    reweigh(turn[0], rates, lost, n_active)
    for level in range(n_active):
        turn[1, level] = turn[0, level]
    n_starting = starting_scales(t + 1, shortest, most)
    for level in range(n_starting):
        turn[0, level] = rates[level]
    return active_scales(t + 1, shortest, most), n_starting
