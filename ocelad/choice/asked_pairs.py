"""AskedPairs: the entries about pairs of items, and the graph of the answers among them."""

from __future__ import annotations

from collections import deque
from typing import Literal, TypeAlias

import numpy as np

from ocelad._validation import check_integer
from ocelad.choice.pair_codes import encode_pair
from ocelad.comparison_graph import ComparisonGraph
from ocelad.implied_answers import MAX_ITEMS

# A pair should differ in other directions than this many pairs that were asked last.
N_RECENT = 100

#: What is recorded about a pair: an answer, that it was skipped, or that such an entry was undone.
Kind: TypeAlias = Literal["same", "different", "skip", "undo"]


class AskedEntry:
    """An answer about two items, or that they were skipped.

    Attributes
    ----------
    left, right : int
        Positions of the items.
    same : bool or None
        The answer; None for a skipped pair.
    number : int or None
        The number by which an undo can name the entry.
    """

    __slots__ = ("left", "number", "right", "same")

    def __init__(self, left: int, right: int, same: bool | None, number: int | None) -> None:
        self.left, self.right, self.same, self.number = left, right, same, number


class AskedPairs:
    """The entries about pairs that are not undone.

    The graph of the answers is built on demand, by ``update``: an answer that is undone before does not cost anything,
    and several that are undone afterwards cost one new graph.

    Parameters
    ----------
    n_items : int
    transitive : bool
        Whether there is a graph.

    Attributes
    ----------
    entries : dict of int to list of AskedEntry
        The entries that are not undone, by the code of the pair.
    recent : deque of int
        The codes of the pairs that were asked last.
    item_counts : array of int of shape (n_items,)
        The number of entries that are not undone, by item.
    graph : ComparisonGraph or None
        The answers, up to the last ``update``.
    known : dict
        The items that answers in the graph were about last, the newest last; at most 256.
    """

    def __init__(self, n_items: int, transitive: bool) -> None:
        self.entries: dict[int, list[AskedEntry]] = {}
        self.recent: deque[int] = deque(maxlen=N_RECENT)
        self.item_counts = np.zeros(check_integer(n_items, "n_items", at_least=0), dtype=np.int64)
        self._transitive = transitive
        self._answers: list[AskedEntry] = []  # that are not undone, in their order
        self._clear(0)

    def _clear(self, first: int) -> None:
        """Begin a new graph with the answers from the first one on."""
        self.graph = ComparisonGraph() if self._transitive else None
        self.known: dict[int, None] = {}
        self._is_linked = np.zeros(len(self.item_counts), dtype=np.bool_)  # whether an item is in the graph
        self._first = self._n_added = first
        self._is_stale = False

    def grow(self, n_items: int) -> None:
        """Increase the number of items."""
        n_added = n_items - len(self.item_counts)
        self.item_counts = np.concatenate([self.item_counts, np.zeros(n_added, dtype=np.int64)])
        self._is_linked = np.concatenate([self._is_linked, np.zeros(n_added, dtype=np.bool_)])

    def record(self, left: int, right: int, kind: Kind, number: int | None = None, undoes: int | None = None) -> None:
        """Record an entry; an undo is that of the pair's entry with the number ``undoes``, or of its last one."""
        code = encode_pair(left, right)
        if kind == "undo":
            self._undo(code, undoes)
        else:
            entry = AskedEntry(left, right, None if kind == "skip" else kind == "same", number)
            self.entries.setdefault(code, []).append(entry)
            if self._transitive and entry.same is not None:
                self._answers.append(entry)
            self.recent.append(code)
        change = -1 if kind == "undo" else 1
        self.item_counts[left] += change
        self.item_counts[right] += change

    def _undo(self, code: int, number: int | None) -> None:
        entries = self.entries.get(code, [])
        found = next((entry for entry in reversed(entries) if number is None or entry.number == number), None)
        if found is None:
            raise ValueError("there is nothing to undo; accepted: a pair with an entry that is not undone")
        entries.remove(found)
        if not entries:
            del self.entries[code]
        if self._transitive and found.same is not None:
            at = next(i for i in reversed(range(len(self._answers))) if self._answers[i] is found)
            del self._answers[at]
            if at < self._first:
                self._first, self._n_added = self._first - 1, self._n_added - 1
            elif at < self._n_added:
                self._is_stale = True

    def update(self, n_forgotten: int) -> None:
        """Bring the graph up to date; it has all answers but the first ones, which a change of the question made void.

        An undo takes as long as adding all answers.
        """
        if self.graph is None:
            return
        first = min(n_forgotten, len(self._answers))
        if self._is_stale or first != self._first:
            self._clear(first)
        for entry in self._answers[self._n_added :]:
            self.graph.add(entry.left, entry.right, entry.same)
            for item in (entry.left, entry.right):
                self.known.pop(item, None)
                self.known[item] = None
                self._is_linked[item] = True
        self._n_added = len(self._answers)
        while len(self.known) > MAX_ITEMS:
            del self.known[next(iter(self.known))]

    @property
    def is_transitive(self) -> bool:
        """Whether answers imply others; not if answers about implied pairs agree with them by chance only."""
        return self.graph is not None and self.graph.transitivity > 0.0

    def is_implied(self, left: int, right: int) -> bool:
        """Whether answers imply the answer about two items."""
        return self.graph is not None and self.is_transitive and self.graph.implied(left, right) != 0

    def fresh(self, n_items: int) -> np.ndarray:
        """Return the positions of the items that are not in the graph."""
        return np.flatnonzero(~self._is_linked[:n_items])
