"""``join_by_exclusion``: an item that is different from all groups but one belongs to that one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from ocelad.comparison_graph import ComparisonGraph

#: No other groups are left if the last group was the right one for this many items that are different from all others.
N_CONFIRMED = 8


def join_by_exclusion(graph: ComparisonGraph, entries: Sequence[Hashable]) -> tuple[np.ndarray, np.ndarray]:
    """Return the groups of items, as ``ComparisonGraph.partition``, after joining those that can be of one group only.

    The *cores* are the largest group and each group that is known to be different from all larger cores. An item that
    is different from all cores but one joins that one. With two groups, this makes an answer "different" worth as much
    as "same". First, answers must show that there are no other groups: the last core was the right one for
    ``N_CONFIRMED`` items, and a wrong one for none (it would be a core itself).

    Examples
    --------
    >>> graph = ComparisonGraph()
    >>> for i in range(2, 12):  # even items are the same, and different from odd ones
    ...     numbers = [graph.add(i % 2, i, True), graph.add(1 - i % 2, i, False)]
    >>> number = graph.add(0, 12, False)
    >>> graph.partition(range(13))[0]
    array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 2])
    >>> join_by_exclusion(graph, range(13))[0]
    array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 1])
    """
    groups, apart = graph.partition(entries)
    cores = find_cores(np.bincount(groups[groups >= 0], minlength=len(apart)), apart)
    joined = np.arange(len(apart))
    if len(cores) > 1:
        may_be = ~apart[:, cores]  # the cores that a group may be the same as
        last = (may_be.sum(axis=1) == 1) & ~np.isin(joined, cores)
        joined[last] = np.array(cores)[may_be[last].argmax(axis=1)]
        # Two that are different from each other cannot both belong to the last group: there is another one.
        conflicts = apart & (joined[:, None] == joined)
        joined[conflicts.any(axis=1) & last] = np.flatnonzero(conflicts.any(axis=1) & last)
    kept, numbers = np.unique(joined, return_inverse=True)
    if len(kept) == len(joined) or _n_confirmed(graph, entries, groups, cores) < N_CONFIRMED:
        return groups, apart
    between = np.zeros((len(kept), len(kept)), dtype=np.bool_)
    np.logical_or.at(between, (numbers[:, None], numbers), apart)
    return np.where(groups >= 0, numbers[groups], -1), between


def find_cores(sizes: np.ndarray, apart: np.ndarray) -> list[int]:
    """Return the largest group and each group that is known to be different from all larger cores."""
    cores: list[int] = []
    is_open = np.zeros(len(sizes), dtype=np.bool_)  # groups that may be the same as a core
    for group in np.argsort(-sizes, kind="stable").tolist():
        if not is_open[group]:
            cores.append(group)
            is_open |= ~apart[group]
    return cores


def _n_confirmed(graph: ComparisonGraph, entries: Sequence[Hashable], groups: np.ndarray, cores: Sequence[int]) -> int:
    """Return the number of items of the cores whose own answers say that they are different from all other cores."""
    group_of = {entry: group for entry, group in zip(entries, groups.tolist(), strict=True) if group in set(cores)}
    return sum(
        len({group_of[other] for other in graph.different_from(entry) if other in group_of}) >= len(cores) - 1
        for entry in group_of
        if graph.group_size(entry) > 1
    )
