"""Many trackers one after the other in one kernel: each is restored, plays its rounds, and is stored or mixed."""

from __future__ import annotations

import numpy as np

from ocelad._compile import jit
from ocelad._typing import Floats
from ocelad.adaptive.kernels.tracker_records import RESTORE, STORE, move_tracker
from ocelad.adaptive.kernels.tracker_rounds import (
    Scratch,
    TrackerConstants,
    TrackerState,
    current_metric,
    play_rounds,
)


@jit
def play_many(
    state: TrackerState,
    constants: TrackerConstants,
    scratch: Scratch,
    compact: bool,
    numbers: Floats,
    integers: np.ndarray,
    begins: np.ndarray,
    U: Floats,
    y: Floats,
    ends: np.ndarray,
    new_numbers: Floats,
    new_integers: np.ndarray,
    new_ends: np.ndarray,
    matrices: Floats,
    thresholds: Floats,
    log_odds: Floats,
    played: np.ndarray,
) -> None:
    """Let each tracker learn from its rows of U; store its new record, or its metric.

    Parameters
    ----------
    state, scratch
        Of one tracker; they are used for all of them.
    numbers, integers : arrays
        The records of all trackers.
    begins : array of shape (n_trackers, 2)
        The first number and the first integer of each record. Several trackers may begin with the same one.
    ends : array of shape (n_trackers,)
        The row after each tracker's last pair.
    new_numbers, new_integers, new_ends : arrays
        Receive the new records, and the ends of each; empty if only metrics are asked for.
    matrices, thresholds : arrays
        Receive the metrics; empty if only records are asked for.
    log_odds : array of shape (n_pairs,)
        Receives the prediction of each pair before it was learned from; empty if these are not asked for.
    played : array of bool of shape (n_trackers,)
        Receives whether the kernel could play the rounds; the other trackers have no result.
    """
    first, number, integer = 0, 0, 0
    for key in range(len(ends)):
        move_tracker(state, constants, numbers[begins[key, 0] :], integers[begins[key, 1] :], compact, bool(RESTORE))
        last = ends[key]
        played[key] = play_rounds(state, constants, scratch, U[first:last], y[first:last], log_odds[first:last])
        first = last
        if len(new_ends) > 0:
            if played[key]:
                offsets = move_tracker(
                    state, constants, new_numbers[number:], new_integers[integer:], compact, bool(STORE)
                )
                number, integer = number + offsets.number, integer + offsets.integer
            new_ends[key, 0], new_ends[key, 1] = number, integer
        if len(thresholds) > 0 and played[key]:
            thresholds[key] = current_metric(state, constants, scratch, matrices[key])
