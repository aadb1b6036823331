"""InFiles: what can be saved to one file, and go on from it."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Self

import numpy as np

from ocelad import saved
from ocelad.checks import About, Arrays


class InFiles:
    """An estimator that is all in ``state()``, and comes back from it by ``of_state``."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of it, not just its metric, to one file, which is replaced whole or not at all.

        What ``load`` makes of it goes on to the same bits. Components set from outside and a ``preprocessor`` are not
        in it.
        """
        saved.write(path, saved.TRACKER, *self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what ``save`` wrote; ``MetricTracker.load`` reads what ``ocelad track`` wrote, too."""
        arrays, about = saved.read(path, saved.TRACKER)
        with saved.refusing(path, saved.TRACKER):
            return cls.of_state(arrays, about)

    @abstractmethod
    def state(self) -> tuple[Arrays, About]:
        """All of it as arrays and values that JSON can hold."""

    @classmethod
    @abstractmethod
    def of_state(cls, arrays: Arrays, about: About) -> Self:
        """What ``state`` was called on; checked."""

    @classmethod
    def _check_kind(cls, about: About) -> None:
        """Refuse what another estimator has saved."""
        if about["estimator"] != cls.__name__:
            raise ValueError(f"it holds a {about['estimator']}, which {about['estimator']}.load reads")


def plain(value: object) -> object:
    """A setting as JSON can hold it: NumPy's numbers as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def part(arrays: Arrays, name: str) -> Arrays:
    """The arrays behind a name and a dot, by what follows."""
    return {each[len(name) + 1 :]: array for each, array in arrays.items() if each.startswith(f"{name}.")}
