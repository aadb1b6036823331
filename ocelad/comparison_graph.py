"""ComparisonGraph: answers about items by id, the groups that they imply, and what contradicts them."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Iterator, Sequence
from copy import copy
from heapq import heappop, heappush
from math import inf
from sys import maxsize
from typing import Any, NamedTuple, Self

import numpy as np

from ocelad._typing import Arrays, Metadata
from ocelad._validation import check_integer, check_label, check_number

#: Net votes that join two groups of two or more items each: one answer may be wrong, and would join all of their items.
JOIN_VOTES = 2.0
#: Net votes for its group that an item needs for each pair that contradicts it, to imply anything.
VOTES_PER_DOUBT = 2.0
#: Answers by which the first agreement of answers with implied ones is regularized toward full agreement.
PSEUDO_CHECKS = 4.0
#: Answers that are stored, at most.
MAX_ANSWERS = 2**21
#: The largest weight of an answer.
MAX_WEIGHT = 1024.0
# Weights are rounded to multiples of this number, so that sums of votes are exact: they do not depend on the order.
_UNIT = 2.0**-20
# When there are too many answers, this share of them is dropped, the oldest first.
_DROPPED_SHARE = 1 / 8
# Attempts to draw one implied pair.
_MAX_ATTEMPTS = 32


class Contradiction(NamedTuple):
    """A pair whose answers contradict the groups.

    Attributes
    ----------
    left, right : id
    votes : float
        The weights of the answers "same" minus those of the answers "different". Negative: the two are in one group
        nevertheless. Positive: they are in two groups that other answers keep apart.
    """

    left: Any
    right: Any
    votes: float


class _Between:
    """The votes between two groups: of the pairs with more "same", and of those with more "different"."""

    __slots__ = ("different", "same")

    def __init__(self) -> None:
        self.same = self.different = 0.0


class ComparisonGraph:
    """Items, the answers about pairs of them, and the groups that follow.

    "Same" is taken as transitive: if A is the same as B, and B as C, then A and C are the same; and if C is different
    from D, then A and D are, too. Answers may be wrong, so groups are kept by votes:

    - An item joins a group by one answer. Two groups of two or more items are joined by two answers more for it than
      against it.
    - An item leaves its group when the answers "different" about it and other items of the group are as many as the
      answers "same".
    - A group is cut in two parts when the answers "different" between them are as many as the answers "same". Parts
      are searched for when the number of contradictions within the group has doubled.
    - A pair whose own answers contradict the groups implies nothing, and neither does an item that is in its group by
      fewer than two votes for each such pair.

    What the graph holds is a function of the answers in their order, without those that were undone.

    Parameters
    ----------
    max_answers : int
        The oldest answers are forgotten when there are more: an eighth of them at a time.

    Attributes
    ----------
    n_answers : int
        The number of answers given so far; the next answer has this number.

    Examples
    --------
    >>> graph = ComparisonGraph()
    >>> numbers = [graph.add("cat", "kitten", True), graph.add("kitten", "tom", True), graph.add("tom", "dog", False)]
    >>> graph.implied("cat", "tom"), graph.implied("cat", "dog"), graph.implied("cat", "cow")
    (1, -1, 0)
    >>> graph.groups()
    [['cat', 'kitten', 'tom'], ['dog']]
    >>> graph.n_implied  # comparisons that follow from the three answers, which are among them
    6
    >>> graph.undo(numbers[1])
    >>> graph.groups()
    [['cat', 'kitten'], ['tom'], ['dog']]
    """

    def __init__(self, max_answers: int = MAX_ANSWERS) -> None:
        self.max_answers = check_integer(max_answers, "max_answers", at_least=1)
        self._left, self._right, self._signed = array("q"), array("q"), array("d")  # 0: undone
        self.n_answers = 0
        self._clear()

    def _clear(self) -> None:
        """Forget the items, and what follows from the answers."""
        self._ids: list[Any] = []
        self._positions: dict[Any, int] = {}
        self._votes: list[dict[int, float]] = []  # of each item: its partners, and the votes about the pair
        self._support: list[float] = []  # the votes about the item and the others of its group
        self._doubts: list[int] = []  # pairs within the item's group that are "different" by their votes
        self._group: list[int] = []
        self._place: list[int] = []  # of the item among the members of its group
        self._members: dict[int, list[int]] = {}
        self._between: dict[int, dict[int, _Between]] = {}
        self._next_group = 0
        self._tension: dict[int, tuple[int, int]] = {}  # contradictions within a group; how many lead to a cut
        self._unsupported: list[tuple[float, int]] = []  # a heap of items that may have to leave their groups
        self._adjacent: list[tuple[int, int]] = []  # groups that may have to be joined
        self._checks = {1: [0, 0], -1: [0, 0]}  # answers about implied pairs, by what was implied: agreeing, others

    # Answers.

    def add(self, left: Hashable, right: Hashable, same: Any, weight: float = 1.0) -> int:
        """Add the answer to "are these two the same?", and return its number.

        ``same`` is a label as in ``Pair``. ``weight`` is at most 1024; the votes count it.
        """
        units = round(check_number(weight, "weight", above=0, at_most=MAX_WEIGHT) / _UNIT)
        vote = check_label(same, "same") * max(units, 1) * _UNIT
        _check_pair(left, right)
        i, j = self._position(left), self._position(right)
        for values, value in ((self._left, i), (self._right, j), (self._signed, vote)):
            values.append(value)  # type: ignore[arg-type]
        self.n_answers += 1
        if len(self._signed) > self.max_answers:
            self._drop_oldest()
        else:
            self._count(i, j, vote)
        return self.n_answers - 1

    def undo(self, number: int) -> None:
        """Take an answer back: the graph becomes that of the other answers. It takes as long as adding all of them."""
        at = check_integer(number, "number", at_least=0) - self._first
        if not 0 <= at < len(self._signed) or self._signed[at] == 0.0:
            raise ValueError(f"there is no answer {number}; accepted: the number of an answer that is not undone")
        self._signed[at] = 0.0
        self._rebuild()

    def forget(self, before: int | None = None) -> None:
        """Forget the answers before a number, because the question has changed; None: all. Numbers continue."""
        last = self.n_answers if before is None else check_integer(before, "before", at_least=0)
        for values in (self._left, self._right, self._signed):
            del values[: max(0, last - self.n_answers + len(values))]
        self._rebuild()

    def copy(self) -> Self:
        """Return an independent copy."""
        graph = copy(self)
        for name in ("_left", "_right", "_signed", "_ids", "_support", "_doubts", "_group", "_place"):
            setattr(graph, name, getattr(self, name)[:])
        graph._positions, graph._tension = self._positions.copy(), self._tension.copy()
        graph._checks = {implied: counts[:] for implied, counts in self._checks.items()}
        graph._votes = [votes.copy() for votes in self._votes]
        graph._members = {g: members[:] for g, members in self._members.items()}
        graph._between = {g: {} for g in self._between}
        for g, others in self._between.items():
            for h, between in others.items():  # both groups share one object
                graph._between[g][h] = graph._between[h].get(g) or copy(between)
        graph._unsupported, graph._adjacent = [], []  # empty between two answers
        return graph

    @property
    def _first(self) -> int:
        """The number of the oldest answer that is stored."""
        return self.n_answers - len(self._signed)

    def _drop_oldest(self) -> None:
        n_dropped = max(1, int(_DROPPED_SHARE * self.max_answers))
        for values in (self._left, self._right, self._signed):
            del values[:n_dropped]
        self._rebuild()

    def _rebuild(self) -> None:
        """Count all stored answers anew, as if there had never been others."""
        ids = self._ids
        self._clear()
        for at, vote in enumerate(self._signed):
            if vote == 0.0:
                self._left[at] = self._right[at] = 0  # its items may be gone
                continue
            i, j = (self._position(ids[values[at]]) for values in (self._left, self._right))
            self._left[at], self._right[at] = i, j
            self._count(i, j, vote)

    def _position(self, entry: Hashable) -> int:
        position = self._positions.get(entry)
        if position is None:
            position = self._positions[entry] = len(self._ids)
            self._ids.append(entry)
            self._votes.append({})
            self._support.append(0.0)
            self._doubts.append(0)
            self._place.append(0)
            self._group.append(self._next_group)
            self._members[self._next_group] = [position]
            self._next_group += 1
        return position

    def _count(self, i: int, j: int, vote: float) -> None:
        """Count a vote about two items, and let groups join or items leave."""
        implied = self._implied(i, j)
        if implied != 0:
            self._checks[implied][(implied > 0) != (vote > 0.0)] += 1
        before = self._votes[i].get(j, 0.0)
        after = self._votes[i][j] = self._votes[j][i] = before + vote
        g, h = self._group[i], self._group[j]
        if g != h:
            self._change_between(g, h, before, after)
            self._adjacent.append((g, h))
        else:
            self._change_within(i, j, before, after)
            if before > 0.0 >= after:
                self._separate(i, j)
        self._settle()
        if vote < 0.0 and after < 0.0 and self._group[i] == self._group[j]:
            self._strain(i, j)
            self._settle()

    # Groups.

    def _settle(self) -> None:
        """Let items leave and groups join until the rules hold.

        It ends: no step decreases the sum of the votes within groups, and one that does not increase it makes a group
        more.
        """
        while self._unsupported or self._adjacent:
            if self._unsupported:
                item = -heappop(self._unsupported)[1]
                if self._support[item] <= 0.0 and len(self._members[self._group[item]]) > 1:
                    self._leave(item)
            else:
                self._join_if_due(*self._adjacent.pop())

    def _change_within(self, i: int, j: int, before: float, after: float) -> None:
        """Change the votes about two items of one group; of items without support, the newest leaves first."""
        for item in (i, j):
            self._doubts[item] += (after < 0.0) - (before < 0.0)
            self._support[item] += after - before
            if after < before and self._support[item] <= 0.0:
                heappush(self._unsupported, (self._support[item], -item))

    def _change_between(self, g: int, h: int, before: float, after: float) -> None:
        """Change the votes about an item of one group and an item of another one."""
        entry = self._entry(g, h)
        entry.same += max(after, 0.0) - max(before, 0.0)
        entry.different += max(-after, 0.0) - max(-before, 0.0)
        if entry.same == entry.different == 0.0:
            del self._between[g][h], self._between[h][g]

    def _entry(self, g: int, h: int) -> _Between:
        of_first = self._between.setdefault(g, {})
        entry = of_first.get(h)
        if entry is None:
            entry = of_first[h] = self._between.setdefault(h, {})[g] = _Between()
        return entry

    def _join_if_due(self, g: int, h: int) -> None:
        """Join two groups if they still exist and the votes between them say so."""
        between = self._between.get(g, {}).get(h)
        if between is None:
            return
        net = between.same - between.different
        if net <= 0.0 or (net < JOIN_VOTES and min(len(self._members[g]), len(self._members[h])) > 1):
            return
        small, large = sorted((g, h), key=lambda group: len(self._members[group]) + len(self._between[group]))
        self._merge(large, small)

    def _merge(self, large: int, small: int) -> None:
        moved, members = self._members.pop(small), self._members[large]
        self._tension.pop(small, None)
        if 8 * len(moved) >= len(members):  # otherwise, a large group that small ones join would be searched too often
            self._tension.pop(large, None)
        for item in moved:
            for partner, votes in self._votes[item].items():
                if self._group[partner] == large:
                    self._change_within(item, partner, 0.0, votes)
        for item in moved:
            self._group[item], self._place[item] = large, len(members)
            members.append(item)
        for other, entry in self._between.pop(small).items():
            del self._between[other][small]
            if other != large:
                joined = self._entry(large, other)
                joined.same += entry.same
                joined.different += entry.different
                self._adjacent.append((large, other))

    def _leave(self, item: int) -> None:
        """Let an item leave its group, which may fall into parts without it."""
        g = self._group[item]
        linked = [partner for partner, votes in self._votes[item].items() if votes > 0.0 and self._group[partner] == g]
        self._move_out([item])
        first = None
        for partner in linked:
            if self._group[partner] == g:
                if first is not None:
                    self._separate(first, partner)
                if first is None or self._group[first] != g:
                    first = partner

    def _separate(self, i: int, j: int) -> None:
        """If no answers "same" link two items of a group any more, make the part of one of them a group of its own.

        The searches from both items alternate, so that the cost is that of the smaller part, even beside a large one.
        """
        parts: list[dict[int, None]] = [{i: None}, {j: None}]
        searches = [self._reach(part) for part in parts]
        while True:
            for part, search, other in zip(parts, searches, reversed(parts), strict=True):
                reached = next(search, None)
                if reached is None:
                    self._move_out(list(part))
                    return
                if reached in other:
                    return

    def _split(self, g: int) -> None:
        """Make the parts of a group that no answers "same" link with each other groups of their own."""
        parts: list[dict[int, None]] = []
        seen: set[int] = set()
        for first in self._members[g]:
            if first not in seen:
                parts.append({first: None})
                seen.update(self._reach(parts[-1]), parts[-1])
        for part in sorted(parts, key=len)[:-1]:
            self._move_out(list(part))

    def _reach(self, part: dict[int, None]) -> Iterator[int]:
        """Add to the only item of a part what answers "same" link with it; yield an item of it for every partner."""
        items = list(part)
        for item in items:
            for partner, votes in self._votes[item].items():
                if votes > 0.0 and partner not in part and self._group[partner] == self._group[item]:
                    part[partner] = None
                    items.append(partner)
                    yield partner
                else:
                    yield item

    def _strain(self, i: int, j: int) -> None:
        """Count a contradiction within a group; cut the group if there are twice as many as at the last attempt."""
        g = self._group[i]
        count, limit = self._tension.get(g, (0, 2))
        self._tension[g] = (count + 1, limit)
        if count + 1 < limit:
            return
        self._tension[g] = (count + 1, 2 * limit)
        part, net = self._find_cut(i, j)
        if net <= 0.0:
            del self._tension[g]
            self._move_out(part)
            for h in (g, self._group[part[0]]):
                self._split(h)

    def _find_cut(self, i: int, j: int) -> tuple[list[int], float]:
        """Return a part of the group of two items with one of them only, and the votes between it and the rest.

        The other items are put to either side, those first that the votes decide most clearly.
        """
        g, side = self._group[i], {i: 1.0, j: -1.0}
        pull = dict.fromkeys(self._members[g], 0.0)
        waiting = [(-inf, i), (-inf, j)]
        done: set[int] = set()
        while waiting:
            item = heappop(waiting)[1]
            if item in done:
                continue
            done.add(item)
            mine = side.setdefault(item, 1.0 if pull[item] > 0.0 else -1.0)
            for partner, votes in self._votes[item].items():
                if self._group[partner] == g:
                    pull[partner] += mine * votes
                    if partner not in done:
                        heappush(waiting, (-abs(pull[partner]), partner))
        for item in self._members[g]:  # later items may have changed the decision
            if item not in (i, j) and side[item] * pull[item] < 0.0:
                side[item] = -side[item]
                for partner, votes in self._votes[item].items():
                    if self._group[partner] == g:
                        pull[partner] += 2.0 * side[item] * votes
        parts = [item for item in side if side[item] > 0.0], [item for item in side if side[item] < 0.0]
        small = min(parts, key=len)
        net = sum(
            votes
            for item in small
            for partner, votes in self._votes[item].items()
            if self._group[partner] == g and side[partner] != side[item]
        )
        return small, net

    def _move_out(self, items: list[int]) -> None:
        """Make items of one group, but not all of them, a group of their own."""
        old, new = self._group[items[0]], self._next_group
        self._next_group += 1
        members = self._members[old]
        for item in items:
            last = members.pop()
            if last != item:
                members[self._place[item]], self._place[last] = last, self._place[item]
        self._members[new] = list(items)
        for place, item in enumerate(items):
            self._group[item], self._place[item] = new, place
        for item in items:
            for partner, votes in self._votes[item].items():
                h = self._group[partner]
                if h == new or votes == 0.0:
                    continue
                if h == old:
                    self._change_within(item, partner, votes, 0.0)
                else:
                    self._change_between(old, h, votes, 0.0)
                self._change_between(new, h, 0.0, votes)
        for h in self._between.get(new, {}):
            self._adjacent += [(new, h), (old, h)]
        if len(members) == 1:  # one vote is enough now
            self._adjacent += [(old, h) for h in self._between.get(old, {})]

    # What follows.

    def implied(self, left: Hashable, right: Hashable) -> int:
        """Return 1 if the answers imply that two items are the same, -1 if they imply "different", 0 otherwise."""
        i, j = self._positions.get(left), self._positions.get(right)
        return 0 if i is None or j is None else self._implied(i, j)

    def _implied(self, i: int, j: int) -> int:
        if not (self._is_certain(i) and self._is_certain(j)):
            return 0
        g, h, votes = self._group[i], self._group[j], self._votes[i].get(j, 0.0)
        if g == h:
            return 1 if votes >= 0.0 else 0
        return -1 if votes <= 0.0 and self._are_apart(self._between.get(g, {}).get(h)) else 0

    def is_contradicted(self, left: Hashable, right: Hashable) -> bool:
        """Whether the answers about two items themselves say something else than the groups of the two."""
        i, j = self._positions.get(left), self._positions.get(right)
        if i is None or j is None:
            return False
        votes = self._votes[i].get(j, 0.0)
        return votes < 0.0 if self._group[i] == self._group[j] else votes > 0.0

    def different_from(self, entry: Hashable) -> list[Any]:
        """Return the items that the answers about an item itself say are different from it."""
        i = self._positions.get(entry)
        return [] if i is None else [self._ids[j] for j, votes in self._votes[i].items() if votes < 0.0]

    def _is_certain(self, item: int) -> bool:
        """Whether an item is in its group by two votes or more for each pair that contradicts it."""
        return self._support[item] >= VOTES_PER_DOUBT * self._doubts[item]

    @staticmethod
    def _are_apart(between: _Between | None) -> bool:
        """Whether two groups are known to be different; after a contradiction it takes one vote more."""
        if between is None:
            return False
        return between.different - between.same > (0.0 if between.same <= 0.0 else 1.0)

    def __contains__(self, entry: Hashable) -> bool:
        """Whether an answer is about an item."""
        return entry in self._positions

    def agreement(self, implied: int) -> tuple[int, int]:
        """Return the numbers of answers that agree and disagree with what was implied: 1, the same; -1, different."""
        agreeing, disagreeing = self._checks[implied]
        return agreeing, disagreeing

    @property
    def transitivity(self) -> float:
        """How far answers about implied pairs agree with them: 1 always, 0 if not more often than by chance.

        Agreement is that of pairs implied to be the same, or of those implied to be different, whichever is less.
        """
        shares = []
        for agreeing, disagreeing in self._checks.values():
            shares.append((agreeing + PSEUDO_CHECKS) / (agreeing + disagreeing + PSEUDO_CHECKS))
        return max(0.0, 2.0 * min(shares) - 1.0)

    @property
    def n_confirmed(self) -> int:
        """The number of answers that agree with what earlier answers had implied."""
        return sum(agreeing for agreeing, _ in self._checks.values())

    @property
    def n_contradicted(self) -> int:
        """The number of answers that disagree with what earlier answers had implied."""
        return sum(disagreeing for _, disagreeing in self._checks.values())

    @property
    def n_items(self) -> int:
        """The number of items that answers are about."""
        return len(self._ids)

    @property
    def n_groups(self) -> int:
        """The number of groups; an item without a group is one."""
        return len(self._members)

    @property
    def n_implied(self) -> int:
        """The number of pairs whose answer is implied, those that were asked included."""
        certain = {g: sum(map(self._is_certain, members)) for g, members in self._members.items()}
        within = sum(count * (count - 1) // 2 for count in certain.values())
        apart = sum(
            certain[g] * certain[h]
            for g, others in self._between.items()
            for h, between in others.items()
            if g < h and self._are_apart(between)
        )
        return within + apart - sum(map(self._n_open, range(len(self._ids))))

    def _n_open(self, i: int) -> int:
        """Return the number of later items whose own answers contradict what would be implied about them and item i."""
        if not self._is_certain(i):
            return 0
        g, others = self._group[i], self._between.get(self._group[i], {})
        return sum(
            votes < 0.0 if self._group[j] == g else votes > 0.0 and self._are_apart(others.get(self._group[j]))
            for j, votes in self._votes[i].items()
            if j > i and self._is_certain(j)
        )

    def partition(self, entries: Sequence[Hashable]) -> tuple[np.ndarray, np.ndarray]:
        """Return the groups of items, and which groups are known to be different.

        Parameters
        ----------
        entries : sequence of ids

        Returns
        -------
        groups : array of int of shape (n_entries,)
            The group of each item, numbers from 0 on; -1 for an item that implies nothing.
        apart : array of bool of shape (n_groups, n_groups)

        Examples
        --------
        >>> graph = ComparisonGraph()
        >>> numbers = [graph.add("a", "b", True), graph.add("b", "c", False)]
        >>> graph.partition(["a", "b", "c", "d"])
        (array([ 0,  0,  1, -1]), array([[False,  True],
               [ True, False]]))
        """
        numbers: dict[int, int] = {}
        groups = np.full(len(entries), -1)
        for at, entry in enumerate(entries):
            i = self._positions.get(entry)
            if i is not None and self._is_certain(i):
                groups[at] = numbers.setdefault(self._group[i], len(numbers))
        apart = np.zeros((len(numbers), len(numbers)), dtype=bool)
        for g, number in numbers.items():
            for h, between in self._between.get(g, {}).items():
                if h in numbers and self._are_apart(between):
                    apart[number, numbers[h]] = True
        return groups, apart

    def group(self, entry: Hashable) -> list[Any]:
        """Return the items of an item's group, that item included, in the order in which they were first named."""
        if entry not in self._positions:
            raise ValueError(f"there is no answer about {entry!r}")
        return [self._ids[i] for i in sorted(self._members[self._group[self._positions[entry]]])]

    def group_size(self, entry: Hashable) -> int:
        """Return the number of items in an item's group, that item included; 1 if no answer is about it."""
        i = self._positions.get(entry)
        return 1 if i is None else len(self._members[self._group[i]])

    def groups(self) -> list[list[Any]]:
        """Return all groups, the largest first; among groups of one size, that of the item named first."""
        members = sorted((sorted(group) for group in self._members.values()), key=lambda group: (-len(group), group[0]))
        return [[self._ids[i] for i in group] for group in members]

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield the pairs whose answers contradict the groups, in the order in which they were first asked."""
        yielded = set()
        for i, j, vote in zip(self._left, self._right, self._signed, strict=True):
            if vote == 0.0:
                continue
            g, h, votes, pair = self._group[i], self._group[j], self._votes[i][j], (min(i, j), max(i, j))
            if votes < 0.0 if g == h else votes > 0.0 and self._between[g][h].different > 0.0:
                if pair not in yielded:
                    yield Contradiction(self._ids[pair[0]], self._ids[pair[1]], votes)
                yielded.add(pair)

    def draw_implied(self, count: int, rng: np.random.Generator) -> list[tuple[Any, Any, int]]:
        """Draw pairs whose answer is implied, with it: as many "same" as "different" ones, as far as there are both.

        A pair that is the same is any item and any other one of its group. A pair that is different is any item of one
        group and any of another one; the two groups are those of an answer, drawn at random. At most ``count`` pairs
        are returned; fewer where few are implied.
        """
        check_integer(count, "count", at_least=0)
        drawn: list[tuple[Any, Any, int]] = []
        for k in range(count if self._ids else 0):
            wanted = 1 if k % 2 == 0 else -1
            for numbers in rng.integers(2**62, size=(_MAX_ATTEMPTS, 3)).tolist():
                if wanted > 0:
                    i = j = numbers[0] % len(self._ids)
                else:
                    at = numbers[0] % len(self._signed)
                    i, j = self._left[at], self._right[at]  # also of an answer that is undone: any two items
                    i = self._any_of(self._group[i], numbers[1])
                j = self._any_of(self._group[j], numbers[2])
                if i != j and self._implied(i, j) == wanted:
                    drawn.append((self._ids[i], self._ids[j], wanted))
                    break
        return drawn

    def _any_of(self, g: int, number: int) -> int:
        members = self._members[g]
        return members[number % len(members)]

    # Answers that edit groups.

    def answers_to_merge(self, left: Hashable, right: Hashable) -> list[tuple[Any, Any, bool]]:
        """Return answers (left, right, same) that join the groups of two items when they are added in this order.

        They are as many as the rules need: one for an item without a group, two for two groups, and one more for each
        answer "different" between them. Pairs with such answers come first. In one group no answers are needed.
        """
        _check_pair(left, right)
        trial = self._trial()
        items = [i for item in (left, right) for i in trial._members[trial._group[trial._position(item)]]]
        items.sort(key=lambda i: (-trial._support[i], i))  # the items that are in their groups most certainly
        return [(*pair, True) for pair in trial._gather(list(dict.fromkeys(items)))]

    def answers_to_split(self, items: Iterable[Hashable]) -> list[tuple[Any, Any, bool]]:
        """Return answers (left, right, same) that make some items of a group a group of their own when they are added.

        The rest of the group stays together, and the two parts are known to be different. Answers "same" come first:
        they link the items of a part that are linked only through the other part. Then come answers "different": one
        for each vote "same" between the parts, and one more.
        """
        chosen = dict.fromkeys(items)
        if not chosen:
            raise ValueError("there are no items to split off; accepted: at least one")
        groups = {}
        for item in chosen:
            if item not in self._positions:
                raise ValueError(f"there is no answer about {item!r}")
            groups[self._group[self._positions[item]]] = item
        if len(groups) > 1:
            first, second, *_ = groups.values()
            raise ValueError(f"{first!r} and {second!r} are in different groups; accepted: items of one group")
        members = sorted(self._members[next(iter(groups))])
        if len(chosen) == len(members):
            raise ValueError("these items are a whole group; accepted: items that leave others of their group behind")
        left, right = ([i for i in members if (self._ids[i] in chosen) == inside] for inside in (True, False))
        trial = self._trial()
        answers = [(*pair, True) for part in (left, right) for pair in trial._link(part)]
        while True:
            answers += [(*pair, False) for pair in trial._set_apart(left, right)]
            linking = [(*pair, True) for part in (left, right) for pair in trial._gather(part)]
            answers += linking
            if not linking:
                return answers

    def _trial(self) -> Self:
        """Return a copy that answers can be tried on; it does not forget any."""
        trial = self.copy()
        trial.max_answers = maxsize
        return trial

    def _vote(self, i: int, j: int, same: bool) -> tuple[Any, Any]:
        self.add(self._ids[i], self._ids[j], same)
        return self._ids[i], self._ids[j]

    def _gather(self, items: list[int]) -> Iterator[tuple[Any, Any]]:
        """Add answers "same" until the items are in one group, and yield their pairs."""
        while True:
            parts: dict[int, list[int]] = {}
            for item in items:
                parts.setdefault(self._group[item], []).append(item)
            if len(parts) == 1:
                return
            large, small = sorted(parts.values(), key=len, reverse=True)[:2]
            inside = set(large)
            against = [(votes, i, j) for i in small for j, votes in self._votes[i].items() if votes < 0 and j in inside]
            yield self._vote(*(min(against)[1:] if against else self._new_pair(small, large)), True)

    def _link(self, part: list[int]) -> Iterator[tuple[Any, Any]]:
        """Add answers "same" until such answers link all items of a part of a group, and yield their pairs."""
        inside, linked = set(part), set[int]()
        for first in part:
            if first in linked:
                continue
            while linked and not any(votes > 0.0 and j in linked for j, votes in self._votes[first].items()):
                partners = (j for j in part if j in linked and not self._votes[first].get(j))
                yield self._vote(first, next(partners, part[0]), True)
            waiting = [first]
            while waiting:
                item = waiting.pop()
                if item not in linked:
                    linked.add(item)
                    waiting += [j for j, votes in self._votes[item].items() if votes > 0.0 and j in inside]

    def _set_apart(self, left: list[int], right: list[int]) -> Iterator[tuple[Any, Any]]:
        """Add answers "different" until two parts are in groups that are known to be different; yield their pairs."""
        inside = set(right)
        while not self._are_split(left, right):
            linked = [(i, j) for i in left for j, votes in self._votes[i].items() if votes > 0.0 and j in inside]
            if not linked:  # then the parts are only not known to be different, or a third item holds two together
                together = ((i, j) for i in left for j in right if self._group[i] == self._group[j])
                linked = [next(together, None) or self._new_pair(left, right)]
            for i, j in linked:
                yield self._vote(i, j, False)
                if self._group[i] != self._group[j] and self._are_split(left, right):
                    return

    def _are_split(self, left: list[int], right: list[int]) -> bool:
        """Whether no group has items of both parts, and the groups of their first items are known to be different."""
        g, h = self._group[left[0]], self._group[right[0]]
        is_apart = {self._group[i] for i in left}.isdisjoint(self._group[i] for i in right)
        return is_apart and self._are_apart(self._between.get(g, {}).get(h))

    def _new_pair(self, left: list[int], right: list[int]) -> tuple[int, int]:
        """Return the first pair of two parts without votes; if there is none, the first pair."""
        return next(((i, j) for i in left for j in right if not self._votes[i].get(j)), (left[0], right[0]))

    # State.

    def state(self) -> tuple[Arrays, Metadata]:
        """Return the answers as arrays, and the ids, which JSON must be able to store; the rest follows from them."""
        arrays = {
            "left": np.array(self._left, dtype=np.int64),
            "right": np.array(self._right, dtype=np.int64),
            "votes": np.array(self._signed, dtype=np.float64),
        }
        ids = [json_id(entry) for entry in self._ids]
        return arrays, {"ids": ids, "n_answers": self.n_answers, "max_answers": self.max_answers}

    @classmethod
    def from_state(cls, arrays: Arrays, metadata: Metadata) -> Self:
        """Return the graph whose ``state`` is given, after checking it."""
        missing = [name for name in ("left", "right", "votes") if name not in arrays]
        missing += [name for name in ("ids", "n_answers", "max_answers") if name not in metadata]
        if missing:
            raise ValueError(f"the state of a graph lacks {', '.join(missing)}")
        graph, ids = cls(metadata["max_answers"]), list(metadata["ids"])
        left, right, votes = (np.asarray(arrays[name]) for name in ("left", "right", "votes"))
        if not left.shape == right.shape == votes.shape == (votes.size,) or votes.size > graph.max_answers:
            raise ValueError(f"a graph has {votes.shape} votes for {left.shape} and {right.shape} items")
        if left.dtype != np.int64 or right.dtype != np.int64 or votes.dtype != np.float64:
            raise ValueError(f"a graph has items and votes of types {left.dtype}, {right.dtype} and {votes.dtype}")
        if not (np.abs(votes) <= MAX_WEIGHT).all() or (votes % _UNIT != 0.0).any():
            raise ValueError("a graph has votes that are not weights of answers")
        try:
            n_items = len(set(ids))
        except TypeError:
            raise ValueError("a graph has ids that are not hashable") from None
        if n_items != len(ids):
            raise ValueError("a graph has an id twice")
        given = votes != 0.0
        for items in (left[given], right[given]):
            if (items < 0).any() or (items >= n_items).any():
                raise ValueError(f"a graph of {n_items} items has answers about others")
        if (left == right)[given].any():
            raise ValueError("a graph has an answer about an item and itself")
        graph.n_answers = check_integer(metadata["n_answers"], "its number of answers", at_least=len(votes))
        graph._ids = ids
        graph._left, graph._right = array("q", left.tobytes()), array("q", right.tobytes())
        graph._signed = array("d", votes.tobytes())
        graph._rebuild()
        return graph


def _check_pair(left: Hashable, right: Hashable) -> None:
    """Check that two ids are those of two different items."""
    try:
        n_items = len({left, right})
    except TypeError:
        raise TypeError(f"ids must be hashable, such as numbers or texts; got {left!r} and {right!r}") from None
    if n_items < 2:
        raise ValueError(f"both items are {left!r}; accepted: two different items")


def json_id(entry: Hashable) -> Any:
    """Return an id as a value that JSON can store, and that is equal to the id after it was read.

    >>> json_id(np.int64(3)), json_id("cat")
    (3, 'cat')
    """
    value = entry.item() if isinstance(entry, np.generic) else entry
    if value is not None and not isinstance(value, str | int | float):
        raise ValueError(f"the id {entry!r} cannot be saved; accepted: texts and numbers")
    return value
