"""The time that a method needs to recover from a concept change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ocelad._typing import Floats

#: A method has recovered when its error is at most this many percentage points above its settled error.
RECOVERY_TOLERANCE = 2.0
#: The number of rounds after a change in which recovery is looked for.
RECOVERY_WINDOW = 500


def recovery_time(rounds: Sequence[int], phases: Sequence[str], errors: Floats, switch: int) -> int | None:
    """Return the number of rounds after a switch until the error comes, and stays, near its settled value.

    The settled error is the mean over the second half of the phase that begins with the switch. The error must stay
    within ``RECOVERY_TOLERANCE`` of it until the end of ``RECOVERY_WINDOW``. None: it does not.

    >>> rounds, errors = [100, 125, 150, 175, 200], np.array([1.0, 9.0, 5.0, 2.5, 1.0])
    >>> recovery_time(rounds, ["A", "B", "B", "B", "B"], errors, 100)
    75
    """
    evaluated = np.asarray(rounds)
    phase = phases[int(np.flatnonzero(evaluated > switch)[0])]
    in_phase = errors[(evaluated > switch) & (np.asarray(phases) == phase)]
    settled = in_phase[len(in_phase) // 2 :].mean()
    window = (evaluated > switch) & (evaluated <= switch + RECOVERY_WINDOW)
    near = errors[window] <= settled + RECOVERY_TOLERANCE
    if not near[-1]:
        return None
    last_far = np.flatnonzero(~near)
    return int(evaluated[window][last_far[-1] + 1 if len(last_far) else 0]) - switch
