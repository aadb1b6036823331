"""ItemIds: the ids of the items of an index, and their positions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]


class ItemIds:
    """Ids of items by position. A position is not used again after its item was removed.

    Parameters
    ----------
    ids : sequence of hashable values, or None
        None: the ids are the positions.
    n_items : int

    Examples
    --------
    >>> ids = ItemIds(["a", "b"], 2)
    >>> ids.add(["c"], 1), ids.positions(["c", "a"])
    (array([2]), array([2, 0]))
    >>> ids.remove(["b"])
    array([1])
    >>> len(ids), "b" in ids, ids.take([2, 0])
    (2, False, array(['c', 'a'], dtype=object))
    """

    def __init__(self, ids: Sequence[Any] | None, n_items: int) -> None:
        self._names: list[Any] | None = None  # by position; None: the positions themselves
        self._positions: dict[Any, int] = {}
        self._removed: set[int] = set()  # if the ids are the positions
        self._next = 0
        self.add(ids, n_items)

    def __len__(self) -> int:
        return self._next - len(self._removed) if self._names is None else len(self._positions)

    def __contains__(self, name: object) -> bool:
        return self._find(name) is not None

    def __iter__(self) -> Any:
        if self._names is None:
            return (at for at in range(self._next) if at not in self._removed)
        return iter(self._positions)

    @property
    def are_positions(self) -> bool:
        """Whether the ids are the positions of the items."""
        return self._names is None

    def _find(self, name: Any) -> int | None:
        if self._names is not None:
            try:
                return self._positions.get(name)
            except TypeError:  # not hashable
                return None
        is_integer = isinstance(name, int | np.integer) and not isinstance(name, bool)
        return int(name) if is_integer and 0 <= name < self._next and int(name) not in self._removed else None

    def add(self, ids: Sequence[Any] | None, n_items: int) -> Positions:
        """Add items and return their positions; an id that is there already is refused, and nothing is added."""
        if ids is None and not self.are_positions:
            raise ValueError("the items of this index have ids; the new ones need ids, too")
        first = self._next
        if ids is not None:
            names = _plain(ids, n_items)
            added: dict[Any, int] = {}
            for at, name in enumerate(names):
                if name in added:
                    raise ValueError(f"the id {name!r} is repeated, at row {at}; accepted: ids that differ")
                if name in self:
                    raise ValueError(
                        f"the id {name!r} at row {at} is in the index already; accepted: new ids; use update"
                    )
                added[name] = first + at
            if self._names is None:  # until now, the ids were the positions
                self._positions = {at: at for at in self}
                self._names = list(range(first))
            self._positions |= added
            self._names.extend(names)
        self._next += n_items
        return np.arange(first, self._next)

    def positions(self, ids: Iterable[Any]) -> Positions:
        """Return the positions of items."""
        found = [(name, self._find(name)) for name in ids]
        for name, at in found:
            if at is None:
                raise ValueError(f"there is no item {name!r} in the index")
        return np.array([at for _, at in found], dtype=np.int64)

    def remove(self, ids: Iterable[Any]) -> Positions:
        """Forget items and return the positions that they had."""
        names = list(ids)
        positions = self.positions(names)
        if len(np.unique(positions)) < len(positions):
            raise ValueError("an item is named twice; accepted: each item once")
        for name, at in zip(names, positions.tolist(), strict=True):
            if self._names is None:
                self._removed.add(at)
            else:
                del self._positions[name]
        return positions

    def take(self, positions: Any) -> npt.NDArray[Any]:
        """Return the ids at positions: integers if the ids are the positions, otherwise objects."""
        if self._names is None:
            return np.asarray(positions, dtype=np.int64)
        found = np.empty(np.shape(positions), dtype=object)
        found.ravel()[:] = [self._names[at] for at in np.ravel(positions).tolist()]
        return found


def check_id_sequence(ids: Any) -> None:
    """Refuse one text where a sequence of ids is expected: its characters would be taken for ids."""
    if isinstance(ids, str | bytes):
        raise TypeError(f"ids is the text {ids!r}; accepted: a sequence of ids, one for each item, such as [{ids!r}]")


def _plain(ids: Sequence[Any], n_items: int) -> list[Any]:
    """Return ids as Python values, one for each item."""
    check_id_sequence(ids)
    names = ids.tolist() if hasattr(ids, "tolist") else [name.item() if hasattr(name, "item") else name for name in ids]
    if len(names) != n_items:
        raise ValueError(f"there are {len(names)} ids and {n_items} items; accepted: one id for each item")
    for at, name in enumerate(names):
        try:
            hash(name)
        except TypeError:
            kind = type(name).__name__
            raise TypeError(
                f"the id at row {at} is a {kind}; accepted: values that can be keys, such as text"
            ) from None
    return names
