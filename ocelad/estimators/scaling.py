"""DistanceScaler: divides differences by a typical length, so that one step size suits data of any scale."""

from __future__ import annotations

from bisect import insort
from math import sqrt
from typing import Any, Literal, TypeAlias

import numpy as np

from ocelad._validation import check_choice, check_number, is_sparse
from ocelad.engines.rice_settings import SQUARED_LENGTH

ScaleSetting: TypeAlias = Literal["auto"] | float

# Shorter differences are ignored, because the inverse of their squared length would overflow.
MIN_SQUARED_LENGTH = 1e-200
# The length is fixed after this many pairs: it need not be precise, and the scale of the metric should settle.
N_PAIRS = 100


class DistanceScaler:
    """Divides differences of points by one length, either given or estimated from the first differences.

    With "auto" the length is such that the median of ``|u|**2`` over the first 100 nonzero differences is 10; before
    there are 100, over those up to the current one. A step of the default size then moves the squared distance of such
    a pair by at most 1, the smallest threshold (see ``Rice``), and the result does not depend on the unit of the data.
    The median is robust to outliers. A difference is never scaled by later ones, so splitting pairs into several calls
    does not change the result.

    Parameters
    ----------
    scale : "auto" or float
        The length; 1.0 leaves differences unchanged.

    Examples
    --------
    >>> scaler = DistanceScaler()
    >>> np.square(scaler.rescale(np.array([[3.0, 4.0], [0.0, 5.0], [0.0, 50.0]]))).sum(axis=1).round(9)
    array([  10.,   10., 1000.])
    """

    def __init__(self, scale: ScaleSetting = "auto") -> None:
        if isinstance(scale, str):
            check_choice(scale, "scale", ["auto"])
        self._given = None if isinstance(scale, str) else check_number(scale, "scale", above=0)
        self._squares: list[float] = []  # squared lengths of the first differences, ascending

    @property
    def length(self) -> float:
        """The length by which differences are currently divided."""
        if self._given is not None:
            return self._given
        squares = self._squares
        return sqrt(squares[len(squares) // 2] / SQUARED_LENGTH) if squares else 1.0

    def rescale(self, U: Any) -> Any:
        """Divide each difference, a dense or sparse row, by the length at its time; the first rows update it."""
        lengths = self._lengths(U)
        if is_sparse(U):
            U = U.copy()
            U.data /= np.repeat(lengths, np.diff(U.indptr))
            return U
        return U / lengths[:, None]

    def copy(self) -> DistanceScaler:
        """Return an independent copy."""
        return DistanceScaler.from_state(self.state())

    def state(self) -> dict[str, Any]:
        """Return everything that later results depend on, as values that JSON can store."""
        return {"scale": "auto" if self._given is None else self._given, "squares": self._squares.copy()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> DistanceScaler:
        """Return the scaler whose ``state`` is given."""
        scaler = cls(state["scale"])
        scaler._squares = list(state["squares"])
        return scaler

    def _lengths(self, U: Any) -> Any:
        """Return the length at the time of each row, and record the squared lengths of the first rows."""
        lengths = np.empty(U.shape[0])
        done = 0
        if self._given is None and len(self._squares) < N_PAIRS:
            squares = U.multiply(U).sum(axis=1) if is_sparse(U) else np.square(U).sum(axis=1)
            for square in squares.tolist():
                if len(self._squares) == N_PAIRS:
                    break
                if square > MIN_SQUARED_LENGTH:
                    insort(self._squares, square)
                lengths[done] = self.length
                done += 1
        lengths[done:] = self.length
        return lengths
