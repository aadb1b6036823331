"""Saveable: estimators that can be saved to one file and continued from it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

from ocelad._typing import Arrays, Metadata
from ocelad.io import state_files


class Saveable(ABC):
    """An estimator with ``state`` and ``from_state``, which ``save`` and ``load`` use."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the complete state, not only the metric, to one file, which is replaced atomically.

        The estimator that ``load`` returns continues to the same bits. Not saved are components set by the user, a
        ``preprocessor`` and a ``random_state``. The history and the position in the input file are saved only by
        ``ocelad track``.
        """
        state_files.write(path, state_files.TRACKER, *self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file written by ``save``; ``MetricTracker.load`` also reads files written by ``ocelad track``."""
        arrays, metadata = state_files.read(path, state_files.TRACKER)
        cls.check_kind(path, metadata)
        with state_files.content_errors(path, state_files.TRACKER):
            return cls.from_state(arrays, metadata)

    @classmethod
    def check_kind(cls, path: str | os.PathLike[str], metadata: Metadata) -> None:
        """Refuse a file that another class of estimator saved."""
        with state_files.content_errors(path, state_files.TRACKER):
            kind = str(metadata["estimator"])
        if kind != cls.__name__:
            raise ValueError(f"{str(path)!r} holds a {kind}, not a {cls.__name__}; {kind}.load reads it")

    @abstractmethod
    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything learned, as arrays and as values that JSON can store."""

    @classmethod
    @abstractmethod
    def from_state(cls, arrays: Arrays, metadata: Metadata) -> Self:
        """Return the estimator whose ``state`` is given, after checking it."""


def strip_prefix(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values whose names start with a prefix and a dot, by the rest of their names.

    >>> strip_prefix("core", {"core.weights": 1, "history.sums": 2})
    {'weights': 1}
    """
    start = f"{prefix}."
    return {name.removeprefix(start): value for name, value in values.items() if name.startswith(start)}
