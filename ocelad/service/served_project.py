"""A project in memory: its items, the end of its log, the learner and the choice of pairs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple

from ocelad.choice import PairChooser
from ocelad.service import items as item_sets
from ocelad.service.api_error import ApiError
from ocelad.service.entries import Entry
from ocelad.service.itemset import ItemSet
from ocelad.service.learning import Learner, LearnerPool, View, compare_version
from ocelad.service.learning.tracker_settings import TrackerSettings
from ocelad.service.notifier import Notifier
from ocelad.service.project_options import Cards, ProjectOptions
from ocelad.service.store import AskedPair, ProjectRecord, Store
from ocelad.service.team import AnswerIndex, RepeatedPairs
from ocelad.service.tickets import Tickets

# The number of the last entries that are kept in memory; older ones are read from the store.
N_RECENT = 2048
_PAGE = 20_000
# Estimates of memory, in bytes: of an item beside its features, of an entry, and the copies of features and of states.
_ITEM_BYTES, _ENTRY_BYTES, _N_COPIES, _BASE_BYTES = 600, 400, 4, 2_000_000


class Notice(NamedTuple):
    """What happened to a project while the service was running: when (milliseconds since 1970, UTC), and a sentence."""

    at: int
    text: str


class _ReadOptions(NamedTuple):
    stored: Mapping[str, Any]
    options: ProjectOptions
    cards: Cards


class ServedProject:
    """A project in memory. The store's writer passes entries to it, and the learner replaces the view.

    Making one reads the items, the snapshot and the log after it. The pairs that were asked are read when the first
    pair is chosen.

    Parameters
    ----------
    store : Store
    record : ProjectRecord
    snapshot : Path
        The file of its snapshot.
    random_share : float or None
        That of ``PairChooser``.
    pool : LearnerPool or None
        The threads in which it learns; None: a thread of its own.
    on_view : callable (View) -> None, or None
        Called with every view that the learner publishes.

    Attributes
    ----------
    id : str
    created_at : int
        Milliseconds since 1970, UTC.
    replay : Replay
        Whether its log is learned as by the version that the project was created with.
    notifier : Notifier
        Notified of new entries, items, views and streams.
    n_streams : int
        The number of open event streams.
    n_holders : int
        The number of requests that use this object at present.
    used_at : float
        The time (of ``monotonic``) of the last request.
    end : str or None
        Why this object is out of date and must not be used any more; None: it is not.
    notice : Notice or None
        That the log was replaced since the service was started.
    columns : list of Column
        The columns that the map can be coloured by.
    tickets : Tickets
        Signs the pairs that are handed out.
    answers : AnswerIndex
        The answers by pair and by person, read when they are first asked for.
    repeats : RepeatedPairs
        The choice of pairs that others have answered.
    learner : Learner
    initial_seq : int
        The last entry when the project was loaded; it is ready once the learner has reached it.
    """

    def __init__(
        self,
        store: Store,
        record: ProjectRecord,
        snapshot: Path,
        random_share: float | None,
        pool: LearnerPool | None = None,
        on_view: Callable[[View], None] | None = None,
    ) -> None:
        self.id, self.created_at = record.id, record.created_at
        self.replay = compare_version(record.settings)
        self.notifier = Notifier()
        self.n_streams = self.n_holders = 0
        self.used_at = monotonic()
        self.end: str | None = None
        self.notice: Notice | None = None
        self.tickets = Tickets(store.secret, record.id, record.created_at)
        self.answers = AnswerIndex(self._read_stored)
        self.repeats = RepeatedPairs(self.answers)
        self._store = store
        self._items = store.items(record.id)
        self._positions = {id: position for position, id in enumerate(self._items.ids)}
        self._options: _ReadOptions | None = None
        self.columns = item_sets.list_columns(self._items)
        self._recent: deque[Entry] = deque(maxlen=N_RECENT)
        self._undone_by = store.undone(record.id)  # numbers of entries
        self._seq = self.initial_seq = record.seq
        self._random_share, self._transitive = random_share, TrackerSettings.read(record.settings).transitive
        self._chooser: PairChooser | None = None
        self._recording, self._making_chooser = Lock(), Lock()
        self._view_listener = on_view
        undone_by = dict(self._undone_by)
        self.learner = Learner(
            self._items,
            record.settings,
            snapshot=snapshot,
            read=self._read,
            find_undone=lambda last: (undone for undone, undo in undone_by.items() if undo <= last),
            on_view=self._on_view,
            pool=pool,
            weights=ProjectOptions.read(record.options).weights.effective,
        )

    def _read_stored(self, after: int, limit: int) -> list[Entry]:
        """Read entries as they are stored at present: answers may have been erased since they were recorded."""
        return [] if after >= self._store.project(self.id).seq else self._store.entries(self.id, after, limit)

    def _read(self, after: int, limit: int) -> list[Entry]:
        """Read entries for the learner, and record those that are new to this object."""
        entries = self._store.entries(self.id, after=after, limit=limit)
        self._record(entries)
        return entries

    def _on_view(self, view: View) -> None:
        self.notifier.notify()
        if self._view_listener is not None:
            self._view_listener(view)

    def catch_up(self) -> None:
        """Read the entries that were stored while this object was made."""
        last = self._store.project(self.id).seq
        while self._seq < last and (entries := self._read(self._seq, _PAGE)):
            self.learner.add_entries(entries)

    def _record(self, entries: Sequence[Entry]) -> None:
        """Record entries in order, each once, and read missing ones; may be called from several threads."""
        with self._recording:
            for entry in entries:
                if entry.seq > self._seq + 1:
                    n_missed = entry.seq - self._seq - 1
                    for missed in self._store.entries(self.id, after=self._seq, limit=n_missed):
                        self._record_next(missed)
                if entry.seq == self._seq + 1:
                    self._record_next(entry)

    def _record_next(self, entry: Entry) -> None:
        self._recent.append(entry)
        if entry.undoes is not None:
            self._undone_by[entry.undoes] = entry.seq
        if self._chooser is not None:
            _record_pair(self._chooser, entry)
        self._seq = entry.seq

    @property
    def chooser(self) -> PairChooser:
        """The choice of pairs. The first access reads which pairs were asked."""
        chooser = self._chooser
        if chooser is None:
            with self._making_chooser:
                chooser = self._chooser or self._make_chooser()
        return chooser

    def _make_chooser(self) -> PairChooser:
        chooser = PairChooser(len(self._items), transitive=self._transitive, random_share=self._random_share)
        seq = self._record_pairs(chooser, 0, self._seq)
        with self._recording:  # the few entries that were stored meanwhile
            chooser.grow(len(self._items))
            self._record_pairs(chooser, seq, self._seq)
            self._chooser = chooser
        return chooser

    def _record_pairs(self, chooser: PairChooser, after: int, last: int) -> int:
        while after < last and (pairs := self._store.pairs(self.id, after, min(after + _PAGE, last))):
            for pair in pairs:
                _record_pair(chooser, pair)
            after = pairs[-1].seq
        return after

    def on_commit(self, entries: Sequence[Entry]) -> None:
        """Process new durable entries; called by the store's writer thread, in order."""
        self._record(entries)
        self.learner.add_entries(entries)
        self.notifier.notify()

    def use_weights(self) -> None:
        """Let answers weigh as the options say; if they have changed, all answers are learned again."""
        self.learner.replace_weights(self.options.weights.effective)

    def is_answered(self, left: int, right: int) -> bool:
        """Return whether a pair has an answer that is not undone; False if that is not in memory. It never waits."""
        return self._chooser is not None and self._chooser.is_answered(left, right)

    def replace_items(self, items: ItemSet) -> None:
        """Replace the items by a set that begins with the present ones, after new ones were stored."""
        # The learner and the chooser come first: an answer may name a new item as soon as its position is known.
        self.learner.replace_items(items)
        with self._recording:
            if self._chooser is not None:
                self._chooser.grow(len(items))
            self._items = items
        self.columns = item_sets.list_columns(items)
        self._positions |= {id: position for position, id in enumerate(items.ids)}
        self.notifier.notify()

    def close(self) -> None:
        """Stop learning and save a snapshot."""
        self.learner.close()

    def discard(self, reason: str) -> None:
        """Forget everything, without a snapshot: the log is another one, or the project is deleted. Streams end."""
        self.end = reason
        self.learner.discard()
        with self._recording:
            self._recent.clear()
            self._chooser = None
        self.notifier.notify()

    def check_current(self) -> None:
        """Raise ApiError if this object is out of date: positions of items may be others in the stored project.

        To be called before answers are stored that took a while to prepare.
        """
        if self.end is not None:
            message = f"{self.id!r} is not as it was when this request began: {self.end}; try again"
            raise ApiError(503, message, code="log_replaced", headers={"Retry-After": "1"})

    @property
    def can_be_evicted(self) -> bool:
        """Whether nobody uses this object, and ``close`` saves everything that was learned."""
        return not (self.n_streams or self.n_holders) and self.learner.is_idle and self.view.seq == self._seq

    @property
    def n_bytes(self) -> int:
        """An estimate of the memory that the project takes."""
        items = self._items
        features = 0 if items.is_single else items.features.nbytes  # float32 features are mapped from a file
        n_entries = len(self._recent) if self._chooser is None else self._seq
        others = len(items) * _ITEM_BYTES + n_entries * _ENTRY_BYTES + _BASE_BYTES
        return others + _N_COPIES * (features + self.learner.n_bytes)

    @property
    def title(self) -> str:
        """The title on the page."""
        return self._store.project(self.id).title

    @property
    def archived_at(self) -> int | None:
        """Since when people cannot answer, in milliseconds since 1970; None: they can."""
        return self._store.project(self.id).archived_at

    @property
    def options(self) -> ProjectOptions:
        """The question, the guidelines and the other options that may change."""
        return self._read_options().options

    @property
    def cards(self) -> Cards:
        """The columns of the items' cards."""
        return self._read_options().cards

    def _read_options(self) -> _ReadOptions:
        """Return the options as they are stored now; they are read again only when they have changed."""
        stored, read = self._store.project(self.id).options, self._options
        if read is None or read.stored is not stored:
            options = ProjectOptions.read(stored)
            cards = item_sets.default_cards(self._items) if options.cards is None else options.cards
            self._options = read = _ReadOptions(stored, options, item_sets.readable_cards(self._items, cards))
        return read

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

    def chain(self, seq: int) -> bytes | None:
        """Return the chain of the log up to an entry, which identifies it; None if there is no such entry."""
        recent = self.recent_entries(seq - 1, 1) if seq else None
        if recent:
            return recent[0].chain
        return self._store.chain(self.id, seq)

    def is_undone(self, entry: Entry, last: int | None = None) -> bool:
        """Return whether an entry is undone; if ``last`` is given, by an entry up to ``last``."""
        undone_by = self._undone_by.get(entry.seq)
        return undone_by is not None and (last is None or undone_by <= last)


def _record_pair(chooser: PairChooser, entry: Entry | AskedPair) -> None:
    """Record an answer, a skip or an undo of one; names and erased entries are of one item."""
    if entry.kind in ("same", "different", "skip", "undo") and entry.left != entry.right:
        chooser.record(entry.left, entry.right, entry.kind, number=entry.seq, undoes=entry.undoes)
