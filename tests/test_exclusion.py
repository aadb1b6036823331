"""Groups by exclusion: an item that is different from all groups but one belongs to that one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ocelad import ComparisonGraph
from ocelad.exclusion import N_CONFIRMED, find_cores, join_by_exclusion


def linked(classes, n_tested):
    """Return a graph of items that are linked with the first of their class; some are compared with the others."""
    graph, firsts = ComparisonGraph(), {}
    for item, label in enumerate(classes):
        if label in firsts:
            graph.add(item, firsts[label], True)
        if label not in firsts or item < n_tested:
            for other, first in firsts.items():
                if other != label:
                    graph.add(item, first, False)
        firsts.setdefault(label, item)
    return graph, firsts


def test_an_item_joins_the_last_group_after_enough_were_confirmed():
    for n_tested, joins in ((N_CONFIRMED - 1, False), (N_CONFIRMED, True)):
        graph, firsts = linked([0, 1] * 20, n_tested)
        graph.add("new", firsts[0], False)
        entries = [*range(40), "new"]
        groups, apart = join_by_exclusion(graph, entries)
        assert (groups[-1] == groups[firsts[1]]) == joins
        assert groups[-1] != groups[firsts[0]]
        assert apart[groups[-1], groups[firsts[0]]]
        assert graph.group_size("new") == 1  # what follows by exclusion is not an answer


def test_a_group_that_was_not_seen_before_is_not_excluded():
    """An item that is different from both groups shows that there are others; three groups are confirmed anew."""
    graph, firsts = linked([0, 1] * 20, 40)
    graph.add("third", firsts[0], False)
    graph.add("third", firsts[1], False)
    graph.add("new", firsts[0], False)
    groups, _ = join_by_exclusion(graph, [*range(40), "third", "new"])
    assert len({groups[0], groups[1], groups[-2], groups[-1]}) == 4


@given(
    classes=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    n_tested=st.integers(0, 40),
    asked=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 39)), max_size=60),
)
def test_true_answers_about_closed_classes_are_never_joined_wrongly(classes, n_tested, asked):
    """If all classes have been seen, what joins by exclusion is right."""
    graph, _ = linked(classes, n_tested)
    truth = {**dict(enumerate(classes)), **{item: classes[item % len(classes)] for item in range(len(classes), 61)}}
    for item, other in asked:
        if item != other % len(classes):
            graph.add(item, other % len(classes), truth[item] == truth[other % len(classes)])
    entries = [entry for entry in truth if entry in graph]
    groups, apart = join_by_exclusion(graph, entries)
    assert (apart == apart.T).all()
    for group in range(len(apart)):
        members = [truth[entry] for entry, own in zip(entries, groups, strict=True) if own == group]
        assert len(set(members)) == 1
        for other in np.flatnonzero(apart[group]):
            others = [truth[entry] for entry, own in zip(entries, groups, strict=True) if own == other]
            assert members[0] not in others


def test_items_that_are_different_from_each_other_do_not_join_the_same_group():
    graph, firsts = linked([0, 1] * 20, 40)
    graph.add("left", firsts[0], False)
    graph.add("right", firsts[0], False)
    graph.add("left", "right", False)
    groups, apart = join_by_exclusion(graph, [*range(40), "left", "right"])
    assert len({groups[firsts[0]], groups[firsts[1]], *groups[-2:]}) == 4
    assert not apart.diagonal().any()


def test_cores_are_different_from_each_other():
    apart = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    assert find_cores(np.array([2, 3, 1]), apart) == [1, 0]
