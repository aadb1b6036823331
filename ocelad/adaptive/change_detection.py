"""Change: a detected change of the question, as the CUSUM test reports it."""

from __future__ import annotations

from math import exp
from typing import NamedTuple

from ocelad._typing import Floats
from ocelad.adaptive.kernels.cusum import DETECTED, N_CHANGES, START, STRENGTH

#: Number of changes that are kept.
MAX_CHANGES = 100


class Change(NamedTuple):
    """A change of the question, that is, of what the answers call similar.

    Attributes
    ----------
    round : int
        Estimated first round of the change: the answers contradict the predictions from here on.
    confidence : float
        One minus the probability that answers from this round on contradict the predictions as much by chance. Over
        many rounds, a few such detections are expected by chance.
    noticed : int
        Round of the detection.

    Examples
    --------
    >>> change = Change(round=1001, confidence=0.98, noticed=1013)
    >>> change.noticed - change.round
    12
    """

    round: int
    confidence: float
    noticed: int


def read_changes(cusum: Floats, changes: Floats) -> list[Change]:
    """Return the detected changes, oldest first; ``changes`` is a ring buffer of the last ones."""
    count = int(cusum[N_CHANGES])
    rows = [i % len(changes) for i in range(max(0, count - len(changes)), count)]
    return [
        Change(int(changes[i, START]), 1.0 - exp(-float(changes[i, STRENGTH])), int(changes[i, DETECTED])) for i in rows
    ]
