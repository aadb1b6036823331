"""What is kept of a tracker, looked at piece by piece before anything is made of it.

A kernel believes its arrays: a wrong index in one of them would let it read and write anywhere. So nothing that comes
from outside gets to one but through here.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, TypeVar

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import check_integer

Numbers = TypeVar("Numbers", bound=np.ndarray)


class StateReader:
    """Arrays and values, each of which is taken out once, by its name, and checked.

    Examples
    --------
    >>> saved = StateReader({"mu": np.array([1.0, 0.5])}, {})
    >>> saved.floats("mu", (2,), at_least=1.0)
    Traceback (most recent call last):
        ...
    ValueError: what was kept as 'mu' holds 0.5; numbers of at least 1 are expected
    """

    def __init__(self, arrays: Arrays, metadata: Metadata) -> None:
        if not isinstance(arrays, Mapping) or not isinstance(metadata, Mapping):
            kinds = f"{type(arrays).__name__} and {type(metadata).__name__}"
            raise ValueError(f"arrays and values by their names are expected, two dicts; got {kinds}")
        self._arrays = dict(arrays)
        self._about = dict(metadata)
        self._parts: list[StateReader] = []

    def floats(self, name: str, shape: tuple[int | None, ...], at_least: float = -inf, at_most: float = inf) -> Floats:
        """Finite numbers, as an array of its own; None in the shape: any size."""
        numbers = self._array(name, shape, np.dtype(np.float64))
        if not np.isfinite(numbers).all():
            raise ValueError(f"what was kept as {name!r} holds {numbers[~np.isfinite(numbers)][0]}; it must be finite")
        return _within(numbers, name, at_least, at_most)

    def integers(self, name: str, shape: tuple[int | None, ...], at_least: int, at_most: int) -> np.ndarray:
        """Whole numbers within these limits, as an array of its own; None in the shape: any size."""
        return _within(self._array(name, shape, np.dtype(np.int64)), name, at_least, at_most)

    def distinct(self, name: str, at_most: int) -> np.ndarray:
        """Whole numbers from 0 on, no two of them the same."""
        numbers = self.integers(name, (None,), 0, at_most)
        if len(np.unique(numbers)) != len(numbers):
            raise ValueError(f"what was kept as {name!r} holds a number twice")
        return numbers

    def permutation(self, name: str, size: int) -> np.ndarray:
        """The numbers 0 .. size - 1 in some order."""
        numbers = self.distinct(name, size - 1)
        if len(numbers) != size:
            raise ValueError(f"what was kept as {name!r} has {len(numbers)} numbers; {size} are expected")
        return numbers

    def like(self, name: str, array: np.ndarray, at_least: float, at_most: float) -> np.ndarray:
        """Numbers of the type and shape that this array has, within these limits."""
        if array.dtype == np.int64:
            return self.integers(name, array.shape, int(at_least), int(at_most))
        return self.floats(name, array.shape, at_least, at_most)

    def size(self, name: str) -> int:
        """How many numbers an array has, which is still to be taken."""
        return int(np.size(self._arrays[name])) if name in self._arrays else 0

    def whole(self, name: str, at_least: int, at_most: int) -> int:
        """A whole number within these limits."""
        value = self.value(name)
        try:
            return check_integer(value, f"what was kept as {name!r}", at_least=at_least, at_most=at_most)
        except TypeError as error:
            raise ValueError(str(error)) from None

    def value(self, name: str) -> Any:
        """Any value; it is for the caller to check."""
        if name not in self._about:
            raise ValueError(f"no {name!r} was kept")
        return self._about.pop(name)

    def same(self, name: str, here: object) -> None:
        """Refuse what was kept of something else."""
        there = self.value(name)
        if there != here:
            raise ValueError(f"{name} was {there!r} where it was kept, and is {here!r} here")

    def part(self, name: str) -> StateReader:
        """What was kept of a part: the arrays behind its name and a dot, and the values under its name, if any."""
        names = [each for each in self._arrays if each.startswith(f"{name}.")]
        arrays = {each.removeprefix(f"{name}."): self._arrays.pop(each) for each in names}
        self._parts.append(StateReader(arrays, self._about.pop(name, {})))
        return self._parts[-1]

    def has(self, name: str) -> bool:
        """Whether there is a value of this name."""
        return name in self._about

    def rest(self) -> Arrays:
        """All arrays that have not been taken yet, as arrays of their own."""
        arrays, self._arrays = self._arrays, {}
        return {name: np.array(array) for name, array in arrays.items()}

    def nothing_left(self) -> None:
        """Refuse what nobody has asked for, here or in a part: it would be lost."""
        if left := [*self._arrays, *self._about]:
            raise ValueError(f"{left[0]!r} was kept, which is not known here")
        for part in self._parts:
            part.nothing_left()

    def _array(self, name: str, shape: tuple[int | None, ...], dtype: np.dtype[Any]) -> np.ndarray:
        if name not in self._arrays:
            raise ValueError(f"no array {name!r} was kept")
        array = np.asarray(self._arrays.pop(name))
        if array.dtype != dtype:
            raise ValueError(f"what was kept as {name!r} is of type {array.dtype}; {dtype} is expected")
        if array.ndim != len(shape) or any(m is not None and m != n for m, n in zip(shape, array.shape, strict=True)):
            words = ", ".join("any" if size is None else str(size) for size in shape)
            raise ValueError(f"what was kept as {name!r} has shape {array.shape}; ({words}) is expected")
        return np.array(array, dtype, order="C")


def prefixed(prefix: str, arrays: Arrays) -> Arrays:
    """The same arrays, their names behind a prefix and a dot."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def _within(numbers: Numbers, name: str, at_least: float, at_most: float) -> Numbers:
    if numbers.size and not (numbers.min() >= at_least and numbers.max() <= at_most):
        wrong = numbers[(numbers < at_least) | (numbers > at_most)][0]
        limits = [f"at least {at_least:g}"] * (at_least > -inf) + [f"at most {at_most:g}"] * (at_most < inf)
        raise ValueError(f"what was kept as {name!r} holds {wrong}; numbers of {' and '.join(limits)} are expected")
    return numbers
