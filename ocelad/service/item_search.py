"""Items whose id, text or fields contain all words of a search."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from weakref import ref

from ocelad.service.itemset import ItemSet

# Items between two looks at the clock, and the number of searches that are remembered for further pages.
_STEP, _MAX_REMEMBERED = 500, 32


@dataclass(frozen=True)
class FoundItems:
    """The result of a search.

    Attributes
    ----------
    positions : frozenset of int
    n_searched : int
        The number of items that were searched; fewer than all if the time was over.
    """

    positions: frozenset[int]
    n_searched: int


def search_items(items: ItemSet, search: str, seconds: float) -> FoundItems:
    """Return the items that contain all words of a search, in any case and order.

    Parameters
    ----------
    items : ItemSet
    search : str
    seconds : float
        The largest time; the items that are left then are not searched.
    """
    deadline = time.monotonic() + seconds
    words = search.casefold().split()
    found: list[int] = []
    columns = list(items.fields.values())
    for position, id in enumerate(items.ids):
        if position % _STEP == 0 and position and time.monotonic() > deadline:
            return FoundItems(frozenset(found), position)
        texts = [id, *(str(column[position]) for column in columns if column[position] is not None)]
        if items.text is not None:
            texts.append(items.text[position])
        content = "\n".join(texts).casefold()
        if all(word in content for word in words):
            found.append(position)
    return FoundItems(frozenset(found), len(items))


class ItemSearches:
    """Remembers the last searches, because each page of a list repeats its search."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: OrderedDict[tuple[int, str], tuple[ref[ItemSet], FoundItems]] = OrderedDict()

    def find(self, items: ItemSet, search: str, seconds: float) -> FoundItems:
        """Return what ``search_items`` does."""
        key = id(items), search
        with self._lock:
            known = self._found.get(key)
        if known is not None and known[0]() is items:
            return known[1]
        found = search_items(items, search, seconds)
        with self._lock:
            self._found[key] = ref(items), found
            while len(self._found) > _MAX_REMEMBERED:
                self._found.popitem(last=False)
        return found
