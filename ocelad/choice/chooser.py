"""PairChooser: proposes the pair whose answer links or teaches most and, at times, a random one or a check."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from time import monotonic
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_number
from ocelad.choice import reasons
from ocelad.choice.asked_pairs import N_RECENT, AskedPairs, Kind
from ocelad.choice.linking import Link, Partition, link_partition
from ocelad.choice.pair_codes import decode_pair, draw_codes, encode_pair, n_pairs
from ocelad.choice.pair_ranking import MetricView, Positions, rank_pairs
from ocelad.comparison_graph import ComparisonGraph, Contradiction
from ocelad.exclusion import join_by_exclusion

# The number of candidate pairs, drawn from all pairs that were not asked yet. More do not help
# (docs/explanation/choice-of-pairs.md).
N_CANDIDATES = 300
# Above this number of features, a third as many.
MANY_FEATURES = 128
# A proposed pair is reserved for this many seconds.
RESERVATION_SECONDS = 60.0
#: The share of random pairs if "same" is not taken as transitive, and if it is.
RANDOM_SHARE, TRANSITIVE_RANDOM_SHARE = 0.2, 0.12
#: The share of pairs whose answer is implied, and of pairs that settle contradictions while there are any.
CHECK_SHARE, SETTLE_SHARE = 0.1, 0.1
# Items without answers that are tried to be linked, until one can be.
N_FRESH = 4
# Implied pairs that are drawn to find one that was not asked.
N_IMPLIED = 16
# A pair that contradicts the groups is asked at most this often; the first contradictions are enough.
MAX_ASKED, MAX_CONTRADICTIONS = 4, 256
# Contradictions are searched for again when the number of answers has grown by this share.
SEARCH_SHARE = 1 / 256
# If most pairs are implied: random pairs to try; then, all pairs of this many items.
N_TRIED, N_SEARCHED = 4000, 1500
# Attempts to reserve a pair before another thread does, and to draw a pair of two groups.
_MAX_ATTEMPTS = 16

#: How a pair was chosen.
Source: TypeAlias = Literal["active", "random", "link", "check", "settle"]


class NoPairsLeft(LookupError):
    """Every pair of items has been answered or skipped, or other answers imply its answer."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A pair of items to ask about.

    Attributes
    ----------
    left, right : int
        Positions of the items.
    source : {"active", "random", "link", "check", "settle"}
    reason : str
        Why the pair was chosen; one sentence for people.
    distance : float
        The distance of the items under the metric.
    """

    left: int
    right: int
    source: Source
    reason: str
    distance: float


class _Question(NamedTuple):
    """A pair by its code; ``linked`` is the item that the answer may link with a group."""

    code: int
    source: Source
    reason: str
    linked: int | None = None


class _Reservation(NamedTuple):
    """The time of a proposal, and the item that its answer may link with a group."""

    at: float
    linked: int | None


class PairChooser:
    """Records which pairs of items were asked, and chooses the next one. Thread-safe.

    With ``transitive=True``, answers imply others (``ComparisonGraph``), and most questions link an item with the group
    that it most probably belongs to (``find_link``): if the answer is "same", it implies the answers about all items
    that the group was compared with. If no group is probable, the pair is the most informative one (``rank_pairs``).
    Some questions are random pairs; some are checks, whose answer is implied; some settle contradictions. After a
    change of the question that the view has detected, earlier answers imply nothing.

    With ``transitive=False``, and while answers contradict implied ones as often as not, questions are random or the
    most informative ones.

    A pair that was answered or skipped is not proposed again unless its entry was undone, or to settle a contradiction.
    Only checks, and pairs that settle a contradiction, may have an implied answer. A proposed pair is reserved for a
    minute, unless no other pair is left, and the item that it may link is not linked by another question meanwhile.

    Parameters
    ----------
    n_items : int
        The number of items; ``grow`` increases it.
    transitive : bool
        Whether "same" is taken as transitive.
    random_share : float or None
        The share of random pairs, from 0 to 1. They are uniform over all pairs that were neither asked nor implied,
        independently of the metric, so that the accuracy on them is unbiased. None: 0.12, or 0.2 if not transitive.
    check_share : float
        The share of pairs whose answer is implied, from 0 to 1: as many that are the same as different ones, as far as
        there are both. They show how far "same" is transitive.
    seed : int or None
        The same seed, entries and views give the same pairs. None: pairs differ from run to run.
    clock : callable
        Returns the time in seconds.

    Examples
    --------
    A person answers by the sign of the first feature. 40 answers imply hundreds of comparisons.

    >>> from ocelad import MetricTracker, PairChooser
    >>> from ocelad.choice import TrackerView
    >>> items = np.random.default_rng(0).normal(size=(200, 3))
    >>> items[:, 0] += np.where(items[:, 0] > 0, 1.0, -1.0)
    >>> tracker, chooser = MetricTracker(preprocessor=items).start(3, items=items), PairChooser(200, seed=0)
    >>> for _ in range(40):
    ...     choice = chooser.next(TrackerView(tracker, items))
    ...     same = (items[choice.left, 0] > 0) == (items[choice.right, 0] > 0)
    ...     chooser.record(choice.left, choice.right, "same" if same else "different")
    ...     tracker = tracker.partial_fit([[choice.left, choice.right]], [same])
    >>> len(tracker.groups_), tracker.n_implied_ > 400, tracker.feature_weights(1)[0].feature
    (2, True, 'x0')
    """

    def __init__(
        self,
        n_items: int,
        *,
        transitive: bool = True,
        random_share: float | None = None,
        check_share: float = CHECK_SHARE,
        seed: int | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        if random_share is None:
            random_share = TRANSITIVE_RANDOM_SHARE if transitive else RANDOM_SHARE
        self._random_share = check_number(random_share, "random_share", at_least=0, at_most=1)
        self._check_share = check_number(check_share, "check_share", at_least=0, at_most=1)
        self._generator = np.random.default_rng(seed)
        self._clock = clock
        self._lock = Lock()
        self._asked = AskedPairs(n_items, transitive)
        self._reserved: dict[int, _Reservation] = {}  # by the code of the pair
        self._contradictions: list[Contradiction] = []
        self._searched_at: tuple[ComparisonGraph | None, int] = (None, 0)  # the graph, and its number of answers

    def grow(self, n_items: int) -> None:
        """Increase the number of items; the present ones keep their positions."""
        with self._lock:
            self._asked.grow(n_items)

    def record(
        self, left: int, right: int, kind: Kind, *, number: int | None = None, undoes: int | None = None
    ) -> None:
        """Record an entry; must be called for all entries, in order.

        Parameters
        ----------
        left, right : int
            Positions of the items.
        kind : {"same", "different", "skip", "undo"}
        number : int or None
            A number by which an undo can name the entry.
        undoes : int or None
            For an undo: the number of the entry; None: the pair's last entry that is not undone.
        """
        with self._lock:
            self._asked.record(left, right, kind, number, undoes)
            self._reserved.pop(encode_pair(left, right), None)

    def is_answered(self, left: int, right: int) -> bool:
        """Return whether a pair has an answer "same" or "different" that is not undone. It never waits."""
        return any(entry.same is not None for entry in self._asked.entries.get(encode_pair(left, right), ()))

    def next(self, view: MetricView) -> Choice:
        """Return the next pair to ask about.

        Raises
        ------
        NoPairsLeft
            If every pair has been answered or skipped, or other answers imply its answer, and no contradiction is left
            to settle.
        """
        # Just after items were added, the view may still have fewer of them.
        n_items = min(len(view.points), len(self._asked.item_counts))
        question = self._ask(view, n_items)
        first, second = decode_pair(question.code)
        margins = view.margins(np.array([first]), np.array([second]))
        distance = float(np.sqrt(max(view.metric.threshold - float(margins[0]), 0.0)))
        left, right = (first, second) if question.code % 2 else (second, first)  # the side does not reveal the order
        return Choice(left, right, question.source, question.reason, distance)

    def _ask(self, view: MetricView, n_items: int) -> _Question:
        """Choose and reserve a question."""
        with self._lock:
            now = self._clock()
            self._reserved = {c: kept for c, kept in self._reserved.items() if now - kept.at < RESERVATION_SECONDS}
            self._asked.update(view.changes[-1].round - 1 if view.changes else 0)
            try:
                question = self._draw_special(n_items)
            except NoPairsLeft:
                question = self._settle(n_items)
                if question is None:
                    raise
            if question is not None:
                return self._reserve(question)
        return self._link(view, n_items) or self._most_informative(view, n_items)

    def _draw_special(self, n_items: int) -> _Question | None:
        """Draw a random pair, a check or a pair that settles a contradiction, each with its share; otherwise None."""
        number = self._generator.random() - self._random_share
        if number < 0.0:
            return _Question(self._draw(n_items)[0], "random", reasons.RANDOM_REASON)
        if not self._asked.is_transitive:
            return None
        self._draw(n_items)  # checks end when no other pair is left
        number -= self._check_share
        if number < 0.0:
            return self._check(n_items)
        return self._settle(n_items) if number < SETTLE_SHARE else None

    # Pairs whose answer is not implied.

    def _most_informative(self, view: MetricView, n_items: int) -> _Question:
        """Reserve and return the most informative candidate."""
        while True:
            with self._lock:
                codes = self._draw(n_items, avoid_linked=True)
                if view.points.shape[1] > MANY_FEATURES:
                    codes = codes[: N_CANDIDATES // 3]
                pairs = _positions(codes)
                counts = self._asked.item_counts[pairs].sum(axis=1)
                recent = [code for code in (*self._asked.recent, *self._reserved) if code < n_pairs(n_items)]
            # Pairs are ranked without the lock, so that answers need not wait; some candidates may be taken meanwhile.
            ranking = rank_pairs(view, pairs, _positions(recent[-N_RECENT:]), counts)
            with self._lock:
                for rank, row in enumerate(ranking.rows.tolist()):
                    if self._may_ask(codes[row]):
                        reason = reasons.active_reason(view, ranking, rank)
                        return self._reserve(_Question(codes[row], "active", reason))

    def _draw(self, n_items: int, avoid_linked: bool = False) -> list[int]:
        """Draw at least one pair that may be asked now and whose answer is not implied; the first one is uniform.

        ``avoid_linked`` leaves out items that other questions may link with a group, if there are other pairs.
        """
        if n_items < 2:
            raise NoPairsLeft(f"the project has too few items to ask about: {n_items}; at least 2 are needed")
        codes = self._draw_open(n_items, self._asked.entries, self._reserved)
        if not codes:
            self._reserved.clear()
            codes = self._draw_open(n_items, self._asked.entries)
        if not codes:
            implied = "" if not self._asked.is_transitive else ", or other answers imply their answer"
            raise NoPairsLeft(
                f"all {n_pairs(n_items)} pairs of the {n_items} items have been answered or skipped{implied}"
            )
        linked = {kept.linked for kept in self._reserved.values()} if avoid_linked else set()
        return [code for code in codes if linked.isdisjoint(decode_pair(code))] or codes

    def _draw_open(self, n_items: int, *excluded: Collection[int]) -> list[int]:
        """Draw distinct pairs that are neither excluded nor implied; none if none is found."""
        codes = draw_codes(self._generator, n_items, N_CANDIDATES, *excluded)
        if not self._asked.is_transitive:
            return codes
        is_implied = self._asked.is_implied
        found = [code for code in codes if not is_implied(*decode_pair(code))]
        if not found and n_pairs(n_items) > N_CANDIDATES:
            codes = draw_codes(self._generator, n_items, N_TRIED, *excluded)
            found = [code for code in codes if not is_implied(*decode_pair(code))]
        if not found and n_pairs(n_items) > N_TRIED:
            codes = self._search(n_items)
            found = [code for code in codes if not any(code in some for some in excluded)]
        return found[:N_CANDIDATES]

    def _search(self, n_items: int) -> list[int]:
        """Return pairs whose answer is not implied, in random order: all of them if there are few items.

        Of many items, it searches some: those that are not in the graph, if there are such, and others at random.
        """
        graph, rng = self._asked.graph, self._generator
        assert graph is not None
        items = np.arange(n_items)
        if n_items > N_SEARCHED:
            fresh = self._asked.fresh(n_items)
            some = rng.permutation(fresh)[: N_SEARCHED // 2], rng.integers(n_items, size=N_SEARCHED // 2)
            items = np.unique(np.concatenate(some))
        groups, apart = graph.partition(items.tolist())
        known = np.zeros((len(apart) + 1,) * 2, dtype=np.bool_)  # the last one: items that imply nothing
        known[:-1, :-1] = apart | np.eye(len(apart), dtype=np.bool_)
        is_open = np.triu(~known[groups[:, None], groups], k=1)
        first, last = items[np.argwhere(is_open)].T
        codes: list[int] = rng.permutation(last * (last - 1) // 2 + first).tolist()
        return codes

    # Pairs that link an item with a group.

    def _link(self, view: MetricView, n_items: int) -> _Question | None:
        """Reserve and return the question that links an item with the group that it most probably belongs to."""
        if self._asked.graph is None or not self._asked.is_transitive:
            return None

        def log_odds(left: Sequence[int], right: Sequence[int]) -> Floats:
            return view.margins(np.asarray(left), np.asarray(right))

        def may_ask(left: int, right: int) -> bool:  # the graph may be read with the lock only
            return not self._is_taken(encode_pair(left, right))

        for _ in range(_MAX_ATTEMPTS):
            with self._lock:
                linked = {kept.linked for kept in self._reserved.values()}
                known = [item for item in self._asked.known if item < n_items and item not in linked]
                partition = Partition(known, *join_by_exclusion(self._asked.graph, known))
                fresh = self._draw_fresh(n_items, linked)
                rng = np.random.default_rng(self._generator.integers(2**63))
            # As above, probabilities are computed without the lock.
            link = link_partition(partition, fresh, log_odds, rng, may_ask)
            if link is None:
                return None
            with self._lock:
                if self._may_link(link):
                    left_size, right_size = map(self._asked.graph.group_size, (link.left, link.right))
                    reason = reasons.link_reason(view, link, left_size, right_size)
                    return self._reserve(_Question(encode_pair(link.left, link.right), "link", reason, link.left))
        return None

    def _draw_fresh(self, n_items: int, excluded: Collection[int | None]) -> list[int]:
        """Draw some items that no answer in the graph is about."""
        fresh = self._asked.fresh(n_items)
        if len(fresh) == 0:
            return []
        # Some may be drawn twice or excluded.
        n_drawn = 2 * (N_FRESH + len(excluded))
        drawn = fresh[self._generator.integers(len(fresh), size=n_drawn)] if len(fresh) > n_drawn else fresh
        items = dict.fromkeys(self._generator.permutation(drawn).tolist())
        return [item for item in items if item not in excluded][:N_FRESH]

    def _may_link(self, link: Link) -> bool:
        """Whether nothing has happened since a link was found that makes its question useless."""
        is_free = all(kept.linked != link.left for kept in self._reserved.values())
        return is_free and self._may_ask(encode_pair(link.left, link.right))

    # Pairs whose answer may be implied.

    def _check(self, n_items: int) -> _Question | None:
        """Return a pair that was not asked and whose answer is implied, "same" as often as "different"."""
        assert self._asked.graph is not None
        wanted = 1 if self._generator.random() < 0.5 else -1
        drawn = self._asked.graph.draw_implied(N_IMPLIED, self._generator)
        for left, right, _ in sorted(drawn, key=lambda pair: -wanted * pair[2]):
            code = encode_pair(left, right)
            if max(left, right) < n_items and code not in self._asked.entries and code not in self._reserved:
                return _Question(code, "check", reasons.CHECK_REASON)
        return None

    def _settle(self, n_items: int) -> _Question | None:
        """Return a pair whose answer may settle a contradiction.

        A pair that contradicts the groups is asked again: it is settled at once if its answer was a mistake, and if
        not, two answers usually outvote the link that was. If they do not, other pairs of the two groups are asked.
        """
        graph = self._asked.graph
        if graph is None:
            return None
        self._search_contradictions(graph)
        for at in self._generator.permutation(len(self._contradictions)).tolist():
            left, right, _ = self._contradictions[at]
            code = encode_pair(left, right)
            entries = self._asked.entries.get(code, ())
            if max(left, right) >= n_items or code in self._reserved or not entries or entries[-1].same is None:
                continue  # the last one: skipped
            if len(entries) == 1:
                return _Question(code, "settle", reasons.AGAIN_REASON)
            if self._is_outvoted(graph, left, right):
                continue
            other = self._other_pair(graph, left, right, n_items)
            if other is not None:
                return _Question(other, "settle", reasons.SETTLE_REASON)
            if len(entries) < MAX_ASKED:
                return _Question(code, "settle", reasons.AGAIN_REASON)
        return None

    def _search_contradictions(self, graph: ComparisonGraph) -> None:
        """Search for contradictions, unless there are hardly more answers than at the last time."""
        searched, n_answers = self._searched_at
        if graph is not searched or graph.n_answers - n_answers > SEARCH_SHARE * n_answers:
            self._contradictions = list(islice(graph.contradictions(), MAX_CONTRADICTIONS))
            self._searched_at = graph, graph.n_answers

    @staticmethod
    def _is_outvoted(graph: ComparisonGraph, left: int, right: int) -> bool:
        """Whether other answers decide about two items clearly, in spite of a contradiction."""
        (first, second), apart = graph.partition([left, right])
        return bool(min(first, second) >= 0 and (first == second or apart[first, second]))

    def _other_pair(self, graph: ComparisonGraph, left: int, right: int, n_items: int) -> int | None:
        """Draw a pair that was not asked: of the two items' groups or, in one group, one of the two and another."""
        groups = graph.group(left), graph.group(right)
        if groups[0] == groups[1]:
            groups = [left, right], groups[0]
        for first, second in self._generator.integers(2**62, size=(_MAX_ATTEMPTS, 2)).tolist():
            pair = groups[0][first % len(groups[0])], groups[1][second % len(groups[1])]
            code = encode_pair(*pair)
            if pair[0] != pair[1] and max(pair) < n_items and not self._is_taken(code):
                return code
        return None

    # Reservations.

    def _is_taken(self, code: int) -> bool:
        """Whether a pair was asked or is reserved."""
        return code in self._asked.entries or code in self._reserved

    def _may_ask(self, code: int) -> bool:
        """Whether a pair is neither taken nor implied."""
        return not self._is_taken(code) and not self._asked.is_implied(*decode_pair(code))

    def _reserve(self, question: _Question) -> _Question:
        self._reserved[question.code] = _Reservation(self._clock(), question.linked)
        return question


def _positions(codes: Sequence[int]) -> Positions:
    return np.array([decode_pair(code) for code in codes], dtype=np.int64).reshape(-1, 2)
