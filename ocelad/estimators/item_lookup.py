"""The items behind a ``preprocessor``: their points by position, by id, or by a function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import is_sparse
from ocelad.adaptive.adaptive_tracker import checked_points
from ocelad.implied_answers import draw_reference
from ocelad.io import dataframes

#: The column of a table that holds ids, if it holds strings.
ID_COLUMN = "id"


class ItemLookup(ABC):
    """Items whose points can be looked up."""

    @abstractmethod
    def rows(self, keys: np.ndarray, name: str, column: int = 0) -> Any:
        """Return the points of the items with these keys, one per row.

        The keys are a column of an array of this name; errors say so.
        """

    @abstractmethod
    def table(self) -> Any:
        """Return all items as an array, a sparse matrix or a table; None if they are not known."""

    @property
    @abstractmethod
    def n_items(self) -> int | None:
        """The number of items, which may grow; None if they are not known."""


class LookedUpItems:
    """The points of items by id, as ``ImpliedAnswers`` uses them.

    Points are read once, because a function that returns them may be slow.

    Parameters
    ----------
    items : ItemLookup
    known : array of shape (n_items, n_features), or None
        All items, or a sample of them; None if they are not known.
    """

    def __init__(self, items: ItemLookup, known: Any) -> None:
        self._items = items
        self._reference = None if known is None else known[draw_reference(len(known))]
        self._points: dict[Any, Floats] = {}

    def add(self, ids: Sequence[Any], points: Floats) -> None:
        """Add items whose points are known."""
        self._points.update(zip(ids, points, strict=True))

    def read(self, ids: Sequence[Any]) -> None:
        """Read the points of items, as far as they are not known, so that none can be missing later."""
        new = [entry for entry in dict.fromkeys(ids) if entry not in self._points]
        if new:
            keys = _as_keys(new)
            points = self._items.rows(keys, "earlier pairs")
            with named_items([points], [keys]):
                rows = dataframes.to_rows(points, "the preprocessor").values
                self.add(new, checked_points(rows, "the preprocessor", rows.shape[1], sparse=False))

    def keep(self, ids: Sequence[Any]) -> None:
        """Drop the points of other items."""
        self._points = {entry: self._points[entry].copy() for entry in ids if entry in self._points}

    def points(self, ids: Sequence[Any]) -> Floats:
        self.read(ids)
        return np.array([self._points[entry] for entry in ids])

    def reference(self) -> Floats | None:
        return self._reference


def _as_keys(ids: Sequence[Any]) -> np.ndarray:
    """Return ids as an array: of integers or of texts, if all are, otherwise of objects."""
    if all(type(entry) is int and abs(entry) < 2**63 for entry in ids):
        return np.array(ids, dtype=np.int64)
    if all(type(entry) is str and not entry.endswith("\0") for entry in ids):  # an array drops such endings
        return np.array(ids)
    keys = np.empty(len(ids), dtype=object)
    keys[:] = ids
    return keys


@contextmanager
def named_items(parts: Sequence[Any], keys: Sequence[np.ndarray]) -> Iterator[None]:
    """Within it, an error about these points names the item: a number that is missing or infinite, or another length.

    It takes time only if there is an error.
    """
    try:
        yield
    except ValueError:
        for points, names in zip(parts, keys, strict=True):
            if points.shape[1] != parts[0].shape[1]:
                (first, *_), (other, *_) = keys[0].tolist(), names.tolist()
                raise ValueError(
                    f"the preprocessor has {parts[0].shape[1]} features for item {first!r} and {points.shape[1]} for "
                    f"item {other!r}; accepted: points of one length"
                ) from None
        for points, names in zip(parts, keys, strict=True):
            found = _find_not_finite(points)
            if found is not None:
                row, holds, where = found
                raise ValueError(
                    f"the preprocessor {holds} for item {names[row : row + 1].tolist()[0]!r} in {where}; only finite "
                    "numbers are accepted"
                ) from None
        raise


def _find_not_finite(points: Any) -> tuple[int, str, str] | None:
    """Return the row of the first number that is not finite, what is there, and its column or feature."""
    missing = dataframes.find_missing(points)
    if missing is not None:
        return missing[0], "has no value", f"column {missing[1]!r}"
    values, names = dataframes.to_rows(points, "the preprocessor")
    if is_sparse(values):
        values = values.tocoo()
        wrong = np.flatnonzero(~np.isfinite(values.data))
        at = [(values.row[i], values.col[i], values.data[i]) for i in wrong[:1]]
    else:
        values = np.asarray(values, dtype=np.float64)
        at = [(row, feature, values[row, feature]) for row, feature in np.argwhere(~np.isfinite(values))[:1]]
    if not at:
        return None
    row, feature, number = at[0]
    return int(row), f"holds {number}", f"feature {feature}" if names is None else f"column {names[feature]!r}"


def find_items(preprocessor: Any) -> ItemLookup:
    """Return the items of a preprocessor.

    - An ``ItemLookup`` is returned as it is.
    - A callable receives an array of indices or ids, and returns one point per row.
    - A mapping has the points by id. It may grow.
    - A table with a column ``id`` of strings, or a pandas table whose index holds strings, has its points by id.
    - Any other table, array or sparse matrix has its points by position. A pandas table whose index holds other
      integers is refused, because its rows would be taken for others. So is a column ``id`` of integers.

    >>> find_items({"a": [0.0, 1.0], "b": [2.0, 3.0]}).rows(np.array(["b", "a"]), "pairs")
    array([[2., 3.],
           [0., 1.]])
    """
    if isinstance(preprocessor, ItemLookup):
        return preprocessor
    if isinstance(preprocessor, Mapping):
        return MappedItems(preprocessor)
    if callable(preprocessor):
        return CalledItems(preprocessor)
    table: Any = preprocessor
    if not is_sparse(table) and not dataframes.is_dataframe(table):
        table = np.asarray(table)
    table = table.tocsr() if is_sparse(table) else table
    if len(table.shape) != 2:
        raise ValueError(
            f"the preprocessor has shape {table.shape}; accepted: one point per row, shape (n_points, n_features), a "
            "mapping from ids to points, or a callable"
        )
    if table.shape[0] == 0:
        raise ValueError(f"the preprocessor has no rows (shape {tuple(table.shape)}); accepted: at least one point")
    named = dataframes.split_ids(table, ID_COLUMN, "the preprocessor")
    if named is not None:
        return NamedItems(*named)
    dataframes.check_index(table, "the preprocessor")
    return PositionedItems(table)


class PositionedItems(ItemLookup):
    """Items by their positions in a table."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def rows(self, keys: np.ndarray, name: str, column: int = 0) -> Any:
        count = self._table.shape[0]
        if keys.dtype.kind not in "iu":
            raise TypeError(f"{name} holds indices of type {keys.dtype}; accepted: integers from 0 to {count - 1}")
        wrong = np.flatnonzero((keys < 0) | (keys >= count))
        if len(wrong):
            raise ValueError(
                f"{name} holds the index {keys[wrong[0]]} at ({wrong[0]}, {column}); the preprocessor has {count} "
                f"points, from 0 to {count - 1}"
            )
        return dataframes.take_rows(self._table, keys.astype(np.int64))

    def table(self) -> Any:
        return self._table

    @property
    def n_items(self) -> int:
        return int(self._table.shape[0])


