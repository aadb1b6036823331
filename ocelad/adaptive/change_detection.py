"""Change: a round at which the question seems to have changed."""

from __future__ import annotations

from math import exp
from typing import NamedTuple

from ocelad._typing import Floats
from ocelad.adaptive.kernels.cusum import BEGAN, FOUND, N_CHANGES, STRENGTH

#: How many of the last changes are remembered.
MOST_CHANGES = 100


class Change(NamedTuple):
    """A change of what is similar, as answers have shown it.

    Attributes
    ----------
    round : int
        From about which round on answers spoke against what was known.
    confidence : float
        One minus the probability that chance alone, beginning at that round, makes answers speak against it so much.
        Of many rounds some are such by chance.
    noticed : int
        In which round that was clear enough to be told.

    Examples
    --------
    >>> Change(round=1001, confidence=0.98, noticed=1013).noticed - 1001
    12
    """

    round: int
    confidence: float
    noticed: int


def changes_of(evidence: Floats, changes: Floats) -> list[Change]:
    """The last changes, the first of them first."""
    count = int(evidence[N_CHANGES])
    places = [at % len(changes) for at in range(max(0, count - len(changes)), count)]
    return [
        Change(int(changes[at, BEGAN]), 1.0 - exp(-float(changes[at, STRENGTH])), int(changes[at, FOUND]))
        for at in places
    ]
