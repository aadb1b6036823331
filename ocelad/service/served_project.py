"""Live: a project that is being served: its items, the end of its log, what was learned, and what to ask next."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from ocelad.service import items as reading
from ocelad.service.choice import Chooser
from ocelad.service.entries import Entry
from ocelad.service.itemset import ItemSet
from ocelad.service.learning import Learner, View
from ocelad.service.notifier import Notifier
from ocelad.service.refusal import Refusal
from ocelad.service.store import ProjectRow, Store
from ocelad.service.wire import Item, LogEntry, ProjectInfo, Right

# So many of the last entries are at hand; who is further behind is served from the store.
RECENT = 2048
_PAGE = 5000


class ServedProject:
    """One project in memory. Entries come from the store's writer, views from the learner; readers only look."""

    def __init__(self, store: Store, row: ProjectRow, snapshots: Path, random_share: float) -> None:
        self.id, self.title, self.created_at = row.id, row.title, row.created_at
        self.beacon = Notifier()
        #: How many watch its events now.
        self.people = 0
        self._store = store
        self._items = store.items(row.id)
        self._positions = {id: position for position, id in enumerate(self._items.ids)}
        self.columns = reading.columns(self._items)
        self._recent: deque[Entry] = deque(maxlen=RECENT)
        self._undone_by: dict[int, int] = {}  # numbers of entries
        self._seq = 0
        self.chooser = Chooser(len(self._items), random_share=random_share)
        self._noting = Lock()
        self.learner = Learner(
            self._items,
            row.settings,
            snapshot=snapshots / f"{row.id}.tracker",
            read=self._read,
            on_view=lambda view: self.beacon.ring(),
        )
        while self._read(self._seq, _PAGE):
            pass
        #: The entries that must be learned from before the project is ready.
        self.begun_with = self._seq

    def _read(self, after: int, most: int) -> list[Entry]:
        """Entries for the learner, which goes through all of them as well: what is new of them is noted."""
        entries = self._store.entries(self.id, after=after, limit=most)
        self._note(entries)
        return entries

    def _note(self, entries: Sequence[Entry]) -> None:
        """Take note of entries, each once; in their order, but from more than one thread."""
        with self._noting:
            for entry in entries:
                if entry.seq <= self._seq:
                    continue
                self._recent.append(entry)
                if entry.undoes is not None:
                    self._undone_by[entry.undoes] = entry.seq
                self.chooser.note(entry.left, entry.right, entry.kind)
                self._seq = entry.seq

    def committed(self, entries: Sequence[Entry]) -> None:
        """These are durable now; called by the store's writer, in their order."""
        self._note(entries)
        self.learner.take(entries)
        self.beacon.ring()

    def added(self, items: ItemSet) -> None:
        """Items were appended in the store; these are all of them."""
        # Who learns and who chooses first: an answer may name a new item as soon as its position is known.
        self.learner.add_items(items)
        self.chooser.grow(len(items))
        self._items = items
        self.columns = reading.columns(items)
        self._positions |= {id: position for position, id in enumerate(items.ids)}
        self.beacon.ring()

    def close(self) -> None:
        self.learner.close()

    @property
    def items(self) -> ItemSet:
        return self._items

    @property
    def seq(self) -> int:
        """Of the last durable entry."""
        return self._seq

    @property
    def view(self) -> View:
        """What was learned, as of a moment ago."""
        return self.learner.view

    @property
    def behind(self) -> int:
        """How many durable entries the view has not learned from yet."""
        return max(self._seq - self.view.seq, 0)

    def position(self, id: str, where: str) -> int:
        """Where an item is."""
        try:
            return self._positions[id]
        except KeyError:
            raise Refusal(404, f"there is no item {id!r} in {self.id!r}", code="unknown_item", where=where) from None

    def recent(self, after: int, most: int) -> list[Entry] | None:
        """Entries after a number, at most so many, where all of those are at hand; otherwise None."""
        if after >= self._seq:
            return []
        entries = list(self._recent)  # the writer may append meanwhile
        if not entries or after + 1 < entries[0].seq:
            return None
        first = after + 1 - entries[0].seq
        return entries[first : first + most]

    def entries(self, after: int, most: int) -> list[Entry]:
        """Entries after a number, at most so many; may read the database."""
        entries = self.recent(after, most)
        return self._store.entries(self.id, after=after, limit=most) if entries is None else entries

    def told(self, entry: Entry, last: int | None = None) -> LogEntry:
        """An entry as clients see it; as of the entry ``last``, where that is given, whatever came after it."""
        undone_by = self._undone_by.get(entry.seq)
        ids = self._items.ids
        return LogEntry(
            seq=entry.seq,
            at=entry.at,
            kind=entry.kind,
            left=ids[entry.left],
            right=ids[entry.right],
            asked=entry.asked,
            who=entry.who,
            undoes=entry.undoes,
            undone=undone_by is not None and (last is None or undone_by <= last),
        )

    def item(self, position: int, with_features: bool = False) -> Item:
        """An item as clients see it."""
        return reading.item(self._items, position, self.id, with_features)

    def info(self, right: Right) -> ProjectInfo:
        """The project as a client with this right sees it."""
        view = self.view
        return ProjectInfo(
            id=self.id,
            title=self.title,
            created_at=self.created_at,
            n_items=len(self._items),
            feature_names=list(self._items.feature_names),
            shown=self._items.shown,
            columns=self.columns,
            seq=self._seq,
            learned=view.seq,
            n_answers=view.n_answers,
            right=right,
        )
