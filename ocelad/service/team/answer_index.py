"""AnswerIndex: the answers of a log by pair and by person."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Literal, NamedTuple, TypeAlias

from ocelad.service.entries import Answer, Entry, PairSource

# The number of entries per read, of the latest pairs that may be asked again, and of gaps and checks per person.
_PAGE_SIZE = 5000
N_RECENT = 2000
_N_PER_PERSON = 1000
# A longer time between two answers of a person is a break, in milliseconds.
MAX_GAP_MS = 300_000

#: The positions of two items, the smaller one first.
ItemPair: TypeAlias = tuple[int, int]


class GivenAnswer:
    """An answer of a person about a pair.

    Attributes
    ----------
    seq, at : int
        The number and the time of its entry.
    person : str
    answer : {"same", "different", "skip"}
    source : PairSource
    standing : bool
        Whether it is not undone.
    given : bool
        Whether it counts as what the person thinks: it stands, or a reviewer's settlement has undone it.
    """

    __slots__ = ("answer", "at", "given", "person", "seq", "source", "standing")

    def __init__(self, seq: int, at: int, person: str, answer: Answer, source: PairSource) -> None:
        self.seq, self.at, self.person, self.answer, self.source = seq, at, person, answer, source
        self.standing = self.given = True

    @property
    def same(self) -> bool | None:
        """Whether the two are the same; None for a skipped pair."""
        return None if self.answer == "skip" else self.answer == "same"


class Disagreement(NamedTuple):
    """A pair about which people's answers that stand are not the same.

    Attributes
    ----------
    seq : int
        The number of the first answer about the pair.
    pair : ItemPair
    answers : list of GivenAnswer
        The latest of each person, in their order.
    """

    seq: int
    pair: ItemPair
    answers: list[GivenAnswer]


class PersonLog:
    """What the log says about a person.

    Attributes
    ----------
    counts : dict
        The number of answers of each kind that count as given.
    first_at, last_at : int
        The times of the first and the last answer, in milliseconds since 1970.
    gaps : deque of int
        Milliseconds between answers that follow each other without a break, the latest ones.
    checks : deque of (ItemPair, GivenAnswer)
        The latest answers about pairs whose answer others had implied.
    """

    def __init__(self, at: int) -> None:
        self.counts: dict[Answer, int] = {"same": 0, "different": 0, "skip": 0}
        self.first_at = self.last_at = at
        self.gaps: deque[int] = deque(maxlen=_N_PER_PERSON)
        self.checks: deque[tuple[ItemPair, GivenAnswer]] = deque(maxlen=_N_PER_PERSON)


class AnswerIndex:
    """The answers of a log by pair and by person. It reads the log when it is first used, then only what is new.

    Thread-safe: use it in a ``with`` statement, which brings it up to date and keeps other threads from changing it.

    Parameters
    ----------
    read : callable (after, limit) -> list of Entry
        Returns up to ``limit`` durable entries after a number.

    Attributes
    ----------
    seq : int
        The number of the last entry in the index.
    people : dict of str to PersonLog
    recent : deque of ItemPair
        The pairs that were answered last.
    shared : dict of ItemPair
        The pairs that two people or more have answered.
    """

    def __init__(self, read: Callable[[int, int], list[Entry]]) -> None:
        self._read = read
        self._lock = Lock()
        self._last_erase = 0  # the number of the last entry that records an erasure
        self._clear()

    def _clear(self) -> None:
        self.seq = 0
        self.people: dict[str, PersonLog] = {}
        self.recent: deque[ItemPair] = deque(maxlen=N_RECENT)
        self.shared: dict[ItemPair, None] = {}
        self._answers: dict[ItemPair, list[GivenAnswer]] = {}
        self._disagreeing: set[ItemPair] = set()
        self._changed: set[ItemPair] = set()  # pairs with new entries

    def __enter__(self) -> AnswerIndex:
        """Bring the index up to date, and keep other threads from changing it."""
        self._lock.acquire()
        try:
            self._update()
        except BaseException:
            self._lock.release()
            raise
        return self

    def _update(self) -> None:
        """Read what is new; everything, if answers were erased: entries that were read before have lost their content.

        The entry that records an erasure appears together with it. So no entry was read too early if none is new.
        """
        while True:
            known = self._last_erase
            while entries := self._read(self.seq, _PAGE_SIZE):
                for entry in entries:
                    self._add(entry)
            if self._last_erase == known:
                break
            self._clear()
        # Once per pair, not per answer: a pair may have thousands.
        for pair in self._changed:
            self._classify(pair)
        self._changed.clear()

    def forget(self) -> None:
        """Forget everything, because the log was replaced by another one."""
        with self._lock:
            self._last_erase = 0
            self._clear()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def _add(self, entry: Entry) -> None:
        self.seq = entry.seq
        if entry.kind == "erase":
            self._last_erase = max(self._last_erase, entry.seq)
        if entry.left == entry.right:
            return  # a name, the undo of one, or without its content
        pair = min(entry.left, entry.right), max(entry.left, entry.right)
        if entry.kind == "undo":
            self._undo(pair, entry)
        elif entry.kind == "same" or entry.kind == "different" or entry.kind == "skip":
            given = GivenAnswer(entry.seq, entry.at, entry.person, entry.kind, entry.source)
            self._answers.setdefault(pair, []).append(given)
            self._count(pair, given)
            self.recent.append(pair)
        self._changed.add(pair)

    def _count(self, pair: ItemPair, given: GivenAnswer) -> None:
        if given.source == "review":
            return  # a decision between the answers of others
        person = self.people.setdefault(given.person, PersonLog(given.at))
        if given.source != "import":  # an import has the time of the import
            gap = given.at - person.last_at
            if 0 < gap <= MAX_GAP_MS:
                person.gaps.append(gap)
        person.last_at = max(person.last_at, given.at)
        person.counts[given.answer] += 1
        if given.source == "check":
            person.checks.append((pair, given))

    def _undo(self, pair: ItemPair, undo: Entry) -> None:
        answers = self._answers.get(pair, [])
        at = bisect_left(answers, undo.undoes or 0, key=_seq)
        if at == len(answers) or answers[at].seq != undo.undoes:
            return
        given = answers[at]
        given.standing = False
        # The undo of a settlement has the source of what it undoes.
        if undo.source != "review" or given.source == "review":
            given.given = False
            if given.source != "review":
                self.people[given.person].counts[given.answer] -= 1

    def _classify(self, pair: ItemPair) -> None:
        """Note whether a pair is shared, and whether people disagree about it."""
        if len(self._answers.get(pair, ())) < 2:
            return
        if len(self.opinions(pair)) > 1:
            self.shared[pair] = None
        else:
            self.shared.pop(pair, None)
        kinds = {each.same for each in self.standing(pair)} - {None}
        if len(kinds) > 1 and self.settled(pair) is None:
            self._disagreeing.add(pair)
        else:
            self._disagreeing.discard(pair)

    def standing(self, pair: ItemPair) -> list[GivenAnswer]:
        """Return the latest answer of each person that stands, without decisions of reviewers, in order."""
        latest = {
            each.person: each for each in self._answers.get(pair, ()) if each.standing and each.source != "review"
        }
        return sorted(latest.values(), key=_seq)

    def opinions(self, pair: ItemPair) -> dict[str, bool]:
        """Return what each person with a name thinks: the latest "same" or "different" that the person has given.

        Answers without a name may be of several people, and are left out.
        """
        return {
            each.person: each.same
            for each in self._answers.get(pair, ())
            if each.given and each.same is not None and each.source != "review" and each.person
        }

    def sources(self, pair: ItemPair) -> dict[str, PairSource]:
        """Return how the pair was chosen when each person gave the answer in ``opinions``."""
        return {
            each.person: each.source
            for each in self._answers.get(pair, ())
            if each.given and each.same is not None and each.source != "review" and each.person
        }

    def asked(self, pair: ItemPair) -> set[str]:
        """Return the people who have answered or skipped a pair, also if they have undone it."""
        return {each.person for each in self._answers.get(pair, ())}

    def settled(self, pair: ItemPair) -> GivenAnswer | None:
        """Return the decision of a reviewer about a pair; None if there is none that stands."""
        found = (each for each in reversed(self._answers.get(pair, ())) if each.standing and each.source == "review")
        return next(found, None)

    def losing(self, pair: ItemPair, answer: Answer) -> list[int]:
        """Return the numbers of all standing answers about a pair that differ from an answer; skipped ones stay."""
        return [
            each.seq for each in self._answers.get(pair, ()) if each.standing and each.answer not in (answer, "skip")
        ]

    def has_answers(self, pair: ItemPair) -> bool:
        """Return whether a pair has an answer "same" or "different" that stands."""
        return any(each.standing and each.same is not None for each in self._answers.get(pair, ()))

    def pairs(self) -> Iterator[ItemPair]:
        """Yield all pairs with answers."""
        return iter(self._answers)

    @property
    def n_disagreements(self) -> int:
        """The number of pairs about which people disagree."""
        return len(self._disagreeing)

    def disagreements(self, after: int, limit: int) -> list[Disagreement]:
        """Return up to ``limit`` disagreements whose ``seq`` is after a number, in order."""
        found = ((self._answers[pair][0].seq, pair) for pair in self._disagreeing)
        chosen = sorted(each for each in found if each[0] > after)[:limit]
        return [Disagreement(seq, pair, self.standing(pair)) for seq, pair in chosen]


def _seq(given: GivenAnswer) -> int:
    return given.seq


#: Which answers a figure is about: all that several people gave, or those that were asked again on purpose.
Scope: TypeAlias = Literal["all", "repeated"]
