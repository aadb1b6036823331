"""Groups: the items that answers imply to be the same, with their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from ocelad.comparison_graph import ComparisonGraph, Contradiction
from ocelad.service.learning.learning_state import SavedState


class Group(NamedTuple):
    """Items that are the same.

    Attributes
    ----------
    items : list of int
        Positions, in the order in which answers first named them.
    name : str or None
        The last name that was given to one of the items.
    """

    items: list[int]
    name: str | None


class Groups:
    """The groups that answers imply, with their names; computed on first use, and never changed.

    Parameters
    ----------
    graph_state : tuple
        ``ComparisonGraph.state`` of the answers by positions of items.
    names : mapping of int to str
        The last name that was given to the group of each item, the earliest first.
    """

    def __init__(self, graph_state: SavedState, names: Mapping[int, str]) -> None:
        self._graph_state, self._names = graph_state, names

    @cached_property
    def graph(self) -> ComparisonGraph:
        """The answers and what they imply; must not be changed."""
        return ComparisonGraph.from_state(*self._graph_state)

    @cached_property
    def all(self) -> list[Group]:
        """All groups of items with answers, the largest first."""
        members = self.graph.groups()
        number = {item: i for i, items in enumerate(members) for item in items}
        names = {number[item]: name for item, name in self._names.items() if item in number}
        return [Group(items, names.get(i)) for i, items in enumerate(members)]

    @cached_property
    def _by_item(self) -> dict[int, Group]:
        return {item: group for group in self.all for item in group.items}

    def of_item(self, item: int) -> Group:
        """Return the group of an item; an item without answers is a group of its own."""
        return self._by_item.get(item) or Group([item], self._names.get(item))

    def answers_to_merge(self, left: int, right: int) -> list[tuple[int, int, bool]]:
        """Return the answers (left, right, same) that join the groups of two items; none if they are in one group."""
        return self.graph.answers_to_merge(left, right)

    def answers_to_split(self, items: Iterable[int]) -> list[tuple[int, int, bool]]:
        """Return the answers (left, right, same) that make items of one group, but not all, a group of their own."""
        return self.graph.answers_to_split(items)

    def entities(self, n_items: int) -> Iterator[tuple[int, str | None]]:
        """Yield, for each of the items, the first item of its group and the name of the group."""
        for group in map(self.of_item, range(n_items)):
            yield group.items[0], group.name

    @cached_property
    def n_implied(self) -> int:
        """The number of pairs whose answer is implied, those that were asked included."""
        return self.graph.n_implied

    @cached_property
    def contradictions(self) -> list[Contradiction]:
        """The pairs whose answers contradict the groups, in the order in which they were first asked."""
        return list(self.graph.contradictions())
