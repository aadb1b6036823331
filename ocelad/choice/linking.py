"""``find_link``: the question that links an item with the group that it most probably belongs to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from ocelad._typing import Floats
from ocelad.comparison_graph import ComparisonGraph
from ocelad.exclusion import join_by_exclusion

#: A question is not asked if its items are the same with a smaller probability than this: it would link nothing.
MIN_PROBABILITY = 0.2
# Groups that an item is compared with, at most, and groups that are tried to be linked: those with the most items.
MAX_CORES = MAX_OPEN = 32
# Items that stand for a group when its probability is estimated, and items that stand for a group to be linked.
N_MEMBERS, N_TO_LINK = 8, 3


class Link(NamedTuple):
    """A question that links an item with a group.

    Attributes
    ----------
    left, right : id
        The item to be linked, and an item of the group.
    probability : float
        The probability that items of the group are the same as it: the mean of the more probable half.
    group_size : int
    """

    left: Any
    right: Any
    probability: float
    group_size: int


class Partition(NamedTuple):
    """Items with their groups, and which groups are known to be different: ``join_by_exclusion``.

    It does not change when answers are added to the graph.
    """

    items: Sequence[Any]
    groups: np.ndarray
    apart: np.ndarray


def find_link(
    graph: ComparisonGraph,
    known: Sequence[Any],
    fresh: Sequence[Any],
    log_odds: Callable[[Sequence[Any], Sequence[Any]], Floats],
    rng: np.random.Generator,
    may_ask: Callable[[Any, Any], bool] = lambda left, right: True,
) -> Link | None:
    """Return the question that links a group or an item with the group that it most probably belongs to.

    The largest group is a *core*, and so is each group that is known to be different from all larger cores. A group
    that is not yet compared with all cores comes first, the largest first. If it is probably of none of them, it is a
    core for fresh items, which come last. The item of the core is drawn at random: the nearest one would teach the
    metric nothing.

    Parameters
    ----------
    graph : ComparisonGraph
    known : sequence of ids
        Items that answers are about; those of the last answers are enough.
    fresh : sequence of ids
        Items without answers, in random order; the first that can be linked is used.
    log_odds : callable
        Receives two sequences of ids, and returns the log odds of "same" of each pair.
    rng : Generator
    may_ask : callable
        Whether two items may be asked about.

    Returns
    -------
    Link or None
        None if every question has a probability below ``MIN_PROBABILITY``.
    """
    return link_partition(Partition(known, *join_by_exclusion(graph, known)), fresh, log_odds, rng, may_ask)


def link_partition(
    partition: Partition,
    fresh: Sequence[Any],
    log_odds: Callable[[Sequence[Any], Sequence[Any]], Floats],
    rng: np.random.Generator,
    may_ask: Callable[[Any, Any], bool],
) -> Link | None:
    """Return the question of ``find_link`` for items whose groups are given."""
    known, groups, apart = partition
    members: list[list[Any]] = [[] for _ in apart]
    for entry, group in zip(known, groups.tolist(), strict=True):
        if group >= 0:
            members[group].append(entry)
    cores: list[int] = []
    open_groups: list[tuple[int, list[int]]] = []
    for group in sorted(range(len(members)), key=lambda g: (-len(members[g]), g)):
        open_cores = [core for core in cores if not apart[group, core]]
        if not open_cores and len(cores) < MAX_CORES:
            cores.append(group)
        elif open_cores and len(open_groups) < MAX_OPEN:
            open_groups.append((group, open_cores))
    some = {group: [members[group][at] for at in rng.permutation(len(members[group]))[:N_MEMBERS]] for group in cores}
    units = [
        ([members[group][at] for at in rng.permutation(len(members[group]))[:N_TO_LINK]], [some[c] for c in open_cores])
        for group, open_cores in open_groups
    ]
    for link, (group, _) in zip(_best_links(units, log_odds, rng, may_ask), open_groups, strict=True):
        if link is not None:
            return link
        some[group] = members[group]  # probably a group of its own
    targets = [some[group][:N_MEMBERS] for group in some]
    links = _best_links([([entry], targets) for entry in fresh if targets], log_odds, rng, may_ask)
    return next((link for link in links if link is not None), None)


def _best_links(
    units: Sequence[tuple[Sequence[Any], Sequence[Sequence[Any]]]],
    log_odds: Callable[[Sequence[Any], Sequence[Any]], Floats],
    rng: np.random.Generator,
    may_ask: Callable[[Any, Any], bool],
) -> list[Link | None]:
    """Return the question that links each unit, items that are the same, with the most probable of some groups."""
    pairs = [[[(u, v) for v in group for u in items] for group in groups] for items, groups in units]
    flat = [pair for of_unit in pairs for of_group in of_unit for pair in of_group]
    if not flat:
        return [None] * len(units)
    left, right = zip(*flat, strict=True)
    probabilities = iter(expit(log_odds(left, right)).tolist())
    links: list[Link | None] = []
    for (_, groups), of_unit in zip(units, pairs, strict=True):
        means = [_mean_of_upper_half([next(probabilities) for _ in of_group]) for of_group in of_unit]
        links.append(None)
        for at in sorted(range(len(groups)), key=lambda k: (-means[k], -len(groups[k]))):
            allowed = [pair for pair in of_unit[at] if may_ask(*pair)] if means[at] >= MIN_PROBABILITY else []
            if allowed:
                links[-1] = Link(*allowed[int(rng.integers(len(allowed)))], means[at], len(groups[at]))
                break
    return links


def _mean_of_upper_half(values: list[float]) -> float:
    """Return the mean of the larger half of the values: items of a group need not all be near each other."""
    upper = sorted(values)[len(values) // 2 :]
    return sum(upper) / len(upper)
