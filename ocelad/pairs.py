"""A comparison of two points, and what of it the learners see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ocelad import checks
from ocelad.checks import Floats


class Event(NamedTuple):
    """What the core sees of a pair: the difference ``u = x - z`` and the label ``y``, +1 similar, -1 dissimilar.

    Made by ``Pair(x, z, similar).event()``.
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


class Events:
    """Many events as arrays: the differences, one per row of U, and their labels; checked. Iterates over the events.

    >>> [event.y for event in Events([[1.0, 2.0], [0.0, 3.0]], [True, -1])]
    [1.0, -1.0]
    """

    __slots__ = ("U", "y")

    def __init__(self, U: Any, y: Any) -> None:
        self.U = subtract(checks.array(U, "U", 2), np.zeros(1))
        self.y = checks.labels(y, "y", len(self.U))

    def __len__(self) -> int:
        return len(self.U)

    def __iter__(self) -> Iterator[Event]:
        return (Event(u, float(label)) for u, label in zip(self.U, self.y, strict=True))


def as_event(event: Event | Pair, n_features: int) -> Event:
    """The event of a pair, or the event itself; checked."""
    if isinstance(event, Pair):
        event = event.event()
    if not isinstance(event, Event):
        raise TypeError(f"an event must be a Pair(x, z, similar) or an Event(u, y); got {type(event).__name__}")
    u = checks.array(event.u, "the pair's difference", 1, n_features=n_features)
    return Event(subtract(u, np.zeros(1)), checks.label(event.y, "the pair's label y"))


def differences(pairs: Any, n_features: int | None = None) -> Floats:
    """``x - z`` of each of the pairs, an array of shape (n_pairs, 2, n_features).

    >>> differences([[[1, 2], [0, 2]], [[5, 5], [5, 4]]])
    array([[1., 0.],
           [0., 1.]])
    """
    checked = checks.array(pairs, "pairs", 3, n_features=n_features)
    if checked.shape[1] != 2:
        raise ValueError(f"pairs has shape {checked.shape}; accepted: numbers of shape (n_pairs, 2, n_features)")
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
