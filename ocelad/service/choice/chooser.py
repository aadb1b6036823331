"""Chooser: asks about the pair whose answer teaches most, and now and then about one drawn at random."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Literal

import numpy as np

from ocelad._validation import check_integer, check_number
from ocelad.service.choice.pair_codes import code_of, draw, n_pairs, pair_of
from ocelad.service.choice.rule import Positions, Ranked, Seen, most_wanted
from ocelad.service.entries import Kind

# So many pairs are looked at, drawn from all that were not asked about. More find no better ones (docs/active.md).
CANDIDATES = 300
# Of items with more features than this, a third as many.
MANY_FEATURES = 128
# What is asked should differ from what these last pairs differed by.
LATELY = 100
# Seconds within which a pair that was handed out is left to whom it was handed.
HELD = 60.0

AT_RANDOM = "Drawn at random, so that how often the metric is right can be told honestly."


class NothingToAsk(LookupError):
    """All pairs of the items have been answered or skipped."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Two items to be asked about.

    Attributes
    ----------
    left, right : int
        Positions.
    asked : {"active", "random"}
    why : str
        One sentence for people.
    distance : float
        Between the two, under the metric.
    """

    left: int
    right: int
    asked: Literal["active", "random"]
    why: str
    distance: float


class Chooser:
    """Remembers what was asked about in a project, and chooses what is asked next. Threads may share it.

    A pair that was answered or skipped is not asked about again, unless that was undone. One that was handed out is
    not handed out again for a minute, unless nothing else is left.

    Parameters
    ----------
    n_items : int
        How many items there are; ``grow`` tells of more.
    random_share : float
        How many of the pairs are drawn at random, from 0 to 1: uniformly from all that were not asked about, whatever
        the metric is, so that how often it is right on them is an honest figure.
    seed : int or None
        The same seed, entries and views give the same pairs; None: other ones in each run.
    clock : callable
        Tells seconds.
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
        #: By pair, how many entries about it stand.
        self._entries: dict[int, int] = {}
        #: By pair, when it was handed out.
        self._handed: dict[int, float] = {}
        self._lately: deque[int] = deque(maxlen=LATELY)
        #: By item, how many entries about it stand.
        self._times = np.zeros(check_integer(n_items, "n_items", at_least=0), dtype=np.int64)

    def grow(self, n_items: int) -> None:
        """There are so many items now; those that there were keep their positions."""
        with self._lock:
            self._times = np.concatenate([self._times, np.zeros(n_items - len(self._times), dtype=np.int64)])

    def note(self, left: int, right: int, kind: Kind) -> None:
        """Take note of an entry of the log; of all of them, in their order."""
        code, change = code_of(left, right), -1 if kind == "undo" else 1
        with self._lock:
            stand = self._entries.pop(code, 0) + change
            if stand:
                self._entries[code] = stand
            self._times[left] += change
            self._times[right] += change
            self._handed.pop(code, None)
            if kind != "undo":
                self._lately.append(code)

    def next(self, view: Seen) -> Choice:
        """The pair to ask about now.

        Raises
        ------
        NothingToAsk
            Where every pair has been answered or skipped.
        """
        # A view may know fewer items for a moment, after new ones came.
        n_items = min(len(view.points), len(self._times))
        with self._lock:
            at_random = self._generator.random() < self._random_share
            if at_random:
                code, why = self._hand_out(self._draw(n_items)[0]), AT_RANDOM
        if not at_random:
            code, why = self._most_wanted(view, n_items)
        pair = _pairs([code])
        square = view.metric.threshold - float(view.margins(pair[:, 0], pair[:, 1])[0])
        earlier, later = pair_of(code)
        left, right = (earlier, later) if code % 2 else (later, earlier)  # which is the earlier one tells nothing
        return Choice(left, right, "random" if at_random else "active", why, float(np.sqrt(max(square, 0.0))))

    def _most_wanted(self, view: Seen, n_items: int) -> tuple[int, str]:
        """The pair whose answer is wanted most, now handed out, and why."""
        while True:
            with self._lock:
                codes = self._draw(n_items)
                if view.points.shape[1] > MANY_FEATURES:
                    codes = codes[: CANDIDATES // 3]
                pairs = _pairs(codes)
                times = self._times[pairs].sum(axis=1)
                lately = [code for code in (*self._lately, *self._handed) if code < n_pairs(n_items)]
            # Who brings answers does not wait while pairs are ranked; meanwhile some of them may be taken.
            ranked = most_wanted(view, pairs, _pairs(lately[-LATELY:]), times)
            with self._lock:
                for place, row in enumerate(ranked.rows.tolist()):
                    if codes[row] not in self._entries and codes[row] not in self._handed:
                        return self._hand_out(codes[row]), _why(ranked, place)

    def _draw(self, n_items: int) -> list[int]:
        """Pairs that may be asked about now: at least one."""
        if n_items < 2:
            raise NothingToAsk(f"the project has too few items to ask about: {n_items}; at least 2 are needed")
        now = self._clock()
        self._handed = {code: at for code, at in self._handed.items() if now - at < HELD}
        codes = draw(self._generator, n_items, CANDIDATES, self._entries, self._handed)
        if not codes:
            self._handed.clear()
            codes = draw(self._generator, n_items, CANDIDATES, self._entries)
        if not codes:
            raise NothingToAsk(f"all {n_pairs(n_items)} pairs of the {n_items} items have been answered or skipped")
        return codes

    def _hand_out(self, code: int) -> int:
        self._handed[code] = self._clock()
        return code


def _pairs(codes: Sequence[int]) -> Positions:
    return np.array([pair_of(code) for code in codes], dtype=np.int64).reshape(-1, 2)


def _why(ranked: Ranked, place: int) -> str:
    reasons = [f"their distance is {ranked.closeness[place]:.2f} of the threshold"]
    if ranked.disputed[place]:
        reasons.append("its scales disagree more than about most pairs")
    if ranked.novel[place]:
        reasons.append("pairs that were asked lately tell less of them than of most")
    *others, last = reasons
    told = f"{', '.join(others)}, and {last}" if others else last
    return f"The metric is unsure about these two: {told}."
