"""FeatureScales: the mean square of each feature's difference, shrunk where a feature was seen rarely."""

from __future__ import annotations

import numpy as np

from ocelad._typing import Floats

# Decay of the mean squares per round: they follow a change of the data over about 1000 rounds.
DECAY = 0.999
# A difference is shortened to this multiple of the mean squared length before a COMID learner sees it.
MAX_RELATIVE_LENGTH = 10.0


class FeatureScales:
    """Running mean squares of the features, with pseudo-pairs at the mean of all features.

    A feature that is almost always 0 has a tiny mean square. Dividing by it would let the few pairs in which the
    feature differs dominate; the pseudo-pairs bound their influence.
    """

    def __init__(self, first: Floats, pseudo_count: float) -> None:
        self._sums, self._count, self._pseudo_count = first**2, 1.0, pseudo_count

    def update(self, x: Floats) -> None:
        """Include a difference."""
        self._sums, self._count = DECAY * self._sums + x**2, DECAY * self._count + 1.0

    @property
    def factor(self) -> float:
        """The common factor that gives differences a mean squared length of n."""
        return float(np.sqrt(self._count / self._sums.mean()))

    @property
    def inverse_roots(self) -> Floats:
        """The factor of each feature that gives it a mean square of 1."""
        mean = self._sums.mean() / self._count
        squares = (self._sums + self._pseudo_count * mean) / (self._count + self._pseudo_count)
        return np.asarray(1.0 / np.sqrt(squares))


def limit_length(x: Floats) -> Floats:
    """Return a difference in which features have a mean square of about 1, shortened if it is far too long."""
    relative = float(x @ x) / len(x)
    return x if relative <= MAX_RELATIVE_LENGTH else np.asarray(x * np.sqrt(MAX_RELATIVE_LENGTH / relative))
