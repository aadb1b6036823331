"""Kernel code that all engines share: losses, outcomes of a round, and the transition to the next round."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ocelad._compile import jit, jit_exact, jit_inline
from ocelad._typing import Floats
from ocelad.engines.kernels import baseline_updates
from ocelad.engines.kernels.baseline_updates import AGE, GAINS, PRIOR, STAKE, WEALTH
from ocelad.ensemble import schedule, weight_updates
from ocelad.ensemble.weight_updates import CBCE, NONE_DRAWN, RESCALED, SAOL
from ocelad.learners import losses

hinge, hinge_slope = jit(losses.hinge), jit(losses.hinge_slope)
squared_hinge, squared_hinge_slope = jit(losses.squared_hinge), jit(losses.squared_hinge_slope)
logistic, logistic_slope = jit(losses.logistic), jit(losses.logistic_slope)
starting_scales, active_scales = jit(schedule.starting_scales), jit(schedule.active_scales)
# Ocelad.step calls the same functions as plain Python; jit_exact makes both return the same bits.
rescaled_regret_update = jit_exact(weight_updates.rescaled_regret_update)
ensemble_value = jit_exact(weight_updates.ensemble_value)
sample_index = jit_exact(weight_updates.sample_index)
clip_losses = jit_exact(baseline_updates.clip_losses)
saol_update = jit_exact(baseline_updates.saol_update)
cbce_prior = jit_exact(baseline_updates.cbce_prior)
cbce_update = jit_exact(baseline_updates.cbce_update)
cbce_weights = jit_exact(baseline_updates.cbce_weights)

HINGE, SQUARED_HINGE, LOGISTIC = 0, 1, 2
CARRY, REPLACE = 0, 1
# Outcomes of a round.
# PLAYED: done.
# INFINITE_LOSS, INFINITE_STEP: the event was refused and nothing has changed, because a loss or a step is not finite.
# RANK_FULL: not started; a learner needs room for another direction.
# START_IN_PYTHON: done, but Python has to start the scales of the next round.
# DEGENERATE: not started; the part of u outside some learner's directions is too small to be computed from inner
# products only, so that the round must be played without a basis.
PLAYED, INFINITE_LOSS, INFINITE_STEP, RANK_FULL, START_IN_PYTHON, DEGENERATE = 0, 1, 2, 3, 4, 5


class KernelArgs(NamedTuple):
    """The arguments that every engine's ``play`` takes: rounds t, t + 1, ... on the rows first .. last - 1."""

    y: Floats  # the labels of all rows; 1 for relative comparisons
    first: int
    last: int
    t: int
    shortest_interval: int  # with t and max_scales, it determines which scales are active and which start
    max_scales: int
    weights: Floats  # the weights of the next round (row 0) and those before its starts (row 1)
    rates: Floats  # eta_I of every scale
    losses: Floats  # output: each learner's loss in the last round
    learner_margins: Floats  # output: each learner's margin in the last round
    margins: Floats  # output: the ensemble's margin on each row, unless observe_only
    observe_only: bool  # only judge and update the learners; leave the weights and the starts to the caller
    squares: Floats  # (n_rows, n_active): output with observe_only: each learner's squared distance, before its update
    step_factors: Floats  # the factor of all step sizes in rounds t, t + 1, ...
    records: Floats  # the records of the weighting, unless they are the weights
    weighting: int  # the code of the weighting
    largest_loss: float  # a parameter of the weighting
    uniforms: Floats  # the random numbers that draw a learner in rounds t, t + 1, ...; empty if learners are averaged


@jit
def loss_value(code: int, m: float) -> float:
    """Return the loss of margin m."""
    if code == HINGE:
        return hinge(m)
    if code == SQUARED_HINGE:
        return squared_hinge(m)
    return logistic(m)


@jit
def loss_slope(code: int, m: float) -> float:
    """Return the negative derivative of the loss at margin m."""
    if code == HINGE:
        return hinge_slope(m)
    if code == SQUARED_HINGE:
        return squared_hinge_slope(m)
    return logistic_slope(m)


