"""RepeatedPairs: pairs that other people have answered, to be asked of a further person."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from time import monotonic

import numpy as np

from ocelad.service.entries import PairSource
from ocelad.service.team.answer_index import AnswerIndex, ItemPair

#: The sentence does not reveal the earlier answer: people would repeat it.
REPEAT_REASON = "Another person has answered about these two; asking several people shows how far they agree."
# A pair that was handed out to a person is not handed out to the same person again for this many seconds.
RESERVATION_SECONDS = 60.0
# Other pairs are not typical: their answer was implied, they contradicted others, or were given together.
_SOURCES: frozenset[PairSource] = frozenset(["active", "random", "link", "given", "repeat"])


class RepeatedPairs:
    """Chooses pairs to ask again: at random among those that were answered last. Thread-safe.

    Parameters
    ----------
    index : AnswerIndex
    seed : int or None
        None: choices differ from run to run.
    clock : callable
        Returns the time in seconds.
    """

    def __init__(self, index: AnswerIndex, seed: int | None = None, clock: Callable[[], float] = monotonic) -> None:
        self._index, self._clock = index, clock
        self._generator = np.random.default_rng(seed)
        self._lock = Lock()
        self._reserved: dict[tuple[str, ItemPair], float] = {}

    def is_due(self, share: float) -> bool:
        """Decide at random whether the next pair is a repeated one."""
        with self._lock:
            return share > 0.0 and bool(self._generator.random() < share)

    def next(self, person: str, n_people: int) -> ItemPair | None:
        """Return a pair that fewer than ``n_people`` others have answered and this person was not asked about.

        None if there is none, or if the person has no name: answers without a name may be of one person.
        """
        if not person:
            return None
        with self._index as index, self._lock:
            now = self._clock()
            self._reserved = {each: at for each, at in self._reserved.items() if now - at < RESERVATION_SECONDS}
            pairs = [pair for pair in dict.fromkeys(index.recent) if (person, pair) not in self._reserved]
            for at in self._generator.permutation(len(pairs)).tolist():
                if _may_ask(index, pairs[at], person, n_people):
                    self._reserved[person, pairs[at]] = now
                    first, second = pairs[at]
                    return (first, second) if self._generator.random() < 0.5 else (second, first)
        return None


def _may_ask(index: AnswerIndex, pair: ItemPair, person: str, n_people: int) -> bool:
    """Return whether a person may be asked about a pair that others have answered."""
    if person in index.asked(pair) or index.settled(pair) is not None:
        return False
    opinions = index.sources(pair)
    standing = any(each.same is not None for each in index.standing(pair))
    return 0 < len(opinions) < n_people and standing and _SOURCES.issuperset(opinions.values())
