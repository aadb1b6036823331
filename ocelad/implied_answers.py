"""ImpliedAnswers: answers about items by id, and what a tracker learns from the answers that they imply."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from copy import copy
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad.adaptive.adaptive_tracker import AdaptiveTracker
from ocelad.adaptive.curved_tracker import CurvedTracker
from ocelad.adaptive.group_discriminant import Grouping
from ocelad.comparison_graph import ComparisonGraph, json_id
from ocelad.ensemble.state_reader import StateReader, add_prefix
from ocelad.exclusion import join_by_exclusion
from ocelad.pairs import PointPairs

#: Only the items that answers were about last imply anything, as many as this: older answers fade.
MAX_ITEMS = 256
#: After each answer, the distances learn from this many implied pairs, each with this weight; an answer has weight 1.
N_LEARNED, LEARNED_WEIGHT = 8, 0.5
#: When an item joins a group, the weights of the experts learn from this many pairs of it and others, with this weight.
N_WEIGHED, WEIGHED_WEIGHT = 8, 0.25
#: How fast implied pairs lose weight with each answer, if they are no better than chance.
FADING = 0.1
#: Points of all items by which distances are scaled, if they are known.
N_REFERENCE = 128
#: From this many answers on, only every sixteenth is used to bring the discriminants up to date and for implied pairs.
FULL_RATE_ANSWERS, THINNING = 1024, 16
# Attempts to draw a pair of items of different groups.
_MAX_ATTEMPTS = 8

#: A tracker whose ensemble has discriminants of groups.
GroupedTracker: TypeAlias = AdaptiveTracker | CurvedTracker


class ItemPoints(Protocol):
    """The points of items, which a tracker learns from by id."""

    def points(self, ids: Sequence[Any]) -> Floats:
        """Return the points of items, one per row."""

    def reference(self) -> Floats | None:
        """Return the points of some items, drawn at random from all of them; None if they are not known."""


class TableItems:
    """Items whose ids are their positions in an array of points.

    Parameters
    ----------
    table : array of shape (n_items, n_features)
    """

    def __init__(self, table: Floats) -> None:
        self._table = table

    def points(self, ids: Sequence[Any]) -> Floats:
        return np.asarray(self._table[np.asarray(ids, dtype=np.intp)])

    def reference(self) -> Floats:
        return np.asarray(self._table[draw_reference(len(self._table))])


@lru_cache(maxsize=8)  # a permutation of a million numbers takes long
def draw_reference(n_items: int) -> np.ndarray:
    """Return the positions of some of the items, the same for the same number of items.

    >>> draw_reference(3)
    array([0, 1, 2])
    """
    drawn = np.arange(n_items)
    if n_items > N_REFERENCE:
        drawn = np.sort(np.random.default_rng(n_items).permutation(n_items)[:N_REFERENCE])
    drawn.flags.writeable = False
    return drawn


class Answer(NamedTuple):
    """An answer to "are these two the same?" about two items: +1 or -1."""

    left: Any
    right: Any
    y: float
    weight: float = 1.0


class ImpliedAnswers:
    """Lets a tracker learn from answers about items, and from the answers that they imply.

    Answers imply others by transitivity (``ComparisonGraph``). A tracker uses them in three ways:

    - **Discriminants** of the groups join its experts (``discriminant_rows``): distances that have learned from all
      implied pairs at once. A pair of known items is measured by the discriminants of the other items, so that the
      experts' weights follow from predictions, not from what was learned already.
    - **The distances learn** from a few implied pairs after each answer, as many of the same as of different groups.
    - **The weights and calibrations learn** from pairs of an item that has just joined a group, and earlier items drawn
      at random. The pairs that people are asked about are chosen; these pairs are like those that will be measured.
      Together they weigh as much as two answers.

    Decisions see answers only, and the change test only those that other answers have not led to. The last two ways
    have less weight where answers about implied pairs contradict them (``trust``). After a detected change of the
    question, earlier answers imply nothing.

    What was learned is a function of the answers in their order.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> items = rng.normal(size=(60, 5)) + 3.0 * (np.arange(60) % 2)[:, None] * np.eye(5)[0]
    >>> tracker, implied = CurvedTracker(5, items=items, grouped=True), ImpliedAnswers()
    >>> for i in range(1, 40):
    ...     margin = implied.learn(tracker, Answer(0, i, 1.0 if i % 2 == 0 else -1.0), TableItems(items))
    >>> implied.graph.n_answers, implied.graph.n_implied  # the even items are the same, and different from the odd ones
    (39, 590)
    """

    def __init__(self) -> None:
        self.graph = ComparisonGraph()
        self._recent: dict[Any, bool] = {}  # the latest items, the newest last, and whether each was weighed
        self._is_current = True  # whether the tracker's discriminants are those of all recent items
        self._rounds = array("q")  # the rounds of the latest answers of the graph: not every round has one

    def copy(self) -> Self:
        """Return an independent copy."""
        other = copy(self)
        other.graph, other._recent, other._rounds = self.graph.copy(), self._recent.copy(), self._rounds[:]
        return other

    @property
    def recent(self) -> tuple[Any, ...]:
        """The ids of the items whose answers imply others: those that answers were about last, the newest last."""
        return tuple(self._recent)

    @property
    def trust(self) -> float:
        """The weight of implied answers: how far answers about implied pairs agree with them."""
        return self.graph.transitivity

    def learn(self, tracker: GroupedTracker, answer: Answer, items: ItemPoints) -> float:
        """Let a tracker learn from an answer and from what it implies; return the margin of the answer before.

        Call ``update`` before the tracker's metric is used.
        """
        left, right, y, weight = answer
        n_before = len(self._rounds)
        thinned = n_before >= FULL_RATE_ANSWERS and n_before % THINNING > 0
        if not thinned and left in self._recent and right in self._recent:
            others = [entry for entry in self._recent if entry not in (left, right)]
            tracker.set_discriminants(self._discriminants(tracker, others, items))
            self._is_current = False
        else:
            self.update(tracker, items)
        points = items.points([left, right])
        pair = PointPairs.from_trusted(points[:1], points[1:], np.array([y]))
        margin = _replay(tracker, pair, weight, test_changes=self._is_independent(left, right))
        if tracker.detected_change:
            self._forget(tracker.detected_change)
        if weight > 0.0 and left != right:
            self.graph.add(left, right, y > 0.0, weight)
            self._rounds.append(tracker.n_rounds)
            del self._rounds[: -self.graph.max_answers]
            self._note_items(left, right)
            if not thinned:
                self._learn_implied(tracker, (left, right), items)
                self._is_current = False
        if n_before >= FULL_RATE_ANSWERS:  # the same discriminants measure all answers until the next sixteenth
            self.update(tracker, items)
        return margin

    def _is_independent(self, left: Any, right: Any) -> bool:
        """Whether an answer can show a change of the question.

        An item that is different from one group is asked about against another one, and is the same as that one more
        often than the metric says. So an answer counts if it is the first about one of the items, or if it is implied.
        """
        return left not in self.graph or right not in self.graph or self.graph.implied(left, right) != 0

    def update(self, tracker: GroupedTracker, items: ItemPoints) -> None:
        """Bring the tracker's discriminants up to date."""
        if not self._is_current:
            tracker.set_discriminants(self._discriminants(tracker, list(self._recent), items))
            self._is_current = True

    def follow_points(self, tracker: GroupedTracker, since: int) -> None:
        """Forget what changes have made obsolete that a tracker has detected after a round, in pairs without ids.

        The discriminants stay until the next answer, so that it does not matter how these pairs are divided into calls.
        """
        for change in tracker.changes:
            if change.detected > since:
                self._forget(change.round)
        self._is_current = False  # the pairs may have changed the map to curved features

    def _forget(self, before: int) -> None:
        """Forget the answers before a round, and the items that no other answers are about."""
        n_forgotten = bisect_left(self._rounds, before)
        self.graph.forget(self.graph.n_answers - (len(self._rounds) - n_forgotten))
        del self._rounds[:n_forgotten]
        self._recent = {entry: weighed for entry, weighed in self._recent.items() if entry in self.graph}
        self._is_current = False

    def _note_items(self, *pair: Any) -> None:
        """Make the items of an answer the latest ones; the oldest are dropped."""
        for entry in pair:
            self._recent[entry] = self._recent.pop(entry, False)
        while len(self._recent) > MAX_ITEMS:
            del self._recent[next(iter(self._recent))]

    def _discriminants(self, tracker: GroupedTracker, entries: Sequence[Any], items: ItemPoints) -> Any:
        """Return the discriminants of the groups of some items."""
        groups, apart = join_by_exclusion(self.graph, entries)
        used = np.flatnonzero(groups >= 0)
        points = items.points([entries[at] for at in used.tolist()]) if len(used) and self.trust > 0.0 else None
        if points is None:
            return [None] * tracker.n_discriminants
        reference = items.reference()
        return tracker.find_discriminants(
            points, Grouping(groups[used], apart), points if reference is None else reference
        )

    def _learn_implied(self, tracker: GroupedTracker, pair: tuple[Any, Any], items: ItemPoints) -> None:
        """Let the tracker learn from pairs that are implied after an answer about a pair."""
        rng, trust = np.random.default_rng(self.graph.n_answers), self.trust * self._fading
        groups = self._groups()
        for entry in pair:
            if not self._recent[entry]:
                drawn = groups.draw_partners(entry, pair, rng)
                if len(drawn) >= N_WEIGHED // 2:
                    self._recent[entry] = True
                    _use(tracker.weigh_implied, drawn, trust * WEIGHED_WEIGHT, items)
        weight = trust * LEARNED_WEIGHT * groups.share_of_new_pairs
        _use(tracker.learn_implied, groups.draw_balanced(rng), weight, items)

    @property
    def _fading(self) -> float:
        """What is left of the weight of implied pairs: they help while answers are few, and bias what many answers say.

        The bias is the share of implied answers that are wrong. Until answers about implied pairs have shown that it is
        small, it is taken to be large.
        """
        graph = self.graph
        wrong = (graph.n_contradicted + 1) / (graph.n_contradicted + graph.n_confirmed + 2)
        return 1.0 / (1.0 + FADING * len(self._rounds) * (2.0 * wrong) ** 2)

    def _groups(self) -> _Groups:
        """Return the groups of two or more of the latest items."""
        entries = list(self._recent)
        groups, apart = join_by_exclusion(self.graph, entries)
        members: list[list[Any]] = [[] for _ in apart]
        for entry, group in zip(entries, groups.tolist(), strict=True):
            if group >= 0:
                members[group].append(entry)
        return _Groups(members, apart, self.graph.is_contradicted)

    # State.

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything as arrays and JSON values; ids must be such values."""
        arrays, metadata = self.graph.state()
        recent = [[json_id(entry), weighed] for entry, weighed in self._recent.items()]
        arrays = {**add_prefix("graph", arrays), "rounds": np.array(self._rounds, dtype=np.int64)}
        return arrays, {"graph": metadata, "recent": recent, "is_current": self._is_current}

    @classmethod
    def from_state(cls, arrays: Arrays, metadata: Metadata) -> Self:
        """Return what ``state`` returned, after checking it."""
        saved, implied = StateReader(arrays, metadata), cls()
        graph = saved.section("graph")
        implied.graph = ComparisonGraph.from_state(graph.remaining_arrays(), graph.remaining_values())
        try:
            implied._recent = {entry: bool(weighed) for entry, weighed in saved.value("recent")}
        except (TypeError, ValueError):
            raise ValueError("saved value 'recent' must be a list of items, each with a flag") from None
        unknown = [entry for entry in implied._recent if entry not in implied.graph]
        if unknown or len(implied._recent) > MAX_ITEMS:
            raise ValueError(f"saved value 'recent' must hold at most {MAX_ITEMS} items that answers are about")
        rounds, implied._is_current = saved.integers("rounds", (None,), 1, 2**53), saved.boolean("is_current")
        if (np.diff(rounds) <= 0).any() or len(rounds) > implied.graph.n_answers:
            raise ValueError("saved array 'rounds' must hold ascending numbers, one for each answer at most")
        implied._rounds = array("q", rounds.tobytes())
        saved.expect_end()
        return implied


class _Groups:
    """Groups of two or more items, from which pairs are drawn whose answer they imply."""

    def __init__(
        self, members: Sequence[list[Any]], apart: np.ndarray, is_contradicted: Callable[[Any, Any], bool]
    ) -> None:
        self._apart, self._is_contradicted = apart.tolist(), is_contradicted
        self._members = [group for group in members if len(group) > 1]
        self._group = {entry: at for at, group in enumerate(members) if len(group) > 1 for entry in group}

    @property
    def share_of_new_pairs(self) -> float:
        """The share of the pairs within groups that no answer had to be about: n - 1 answers link n items.

        In groups of two, implied pairs are answers that were learned from already.
        """
        n_pairs = sum(len(group) * (len(group) - 1) // 2 for group in self._members)
        n_links = sum(len(group) - 1 for group in self._members)
        return 1.0 - n_links / n_pairs if n_pairs else 0.0

    def _implied(self, left: Any, right: Any) -> int:
        """Return 1 if two items are the same, -1 if they are different, 0 if neither is known."""
        g, h = self._group[left], self._group[right]
        known = 1 if g == h else -1 if self._apart[g][h] else 0
        return 0 if known and self._is_contradicted(left, right) else known

    def draw_partners(self, entry: Any, excluded: Sequence[Any], rng: np.random.Generator) -> list[Answer]:
        """Draw pairs of an item and others, as they come, whose answer is implied."""
        drawn: list[Answer] = []
        if entry not in self._group:
            return drawn
        others = [other for other in self._group if other not in excluded]
        for at in rng.permutation(len(others)).tolist():
            implied = self._implied(entry, others[at])
            if implied:
                drawn.append(Answer(entry, others[at], float(implied)))
            if len(drawn) == N_WEIGHED:
                break
        return drawn

    def draw_balanced(self, rng: np.random.Generator) -> list[Answer]:
        """Draw pairs whose answer is implied, as many of the same as of different groups, as far as there are both."""
        drawn: list[Answer] = []
        places = [(group, at) for group in self._members for at in range(len(group))]
        for k in range(N_LEARNED if places else 0):
            same = k % 2 == 0
            for i, j in rng.integers(len(places), size=(_MAX_ATTEMPTS, 2)).tolist():
                (group, at), (other, place) = places[i], places[j]
                left = group[at]
                right = group[(at + 1 + j % (len(group) - 1)) % len(group)] if same else other[place]
                if left != right and self._implied(left, right) == (1 if same else -1):
                    drawn.append(Answer(left, right, 1.0 if same else -1.0))
                    break
        return drawn


def _replay(tracker: GroupedTracker, pairs: PointPairs, weight: float, *, test_changes: bool) -> float:
    weights = np.array([weight])
    if isinstance(tracker, CurvedTracker):
        return float(tracker.replay(pairs, weights, test_changes=test_changes)[0])
    return float(tracker.replay(pairs.events(), weights, test_changes=test_changes)[0])


def _use(
    learn: Callable[[PointPairs, Floats], None], drawn: Sequence[Answer], weight: float, items: ItemPoints
) -> None:
    """Let a tracker learn from drawn pairs, each with the same weight."""
    if drawn and weight > 0.0:
        points = items.points([entry for answer in drawn for entry in (answer.left, answer.right)])
        pairs = PointPairs.from_trusted(points[::2], points[1::2], np.array([answer.y for answer in drawn]))
        learn(pairs, np.full(len(drawn), weight))
