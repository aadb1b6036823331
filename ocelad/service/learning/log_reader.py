"""Sequential access to the durable entries of a project's log, with the set of undone entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

from ocelad.service.entries import Entry

# The number of entries per read, and the number of recent entries that are kept in memory.
_PAGE_SIZE = 5_000
_N_CACHED = 50_000
#: A number above that of every entry.
NO_ENTRY = 2**63


class LogReader:
    """Reads entries in order, recent ones from memory and older ones through ``read``.

    Parameters
    ----------
    read : callable (after, limit) -> list of Entry
        Returns up to ``limit`` durable entries after a number.

    Attributes
    ----------
    end : int
        The number of the last entry that has been seen.
    undone : set of int
        The numbers of the entries that a seen entry undoes.
    first_undone : int
        The smallest number added to ``undone`` since the owner last set this to NO_ENTRY.
    """

    def __init__(self, read: Callable[[int, int], list[Entry]]) -> None:
        self._read = read
        self._cached: list[Entry] = []  # entries up to ``end``, without gaps
        self._undos: list[tuple[int, int]] = []  # numbers of an undo and of the entry that it undoes
        self._hash, self._hashed_seq = sha256(), 0
        self.end = 0
        self.undone: set[int] = set()
        self.first_undone = NO_ENTRY

    def add(self, entries: Sequence[Entry]) -> None:
        """Add entries. Entries that were seen before are skipped; missing ones in between are read."""
        for entry in entries:
            if entry.seq > self.end + 1:
                self.fetch(entry.seq - 1)
                if entry.seq > self.end + 1:
                    raise RuntimeError(f"entry {entry.seq} arrived, but the log cannot be read beyond {self.end}")
            if entry.seq == self.end + 1:
                self._add(entry)
        if len(self._cached) > 2 * _N_CACHED:
            del self._cached[:-_N_CACHED]

    def fetch(self, last: int | None = None, *, with_digest: bool = False) -> None:
        """Read up to entry ``last``, or to the end of the log; ``with_digest`` prepares ``digest`` of the last one."""
        while last is None or self.end < last:
            limit = _PAGE_SIZE if last is None else min(_PAGE_SIZE, last - self.end)
            entries = self._read(self.end, limit)
            if not entries:
                break
            if [entry.seq for entry in entries] != list(range(self.end + 1, self.end + 1 + len(entries))):
                raise RuntimeError(f"the log has a gap after entry {self.end}")
            self.add(entries)
            if with_digest:  # while the entries are in memory: older ones would have to be read again
                self.digest(self.end)

    def _add(self, entry: Entry) -> None:
        self._cached.append(entry)
        self.end = entry.seq
        if entry.undoes is not None:
            self._undos.append((entry.seq, entry.undoes))
            if entry.undoes not in self.undone:
                self.undone.add(entry.undoes)
                self.first_undone = min(self.first_undone, entry.undoes)

    def after(self, seq: int, limit: int) -> list[Entry]:
        """Return up to ``limit`` seen entries after a number."""
        limit = min(limit, self.end - seq)
        first = self.end - len(self._cached)
        if seq >= first:
            return self._cached[seq - first : seq - first + limit]
        return self._read(seq, limit) if limit else []

    def is_settled(self, seq: int) -> bool:
        """Return whether no seen entry after ``seq`` undoes an entry up to ``seq``."""
        return all(undo <= seq or undoes > seq for undo, undoes in self._undos)

    def forget_undos(self, seq: int) -> None:
        """Forget the undos up to ``seq``; afterwards ``is_settled`` is valid only from ``seq`` on."""
        self._undos = [(undo, undoes) for undo, undoes in self._undos if undo > seq]

    @property
    def digest_seq(self) -> int:
        """The number of the last entry in the running digest; ``digest`` accepts only numbers from it on."""
        return self._hashed_seq

    def digest(self, seq: int) -> str:
        """Return the SHA-256 of all entries up to ``seq``. The hash is running, so that ``seq`` must not decrease."""
        while self._hashed_seq < seq:
            entries = self.after(self._hashed_seq, min(_PAGE_SIZE, seq - self._hashed_seq))
            if not entries:
                raise RuntimeError(f"the log cannot be read beyond entry {self._hashed_seq}")
            self._hash.update("".join(map(_digest_text, entries)).encode())
            self._hashed_seq = entries[-1].seq
        return self._hash.hexdigest()


def _digest_text(entry: Entry) -> str:
    """Return the text of an entry that enters the digest. It must never change: snapshots store the digest.

    >>> _digest_text(Entry(1, 1700000000000, "same", 3, 5, "given", "anna"))
    "Entry(seq=1, at=1700000000000, kind='same', left=3, right=5, asked='given', who='anna', undoes=None)"
    """
    name = "" if entry.name is None else f", name={entry.name!r}"
    return (
        f"Entry(seq={entry.seq!r}, at={entry.at!r}, kind={entry.kind!r}, left={entry.left!r}, right={entry.right!r}, "
        f"asked={entry.source!r}, who={entry.person!r}, undoes={entry.undoes!r}{name})"
    )
