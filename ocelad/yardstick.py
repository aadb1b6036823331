"""Yardstick: the length that differences of points are measured by, so that one step size suits data of any scale."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from ocelad import checks

ScaleSetting: TypeAlias = Literal["auto"] | float

# A step moves the squared distance of a pair by up to step_size * |u|**4. With the trackers' default step size, 1e-2,
# and this squared length that is 1, the smallest threshold: enough to put a pair right, and not much more.
SQUARED_LENGTH = 10.0
# After so many pairs the length stays as it is. It needs no precision, and a metric should not be scaled for ever.
N_PAIRS = 100


class Yardstick:
    """Divides differences by one length for all features, found from the first of them or given.

    With "auto" each difference u is divided by the root mean square length of all up to it, of the first 100 at most,
    such that ``|u|**2`` comes to 10 on average. A step of the default size moves such a pair's squared distance by at
    most 1, the smallest threshold (see ``track_metric``), and data in other units give the same. No difference is
    measured by what comes after it, so that it does not matter how pairs are cut into calls.

    Parameters
    ----------
    scale : "auto" or float
        The length, where it is given; 1.0 leaves all differences as they are.

    Examples
    --------
    >>> yardstick = Yardstick()
    >>> yardstick.measured(np.array([[3.0, 4.0], [0.0, 5.0]])) ** 2 @ np.ones(2)
    array([10., 10.])
    """

    def __init__(self, scale: ScaleSetting = "auto") -> None:
        if isinstance(scale, str):
            checks.choice(scale, "scale", ["auto"])
        self._given = None if isinstance(scale, str) else checks.number(scale, "scale", above=0)
        self._n_pairs = 0
        self._total = 0.0

    @property
    def length(self) -> float:
        """What differences are divided by now."""
        if self._given is not None:
            return self._given
        return float(np.sqrt(self._total / self._n_pairs / SQUARED_LENGTH)) if self._total > 0.0 else 1.0

    def measured(self, U: Any) -> Any:
        """The differences, dense or sparse rows, each divided by the length of its time."""
        lengths = self._lengths(U)
        if checks.is_sparse(U):
            U = U.copy()
            U.data /= np.repeat(lengths, np.diff(U.indptr))
            return U
        return U / lengths[:, None]

    def state(self) -> dict[str, Any]:
        """What ``restored`` takes, as JSON has it."""
        return {"scale": "auto" if self._given is None else self._given, "n": self._n_pairs, "total": self._total}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Yardstick:
        """The yardstick whose ``state()`` this is."""
        yardstick = cls(state["scale"])
        yardstick._n_pairs, yardstick._total = state["n"], state["total"]
        return yardstick

    def _lengths(self, U: Any) -> Any:
        """The length at the time of each row; the rows are counted."""
        count = U.shape[0]
        if self._given is not None:
            return np.full(count, self._given)
        first = U[: max(N_PAIRS - self._n_pairs, 0)]
        squares = np.asarray(first.multiply(first).sum(axis=1) if checks.is_sparse(U) else np.square(first).sum(axis=1))
        totals = np.cumsum(np.concatenate([[self._total], squares]))  # in this order, however they are cut into calls
        counts = self._n_pairs + np.arange(1, len(squares) + 1)
        lengths = np.sqrt(totals[1:] / counts / SQUARED_LENGTH)
        self._n_pairs, self._total = self._n_pairs + len(squares), float(totals[-1])
        lengths = np.concatenate([lengths, np.full(count - len(squares), self.length)])
        return np.where(lengths > 0.0, lengths, 1.0)  # all were zero: nothing to measure by, and nothing to measure
