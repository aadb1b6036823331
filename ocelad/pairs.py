"""A comparison of two points, and what of it the learners see."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ocelad import checks
from ocelad.checks import Floats


class Event(NamedTuple):
    """What the core sees of a pair: the difference ``u = x - z`` and the label ``y``, +1 similar, -1 dissimilar.

    It is not checked again: make one with ``Pair(x, z, similar).event()``.
    """

    u: Floats
    y: float


class Pair:
    """Two points, and whether they are similar.

    Parameters
    ----------
    x, z : array-like of shape (n_features,)
        The points; finite numbers.
    similar : bool, or +1 / -1
        The answer to "are these two the same?".

    Examples
    --------
    >>> Pair([3.0, 1.0], [1.0, 1.0], similar=True).event()
    Event(u=array([2., 0.]), y=1.0)
    """

    __slots__ = ("similar", "x", "z")

    def __init__(self, x: Any, z: Any, similar: Any) -> None:
        self.x = checks.array(x, "x", 1)
        self.z = checks.array(z, "z", 1, n_features=len(self.x))
        self.similar = checks.label(similar, "similar") > 0

    def event(self) -> Event:
        """The pair as the core sees it."""
        return Event(subtract(self.x, self.z), 1.0 if self.similar else -1.0)

    def __repr__(self) -> str:
        return f"Pair(x={self.x!r}, z={self.z!r}, similar={self.similar})"


def differences(pairs: Any, n_features: int | None = None) -> Floats:
    """``x - z`` of each of the pairs, an array of shape (n_pairs, 2, n_features).

    >>> differences([[[1, 2], [0, 2]], [[5, 5], [5, 4]]])
    array([[1., 0.],
           [0., 1.]])
    """
    checked = checks.array(pairs, "pairs", 3)
    if checked.shape[1] != 2:
        raise ValueError(f"pairs has shape {checked.shape}; accepted: pairs of shape (n_pairs, 2, n_features)")
    if n_features is not None and checked.shape[2] != n_features:
        raise ValueError(f"pairs has {checked.shape[2]} features; {n_features} are expected")
    return subtract(checked[:, 0], checked[:, 1])


def subtract(X: Floats, Z: Floats) -> Floats:
    """``X - Z``, refused where the squared length of a difference overflows."""
    with np.errstate(over="ignore"):
        U = X - Z
        lengths = np.einsum("...i,...i->...", U, U)
    if not np.isfinite(lengths).all():
        row = int(np.flatnonzero(~np.isfinite(lengths))[0])
        raise ValueError(
            f"the points of pair {row} are too far apart: their squared distance overflows; "
            "accepted: differences up to about 1e150"
        )
    return U
