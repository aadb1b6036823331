"""A project in memory: its items, the end of its log, the learner and the choice of pairs."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from ocelad.choice import PairChooser
from ocelad.service import items as item_sets
from ocelad.service.api_error import ApiError
from ocelad.service.entries import Entry
from ocelad.service.itemset import ItemSet
from ocelad.service.learning import Learner, View
from ocelad.service.learning.tracker_settings import TrackerSettings
from ocelad.service.notifier import Notifier
from ocelad.service.store import ProjectRecord, Store

# The number of the last entries that are kept in memory; older ones are read from the store.
N_RECENT = 2048
_PAGE = 5000


class ServedProject:
    """A project in memory. The store's writer passes entries to it, and the learner replaces the view.

    Attributes
    ----------
    id, title : str
    created_at : int
        Milliseconds since 1970, UTC.
    notifier : Notifier
        Notified of new entries, items, views and streams.
    n_streams : int
        The number of open event streams.
    columns : list of Column
        The columns that the map can be coloured by.
    chooser : PairChooser
    learner : Learner
    initial_seq : int
        The last entry at the start; the project is ready once the learner has reached it.
    """

    def __init__(self, store: Store, record: ProjectRecord, snapshots: Path, random_share: float | None) -> None:
        self.id, self.title, self.created_at = record.id, record.title, record.created_at
        self.notifier = Notifier()
        self.n_streams = 0
        self._store = store
        self._items = store.items(record.id)
        self._positions = {id: position for position, id in enumerate(self._items.ids)}
        self.columns = item_sets.list_columns(self._items)
        self._recent: deque[Entry] = deque(maxlen=N_RECENT)
        self._undone_by: dict[int, int] = {}  # numbers of entries
        self._seq = 0
        transitive = TrackerSettings.read(record.settings).transitive
        self.chooser = PairChooser(len(self._items), transitive=transitive, random_share=random_share)
        self._recording = Lock()
        self.learner = Learner(
            self._items,
            record.settings,
            snapshot=snapshots / f"{record.id}.tracker",
            read=self._read,
            on_view=lambda view: self.notifier.notify(),
        )
        while self._read(self._seq, _PAGE):
            pass
        self.initial_seq = self._seq

    def _read(self, after: int, limit: int) -> list[Entry]:
        """Read entries for the learner, and record those that are new to this object."""
        entries = self._store.entries(self.id, after=after, limit=limit)
        self._record(entries)
        return entries

    def _record(self, entries: Sequence[Entry]) -> None:
        """Record entries in order, each once; may be called from several threads."""
        with self._recording:
            for entry in entries:
                if entry.seq <= self._seq:
                    continue
                self._recent.append(entry)
                if entry.undoes is not None:
                    self._undone_by[entry.undoes] = entry.seq
                if entry.kind != "name" and entry.left != entry.right:  # the undo of a name has one item
                    self.chooser.record(entry.left, entry.right, entry.kind, number=entry.seq, undoes=entry.undoes)
                self._seq = entry.seq

    def on_commit(self, entries: Sequence[Entry]) -> None:
        """Process new durable entries; called by the store's writer thread, in order."""
        self._record(entries)
        self.learner.add_entries(entries)
        self.notifier.notify()

    def replace_items(self, items: ItemSet) -> None:
        """Replace the items by a set that begins with the present ones, after new ones were stored."""
        # The learner and the chooser come first: an answer may name a new item as soon as its position is known.
        self.learner.replace_items(items)
        self.chooser.grow(len(items))
        self._items = items
        self.columns = item_sets.list_columns(items)
        self._positions |= {id: position for position, id in enumerate(items.ids)}
        self.notifier.notify()

    def close(self) -> None:
        """Stop learning and save a snapshot."""
        self.learner.close()

    @property
    def items(self) -> ItemSet:
        """All items."""
        return self._items

    @property
    def seq(self) -> int:
        """The number of the last durable entry."""
        return self._seq

    @property
    def view(self) -> View:
        """The latest state of learning."""
        return self.learner.view

    @property
    def backlog(self) -> int:
        """The number of durable entries that the view has not learned from yet."""
        return max(self._seq - self.view.seq, 0)

    def position(self, id: str, where: str) -> int:
        """Return the position of an item; ``where`` is the location of the id in the request, for the error."""
        try:
            return self._positions[id]
        except KeyError:
            raise ApiError(404, f"there is no item {id!r} in {self.id!r}", code="unknown_item", where=where) from None

    def recent_entries(self, after: int, limit: int) -> list[Entry] | None:
        """Return up to ``limit`` entries after a number if they are in memory; otherwise None."""
        if after >= self._seq:
            return []
        entries = list(self._recent)  # a copy: the writer thread may append meanwhile
        if not entries or after + 1 < entries[0].seq:
            return None
        first = after + 1 - entries[0].seq
        return entries[first : first + limit]

    def entries(self, after: int, limit: int) -> list[Entry]:
        """Return up to ``limit`` entries after a number; may read the database."""
        entries = self.recent_entries(after, limit)
        return self._store.entries(self.id, after=after, limit=limit) if entries is None else entries

    def is_undone(self, entry: Entry, last: int | None = None) -> bool:
        """Return whether an entry is undone; if ``last`` is given, by an entry up to ``last``."""
        undone_by = self._undone_by.get(entry.seq)
        return undone_by is not None and (last is None or undone_by <= last)
