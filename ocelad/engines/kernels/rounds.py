"""What the compiled banks share: the losses, the outcomes of a round, and the step from one round to the next."""

from __future__ import annotations

from ocelad._compile import compiled, compiled_as_written
from ocelad._typing import Floats
from ocelad.engines.kernels import baseline_updates
from ocelad.engines.kernels.baseline_updates import AGE, GAINS, PRIOR, STAKE, WEALTH
from ocelad.ensemble import schedule, weight_updates
from ocelad.ensemble.weight_updates import CBCE, NONE_DRAWN, RESCALED, SAOL
from ocelad.learners import losses

hinge, hinge_slope = compiled(losses.hinge), compiled(losses.hinge_slope)
squared_hinge, squared_hinge_slope = compiled(losses.squared_hinge), compiled(losses.squared_hinge_slope)
logistic, logistic_slope = compiled(losses.logistic), compiled(losses.logistic_slope)
starting_scales, active_scales = compiled(schedule.starting_scales), compiled(schedule.active_scales)
# Ocelad.step calls the same functions as plain Python.
rescaled_regret_update = compiled_as_written(weight_updates.rescaled_regret_update)
ensemble_value = compiled_as_written(weight_updates.ensemble_value)
sample_index = compiled_as_written(weight_updates.sample_index)
clip_losses = compiled_as_written(baseline_updates.clip_losses)
saol_update = compiled_as_written(baseline_updates.saol_update)
cbce_prior = compiled_as_written(baseline_updates.cbce_prior)
cbce_update = compiled_as_written(baseline_updates.cbce_update)
cbce_weights = compiled_as_written(baseline_updates.cbce_weights)

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
def weigh(
    round_state: Floats, records: Floats, weighing: int, largest: float, rates: Floats, lost: Floats, n: int, drawn: int
) -> None:
    """The weights after a round in which the first n learners have lost this; and ``lost`` as it was counted."""
    if weighing == RESCALED:
        rescaled_regret_update(round_state[0], rates, lost, n)
        return
    clip_losses(lost, largest, n)
    mean = ensemble_value(round_state[0], lost, n, drawn)
    if weighing == SAOL:
        saol_update(round_state[0], rates, lost, mean, n)
    else:
        cbce_update(records, lost, mean, n)
        cbce_weights(records, round_state[0], n)


@compiled
def begin(
    round_state: Floats, records: Floats, weighing: int, rates: Floats, t: int, n_starting: int, n_active: int
) -> None:
    """The weights with those of the scales that start with round t."""
    if weighing != CBCE:
        for level in range(n_starting):
            round_state[0, level] = rates[level]
        return
    for level in range(n_starting):
        records[GAINS, level], records[WEALTH, level], records[AGE, level] = 0.0, 1.0, 0.0
        records[PRIOR, level], records[STAKE, level] = cbce_prior(t), 0.0
    cbce_weights(records, round_state[0], n_active)


@compiled
def next_round(
    round_state: Floats,
    rates: Floats,
    lost: Floats,
    margin: Floats,
    margins: Floats,
    row: int,
    t: int,
    shortest: int,
    most: int,
    records: Floats,
    weighing: int,
    largest: float,
    uniforms: Floats,
    first: int,
) -> tuple[int, int]:
    """After round t: weigh the scales anew. How many are active in round t + 1, and how many start with it.

    ``round_state`` holds the weights of the round about to be played (row 0) and those before its starts (row 1), which for
    CBCE follow from ``records``. The margin of what the ensemble has played comes to ``margins[row]``: a margin is
    linear in the metric, so that it is the learners' weighted mean, or that of the one that was drawn.
    """
    n_active = active_scales(t, shortest, most)
    drawn = sample_index(round_state[0], n_active, uniforms[row - first]) if len(uniforms) > 0 else NONE_DRAWN
    margins[row] = ensemble_value(round_state[0], margin, n_active, drawn)
    weigh(round_state, records, weighing, largest, rates, lost, n_active, drawn)
    for level in range(n_active):
        round_state[1, level] = round_state[0, level]
    n_starting, n_next = starting_scales(t + 1, shortest, most), active_scales(t + 1, shortest, most)
    begin(round_state, records, weighing, rates, t + 1, n_starting, n_next)
    return n_next, n_starting
