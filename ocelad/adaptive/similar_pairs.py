"""SimilarPairs: the latest similar pairs, from which windows begin again after a change."""

from __future__ import annotations

from typing import Self

import numpy as np

from ocelad._typing import Arrays, Floats
from ocelad.ensemble.state_reader import StateReader
from ocelad.pairs import Events, Relatives

#: Rounds after which a pair is dropped: two periods of snapshots.
MAX_AGE = 128


class SimilarPairs:
    """The differences, weights and rounds of the similar pairs of the last ``MAX_AGE`` rounds.

    Of relative comparisons, the near pair is similar.

    Parameters
    ----------
    n_features : int
    """

    def __init__(self, n_features: int) -> None:
        self._U, self._weights, self._rounds = np.empty((0, n_features)), np.empty(0), np.empty(0)

    def add(self, events: Events | Relatives, weights: Floats, t: int) -> None:
        """Add the events of rounds t, t + 1, ..., and drop old ones."""
        rounds = np.arange(t, t + len(events), dtype=float)
        if isinstance(events, Relatives):
            U, similar = events.near, weights > 0.0
        else:
            U, similar = events.U, (events.y > 0.0) & (weights > 0.0)
        kept = self._rounds > rounds[-1] - MAX_AGE
        self._U = np.concatenate([self._U[kept], U[similar]])
        self._weights = np.concatenate([self._weights[kept], weights[similar]])
        self._rounds = np.concatenate([self._rounds[kept], rounds[similar]])

    def since(self, first_round: int) -> tuple[Floats, Floats]:
        """Return the differences and weights of the similar pairs from a round on."""
        recent = self._rounds >= first_round
        return self._U[recent], self._weights[recent]

    def arrays(self) -> Arrays:
        """Return copies of all arrays."""
        return {"differences": self._U.copy(), "weights": self._weights.copy(), "rounds": self._rounds.copy()}

    @classmethod
    def restore(cls, saved: StateReader, n_features: int) -> Self:
        """Return the pairs that ``arrays`` returned, after checking them."""
        pairs = cls(n_features)
        pairs._U = saved.floats("differences", (None, n_features))
        pairs._weights = saved.floats("weights", (len(pairs._U),), at_least=0.0)
        pairs._rounds = saved.floats("rounds", (len(pairs._U),), at_least=1.0)
        return pairs
