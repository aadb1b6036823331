"""The store: projects, items, logs of entries and tokens in a database with a single writer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Self, get_args

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, insert, select

from ocelad.service.entries import Answer, Entry, NewEntry, NewName, PairSource
from ocelad.service.itemset import ItemSet
from ocelad.service.store.database import Database
from ocelad.service.store.durable_files import make_folder
from ocelad.service.store.entry_log import MAX_BUNDLE_SIZE, AppendRequest, AppendResult, load_entries, load_repeated
from ocelad.service.store.errors import (
    InvalidRequest,
    ProjectExists,
    StoreError,
    StoreUnavailable,
    UnknownEntry,
    UnknownItem,
    UnknownProject,
)
from ocelad.service.store.item_table import (
    ItemBatch,
    check_compatible,
    check_items,
    delete_incomplete,
    load_items,
    load_picture,
    load_vectors,
    split_items,
)
from ocelad.service.store.lock import FolderLock
from ocelad.service.store.project_table import ProjectRecord, check_text, now_ms
from ocelad.service.store.schema import is_current
from ocelad.service.store.tables import projects
from ocelad.service.store.tokens import Token, Tokens
from ocelad.service.store.writer import Listener, Writer, WriteTask

# The largest number that both databases and JSON represent exactly.
_MAX_SEQ = 2**53
_ANSWERS, _SOURCES = frozenset(get_args(Answer)), frozenset(get_args(PairSource))


class Store:
    """Projects, their items and logs of entries, and tokens; created by ``Store.open``.

    Acknowledged entries are on the disk. All methods may be called from any thread. Reading never waits for writing.

    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from ocelad.service.itemset import Scaling
    >>> items = ItemSet(("a", "b"), np.eye(2), ("x", "y"), Scaling("none", np.ones(2)))
    >>> with TemporaryDirectory() as folder, Store.open(Path(folder)) as store:
    ...     project = store.create_project("letters", "Letters", items, settings={}, digest="")
    ...     result = store.append("letters", [NewEntry(0, 1, "same")], person="me").result()
    >>> result.entries[0].seq, result.repeated
    (1, False)
    """

    def __init__(self, folder: Path, database: Database, lock: FolderLock) -> None:
        self._folder, self._database = folder, database
        self._lock = lock
        self._tokens = Tokens(database)
        with database.translating_errors():
            self._writer = Writer(database)
        self._adding_vectors = Lock()  # to files in the folder
        self._adding = Lock()  # items that are not visible yet belong to the holder of this lock
        try:
            self._run(WriteTask(delete_incomplete))
        except BaseException:
            self._writer.close()
            raise

    @classmethod
    def open(cls, folder: Path, url: str | None = None) -> Self:
        """Open or create the store of a data folder; no other process can write to it until ``close``.

        Parameters
        ----------
        folder : Path
            The data folder; created if it does not exist.
        url : str or None
            ``postgresql://...``; None: SQLite in the folder.
        """
        make_folder(folder)
        lock = FolderLock(folder)
        database = None
        try:
            database = Database(folder, url)
            return cls(folder, database, lock)
        except BaseException:
            if database is not None:
                database.dispose()
            lock.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Write what is queued, then release the database and the folder."""
        self._writer.close()
        self._database.dispose()
        self._lock.release()

    @property
    def failure(self) -> str | None:
        """Why writing fails at present, as a sentence for the log; None if it works. The writer keeps retrying."""
        return self._writer.failure

    def projects(self) -> list[ProjectRecord]:
        """Return all projects in the order of their creation."""
        return list(self._writer.projects.values())

    def project(self, project_id: str) -> ProjectRecord:
        """Return a project; raise UnknownProject if it does not exist."""
        record = self._writer.projects.get(project_id)
        if record is None:
            raise UnknownProject(f"there is no project {project_id!r}")
        return record

    def create_project(
        self, id: str, title: str, items: ItemSet, settings: Mapping[str, Any], digest: str
    ) -> ProjectRecord:
        """Create a project with its items, at least one, completely or not at all."""
        check_text(id, "the id of the project", min_length=1, max_length=64)
        check_text(title, "the title of the project", max_length=500)
        check_text(digest, "the digest")
        check_items(items)
        if not len(items):
            raise InvalidRequest(f"the project {id!r} has no items; accepted: at least one")
        row = {
            "id": id,
            "title": title,
            "created_at": now_ms(),
            "settings": json.dumps(dict(settings)),
            "about": json.dumps(items.metadata()),
            "digest": digest,
            "n_items": 0,
        }

        def insert_project(connection: Connection) -> int:
            delete_incomplete(connection)
            if connection.scalar(select(projects.c.number).where(projects.c.id == id)) is not None:
                raise ProjectExists(f"a project {id!r} exists already; accepted: a new id")
            connection.execute(insert(projects), row)
            number: int = connection.scalars(select(projects.c.number).where(projects.c.id == id)).one()
            return number

        with self._adding:
            number = self._run(WriteTask(insert_project))
            self._insert_batches(id, split_items(number, items.metadata(), 0, items))
            return self.project(id)

    def items(self, project_id: str) -> ItemSet:
        """Return all items of a project, bit for bit; pictures are read from the database on access.

        float32 features are mapped into memory from a file in the data folder.
        """
        project = self.project(project_id)
        with self._adding_vectors, self._database.read_connection() as connection:
            return load_items(connection, project, self._folder, partial(self.picture, project_id))

    def vectors(self, project_id: str) -> npt.NDArray[np.float32]:
        """Return the features of all items of a project with float32 features, mapped into memory."""
        project = self.project(project_id)
        with self._adding_vectors, self._database.read_connection() as connection:
            return load_vectors(connection, project, self._folder)

    def add_items(self, project_id: str, items: ItemSet) -> int:
        """Append items to a project, all or none, and return its number of items. Their scaling is ignored."""
        check_compatible(self.project(project_id), items)
        check_items(items)
        with self._adding:
            self._run(WriteTask(delete_incomplete))
            project = self.project(project_id)
            batches = split_items(project.number, project.metadata, project.n_items, items)
            self._insert_batches(project_id, batches)
            return self.project(project_id).n_items

    def _insert_batches(self, project_id: str, batches: Iterator[ItemBatch]) -> None:
        """Insert batches one by one, so that answers can be written in between; the last makes all visible."""
        batch = next(batches)
        try:
            for following in batches:
                self._run(WriteTask(batch.insert))
                batch = following
            self._run(WriteTask(batch.insert_last))
        except Exception as error:
            with suppress(StoreError):
                self._run(WriteTask(delete_incomplete))
            record = self._writer.projects.get(project_id)
            if not isinstance(error, StoreUnavailable) or record is None or record.n_items != batch.n_items:
                raise  # otherwise the last commit took effect, and only its confirmation was lost

    def picture(self, project_id: str, position: int) -> bytes | None:
        """Return the PNG of an item, or None if it has no picture."""
        project = self.project(project_id)
        with self._database.read_connection() as connection:
            return load_picture(connection, project.number, position) if position < project.n_items else None

    def append(
        self,
        project_id: str,
        entries: Sequence[NewEntry],
        person: str = "",
        key: str | None = None,
        origin: Any = None,
    ) -> Future[AppendResult]:
        """Append entries to a log in order, all or none; the future is done when they are on the disk.

        Parameters
        ----------
        project_id : str
        entries : sequence of NewEntry
        person : str
            Who answered; may be empty.
        key : str or None
            An idempotency key: a request that is repeated with the same key is written once.
        origin : JSON value or None
            If it is given, the entries are a bundle: they are undone together. The value identifies the request for
            the key, because the entries may differ when it is repeated.

        Raises
        ------
        UnknownProject, UnknownItem, InvalidRequest, Overloaded, StoreUnavailable
            By the call; the future may raise ``KeyConflict`` and ``StoreUnavailable``.
        """
        n_items = self.project(project_id).n_items
        if not entries:
            raise InvalidRequest("there are no entries; accepted: at least one")
        if origin is not None and len(entries) > MAX_BUNDLE_SIZE:
            raise InvalidRequest(f"the bundle has {len(entries):,} entries; accepted: up to {MAX_BUNDLE_SIZE:,}")
        for i, entry in enumerate(entries):
            if entry.left == entry.right or not (_is_below(entry.left, n_items) and _is_below(entry.right, n_items)):
                raise UnknownItem(
                    f"entry {i} compares the items {entry.left} and {entry.right} of {project_id!r}; "
                    f"accepted: two of 0 to {n_items - 1}"
                )
            if entry.answer not in _ANSWERS or entry.source not in _SOURCES:
                raise InvalidRequest(
                    f"entry {i} has the answer {entry.answer!r} and the source {entry.source!r}; "
                    f"accepted: the answers {sorted(_ANSWERS)} and the sources {sorted(_SOURCES)}"
                )
        return self._submit(AppendRequest(project_id, entries, *_check_person_and_key(person, key), origin=origin))

    def find_repeated(self, project_id: str, person: str, key: str, origin: Any) -> AppendResult | None:
        """Return what an earlier ``append`` with this key and origin has written; None if there was none."""
        request = AppendRequest(project_id, (), *_check_person_and_key(person, key), origin=origin)
        number = self.project(project_id).number
        with self._database.read_connection() as connection:
            return load_repeated(connection, number, request)

    def name_group(
        self, project_id: str, item: int, name: str, person: str = "", key: str | None = None
    ) -> Future[AppendResult]:
        """Append a name for the group of an item; the future is done when it is on the disk."""
        n_items = self.project(project_id).n_items
        if not _is_below(item, n_items):
            raise UnknownItem(f"{project_id!r} has no item {item}; accepted: 0 to {n_items - 1}")
        check_text(name, "the name", min_length=1)
        return self._submit(AppendRequest(project_id, [NewName(item, name)], *_check_person_and_key(person, key)))

    def undo(self, project_id: str, seq: int | None, person: str = "", key: str | None = None) -> Future[AppendResult]:
        """Append an undo of entry ``seq``, or of the last answer by ``person`` that is not undone if ``seq`` is None.

        If the entry is of a bundle, all of its entries are undone, in order, by one entry each.
        The future may raise ``NothingToUndo``, ``UnknownEntry`` or ``AlreadyUndone``; an undo cannot be undone.
        """
        if seq is not None and not _is_below(seq - 1, _MAX_SEQ):
            raise UnknownEntry(f"{project_id!r} has no entry {seq}; accepted: 1 to {self.project(project_id).seq}")
        self.project(project_id)
        return self._submit(AppendRequest(project_id, (), *_check_person_and_key(person, key), undoes=seq))

    def entries(self, project_id: str, after: int = 0, limit: int = 1000) -> list[Entry]:
        """Return up to ``limit`` entries after number ``after``, in order."""
        project = self.project(project_id)
        with self._database.read_connection() as connection:
            return load_entries(connection, project.number, after, min(after + limit, project.seq))

    def entry(self, project_id: str, seq: int) -> Entry:
        """Return an entry; raise UnknownEntry if it does not exist."""
        project = self.project(project_id)
        if not 1 <= seq <= project.seq:
            raise UnknownEntry(f"{project_id!r} has no entry {seq}; accepted: 1 to {project.seq}")
        return self.entries(project_id, seq - 1, 1)[0]

    def listen(self, callback: Listener) -> None:
        """Call ``callback`` with a project and its new entries after each commit, before the futures are done.

        It runs in the writer thread and delays the next commit.
        """
        self._writer.listen(callback)

    def find_token(self, secret_hash: str) -> Token | None:
        """Return the token whose secret has this hash; ``open_tokens`` creates and revokes tokens."""
        return self._tokens.find(secret_hash)

    def _submit(self, request: AppendRequest) -> Future[AppendResult]:
        self._writer.submit(request)
        return request.future

    def _run(self, task: WriteTask) -> Any:
        self._writer.submit(task)
        return task.future.result()


@contextmanager
def open_tokens(folder: Path, url: str | None = None) -> Iterator[Tokens]:
    """Open the tokens of a data folder; a service may run on it meanwhile."""
    make_folder(folder)
    database = Database(folder, url)
    try:
        with database.translating_errors(), database.writers.connect() as connection:
            current = is_current(connection)
        if not current:  # then no service runs on it: a running one has migrated it
            Store.open(folder, url).close()
        yield Tokens(database)
    finally:
        database.dispose()


def _is_below(position: int, bound: int) -> bool:
    return type(position) is int and 0 <= position < bound


def _check_person_and_key(person: str, key: str | None) -> tuple[str, str | None]:
    return check_text(person, "person"), None if key is None else check_text(key, "the idempotency key", min_length=1)
