"""StateReader validates saved state before any of it is used.

Kernels do not check array bounds, so a wrong index in a saved array could read or write any memory. Data from outside
therefore reach kernels only through this reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, TypeVar

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import check_integer, check_number

Numbers = TypeVar("Numbers", bound=np.ndarray)


class StateReader:
    """Named arrays and metadata values; each method removes one entry, checks it and returns a copy.

    Examples
    --------
    >>> saved = StateReader({"mu": np.array([1.0, 0.5])}, {})
    >>> saved.floats("mu", (2,), at_least=1.0)
    Traceback (most recent call last):
        ...
    ValueError: saved array 'mu' holds 0.5; expected numbers of at least 1
    """

    def __init__(self, arrays: Arrays, metadata: Metadata) -> None:
        if not isinstance(arrays, Mapping) or not isinstance(metadata, Mapping):
            kinds = f"{type(arrays).__name__} and {type(metadata).__name__}"
            raise ValueError(f"saved state must be a dict of arrays and a dict of values; got {kinds}")
        self._arrays = dict(arrays)
        self._metadata = dict(metadata)
        self._sections: list[StateReader] = []

    def floats(self, name: str, shape: tuple[int | None, ...], at_least: float = -inf, at_most: float = inf) -> Floats:
        """Return a float64 array of finite numbers; None in the shape accepts any size."""
        numbers = self._array(name, shape, np.dtype(np.float64))
        if not np.isfinite(numbers).all():
            wrong = numbers[~np.isfinite(numbers)][0]
            raise ValueError(f"saved array {name!r} holds {wrong}; expected finite numbers")
        return _check_range(numbers, name, at_least, at_most)

    def singles(self, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
        """Return a float32 array of finite numbers; None in the shape accepts any size."""
        numbers = self._array(name, shape, np.dtype(np.float32))
        if not np.isfinite(numbers).all():
            raise ValueError(f"saved array {name!r} must hold finite numbers")
        return numbers

    def integers(self, name: str, shape: tuple[int | None, ...], at_least: int, at_most: int) -> np.ndarray:
        """Return an int64 array of numbers within these limits; None in the shape accepts any size."""
        return _check_range(self._array(name, shape, np.dtype(np.int64)), name, at_least, at_most)

    def csr_rows(self, prefix: str, n_rows: int, n_entries: int, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the checked arrays ``indices`` and ``indptr`` of a CSR matrix, under names with this prefix."""
        indices = self.integers(f"{prefix}indices", (n_entries,), 0, n_columns - 1)
        indptr = self.integers(f"{prefix}indptr", (n_rows + 1,), 0, n_entries)
        if (np.diff(indptr) < 0).any() or indptr[0] != 0 or indptr[-1] != n_entries:
            raise ValueError(f"saved array '{prefix}indptr' does not describe rows")
        return indices, indptr

    def distinct_integers(self, name: str, at_most: int) -> np.ndarray:
        """Return an int64 array of distinct numbers from 0 to ``at_most``."""
        numbers = self.integers(name, (None,), 0, at_most)
        if len(np.unique(numbers)) != len(numbers):
            raise ValueError(f"saved array {name!r} holds duplicates; expected distinct numbers")
        return numbers

    def permutation(self, name: str, size: int) -> np.ndarray:
        """Return a permutation of the numbers 0 .. size - 1."""
        numbers = self.distinct_integers(name, size - 1)
        if len(numbers) != size:
            raise ValueError(f"saved array {name!r} has {len(numbers)} numbers; expected {size}")
        return numbers

    def array_like(self, name: str, array: np.ndarray, at_least: float, at_most: float) -> np.ndarray:
        """Return an array with the type and shape of ``array`` and numbers within these limits."""
        if array.dtype == np.int64:
            return self.integers(name, array.shape, int(at_least), int(at_most))
        return self.floats(name, array.shape, at_least, at_most)

    def size(self, name: str) -> int:
        """Return the size of an array without removing it; 0 if it does not exist."""
        return int(np.size(self._arrays[name])) if name in self._arrays else 0

    def integer(self, name: str, at_least: int, at_most: int) -> int:
        """Return an integer value within these limits."""
        value = self.value(name)
        try:
            return check_integer(value, f"saved value {name!r}", at_least=at_least, at_most=at_most)
        except TypeError as error:
            raise ValueError(str(error)) from None

    def boolean(self, name: str) -> bool:
        """Return a value that is true or false."""
        value = self.value(name)
        if not isinstance(value, bool):
            raise ValueError(f"saved value {name!r} is {value!r}; expected true or false")
        return value

    def number(self, name: str) -> float:
        """Return a finite number."""
        try:
            return check_number(self.value(name), f"saved value {name!r}")
        except TypeError as error:
            raise ValueError(str(error)) from None

    def value(self, name: str) -> Any:
        """Return a metadata value, unchecked."""
        if name not in self._metadata:
            raise ValueError(f"saved value {name!r} is missing")
        return self._metadata.pop(name)

    def expect(self, name: str, expected: object) -> None:
        """Check that a metadata value equals the expected one."""
        value = self.value(name)
        if value != expected:
            raise ValueError(f"saved value {name!r} is {value!r}; expected {expected!r}")

    def section(self, name: str) -> StateReader:
        """Return a reader of the arrays whose names begin with ``name.``, and of the mapping of this name, if any."""
        names = [each for each in self._arrays if each.startswith(f"{name}.")]
        arrays = {each.removeprefix(f"{name}."): self._arrays.pop(each) for each in names}
        self._sections.append(StateReader(arrays, self._metadata.pop(name, {})))
        return self._sections[-1]

    def with_metadata(self, metadata: Metadata) -> StateReader:
        """Return this reader, with these metadata instead of its own."""
        self._metadata = dict(metadata)
        return self

    def has_value(self, name: str) -> bool:
        """Return whether a metadata value exists."""
        return name in self._metadata

    def remaining_arrays(self) -> Arrays:
        """Remove all remaining arrays and return copies of them, unchecked."""
        arrays, self._arrays = self._arrays, {}
        return {name: np.array(array) for name, array in arrays.items()}

    def remaining_values(self) -> Metadata:
        """Remove all remaining metadata values and return them, unchecked."""
        values, self._metadata = self._metadata, {}
        return values

    def expect_end(self) -> None:
        """Check that no array or value remains, in this reader or in its sections."""
        if left := [*self._arrays, *self._metadata]:
            raise ValueError(f"saved state holds {left[0]!r}, which is unknown")
        for section in self._sections:
            section.expect_end()

    def _array(self, name: str, shape: tuple[int | None, ...], dtype: np.dtype[Any]) -> np.ndarray:
        if name not in self._arrays:
            raise ValueError(f"saved array {name!r} is missing")
        array = np.asarray(self._arrays.pop(name))
        if array.dtype != dtype:
            raise ValueError(f"saved array {name!r} has type {array.dtype}; expected {dtype}")
        if array.ndim != len(shape) or any(m is not None and m != n for m, n in zip(shape, array.shape, strict=True)):
            sizes = ", ".join("any" if size is None else str(size) for size in shape)
            raise ValueError(f"saved array {name!r} has shape {array.shape}; expected ({sizes})")
        return np.array(array, dtype, order="C")


def add_prefix(prefix: str, arrays: Arrays) -> Arrays:
    """Return the arrays under names that begin with the prefix and a dot."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def _check_range(numbers: Numbers, name: str, at_least: float, at_most: float) -> Numbers:
    if numbers.size and not (numbers.min() >= at_least and numbers.max() <= at_most):
        wrong = numbers[(numbers < at_least) | (numbers > at_most)][0]
        limits = [f"at least {at_least:g}"] * (at_least > -inf) + [f"at most {at_most:g}"] * (at_most < inf)
        raise ValueError(f"saved array {name!r} holds {wrong}; expected numbers of {' and '.join(limits)}")
    return numbers
