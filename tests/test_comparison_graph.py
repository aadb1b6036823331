"""ComparisonGraph: groups, implied answers and contradictions follow from the stored answers, whatever their order."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocelad.comparison_graph import JOIN_VOTES, MAX_WEIGHT, VOTES_PER_DOUBT, ComparisonGraph, Contradiction

ITEMS = "abcdefgh"
PAIRS = st.sampled_from(list(permutations(ITEMS, 2)))
WEIGHTS = st.sampled_from([1.0] * 6 + [0.1, 0.3, 0.5, 1.7, 2.0, 3.0])
ANSWERS = st.lists(st.tuples(PAIRS, st.booleans(), WEIGHTS), max_size=40)
MANY_ANSWERS = st.lists(st.tuples(PAIRS, st.sampled_from([True, True, False]), st.just(1.0)), min_size=10, max_size=60)
TRUE_GROUPS = st.lists(st.integers(0, 3), min_size=2, max_size=14)


def make_graph(answers, **options):
    graph = ComparisonGraph(**options)
    for (left, right), same, weight in answers:
        graph.add(left, right, same, weight)
    return graph


def link(graph, *items):
    """Answer that items are the same as the first one: a star."""
    for item in items[1:]:
        graph.add(items[0], item, True)


def ids_of(graph):
    return sorted(entry for group in graph.groups() for entry in group)


def implied_answers(graph):
    return {(left, right): graph.implied(left, right) for left, right in permutations(ids_of(graph), 2)}


def description(graph):
    """Return all that a user can see."""
    counters = graph.n_items, graph.n_groups, graph.n_implied, graph.n_confirmed, graph.n_contradicted
    return graph.groups(), implied_answers(graph), list(graph.contradictions()), counters


def sum_votes(graph):
    """Return the votes of every pair, from the stored answers."""
    votes = defaultdict(float)
    for left, right, vote in zip(graph._left, graph._right, graph._signed, strict=True):
        if vote != 0.0:
            votes[min(left, right), max(left, right)] += vote
    return votes


def check_invariants(graph):
    votes, n = sum_votes(graph), graph.n_items
    assert {(i, j): v for i, partners in enumerate(graph._votes) for j, v in partners.items() if i < j} == votes
    assert all(graph._votes[j][i] == v for i, partners in enumerate(graph._votes) for j, v in partners.items())
    assert {name: i for i, name in enumerate(graph._ids)} == graph._positions
    assert graph._unsupported == graph._adjacent == []
    assert graph._tension.keys() <= graph._members.keys()

    # The groups are a partition of the items.
    assert sorted(item for members in graph._members.values() for item in members) == list(range(n))
    for g, members in graph._members.items():
        assert members
        for place, item in enumerate(members):
            assert (graph._group[item], graph._place[item]) == (g, place)

    # Answers "same" link the items of a group.
    for members in graph._members.values():
        reached = {members[0]}
        while True:
            more = {j for pair, v in votes.items() if v > 0.0 for i, j in (pair, pair[::-1]) if i in reached} & {
                *members
            }
            if more <= reached:
                break
            reached |= more
        assert reached == {*members}

    # Support and doubts; every item of a group has support.
    support, doubts = [0.0] * n, [0] * n
    between = defaultdict(lambda: [0.0, 0.0])
    for (i, j), v in votes.items():
        g, h = graph._group[i], graph._group[j]
        for item in (i, j):
            support[item] += v * (g == h)
            doubts[item] += v < 0.0 and g == h
        if g != h:
            for key in ((g, h), (h, g)):
                between[key][v < 0.0] += abs(v)
    assert graph._support == support
    assert graph._doubts == doubts
    for members in graph._members.values():
        assert len(members) == 1 or all(support[item] > 0.0 for item in members)

    # The votes between groups; no two that the votes would join are left.
    stored = {(g, h): [e.same, e.different] for g, others in graph._between.items() for h, e in others.items()}
    assert stored == {key: sums for key, sums in between.items() if sums != [0.0, 0.0]}
    assert graph._between.keys() <= graph._members.keys()
    for (g, h), (same, different) in stored.items():
        both_large = len(graph._members[g]) > 1 and len(graph._members[h]) > 1
        assert same - different < JOIN_VOTES if both_large else same <= different

    # What is implied.
    implied = implied_answers(graph)
    assert graph.n_implied == sum(answer != 0 for answer in implied.values()) // 2
    for (left, right), answer in implied.items():
        assert answer == implied[right, left]
        i, j = graph._positions[left], graph._positions[right]
        own = votes.get((min(i, j), max(i, j)), 0.0)
        if any(support[item] < VOTES_PER_DOUBT * doubts[item] for item in (i, j)):
            assert answer == 0
        elif graph._group[i] == graph._group[j]:
            assert answer == (own >= 0.0)
        else:
            same, different = between.get((graph._group[i], graph._group[j]), (0.0, 0.0))
            assert answer == -(own <= 0.0 and different > same + (same > 0.0))
    for left, right, v in graph.contradictions():
        i, j = graph._positions[left], graph._positions[right]
        assert votes[min(i, j), max(i, j)] == v
        assert (v < 0.0) == (graph._group[i] == graph._group[j])
    within = {pair for pair, v in votes.items() if v < 0.0 and graph._group[pair[0]] == graph._group[pair[1]]}
    assert within <= {(graph._positions[c.left], graph._positions[c.right]) for c in graph.contradictions()}


ANSWER = st.tuples(st.just("add"), PAIRS, st.booleans(), WEIGHTS)
OPERATIONS = st.lists(
    st.one_of(*[ANSWER] * 12, st.tuples(st.just("undo"), st.integers(0, 60)), st.tuples(st.just("forget"))),
    min_size=5,
    max_size=60,
)


@settings(max_examples=100)
@given(OPERATIONS, st.sampled_from([1, 2, 9, 20, 1000]))
def test_the_graph_is_consistent_after_every_operation(operations, max_answers):
    graph, numbers = ComparisonGraph(max_answers), set()
    for n_before, (name, *arguments) in enumerate(operations):
        if name == "add":
            pair, same, weight = arguments
            number = graph.add(*pair, same, weight)
            assert number == graph.n_answers - 1
            numbers.add(number)
        elif name == "forget":
            graph.forget()
            assert graph.groups() == []
            numbers = set()
        elif arguments[0] in numbers and arguments[0] >= graph._first:
            graph.undo(arguments[0])
            numbers.remove(arguments[0])
        else:
            with pytest.raises(ValueError, match=f"there is no answer {arguments[0]}; accepted: the number of an"):
                graph.undo(arguments[0])
        check_invariants(graph)
        assert graph.n_answers <= n_before + 1
        assert len(graph._signed) <= max_answers


@settings(max_examples=60)
@given(MANY_ANSWERS)
def test_the_graph_is_consistent_with_many_answers_that_contradict_each_other(answers):
    graph = ComparisonGraph()
    for (left, right), same, _ in answers:
        graph.add(left, right, same)
        check_invariants(graph)


@pytest.mark.parametrize(("n_items", "n_groups", "noise"), [(60, 4, 0.1), (60, 4, 0.3), (80, 30, 0.45)])
def test_a_larger_graph_is_consistent(n_items, n_groups, noise):
    rng = np.random.default_rng(1)
    true_groups, graph = rng.integers(n_groups, size=n_items), ComparisonGraph()
    for number, (left, right) in enumerate(rng.integers(n_items, size=(2500, 2)).tolist()):
        if left != right:
            same = true_groups[left] == true_groups[right]
            graph.add(left, right, same != (rng.random() < noise), rng.choice([0.3, 1.0, 1.0, 2.0]))
        if number % 100 == 99:
            check_invariants(graph)


# Consistent answers.


@given(TRUE_GROUPS, st.data())
def test_consistent_answers_imply_nothing_wrong(true_groups, data):
    pairs = st.sampled_from(list(permutations(range(len(true_groups)), 2)))
    graph = ComparisonGraph()
    for left, right in data.draw(st.lists(pairs, max_size=50)):
        same = true_groups[left] == true_groups[right]
        assert graph.implied(left, right) in (0, 1 if same else -1)
        graph.add(left, right, same)
        assert graph.implied(left, right) in (0, 1 if same else -1)  # 0: one answer does not join two large groups
    check_invariants(graph)
    for (left, right), answer in implied_answers(graph).items():
        assert answer in (0, 1 if true_groups[left] == true_groups[right] else -1)
    assert list(graph.contradictions()) == []
    assert graph.n_contradicted == 0


@given(TRUE_GROUPS, st.randoms(use_true_random=False))
def test_enough_consistent_answers_give_the_true_groups(true_groups, random):
    pairs = list(combinations(range(len(true_groups)), 2)) * 2
    random.shuffle(pairs)
    graph = ComparisonGraph()
    for left, right in pairs:
        graph.add(left, right, true_groups[left] == true_groups[right], JOIN_VOTES / 2)
    for left, right in pairs:
        assert graph.implied(left, right) == (1 if true_groups[left] == true_groups[right] else -1)
    assert graph.n_groups == len(set(true_groups))
    assert graph.n_implied == len(pairs) // 2


@given(TRUE_GROUPS)
def test_comparing_new_items_with_representatives_gives_the_true_groups(true_groups):
    graph, first = ComparisonGraph(), {}
    for item, true in enumerate(true_groups):
        for other, representative in first.items():
            graph.add(item, representative, other == true)
        first.setdefault(true, item)
    expected = defaultdict(set)
    for item, true in enumerate(true_groups):
        expected[true].add(item)
    assert {frozenset(group) for group in graph.groups()} == {*map(frozenset, expected.values())}
    for item, true in enumerate(true_groups):
        assert {*graph.group(item)} == expected[true]
    assert graph.n_implied == len(true_groups) * (len(true_groups) - 1) // 2


# Answers that are wrong.


def test_an_item_that_joined_a_wrong_group_leaves_by_one_answer():
    for against in ("a", "b"):
        graph = ComparisonGraph()
        link(graph, "a", "b", "c", "d", "wrong")
        assert graph.implied("d", "wrong") == 1
        graph.add("wrong", against, False)
        assert graph.groups() == [["a", "b", "c", "d"], ["wrong"]]
        assert graph.implied("a", "d") == 1
        assert graph.implied("a", "wrong") == 0  # one answer against one
        graph.add("wrong", "c", False)
        assert graph.implied("a", "wrong") == (-1 if against == "a" else 0)
        graph.add("wrong", "d", False)
        assert graph.implied("c", "wrong") == -1
        check_invariants(graph)


def test_a_state_without_its_parts_is_refused():
    with pytest.raises(ValueError, match="the state of a graph lacks left, right, votes, ids, n_answers, max_answers"):
        ComparisonGraph.from_state({}, {})


@pytest.mark.parametrize(("n_same", "expected"), [(5, 0), (6, 1)])
def test_an_item_with_two_contradictions_implies_something_by_four_net_votes(n_same, expected):
    graph = ComparisonGraph()
    for k in range(9):
        graph.add("hub", f"member {k}", True, 4.0)
    for k in range(n_same):
        graph.add("item", f"member {k}", True)
    for k in (6, 7):
        graph.add("item", f"member {k}", False)
    assert graph.n_groups == 1
    assert graph.implied("item", "member 8") == expected
    assert graph.implied("item", "member 6") == 0  # its own answer says otherwise
    assert graph.implied("member 6", "member 8") == 1


def test_two_answers_join_large_groups_and_two_separate_them():
    graph = ComparisonGraph()
    link(graph, "a", "b", "c")
    link(graph, "x", "y", "z")
    graph.add("b", "y", True)
    assert graph.n_groups == 2
    assert graph.implied("a", "x") == graph.implied("b", "y") == 0
    assert list(graph.contradictions()) == []
    graph.add("a", "x", True)
    assert graph.n_groups == 1
    assert graph.implied("c", "z") == 1
    graph.add("a", "x", False)
    assert graph.n_groups == 1
    graph.add("b", "y", False)
    assert graph.groups() == [["a", "b", "c"], ["x", "y", "z"]]
    graph.add("b", "y", False)
    assert graph.implied("c", "z") == -1
    check_invariants(graph)


@given(st.integers(3, 8), st.integers(3, 8), st.randoms(use_true_random=False))
def test_answers_about_other_pairs_separate_groups_that_were_joined_wrongly(n_first, n_second, random):
    graph = ComparisonGraph()
    groups = [[f"{name}{k}" for k in range(n)] for name, n in (("a", n_first), ("x", n_second))]
    for _ in range(3):
        for group in groups:
            for pair in combinations(group, 2):
                graph.add(*pair, True)
    graph.add("a0", "x0", True)
    graph.add("a1", "x1", True)
    assert graph.n_groups == 1
    pairs = [(left, right) for left in groups[0] for right in groups[1] if left[1:] != right[1:]]
    random.shuffle(pairs)
    for left, right in pairs[:4]:
        graph.add(left, right, False)
    assert sorted(map(sorted, graph.groups())) == groups
    check_invariants(graph)


def test_noisy_answers_give_the_true_groups_in_the_end():
    rng = np.random.default_rng(0)
    true_groups, graph = rng.integers(5, size=60), ComparisonGraph()
    for left, right in rng.integers(60, size=(8000, 2)).tolist():
        if left != right:
            graph.add(left, right, (true_groups[left] == true_groups[right]) != (rng.random() < 0.1))
    assert {frozenset(group) for group in graph.groups()} == {
        frozenset(np.flatnonzero(true_groups == g).tolist()) for g in range(5)
    }
    check_invariants(graph)
    wrong = [
        answer
        for (i, j), answer in implied_answers(graph).items()
        if (true_groups[i] == true_groups[j]) != (answer > 0)
    ]
    assert not any(wrong)


def test_an_answer_against_two_groups_is_a_contradiction_until_it_is_outvoted():
    graph = ComparisonGraph()
    link(graph, "a", "b")
    link(graph, "x", "y")
    graph.add("a", "x", False)
    assert graph.implied("b", "y") == -1
    graph.add("b", "y", True)
    assert (graph.n_confirmed, graph.n_contradicted) == (0, 1)
    assert list(graph.contradictions()) == [Contradiction("b", "y", 1.0)]
    assert graph.implied("b", "y") == 0
    graph.add("a", "y", False)
    assert graph.implied("a", "x") == 0
    graph.add("a", "x", False)
    assert graph.implied("b", "x") == -1
    assert graph.implied("b", "y") == 0  # its own answer says otherwise


def test_the_rest_of_a_group_joins_others_when_it_becomes_small_enough():
    graph = ComparisonGraph()
    link(graph, "x", "y", "z")
    link(graph, "a", "b")
    graph.add("a", "x", True)  # one answer does not join a and b with x
    assert graph.n_groups == 2
    graph.add("a", "b", False)  # but a, as a single item, does
    assert graph.groups() == [["x", "y", "z", "a"], ["b"]]


def test_an_item_leaves_when_its_supporter_does():
    graph = ComparisonGraph()
    link(graph, "a", "b", "c")
    graph.add("c", "d", True, 2.0)
    graph.add("c", "b", True, 0.5)
    graph.add("d", "a", True)
    graph.add("d", "b", False, 1.2)
    assert graph.group("d") == ["a", "b", "c", "d"]
    graph.add("c", "a", False, 4.0)  # c leaves, and so does d without it
    assert graph.groups() == [["a", "b"], ["c", "d"]]
    check_invariants(graph)


def test_an_item_against_a_join_does_not_take_part_in_it():
    graph = ComparisonGraph()
    link(graph, "a", "b", "c")
    link(graph, "x", "y", "z")
    graph.add("z", "b", False)
    graph.add("z", "c", False)
    for _ in range(4):
        graph.add("a", "x", True)
    assert graph.groups() == [["a", "b", "c", "x", "y"], ["z"]]
    assert graph.implied("z", "a") == 0
    check_invariants(graph)


def test_weights_that_cancel_leave_nothing():
    graph = ComparisonGraph()
    link(graph, "a", "b")
    link(graph, "x", "y")
    for weight in (0.1, 0.2, 0.3):
        graph.add("a", "x", True, weight)
    for weight in (0.3, 0.2, 0.1):
        graph.add("a", "x", False, weight)
    graph.add("b", "y", False, 0.5)
    assert graph.implied("a", "x") == -1
    assert list(graph.contradictions()) == []


# Undo, bounded memory and state.


@settings(max_examples=60)
@given(ANSWERS.filter(bool), st.data())
def test_undo_gives_the_graph_of_the_other_answers(answers, data):
    graph = make_graph(answers)
    others = list(answers)
    for number in data.draw(st.lists(st.sampled_from(range(len(answers))), unique=True, min_size=1, max_size=3)):
        graph.undo(number)
        others[number] = None
        assert description(graph) == description(make_graph([answer for answer in others if answer is not None]))
        before = description(graph)
        with pytest.raises(ValueError, match=f"there is no answer {number}; accepted: the number of an answer that"):
            graph.undo(number)
        assert description(graph) == before
    assert graph.n_answers == len(answers)
    check_invariants(graph)


@given(ANSWERS, st.integers(1, 20))
def test_only_the_newest_answers_are_stored(answers, max_answers):
    graph = ComparisonGraph(max_answers)
    for number, (pair, same, weight) in enumerate(answers):
        assert graph.add(*pair, same, weight) == number
        n_stored = number + 1 - graph._first
        assert max_answers - max(1, max_answers // 8) < n_stored <= max_answers or graph._first == 0
        assert len(graph._signed) == n_stored
        assert sum(map(len, graph._votes)) <= 2 * n_stored
        assert graph.n_items <= 2 * n_stored
    assert graph.n_answers == len(answers)
    assert description(graph) == description(make_graph(answers[graph._first :]))
    for number in range(graph._first):
        with pytest.raises(ValueError, match=f"there is no answer {number};"):
            graph.undo(number)


def test_memory_is_bounded_with_ever_new_items():
    graph = ComparisonGraph(64)
    for item in range(2000):
        graph.add(item, item // 2 * 2 + 3, item % 3 == 0)
    assert graph.n_answers == 2000
    assert len(graph._signed) <= 64
    assert graph.n_items <= 128
    assert len(graph._between) <= len(graph._members) <= 128


def test_forgotten_answers_are_gone_and_numbers_continue():
    graph = ComparisonGraph()
    link(graph, "a", "b", "c")
    graph.forget()
    assert (graph.n_items, graph.n_groups, graph.n_implied, graph.groups()) == (0, 0, 0, [])
    assert graph.implied("a", "b") == 0
    assert graph.add("a", "b", False) == 2
    with pytest.raises(ValueError, match="there is no answer 1;"):
        graph.undo(1)
    graph.undo(2)
    assert graph.groups() == []


@given(ANSWERS, ANSWERS, st.sampled_from([7, 1000]), st.data())
def test_a_saved_graph_continues_the_same(answers, more, max_answers, data):
    graph = make_graph(answers, max_answers=max_answers)
    if graph._signed and data.draw(st.booleans()):
        graph.undo(data.draw(st.integers(graph._first, graph.n_answers - 1)))
    arrays, metadata = graph.state()
    again = ComparisonGraph.from_state(
        {name: array.copy() for name, array in arrays.items()}, json.loads(json.dumps(metadata))
    )
    check_invariants(again)
    assert description(again) == description(graph)
    for pair, same, weight in more:
        assert graph.add(*pair, same, weight) == again.add(*pair, same, weight)
    assert description(again) == description(graph)
    assert all(np.array_equal(array, again.state()[0][name]) for name, array in graph.state()[0].items())
    assert again.state()[1] == graph.state()[1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("left", np.array([0, 3, 0])),
        ("left", np.array([0, -1, 0])),
        ("left", np.array([0, 2, 0])),
        ("left", np.array([0.0, 0.0, 0.0])),
        ("left", np.array([0, 0])),
        ("left", np.array([[0, 0, 0]])),
        ("right", np.array([1, 2, 2**40])),
        ("votes", np.array([1.0, np.nan, 1.0])),
        ("votes", np.array([1.0, np.inf, 1.0])),
        ("votes", np.array([1.0, 1e300, 1.0])),
        ("votes", np.array([1.0, 1e-300, 1.0])),
        ("votes", np.array([1.0, 1.0])),
        ("votes", np.array(["a", "b", "c"])),
        ("votes", np.float64(1.0)),
        ("ids", ["a", "b", "a"]),
        ("ids", ["a", "b"]),
        ("ids", ["a", "b", ["c"]]),
        ("max_answers", 2),
        ("max_answers", 0),
        ("n_answers", 2),
    ],
)
def test_a_damaged_state_is_refused(name, value):
    graph = make_graph([(pair, True, 1.0) for pair in ("ab", "ac", "bc")])
    arrays, metadata = graph.state()
    assert ComparisonGraph.from_state(arrays, metadata).groups() == [["a", "b", "c"]]
    (arrays if name in arrays else metadata)[name] = value
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        ComparisonGraph.from_state(arrays, metadata)


# Draws.


@given(ANSWERS, st.integers(0, 20), st.integers(0, 99))
def test_drawn_pairs_are_implied_and_the_seed_determines_them(answers, count, seed):
    graph = make_graph(answers)
    drawn = graph.draw_implied(count, np.random.default_rng(seed))
    assert drawn == graph.draw_implied(count, np.random.default_rng(seed))
    assert len(drawn) <= count
    for left, right, answer in drawn:
        assert answer == graph.implied(left, right) != 0
    kinds = Counter(answer for _, _, answer in drawn)
    assert kinds[1] <= (count + 1) // 2
    assert kinds[-1] <= count // 2


def test_half_of_the_drawn_pairs_are_the_same_even_if_few_are_known_to_be_different():
    graph = ComparisonGraph()
    for g in range(100):
        link(graph, *(f"{g}-{k}" for k in range(4)))
    for g in range(99):
        graph.add(f"{g}-0", f"{g + 1}-0", False)
    drawn = graph.draw_implied(400, np.random.default_rng(0))
    kinds = Counter(answer for _, _, answer in drawn)
    assert kinds[1] == 200
    assert kinds[-1] > 195
    assert len({left for left, _, _ in drawn}) > 200


def test_drawing_ends_if_nothing_is_implied():
    rng = np.random.default_rng(0)
    graph = ComparisonGraph()
    assert graph.draw_implied(1000, rng) == []
    number = graph.add("a", "b", True)
    graph.add("a", "b", False)
    assert graph.draw_implied(1000, rng) == []
    graph.undo(number)
    assert {answer for _, _, answer in graph.draw_implied(10, rng)} == {-1}
    graph.undo(1)
    assert graph.draw_implied(1000, rng) == []


# Input.


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("a", "a", True), ValueError, "both items are 'a'; accepted: two different items"),
        (("new", "new", True), ValueError, "both items are 'new'"),
        (("new", "b", 2), ValueError, "same is 2; accepted: "),
        (("new", "b", "yes"), TypeError, "same is 'yes'; accepted: "),
        (("new", "b", None), TypeError, "same is None; accepted: "),
        (("new", "b", True, 0), ValueError, "weight must be a finite number above 0"),
        (("new", "b", True, -1.0), ValueError, "weight must be a finite number above 0"),
        (("new", "b", True, float("nan")), ValueError, "weight must be a finite number above 0"),
        (("new", "b", True, float("inf")), ValueError, "weight must be a finite number above 0"),
        (("new", "b", True, 2 * MAX_WEIGHT), ValueError, "weight must be .* and of at most 1024; got 2048"),
        (("new", "b", True, "1"), TypeError, "weight must be a finite number above 0"),
        (("new", ["b"], True), TypeError, r"ids must be hashable, .*; got 'new' and \['b'\]"),
        ((["new"], "b", True), TypeError, "ids must be hashable"),
        (("new", np.zeros(2), True), TypeError, "ids must be hashable"),
    ],
)
def test_wrong_answers_are_refused_and_change_nothing(arguments, error, message):
    graph = ComparisonGraph()
    link(graph, "a", "b", "c")
    before, state = description(graph), graph.state()
    with pytest.raises(error, match=message) as raised:
        graph.add(*arguments)
    assert "\n" not in str(raised.value)
    assert description(graph) == before
    assert graph.n_answers == 2
    assert graph.state()[1] == state[1]
    check_invariants(graph)


def test_other_wrong_arguments_are_refused():
    graph = ComparisonGraph()
    with pytest.raises(ValueError, match="max_answers must be a whole number of at least 1; got 0"):
        ComparisonGraph(0)
    with pytest.raises(TypeError, match=r"number must be a whole number of at least 0; got 1\.5"):
        graph.undo(1.5)
    with pytest.raises(ValueError, match="there is no answer about 'a'"):
        graph.group("a")
    with pytest.raises(ValueError, match="count must be a whole number of at least 0; got -1"):
        graph.draw_implied(-1, np.random.default_rng(0))


def test_labels_and_ids_of_all_kinds_are_accepted():
    graph = ComparisonGraph()
    for same in (True, 1, np.True_, np.int64(1)):
        graph.add(7, "seven", same)
    for same in (False, 0, -1, np.float64(-1)):
        graph.add("seven", (7, 7), same, weight=1e-30)
    assert graph.implied(7, (7, 7)) == -1
    assert graph.group("seven") == [7, "seven"]


def test_a_contradicted_leaf_of_a_large_star_costs_little():
    """Neither the size of the group nor the number of its neighbours is a factor of the cost."""
    graph, n = ComparisonGraph(), 20_000
    for item in range(1, n):
        graph.add(0, item, item % 2 == 0)
    for item in range(1, n):
        graph.add(0, item, item % 2 == 1)  # quadratic, this would take minutes
    assert graph.n_groups == n
    assert graph.n_implied == 0
    for item in range(1, n):
        graph.add(item, 0, True)
    assert graph.n_groups == 1


@given(ANSWERS, ANSWERS)
def test_a_copy_is_the_same_and_independent(answers, more):
    graph = make_graph(answers)
    copied, before = graph.copy(), description(graph)
    assert description(copied) == before
    check_invariants(copied)
    for (left, right), same, weight in more:
        copied.add(left, right, same, weight)
    assert description(graph) == before
    assert description(copied) == description(make_graph(answers + more))
    check_invariants(graph)
    check_invariants(copied)


def add_all(graph, answers):
    for left, right, same in answers:
        graph.add(left, right, same)
    check_invariants(graph)


@settings(max_examples=200)
@given(st.one_of(ANSWERS, MANY_ANSWERS), PAIRS)
def test_answers_to_merge_join_two_groups(answers, pair):
    graph = make_graph(answers)
    before = description(graph)
    merging = graph.answers_to_merge(*pair)
    assert description(graph) == before
    assert all(same for _, _, same in merging)
    known = {item for group in graph.groups() for item in group}
    items = {item for each in pair for item in (graph.group(each) if each in known else [each])}
    together = len({*pair} & known) == 2 and pair[0] in graph.group(pair[1])
    assert bool(merging) != together
    add_all(graph, merging)
    assert items <= {*graph.group(pair[0])}


@settings(max_examples=200)
@given(st.one_of(ANSWERS, MANY_ANSWERS), st.data())
def test_answers_to_split_make_two_groups_that_are_known_to_be_different(answers, data):
    graph = make_graph([(pair, True, 1.0) for pair in ("ab", "bc", "cd", "de")] + answers)
    group = data.draw(st.sampled_from([group for group in graph.groups() if len(group) > 1] or [None]))
    if group is None:
        return
    part = data.draw(st.lists(st.sampled_from(group), min_size=1, max_size=len(group) - 1, unique=True))
    rest, before = {*group} - {*part}, description(graph)
    splitting = graph.answers_to_split(part)
    assert description(graph) == before
    add_all(graph, splitting)
    assert {*part} <= {*graph.group(part[0])}
    one_of_rest = min(rest)
    assert rest <= {*graph.group(one_of_rest)}
    assert one_of_rest not in graph.group(part[0])
    between = graph._between[graph._group[graph._positions[part[0]]]][graph._group[graph._positions[one_of_rest]]]
    assert graph._are_apart(between)


def test_few_answers_merge_and_split():
    graph = ComparisonGraph()
    link(graph, "a", "b", "c")
    link(graph, "d", "e")
    assert graph.answers_to_merge("b", "c") == []
    assert graph.answers_to_merge("x", "y") == [("y", "x", True)]  # items without answers
    assert len(graph.answers_to_merge("c", "x")) == 1
    merging = graph.answers_to_merge("c", "e")
    assert len(merging) == len({frozenset(pair) for *pair, _ in merging}) == 2
    graph.add("b", "d", False)
    merging = graph.answers_to_merge("c", "e")
    assert len(merging) == 3
    assert {*merging[0]} == {"b", "d", True}  # the pair that contradicts it comes first
    add_all(graph, merging)
    assert graph.groups() == [[*"abcde"]]
    assert list(graph.contradictions()) == []

    star = ComparisonGraph()
    link(star, *ITEMS)
    # One answer against that of the star, and one so that the two are known to be different.
    assert [same for *_, same in star.answers_to_split("b")] == [False, False]
    # Two leaves are linked with each other first.
    splitting = star.answers_to_split("bc")
    assert splitting[0] in (("b", "c", True), ("c", "b", True))
    assert [same for *_, same in splitting[1:]] == [False] * 3
    # Without its centre, the leaves of the star are linked anew.
    splitting = star.answers_to_split("a")
    assert [same for *_, same in splitting] == [True] * 6 + [False] * 8
    add_all(star, splitting)
    assert star.groups() == [[*"bcdefgh"], ["a"]]
    assert star.implied("a", "h") == -1


def test_a_third_item_does_not_hold_two_parts_together():
    votes = {"eb": 2, "ec": 1, "ed": -1, "ea": -2, "ba": -2, "bd": 2, "bc": 3, "ac": 2, "ad": 2}
    graph = ComparisonGraph()
    for (left, right), vote in votes.items():
        graph.add(left, right, vote > 0, abs(vote))
    assert graph.groups() == [[*"ebcd"], ["a"]]
    # "a" is the same as one item of each part, and joins them again when they are taken out of the group.
    add_all(graph, graph.answers_to_split("db"))
    assert {*"db"} <= {*graph.group("d")}
    assert {*"ec"} <= {*graph.group("e")}
    assert "e" not in graph.group("d")


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "there are no items to split off; accepted: at least one"),
        (["x"], "there is no answer about 'x'"),
        (["a", "d"], "'a' and 'd' are in different groups; accepted: items of one group"),
        (["a", "c", "b"], "these items are a whole group; accepted: items that leave others of their group behind"),
        (["d"], "these items are a whole group; accepted: items that leave others of their group behind"),
    ],
)
def test_a_split_that_is_impossible_is_refused(items, message):
    graph = ComparisonGraph()
    link(graph, "a", "b", "c")
    graph.add("a", "d", False)
    with pytest.raises(ValueError, match=f"^{message}$"):
        graph.answers_to_split(items)
    with pytest.raises(ValueError, match=r"^both items are 'a'; accepted: two different items$"):
        graph.answers_to_merge("a", "a")


def test_half_of_a_large_star_is_split_off():
    graph = ComparisonGraph()
    link(graph, *range(3000))
    assert len(graph.answers_to_split(range(1, 1501))) == 1499 + 1500 + 1
