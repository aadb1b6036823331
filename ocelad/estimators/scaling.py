"""Yardstick: the length that differences of points are measured by, so that one step size suits data of any scale."""

from __future__ import annotations

from bisect import insort
from math import sqrt
from typing import Any, Literal, TypeAlias

import numpy as np

from ocelad._validation import check_choice, check_number, is_sparse

ScaleSetting: TypeAlias = Literal["auto"] | float

# A step moves the squared distance of a pair by up to step_size * |u|**4. With the trackers' default step size, 1e-2,
# and this squared length that is 1, the smallest threshold: enough to put a pair right, and not much more.
SQUARED_LENGTH = 10.0
# Below it a pair is not apart at all: the inverse of its squared length would overflow.
SMALLEST_SQUARE = 1e-200
# After so many pairs the length stays as it is. It needs no precision, and a metric should not be scaled for ever.
N_PAIRS = 100


class DistanceScaler:
    """Divides differences by one length for all features, found from the first of them or given.

    With "auto" the length is such that ``|u|**2`` has the median 10 over the first 100 pairs that are apart at all;
    until there are so many, over those up to the one that is measured. A step of the default size moves such a pair's
    squared distance by at most 1, the smallest threshold (see ``track_metric``), and data in other units give the same.
    A few points far out do not matter to a median. No difference is measured by what comes after it, so that it does
    not matter how pairs are cut into calls.

    Parameters
    ----------
    scale : "auto" or float
        The length, where it is given; 1.0 leaves all differences as they are.

    Examples
    --------
    >>> yardstick = DistanceScaler()
    >>> np.square(yardstick.measured(np.array([[3.0, 4.0], [0.0, 5.0], [0.0, 50.0]]))).sum(axis=1).round(9)
    array([  10.,   10., 1000.])
    """

    def __init__(self, scale: ScaleSetting = "auto") -> None:
        if isinstance(scale, str):
            check_choice(scale, "scale", ["auto"])
        self._given = None if isinstance(scale, str) else check_number(scale, "scale", above=0)
        self._squares: list[float] = []  # of the first pairs, ascending

    @property
    def length(self) -> float:
        """What differences are divided by now."""
        if self._given is not None:
            return self._given
        squares = self._squares
        return sqrt(squares[len(squares) // 2] / SQUARED_LENGTH) if squares else 1.0

    def measured(self, U: Any) -> Any:
        """The differences, dense or sparse rows, each divided by the length of its time."""
        lengths = self._lengths(U)
        if is_sparse(U):
            U = U.copy()
            U.data /= np.repeat(lengths, np.diff(U.indptr))
            return U
        return U / lengths[:, None]

    def copy(self) -> DistanceScaler:
        """One that goes on by itself."""
        return DistanceScaler.restored(self.state())

    def state(self) -> dict[str, Any]:
        """What ``restored`` takes, as JSON has it."""
        return {"scale": "auto" if self._given is None else self._given, "squares": self._squares.copy()}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> DistanceScaler:
        """The yardstick whose ``state()`` this is."""
        yardstick = cls(state["scale"])
        yardstick._squares = list(state["squares"])
        return yardstick

    def _lengths(self, U: Any) -> Any:
        """The length at the time of each row; the rows are counted."""
        lengths = np.empty(U.shape[0])
        done = 0
        if self._given is None and len(self._squares) < N_PAIRS:
            squares = U.multiply(U).sum(axis=1) if is_sparse(U) else np.square(U).sum(axis=1)
            for square in squares.tolist():
                if len(self._squares) == N_PAIRS:
                    break
                if square > SMALLEST_SQUARE:
                    insort(self._squares, square)
                lengths[done] = self.length
                done += 1
        lengths[done:] = self.length
        return lengths
