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

    Of relative comparisons, the near pair is similar. Curved features, which follow those of the points, are left out.
    The rows are a ring buffer, so that a pair costs O(n).

    Parameters
    ----------
    n_features : int
    """

    def __init__(self, n_features: int) -> None:
        self._U = np.zeros((MAX_AGE, n_features))
        self._weights, self._rounds = np.zeros(MAX_AGE), np.zeros(MAX_AGE)  # round 0: no pair
        self._next, self._last_round = 0, 0

    def add(self, events: Events | Relatives, weights: Floats, t: int) -> None:
        """Add the events of rounds t, t + 1, ...: at most ``MAX_AGE`` at once."""
        self._last_round = t + len(events) - 1
        if isinstance(events, Relatives):
            U, similar = events.near, np.flatnonzero(weights > 0.0)
        else:
            U, similar = events.U, np.flatnonzero((events.y > 0.0) & (weights > 0.0))
        if len(similar):
            places = (self._next + np.arange(len(similar))) % MAX_AGE
            self._U[places], self._weights[places], self._rounds[places] = (
                U[similar, : self._U.shape[1]],
                weights[similar],
                t + similar,
            )
            self._next = (self._next + len(similar)) % MAX_AGE

    def since(self, first_round: int) -> tuple[Floats, Floats]:
        """Return the differences and weights of the similar pairs from a round on."""
        rows = self._rows(max(first_round, self._last_round - MAX_AGE + 1))
        return self._U[rows], self._weights[rows]

    def _rows(self, first_round: int) -> np.ndarray:
        """Return the places of the pairs from a round on, oldest first."""
        rows = np.flatnonzero(self._rounds >= max(first_round, 1))
        return rows[np.argsort(self._rounds[rows], kind="stable")]

    def arrays(self) -> Arrays:
        """Return copies of the pairs that can still be used."""
        rows = self._rows(self._last_round - MAX_AGE + 1)
        return {"differences": self._U[rows], "weights": self._weights[rows], "rounds": self._rounds[rows]}

    @classmethod
    def from_rows(cls, U: Floats, weights: Floats, rounds: Floats, last_round: int) -> Self:
        """Return the pairs of these rows, oldest first, after a round."""
        pairs = cls(U.shape[1])
        pairs._U[: len(U)], pairs._weights[: len(U)], pairs._rounds[: len(U)] = U, weights, rounds
        pairs._next, pairs._last_round = len(U) % MAX_AGE, last_round
        return pairs

    @classmethod
    def restore(cls, saved: StateReader, n_features: int, last_round: int) -> Self:
        """Return the pairs that ``arrays`` returned after a round, after checking them."""
        U = saved.floats("differences", (None, n_features))
        weights = saved.floats("weights", (len(U),), at_least=0.0)
        rounds = saved.floats("rounds", (len(U),), max(last_round - MAX_AGE + 1.0, 1.0), last_round)
        if (np.diff(rounds) <= 0.0).any() or (rounds % 1.0 != 0.0).any():
            raise ValueError("saved array 'rounds' must hold ascending rounds")
        return cls.from_rows(U, weights, rounds, last_round)