@jit
def update_weights(
    weights: Floats,
    records: Floats,
    weighting: int,
    largest_loss: float,
    rates: Floats,
    losses: Floats,
    n: int,
    drawn: int,
) -> None:
    """Update the weights of the first n learners by their losses; SAOL and CBCE also clip ``losses`` in place."""
    if weighting == RESCALED:
        rescaled_regret_update(weights[0], rates, losses, n)
        return
    clip_losses(losses, largest_loss, n)
    mean = ensemble_value(weights[0], losses, n, drawn)
    if weighting == SAOL:
        saol_update(weights[0], rates, losses, mean, n)
    else:
        cbce_update(records, losses, mean, n)
        cbce_weights(records, weights[0], n)


@jit
def start_weights(
    weights: Floats, records: Floats, weighting: int, rates: Floats, t: int, n_starting: int, n_active: int
) -> None:
    """Set the weights of the scales that start with round t."""
    if weighting != CBCE:
        for level in range(n_starting):
            weights[0, level] = rates[level]
        return
    for level in range(n_starting):
        records[GAINS, level], records[WEALTH, level], records[AGE, level] = 0.0, 1.0, 0.0
        records[PRIOR, level], records[STAKE, level] = cbce_prior(t), 0.0
    cbce_weights(records, weights[0], n_active)


@jit
def record_thresholds(squares: Floats, row: int, mu: Floats, slots: np.ndarray, n_active: int) -> None:
    """Store the learners' thresholds before a round, which ``record_squares`` needs after it."""
    for level in range(n_active):
        squares[row, level] = mu[slots[level]]


@jit
def record_squares(squares: Floats, row: int, margins: Floats, y: float, n_active: int) -> None:
    """Replace the thresholds by the squared distances: the margin of a pair is ``y (mu - d^2)``."""
    for level in range(n_active):
        squares[row, level] = max(squares[row, level] - y * margins[level], 0.0)


@jit_inline
def next_round(args: KernelArgs, row: int, t: int) -> tuple[int, int]:
    """Update the weights after round t; return how many scales are active in round t + 1 and how many start with it."""
    return finish_round(
        args.weights,
        args.rates,
        args.losses,
        args.learner_margins,
        args.margins,
        row,
        t,
        args.shortest_interval,
        args.max_scales,
        args.records,
        args.weighting,
        args.largest_loss,
        args.uniforms,
        args.first,
    )


@jit
def finish_round(
    weights: Floats,
    rates: Floats,
    losses: Floats,
    learner_margins: Floats,
    margins: Floats,
    row: int,
    t: int,
    shortest_interval: int,
    max_scales: int,
    records: Floats,
    weighting: int,
    largest_loss: float,
    uniforms: Floats,
    first: int,
) -> tuple[int, int]:
    """Do the work of ``next_round``; separate because passing a tuple costs reference counts for all its arrays.

    Stores the ensemble's margin in ``margins[row]``. A margin is linear in the metric, so that it is the
    weighted mean of the learners' margins, or the margin of the sampled learner. With CBCE, the weights follow from
    ``records``.
    """
    n_active = active_scales(t, shortest_interval, max_scales)
    drawn = sample_index(weights[0], n_active, uniforms[row - first]) if len(uniforms) > 0 else NONE_DRAWN
    margins[row] = ensemble_value(weights[0], learner_margins, n_active, drawn)
    update_weights(weights, records, weighting, largest_loss, rates, losses, n_active, drawn)
    for level in range(n_active):
        weights[1, level] = weights[0, level]
    n_starting, n_next = (
        starting_scales(t + 1, shortest_interval, max_scales),
        active_scales(t + 1, shortest_interval, max_scales),
    )
    start_weights(weights, records, weighting, rates, t + 1, n_starting, n_next)
    return n_next, n_starting
