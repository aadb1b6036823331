"""History: loss, accuracy, drift and the weights of the experts along a stream, in a bounded number of rows."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from ocelad._typing import Floats
from ocelad.ensemble.schedule import MAX_SCALES

# When the history has this many rows, neighbours are merged: enough rows for a plot, few enough for any stream.
MAX_ROWS = 512
_PAIRS, _LOSS, _CORRECT, _CHANGE, _SQUARES, _CHUNKS, _WEIGHTS = 0, 1, 2, 3, 4, 5, 6


class Summary(NamedTuple):
    """Statistics of consecutive rounds.

    Attributes
    ----------
    round : int
        The last of the rounds.
    n_pairs : int
        The number of rounds.
    loss, accuracy : float
        Means over the pairs; each pair was predicted before it was learned from.
    drift : float
        The change of the metric per 1000 pairs, relative to its Frobenius norm.
    squared_length : float
        The mean squared length of the pairs' differences, which the step size must suit.
    leading_expert : int
        The index of the expert with the largest weight.
    """

    round: int
    n_pairs: int
    loss: float
    accuracy: float
    drift: float
    squared_length: float
    leading_expert: int


class History:
    """Sums over the chunks of a stream. When there are ``MAX_ROWS`` rows, neighbouring rows are merged.

    Examples
    --------
    >>> history = History()
    >>> weights = np.array([0.25, 0.75])
    >>> history.add(n_pairs=4, loss=2.0, n_correct=3, change=0.1, squared_length=20.0, weights=weights)
    >>> history.total()
    Summary(round=4, n_pairs=4, loss=0.5, accuracy=0.75, drift=25.0, squared_length=5.0, leading_expert=1)
    """

    def __init__(self) -> None:
        self._sums = np.zeros((MAX_ROWS, _WEIGHTS + MAX_SCALES))
        self._n_rows = 0
        self._chunks_per_row = 1

    def __len__(self) -> int:
        return self._n_rows

    def add(
        self, n_pairs: int, loss: float, n_correct: int, change: float, squared_length: float, weights: Floats
    ) -> None:
        """Add a chunk.

        Parameters
        ----------
        n_pairs : int
            The number of pairs of the chunk.
        loss, n_correct, squared_length : float
            Sums over its pairs.
        change : float
            The relative change of the metric.
        weights : array of shape (n_experts,)
            The weights of the experts after the chunk.
        """
        row = np.zeros(self._sums.shape[1])
        row[:_WEIGHTS] = n_pairs, loss, n_correct, change, squared_length, 1.0
        row[_WEIGHTS : _WEIGHTS + len(weights)] = weights
        if self._n_rows and self._sums[self._n_rows - 1, _CHUNKS] < self._chunks_per_row:
            self._sums[self._n_rows - 1] += row
            return
        if self._n_rows == MAX_ROWS:
            self._sums[: MAX_ROWS // 2] = self._sums[0::2] + self._sums[1::2]
            self._sums[MAX_ROWS // 2 :] = 0.0
            self._n_rows, self._chunks_per_row = MAX_ROWS // 2, 2 * self._chunks_per_row
        self._sums[self._n_rows] = row
        self._n_rows += 1

    def rows(self, max_rows: int = MAX_ROWS, *, merge_short: bool = False) -> list[Summary]:
        """Return the stream in at most ``max_rows`` parts of about the same length.

        With ``merge_short``, a last part with fewer than half of the pairs of the part before belongs to that one.
        """
        return [self._summary(first, last) for first, last in pairwise(self._cuts(max_rows, merge_short))]

    def _cuts(self, max_rows: int, merge_short: bool = False) -> np.ndarray:
        """Return the first row of each part, and the number of rows."""
        cuts = np.unique(np.linspace(0, self._n_rows, min(max_rows, self._n_rows) + 1).round().astype(int))
        if merge_short and len(cuts) > 2:
            before, last = (self._sums[first:end, _PAIRS].sum() for first, end in pairwise(cuts[-3:]))
            if 2 * last < before:
                return np.delete(cuts, -2)
        return cuts

    def total(self) -> Summary:
        """Return the statistics of the whole stream."""
        return self._summary(0, self._n_rows)

    def last(self) -> Summary:
        """Return the last row."""
        return self._summary(self._n_rows - 1, self._n_rows)

    def weights(self, max_rows: int = MAX_ROWS, *, merge_short: bool = False) -> Floats:
        """Return the mean weight of each expert in each of the parts of ``rows``, of shape (n_rows, n_experts)."""
        sums = np.add.reduceat(self._sums[: self._n_rows], self._cuts(max_rows, merge_short)[:-1])
        weights = sums[:, _WEIGHTS:] / sums[:, _CHUNKS : _CHUNKS + 1]
        return np.asarray(weights[:, : int(np.flatnonzero(weights.any(axis=0)).max(initial=0)) + 1])

    def _summary(self, first: int, last: int) -> Summary:
        sums = self._sums[first:last].sum(axis=0)
        n_pairs = max(sums[_PAIRS], 1.0)
        return Summary(
            round=int(self._sums[:last, _PAIRS].sum()),
            n_pairs=int(sums[_PAIRS]),
            loss=float(sums[_LOSS] / n_pairs),
            accuracy=float(sums[_CORRECT] / n_pairs),
            drift=float(1000 * sums[_CHANGE] / n_pairs),
            squared_length=float(sums[_SQUARES] / n_pairs),
            leading_expert=int(sums[_WEIGHTS:].argmax()),
        )

    def arrays(self) -> dict[str, Any]:
        """Return the state as arrays, for a file."""
        return {"sums": self._sums[: self._n_rows].copy(), "chunks_per_row": np.array(self._chunks_per_row)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        """Return the history whose ``arrays`` are given, after checking them."""
        history, sums, per_row = cls(), np.asarray(arrays["sums"]), np.asarray(arrays["chunks_per_row"])
        width = history._sums.shape[1]
        if sums.ndim != 2 or sums.shape[1] != width or len(sums) > MAX_ROWS or not np.isfinite(sums).all():
            raise ValueError(f"its history has the shape {sums.shape}, or numbers that are not finite")
        if (sums[:, [_PAIRS, _CHUNKS]] < 1).any():
            raise ValueError("its history has rows without pairs")
        if per_row.shape != () or per_row.dtype.kind not in "iu" or per_row < 1:
            raise ValueError("its history has no valid number of chunks per row")
        history._n_rows, history._chunks_per_row = len(sums), int(per_row)
        history._sums[: len(sums)] = sums
        return history
