"""Log: the durable entries of a project as a learner goes through them, and which of them are undone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

from ocelad.service.entries import Entry

# How many entries are read at a time, and how many of the last ones are kept at hand.
_AT_A_TIME = 5_000
_AT_HAND = 50_000
# Later than every entry.
NONE = 2**63


class Log:
    """Entries in their order, from memory where they came lately, otherwise read again.

    Parameters
    ----------
    read : callable (after, limit) -> list of Entry
        The durable entries that follow one, at most so many.

    Attributes
    ----------
    end : int
        Up to which entry it has been seen.
    undone : set of int
        The entries that are undone by one that has been seen.
    revoked : int
        The oldest of them since somebody has set it back to NONE.
    """

    def __init__(self, read: Callable[[int, int], list[Entry]]) -> None:
        self._read = read
        self._hand: list[Entry] = []  # entries up to the end, without gaps
        self._undos: list[tuple[int, int]] = []  # number of the undo, and of what it undoes
        self._total, self._totalled = sha256(), 0
        self.end = 0
        self.undone: set[int] = set()
        self.revoked = NONE

    def take(self, entries: Sequence[Entry]) -> None:
        """See some more entries. What has been seen already is passed over; what lacks in between is read."""
        for entry in entries:
            if entry.seq > self.end + 1:
                self.fetch(entry.seq - 1)
                if entry.seq > self.end + 1:
                    raise RuntimeError(f"entry {entry.seq} came, but the log cannot be read beyond entry {self.end}")
            if entry.seq == self.end + 1:
                self._see(entry)
        if len(self._hand) > 2 * _AT_HAND:
            del self._hand[:-_AT_HAND]

    def fetch(self, to: int | None = None, *, totalling: bool = False) -> None:
        """Read on: up to an entry, or all there are. ``totalling``: ``total`` will be asked for, of the last one."""
        while to is None or self.end < to:
            limit = _AT_A_TIME if to is None else min(_AT_A_TIME, to - self.end)
            entries = self._read(self.end, limit)
            if not entries:
                break
            if [entry.seq for entry in entries] != list(range(self.end + 1, self.end + 1 + len(entries))):
                raise RuntimeError(f"the log has a gap after entry {self.end}")
            self.take(entries)
            if totalling:  # while they are at hand: older ones would have to be read again
                self.total(self.end)

    def _see(self, entry: Entry) -> None:
        self._hand.append(entry)
        self.end = entry.seq
        if entry.undoes is not None:
            self._undos.append((entry.seq, entry.undoes))
            if entry.undoes not in self.undone:
                self.undone.add(entry.undoes)
                self.revoked = min(self.revoked, entry.undoes)

    def after(self, seq: int, most: int) -> list[Entry]:
        """At most so many of the entries that follow one and have been seen."""
        most = min(most, self.end - seq)
        first = self.end - len(self._hand)
        if seq >= first:
            return self._hand[seq - first : seq - first + most]
        return self._read(seq, most) if most else []

    def is_settled(self, seq: int) -> bool:
        """Whether no later entry that has been seen undoes one of those up to this one."""
        return all(undo <= seq or undoes > seq for undo, undoes in self._undos)

    def forget_undos(self, seq: int) -> None:
        """Nobody will ask any more whether it is settled at an entry before this one."""
        self._undos = [(undo, undoes) for undo, undoes in self._undos if undo > seq]

    @property
    def totalled(self) -> int:
        """From which entry on ``total`` can be asked for."""
        return self._totalled

    def total(self, seq: int) -> str:
        """A digest of all entries up to one: another one where any of them is another. It only ever goes on."""
        while self._totalled < seq:
            entries = self.after(self._totalled, min(_AT_A_TIME, seq - self._totalled))
            if not entries:
                raise RuntimeError(f"the log cannot be read beyond entry {self._totalled}")
            self._total.update("".join(map(repr, entries)).encode())
            self._totalled = entries[-1].seq
        return self._total.hexdigest()
