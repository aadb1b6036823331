"""``find_link``: the question that links an item with the group that it most probably belongs to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from ocelad._typing import Floats
from ocelad.comparison_graph import ComparisonGraph

#: A question is not asked if its items are the same with a smaller probability than this: it would link nothing.
MIN_PROBABILITY = 0.15
# Groups that an item is compared with, at most: those with the most items. Groups that are tried to be linked.
MAX_CORES, MAX_OPEN = 32, 8
# Items that stand for a group when its probability is estimated, and items that stand for a group to be linked.
N_MEMBERS, N_TO_LINK = 8, 3


class Link(NamedTuple):
    """A question that links an item with a group.

    Attributes
    ----------
    left, right : id
        The item to be linked, and an item of the group.
    probability : float
        The mean probability that items of the group are the same as it.
    group_size : int
    """

    left: Any
    right: Any
    probability: float
    group_size: int


class Partition(NamedTuple):
    """Items with their groups, and which groups are known to be different: ``ComparisonGraph.partition`` of the items.

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
    that is not yet compared with all cores comes first, the largest first; then a fresh item. The item of the core is
    drawn at random: the nearest one would teach the metric nothing.

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
    return link_partition(Partition(known, *graph.partition(known)), fresh, log_odds, rng, may_ask)


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
    n_tried = 0
    for group in sorted(range(len(members)), key=lambda g: (-len(members[g]), g)):
        open_cores = [core for core in cores if not apart[group, core]]
        if open_cores and n_tried < MAX_OPEN:
            n_tried += 1
            some = [members[group][at] for at in rng.permutation(len(members[group]))[:N_TO_LINK]]
            link = _best_link(some, [members[core] for core in open_cores], log_odds, rng, may_ask)
            if link is not None:
                return link
        elif not open_cores and len(cores) < MAX_CORES:
            cores.append(group)
    for entry in fresh if cores else ():
        link = _best_link([entry], [members[core] for core in cores], log_odds, rng, may_ask)
        if link is not None:
            return link
    return None


def _best_link(
    items: Sequence[Any],
    cores: Sequence[Sequence[Any]],
    log_odds: Callable[[Sequence[Any], Sequence[Any]], Floats],
    rng: np.random.Generator,
    may_ask: Callable[[Any, Any], bool],
) -> Link | None:
    """Return the question about one of the items, which are the same, and the most probable core."""
    pairs = [
        [(item, core[at]) for at in rng.permutation(len(core))[:N_MEMBERS].tolist() for item in items] for core in cores
    ]
    left, right = zip(*(pair for of_core in pairs for pair in of_core), strict=True)
    probabilities = np.split(expit(log_odds(left, right)), np.cumsum([len(of_core) for of_core in pairs])[:-1])
    means = [float(of_core.mean()) for of_core in probabilities]
    for at in sorted(range(len(cores)), key=lambda k: (-means[k], -len(cores[k]))):
        if means[at] < MIN_PROBABILITY:
            return None
        allowed = [pair for pair in pairs[at] if may_ask(*pair)]
        if allowed:
            return Link(*allowed[int(rng.integers(len(allowed)))], means[at], len(cores[at]))
    return None
