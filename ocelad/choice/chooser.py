"""PairChooser: proposes the most informative pair and, at times, a random one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import expit

from ocelad._validation import check_integer, check_number
from ocelad.choice.pair_codes import decode_pair, draw_codes, encode_pair, n_pairs
from ocelad.choice.pair_ranking import MetricView, PairRanking, Positions, rank_pairs

# The number of candidate pairs, drawn from all pairs that were not asked yet. More do not help (docs/active.md).
N_CANDIDATES = 300
# Above this number of features, a third as many.
MANY_FEATURES = 128
# A pair should differ in other directions than this many pairs that were asked last.
N_RECENT = 100
# A proposed pair is reserved for this many seconds.
RESERVATION_SECONDS = 60.0

#: What is recorded about a pair: an answer, that it was skipped, or that such an entry was undone.
Kind: TypeAlias = Literal["same", "different", "skip", "undo"]

RANDOM_REASON = "Drawn at random, for an unbiased estimate of how often the metric is correct."


class NoPairsLeft(LookupError):
    """Every pair of items has been answered or skipped."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A pair of items to ask about.

    Attributes
    ----------
    left, right : int
        Positions of the items.
    source : {"active", "random"}
    reason : str
        Why the pair was chosen; one sentence for people.
    distance : float
        The distance of the items under the metric.
    """

    left: int
    right: int
    source: Literal["active", "random"]
    reason: str
    distance: float


class PairChooser:
    """Records which pairs of a project were asked, and chooses the next one. Thread-safe.

    A pair that was answered or skipped is not proposed again unless its entry was undone. A proposed pair is reserved
    for a minute, unless no other pair is left.

    Parameters
    ----------
    n_items : int
        The number of items; ``grow`` increases it.
    random_share : float
        The share of random pairs, from 0 to 1. They are uniform over all pairs that were not asked, independently of
        the metric, so that the accuracy on them is unbiased.
    seed : int or None
        The same seed, entries and views give the same pairs. None: pairs differ from run to run.
    clock : callable
        Returns the time in seconds.
    """

    def __init__(
        self,
        n_items: int,
        *,
        random_share: float = 0.2,
        seed: int | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._random_share = check_number(random_share, "random_share", at_least=0, at_most=1)
        self._generator = np.random.default_rng(seed)
        self._clock = clock
        self._lock = Lock()
        #: The number of entries that are not undone, by pair.
        self._n_entries: dict[int, int] = {}
        #: The time of the proposal, by reserved pair.
        self._reserved: dict[int, float] = {}
        self._recent: deque[int] = deque(maxlen=N_RECENT)
        #: The number of entries that are not undone, by item.
        self._item_counts = np.zeros(check_integer(n_items, "n_items", at_least=0), dtype=np.int64)

    def grow(self, n_items: int) -> None:
        """Increase the number of items; the present ones keep their positions."""
        with self._lock:
            added = np.zeros(n_items - len(self._item_counts), dtype=np.int64)
            self._item_counts = np.concatenate([self._item_counts, added])

    def record(self, left: int, right: int, kind: Kind) -> None:
        """Record an entry of the log; must be called for all entries, in order."""
        code, change = encode_pair(left, right), -1 if kind == "undo" else 1
        with self._lock:
            count = self._n_entries.pop(code, 0) + change
            if count:
                self._n_entries[code] = count
            self._item_counts[left] += change
            self._item_counts[right] += change
            self._reserved.pop(code, None)
            if kind != "undo":
                self._recent.append(code)

    def next(self, view: MetricView) -> Choice:
        """Return the next pair to ask about.

        Raises
        ------
        NoPairsLeft
            If every pair has been answered or skipped.
        """
        # Just after items were added, the view may still have fewer of them.
        n_items = min(len(view.points), len(self._item_counts))
        with self._lock:
            is_random = self._generator.random() < self._random_share
            if is_random:
                code, reason = self._reserve(self._draw(n_items)[0]), RANDOM_REASON
        if not is_random:
            code, reason = self._most_informative(view, n_items)
        pair = _positions([code])
        squared_distance = view.metric.threshold - float(view.margins(pair[:, 0], pair[:, 1])[0])
        first, second = decode_pair(code)
        left, right = (first, second) if code % 2 else (second, first)  # the side does not reveal the order
        source: Literal["active", "random"] = "random" if is_random else "active"
        return Choice(left, right, source, reason, float(np.sqrt(max(squared_distance, 0.0))))

    def _most_informative(self, view: MetricView, n_items: int) -> tuple[int, str]:
        """Reserve and return the code of the most informative candidate, with the reason."""
        while True:
            with self._lock:
                codes = self._draw(n_items)
                if view.points.shape[1] > MANY_FEATURES:
                    codes = codes[: N_CANDIDATES // 3]
                pairs = _positions(codes)
                counts = self._item_counts[pairs].sum(axis=1)
                recent = [code for code in (*self._recent, *self._reserved) if code < n_pairs(n_items)]
            # Pairs are ranked without the lock, so that answers need not wait; some candidates may be taken meanwhile.
            ranking = rank_pairs(view, pairs, _positions(recent[-N_RECENT:]), counts)
            with self._lock:
                for rank, row in enumerate(ranking.rows.tolist()):
                    if codes[row] not in self._n_entries and codes[row] not in self._reserved:
                        return self._reserve(codes[row]), _reason(view, ranking, rank)

    def _draw(self, n_items: int) -> list[int]:
        """Draw at least one pair that may be asked now."""
        if n_items < 2:
            raise NoPairsLeft(f"the project has too few items to ask about: {n_items}; at least 2 are needed")
        now = self._clock()
        self._reserved = {code: at for code, at in self._reserved.items() if now - at < RESERVATION_SECONDS}
        codes = draw_codes(self._generator, n_items, N_CANDIDATES, self._n_entries, self._reserved)
        if not codes:
            self._reserved.clear()
            codes = draw_codes(self._generator, n_items, N_CANDIDATES, self._n_entries)
        if not codes:
            raise NoPairsLeft(f"all {n_pairs(n_items)} pairs of the {n_items} items have been answered or skipped")
        return codes

    def _reserve(self, code: int) -> int:
        self._reserved[code] = self._clock()
        return code


def _positions(codes: Sequence[int]) -> Positions:
    return np.array([decode_pair(code) for code in codes], dtype=np.int64).reshape(-1, 2)


def _reason(view: MetricView, ranking: PairRanking, rank: int) -> str:
    margin, threshold = float(ranking.margins[rank]), view.metric.threshold
    if view.method == "rice":
        reasons = [f"their distance is {np.sqrt(max(threshold - margin, 0.0) / threshold):.2f} of the threshold"]
    else:
        reasons = [f"the probability that they are the same is {100 * float(expit(margin)):.0f} %"]
    if ranking.disputed[rank]:
        reasons.append("its scales disagree more than about most pairs")
    if ranking.novel[rank]:
        reasons.append("recent answers say less about them than about most pairs")
    *others, last = reasons
    joined = f"{', '.join(others)}, and {last}" if others else last
    return f"The metric is unsure about these two: {joined}."
