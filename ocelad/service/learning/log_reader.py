"""Sequential access to the durable entries of a project's log, with the set of undone entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

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
    find_undone : callable (last) -> iterable of int, or None
        Returns the numbers of the entries that entries up to a number undo. None: they are read.

    Attributes
    ----------
    end : int
        The number of the last entry that has been seen.
    undone : set of int
        The numbers of the entries that a seen entry undoes.
    first_undone : int
        The smallest number added to ``undone`` since the owner last set this to NO_ENTRY.
    last_erasure : int
        The number of the last seen entry that records an erasure; 0: none was seen.
    """

    def __init__(
        self,
        read: Callable[[int, int], list[Entry]],
        find_undone: Callable[[int], Iterable[int]] | None = None,
    ) -> None:
        self._read, self._find_undone = read, find_undone
        self._cached: list[Entry] = []  # entries up to ``end``, without gaps
        self._undos: list[tuple[int, int]] = []  # numbers of an undo and of the entry that it undoes
        self.end = 0
        self.undone: set[int] = set()
        self.first_undone = NO_ENTRY
        self.last_erasure = 0

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

    def start_after(self, seq: int) -> None:
        """Begin after entry ``seq`` without reading the entries up to it, except those that are undone."""
        self._cached, self._undos, self.end, self.last_erasure = [], [], seq, 0
        find_undone = self._find_undone or self._read_undone
        self.undone = set(find_undone(seq) if seq else ())
        self.first_undone = NO_ENTRY

    def _read_undone(self, last: int) -> Iterable[int]:
        after = 0
        while after < last and (entries := self._read(after, min(_PAGE_SIZE, last - after))):
            after = entries[-1].seq
            yield from (entry.undoes for entry in entries if entry.undoes is not None)

    def chain(self, seq: int) -> bytes | None:
        """Return the chain of the log up to entry ``seq``, which identifies it; None if there is no such entry."""
        first = self.end - len(self._cached)
        if first < seq <= self.end:
            return self._cached[seq - first - 1].chain
        entries = self._read(seq - 1, 1)
        return entries[0].chain if entries and entries[0].seq == seq else None

    def fetch(self, last: int | None = None) -> None:
        """Read up to entry ``last``, or to the end of the log."""
        while last is None or self.end < last:
            limit = _PAGE_SIZE if last is None else min(_PAGE_SIZE, last - self.end)
            entries = self._read(self.end, limit)
            if not entries:
                break
            if [entry.seq for entry in entries] != list(range(self.end + 1, self.end + 1 + len(entries))):
                raise RuntimeError(f"the log has a gap after entry {self.end}")
            self.add(entries)

    def _add(self, entry: Entry) -> None:
        self._cached.append(entry)
        self.end = entry.seq
        if entry.kind == "erase":
            self.last_erasure = entry.seq
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
