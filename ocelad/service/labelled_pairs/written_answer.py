"""Answers that are written to files of other programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class WrittenAnswer:
    """An answer "same" or "different" that is not undone.

    Attributes
    ----------
    left, right : int
        Positions of the items.
    same : bool
    person : str
    seq : int
        The number of its entry in the log.
    """

    left: int
    right: int
    same: bool
    person: str
    seq: int


#: Returns the answers in order; it may be called several times, because some formats list equal answers together.
Answers: TypeAlias = Callable[[], Iterator[WrittenAnswer]]
