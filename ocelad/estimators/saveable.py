"""InFiles: what can be saved to one file, and go on from it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from ocelad._typing import Arrays, Metadata
from ocelad.io import state_files


class Saveable(ABC):
    """An estimator that is all in ``state()``, and comes back from it by ``of_state``."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of it, not just its metric, to one file, which is replaced whole or not at all.

        What ``load`` makes of it goes on to the same bits. Not in it are components set from outside, a
        ``preprocessor``, a ``random_state``, and what ``ocelad track`` keeps beside a tracker: its history, and its
        place in the file.
        """
        state_files.write(path, state_files.TRACKER, *self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what ``save`` wrote; ``MetricTracker.load`` reads what ``ocelad track`` wrote, too."""
        arrays, metadata = state_files.read(path, state_files.TRACKER)
        cls.check_kind(path, metadata)
        with state_files.refusing(path, state_files.TRACKER):
            return cls.of_state(arrays, metadata)

    @classmethod
    def check_kind(cls, path: str | os.PathLike[str], metadata: Metadata) -> None:
        """Refuse what another estimator has saved."""
        with state_files.refusing(path, state_files.TRACKER):
            kind = str(metadata["estimator"])
        if kind != cls.__name__:
            raise ValueError(f"{str(path)!r} holds a {kind}, not a {cls.__name__}; {kind}.load reads it")

    @abstractmethod
    def state(self) -> tuple[Arrays, Metadata]:
        """All of it as arrays and values that JSON can hold."""

    @classmethod
    @abstractmethod
    def of_state(cls, arrays: Arrays, metadata: Metadata) -> Self:
        """What ``state`` was called on; checked."""


def plain(value: object) -> object:
    """A setting as JSON can hold it: NumPy's numbers as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def part(values: Mapping[str, Any], name: str, mark: str = ".") -> dict[str, Any]:
    """The values whose names begin with a name and a mark, by what follows."""
    return {each.removeprefix(name + mark): value for each, value in values.items() if each.startswith(name + mark)}
