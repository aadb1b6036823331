"""How soon a method is itself again after the question has changed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ocelad._typing import Floats

#: A method has recovered when its error is within so many points of what it settles at ...
WITHIN = 2.0
#: ... and it is watched for so many rounds after the question has changed.
WATCHED = 500


def recovered(rounds: Sequence[int], phases: Sequence[str], errors: Floats, switch: int) -> int | None:
    """How many rounds after a switch the error is, and stays for the rounds watched, near what it settles at.

    It settles at the mean over the second half of the phase that begins with the switch. None: it does not come near
    while it is watched.

    >>> rounds, errors = [100, 125, 150, 175, 200], np.array([1.0, 9.0, 5.0, 2.5, 1.0])
    >>> recovered(rounds, ["A", "B", "B", "B", "B"], errors, 100)
    75
    """
    at = np.asarray(rounds)
    phase = phases[int(np.flatnonzero(at > switch)[0])]
    in_phase = errors[(at > switch) & (np.asarray(phases) == phase)]
    settled = in_phase[len(in_phase) // 2 :].mean()
    watched = (at > switch) & (at <= switch + WATCHED)
    near = errors[watched] <= settled + WITHIN
    if not near[-1]:
        return None
    last_far = np.flatnonzero(~near)
    return int(at[watched][last_far[-1] + 1 if len(last_far) else 0]) - switch
