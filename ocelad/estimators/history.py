"""What happened along a stream: loss, accuracy, drift and the share of each scale, in a bounded number of rows."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from ocelad._typing import Floats
from ocelad.ensemble.schedule import MAX_SCALES

# Rows are merged two by two when there are so many: enough for a picture, little enough for any stream.
MOST_ROWS = 512
_PAIRS, _LOSS, _RIGHT, _MOVED, _SQUARES, _CHUNKS, _SHARES = 0, 1, 2, 3, 4, 5, 6


class Summary(NamedTuple):
    """Some rounds in a row.

    Attributes
    ----------
    round : int
        The last of them.
    pairs : int
        How many they are.
    loss, accuracy : float
        Means over the pairs; each was judged by the metric played before it was learned from.
    drift : float
        How far the metric moved per 1000 pairs, relative to its size (Frobenius norm).
    squared_length : float
        Of the pairs' differences, on average: what the step size must suit.
    scale : int
        The scale with the largest share.
    """

    round: int
    pairs: int
    loss: float
    accuracy: float
    drift: float
    squared_length: float
    scale: int


class History:
    """Sums over chunks of a stream; where they come to be many, neighbours are merged.

    Examples
    --------
    >>> history = History()
    >>> history.add(pairs=4, loss=2.0, right=3, moved=0.1, squares=20.0, shares=np.array([0.25, 0.75]))
    >>> history.total()
    Summary(round=4, pairs=4, loss=0.5, accuracy=0.75, drift=25.0, squared_length=5.0, scale=1)
    """

    def __init__(self) -> None:
        self._sums = np.zeros((MOST_ROWS, _SHARES + MAX_SCALES))
        self._n_rows = 0
        self._chunks_per_row = 1

    def __len__(self) -> int:
        return self._n_rows

    def add(self, pairs: int, loss: float, right: int, moved: float, squares: float, shares: Floats) -> None:
        """One more chunk: sums over its pairs, how far the metric moved, and the scales' shares at its end."""
        row = np.zeros(self._sums.shape[1])
        row[:_SHARES] = pairs, loss, right, moved, squares, 1.0
        row[_SHARES : _SHARES + len(shares)] = shares
        if self._n_rows and self._sums[self._n_rows - 1, _CHUNKS] < self._chunks_per_row:
            self._sums[self._n_rows - 1] += row
            return
        if self._n_rows == MOST_ROWS:
            self._sums[: MOST_ROWS // 2] = self._sums[0::2] + self._sums[1::2]
            self._sums[MOST_ROWS // 2 :] = 0.0
            self._n_rows, self._chunks_per_row = MOST_ROWS // 2, 2 * self._chunks_per_row
        self._sums[self._n_rows] = row
        self._n_rows += 1

    def rows(self, most: int = MOST_ROWS) -> list[Summary]:
        """The stream in at most so many parts of about the same length."""
        cuts = np.unique(np.linspace(0, self._n_rows, min(most, self._n_rows) + 1).round().astype(int))
        return [self._summary(first, last) for first, last in pairwise(cuts)]

    def total(self) -> Summary:
        """All of it."""
        return self._summary(0, self._n_rows)

    def lately(self) -> Summary:
        """The last row."""
        return self._summary(self._n_rows - 1, self._n_rows)

    def shares(self) -> Floats:
        """The share of each scale in each row, of shape (n_rows, n_scales)."""
        sums = self._sums[: self._n_rows]
        shares = sums[:, _SHARES:] / sums[:, _CHUNKS : _CHUNKS + 1]
        return np.asarray(shares[:, : int(np.flatnonzero(shares.any(axis=0)).max(initial=0)) + 1])

    def _summary(self, first: int, last: int) -> Summary:
        sums = self._sums[first:last].sum(axis=0)
        pairs = max(sums[_PAIRS], 1.0)
        return Summary(
            round=int(self._sums[:last, _PAIRS].sum()),
            pairs=int(sums[_PAIRS]),
            loss=float(sums[_LOSS] / pairs),
            accuracy=float(sums[_RIGHT] / pairs),
            drift=float(1000 * sums[_MOVED] / pairs),
            squared_length=float(sums[_SQUARES] / pairs),
            scale=int(sums[_SHARES:].argmax()),
        )

    def arrays(self) -> dict[str, Any]:
        """All that it holds, for a file."""
        return {"sums": self._sums[: self._n_rows].copy(), "chunks_per_row": np.array(self._chunks_per_row)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        """The history that gave these arrays; checked."""
        history, sums, per_row = cls(), np.asarray(arrays["sums"]), np.asarray(arrays["chunks_per_row"])
        width = history._sums.shape[1]
        if sums.ndim != 2 or sums.shape[1] != width or len(sums) > MOST_ROWS or not np.isfinite(sums).all():
            raise ValueError(f"its history has the shape {sums.shape}, or numbers that are not finite")
        if (sums[:, [_PAIRS, _CHUNKS]] < 1).any():
            raise ValueError("its history has rows without pairs")
        if per_row.shape != () or per_row.dtype.kind not in "iu" or per_row < 1:
            raise ValueError("its history does not say how many chunks make a row")
        history._n_rows, history._chunks_per_row = len(sums), int(per_row)
        history._sums[: len(sums)] = sums
        return history
