"""PrincipalAxes: the directions of largest variance of points that come in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_array, check_sparse, is_sparse

# The approximate number of values in a block: 32 MiB in float64.
_BLOCK_VALUES = 1 << 22
_EPS = float(np.finfo(np.float64).eps)


class PrincipalAxes:
    """The principal axes of points, from their moments: the points need not fit into memory.

    Parameters
    ----------
    n_features : int

    Examples
    --------
    >>> axes = PrincipalAxes(2)
    >>> axes.add(np.array([[0.0, 0.0], [1.0, 3.0]]))
    >>> axes.add(np.array([[2.0, 6.0]]))
    >>> variances, directions = axes.compute()
    >>> variances.round(6), (directions[:, 0] / directions[0, 0]).round(6)
    (array([6.666667, 0.      ]), array([1., 3.]))
    """

    def __init__(self, n_features: int) -> None:
        self.n_points = 0
        self._origin = np.zeros(n_features)
        self._sum = np.zeros(n_features)
        self._products = np.zeros((n_features, n_features))

    def add(self, points: Floats) -> None:
        """Add a block of points, one per row."""
        if not len(points):
            return
        if not self.n_points:
            self._origin = points.mean(axis=0)  # moments about a point among them lose few digits
        centered = points - self._origin
        self.n_points += len(points)
        self._sum += centered.sum(axis=0)
        self._products += centered.T @ centered

    def compute(self) -> tuple[Floats, Floats]:
        """Return the variances along the axes, the largest first, and the axes as orthonormal columns.

        The sign of each axis makes its entry of largest size positive.
        """
        if not self.n_points:
            raise ValueError("there are no items; accepted: at least one")
        mean = self._sum / self.n_points
        covariance = self._products / self.n_points - np.outer(mean, mean)
        variances, directions = np.linalg.eigh(covariance / 2.0 + covariance.T / 2.0)
        variances, directions = np.maximum(variances[::-1], 0.0), directions[:, ::-1]
        if directions.size:
            largest = directions[np.abs(directions).argmax(axis=0), np.arange(directions.shape[1])]
            directions = directions * np.where(largest < 0, -1.0, 1.0)
        return variances, directions

    def count_above_rounding(self, variances: Floats) -> int:
        """Return the number of variances that are not rounding errors."""
        size = float(variances.max(initial=0.0)) + float(np.square(self._sum / max(self.n_points, 1)).sum())
        return int(np.count_nonzero(variances > 10.0 * len(variances) * _EPS * size))


def iterate_blocks(items: Any, n_features: int, name: str = "items") -> Iterator[Any]:
    """Iterate over blocks of items as float64, so that a large table is never copied as a whole.

    Items are an array, also one mapped into memory, SciPy sparse rows, or an iterator over blocks of either.
    """
    if isinstance(items, Iterator):
        for block in items:
            yield from iterate_blocks(block, n_features, name)
        return
    if is_sparse(items):
        rows: Any = check_sparse(items, name, n_features=n_features)
    else:
        rows = items if hasattr(items, "shape") and hasattr(items, "dtype") else np.asarray(items)
        if len(rows.shape) != 2 or rows.shape[1] != n_features:
            raise ValueError(f"{name} has shape {rows.shape}; accepted: shape (n_items, {n_features})")
    size = max(1, _BLOCK_VALUES // n_features)
    for first in range(0, rows.shape[0], size):
        block = rows[first : first + size]
        yield block if is_sparse(block) else check_array(block, name, 2, n_features=n_features)