class NamedItems(ItemLookup):
    """Items of a table by their ids."""

    def __init__(self, ids: list[Any], table: Any) -> None:
        self._positions = {entry: position for position, entry in enumerate(ids)}
        self._table = table
        if len(self._positions) != len(ids):
            seen: set[Any] = set()
            twice = next(entry for entry in ids if entry in seen or seen.add(entry))  # type: ignore[func-returns-value]
            raise ValueError(f"the preprocessor has the id {twice!r} twice; accepted: different ids")

    def rows(self, keys: np.ndarray, name: str, column: int = 0) -> Any:
        positions = _find_all(self._positions, keys, name, column)
        return dataframes.take_rows(self._table, np.array(positions, dtype=np.int64))

    def table(self) -> Any:
        return self._table

    @property
    def n_items(self) -> int:
        return len(self._positions)


class MappedItems(ItemLookup):
    """Items of a mapping from ids to points."""

    def __init__(self, points: Mapping[Any, Any]) -> None:
        self._points = points

    def rows(self, keys: np.ndarray, name: str, column: int = 0) -> Any:
        return _stack(_find_all(self._points, keys, name, column), keys.tolist())

    def table(self) -> Any:
        return _stack(list(self._points.values()), list(self._points)) if self._points else None

    @property
    def n_items(self) -> int:
        return len(self._points)


class CalledItems(ItemLookup):
    """Items whose points a function returns."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def rows(self, keys: np.ndarray, name: str, column: int = 0) -> Any:
        points = self._function(keys)
        points = points if is_sparse(points) or dataframes.is_dataframe(points) else np.asarray(points)
        if len(points.shape) != 2 or points.shape[0] != len(keys):
            raise ValueError(
                f"the preprocessor returned shape {tuple(points.shape)} for {len(keys)} indices; accepted: one point "
                "per index, shape (n_indices, n_features)"
            )
        return points

    def table(self) -> Any:
        return None

    @property
    def n_items(self) -> None:
        return None


def _find_all(known: Mapping[Any, Any], keys: np.ndarray, name: str, column: int) -> list[Any]:
    found = []
    for row, key in enumerate(keys.tolist()):
        if not isinstance(key, Hashable) or key not in known:
            raise ValueError(f"{name} holds {key!r} at ({row}, {column}); the preprocessor has no item with this id")
        found.append(known[key])
    return found


def _stack(points: list[Any], keys: list[Any]) -> Any:
    """Return the points of a mapping as rows; refuse those that are not vectors of one length."""
    if all(is_sparse(point) for point in points):
        from scipy.sparse import vstack

        return vstack(points, format="csr")
    rows = [np.asarray(point) for point in points]
    for row, key in zip(rows, keys, strict=True):
        if row.ndim != 1 or len(row) != len(rows[0]):
            raise ValueError(
                f"the preprocessor has a point of shape {row.shape} for the id {key!r}; accepted: points of one length"
            )
    return np.stack(rows)
