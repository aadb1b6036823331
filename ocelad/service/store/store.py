"""The store: projects, items, logs of entries and tokens in a database with a single writer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Self, get_args

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, insert, select, update

from ocelad.service.entries import Answer, Entry, NewEntry, NewName, NewUndo, PairSource
from ocelad.service.itemset import ItemSet
from ocelad.service.store.answer_query import AnswerFilter, AnswerRows, count_answers, load_answers
from ocelad.service.store.audit_log import AuditEntry, insert_audit, load_audit
from ocelad.service.store.database import Database
from ocelad.service.store.deletion import delete_hidden, hide_project, show_project
from ocelad.service.store.durable_files import make_folder
from ocelad.service.store.entry_log import (
    COPY_BATCH,
    MAX_BUNDLE_SIZE,
    AppendRequest,
    AppendResult,
    AskedPair,
    copy_entries,
    load_chain,
    load_entries,
    load_pairs,
    load_repeated,
    load_undone,
)
from ocelad.service.store.erasure import erase_person
from ocelad.service.store.errors import (
    DatabaseLost,
    InvalidRequest,
    LogReplaced,
    ProjectArchived,
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
from ocelad.service.store.log_chain import EMPTY_CHAIN
from ocelad.service.store.project_table import ProjectRecord, check_text, now_ms
from ocelad.service.store.sessions import Sessions
from ocelad.service.store.tables import projects
from ocelad.service.store.tokens import Token, Tokens
from ocelad.service.store.vector_files import vector_path
from ocelad.service.store.webhook_table import Webhook, delete_webhook, insert_webhook, load_webhooks
from ocelad.service.store.writer import Listener, ReplacementListener, Writer, WriteTask

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
        self.sessions = Sessions(database)
        with database.translating_errors():
            self._writer = Writer(database)
        self._adding_vectors = Lock()  # to files in the folder
        self._adding = Lock()  # items that are not visible yet belong to the holder of this lock
        try:
            self._run(WriteTask(delete_incomplete))
            self._delete_hidden()
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

    @property
    def is_lost(self) -> bool:
        """Whether a file of the database was deleted or replaced, so that nothing is stored until a restart."""
        try:
            self._database.check_files()
        except DatabaseLost:
            return True
        return False

    @property
    def secret(self) -> bytes:
        """A secret of this database, which signs what the service hands out and wants to recognize later."""
        assert self._writer.identity is not None
        return self._writer.identity.secret

    def projects(self) -> list[ProjectRecord]:
        """Return all projects in the order of their creation."""
        return list(self._writer.projects.values())

    def has_project(self, project_id: str) -> bool:
        """Return whether a project exists."""
        return project_id in self._writer.projects

    def project(self, project_id: str) -> ProjectRecord:
        """Return a project; raise UnknownProject if it does not exist."""
        record = self._writer.projects.get(project_id)
        if record is None:
            raise UnknownProject(f"there is no project {project_id!r}")
        return record

    def create_project(
        self,
        id: str,
        title: str,
        items: ItemSet,
        settings: Mapping[str, Any],
        digest: str,
        options: Mapping[str, Any] | None = None,
    ) -> ProjectRecord:
        """Create a project with its items, at least one, completely or not at all."""
        with self._adding:
            self._insert_project(id, title, items, settings, digest, options)
            return self.project(id)

    def _insert_project(
        self,
        id: str,
        title: str,
        items: ItemSet,
        settings: Mapping[str, Any],
        digest: str,
        options: Mapping[str, Any] | None = None,
        *,
        hidden: bool = False,
    ) -> int:
        """Insert a project and its items, and return its number; a hidden one is deleted at the next start."""
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
            "options": json.dumps(dict(options or {})),
            "deleted_at": now_ms() if hidden else None,
        }

        def insert_project(connection: Connection) -> int:
            delete_incomplete(connection)
            if connection.scalar(select(projects.c.number).where(projects.c.id == id)) is not None:
                raise ProjectExists(f"a project {id!r} exists already; accepted: a new id")
            connection.execute(insert(projects), row)
            number: int = connection.scalars(select(projects.c.number).where(projects.c.id == id)).one()
            return number

        number: int = self._run(WriteTask(insert_project))
        self._insert_batches(id, split_items(number, items.metadata(), 0, items))
        return number

    def copy_project(self, source_id: str, id: str, title: str, *, answers: bool = False) -> ProjectRecord:
        """Copy a project and, on request, its log, all or nothing: the copy is hidden until it is complete."""
        with self._adding:
            source, items = self.project(source_id), self.items(source_id)
            try:
                about = source.settings, source.digest, source.options
                number = self._insert_project(id, title, items, *about, hidden=True)
                if answers:
                    self.copy_entries(source_id, number)
                self._run(WriteTask(partial(show_project, number=number)))
            except BaseException:
                with suppress(StoreError):  # then it is deleted at the next start
                    self._delete_hidden()
                raise
            return self.project(id)

    def update_project(
        self,
        project_id: str,
        *,
        title: str | None = None,
        options: Mapping[str, Any] | None = None,
        archived: bool | None = None,
    ) -> ProjectRecord:
        """Change what is given: the title, the options as a whole, whether it is archived; return the project."""
        number, values = self.project(project_id).number, dict[str, Any]()
        if title is not None:
            values["title"] = check_text(title, "the title of the project", max_length=500)
        if options is not None:
            values["options"] = json.dumps(dict(options))
        if archived is not None:
            values["archived_at"] = now_ms() if archived else None
        if values:
            statement = update(projects).where(projects.c.number == number).values(values)
            self._run(WriteTask(lambda connection: connection.execute(statement)))
        return self.project(project_id)

    def delete_project(self, project_id: str) -> None:
        """Delete a project with its items and its log. Its id is free again."""
        project = self.project(project_id)
        with self._adding:
            self._run(WriteTask(partial(hide_project, number=project.number)))
            vector_path(self._folder, project).unlink(missing_ok=True)
            with suppress(StoreUnavailable):  # then the rest is deleted at the next start
                self._delete_hidden()

    def _delete_hidden(self) -> None:
        while self._run(WriteTask(delete_hidden, reloads=False)):
            pass

    def copy_entries(self, source_id: str, number: int) -> None:
        """Copy the log of a project into the empty log of the project with a number."""
        last, at, chain = self.project(source_id).seq, 0, EMPTY_CHAIN
        while at < last:
            entries = self.entries(source_id, after=at, limit=min(COPY_BATCH, last - at))
            task = partial(copy_entries, number=number, chain=chain, entries=entries)
            chain = self._run(WriteTask(task, reloads=False))
            at += len(entries)
        while at < self.project(source_id).seq:
            entries = self.entries(source_id, after=at, limit=COPY_BATCH)
            if any(entry.kind == "erase" for entry in entries):
                raise LogReplaced(f"answers of {source_id!r} were erased while they were copied; try again")
            at += len(entries)

    def erase_person(self, project_id: str, person: str, by: str) -> int:
        """Erase all entries of a person from a log, record it, and return the number of erased entries.

        Parameters
        ----------
        project_id : str
        person : str
            The name under which the entries are stored.
        by : str
            Who erases them.
        """
        check_text(person, "person")
        check_text(by, "by")

        def erase(connection: Connection) -> int:
            return erase_person(connection, self.project(project_id), person, by, now_ms())

        n_erased: int = self._run(WriteTask(erase, replaces=project_id))
        self._database.truncate_log()
        return n_erased

    def add_audit(
        self, who: str, action: str, target: str = "", detail: Mapping[str, Any] | None = None
    ) -> Future[Any]:
        """Add an entry to the audit log; the future is done when it is on the disk."""
        task = WriteTask(
            partial(insert_audit, who=who, action=action, target=target, detail=detail or {}), reloads=False
        )
        self._writer.submit(task)
        return task.future

    def audit(
        self,
        after: int = 0,
        limit: int = 100,
        *,
        who: str | None = None,
        action: str | None = None,
        target: str | None = None,
    ) -> list[AuditEntry]:
        """Return up to ``limit`` entries of the audit log after a number, the oldest first."""
        with self._database.read_connection() as connection:
            return load_audit(connection, after, limit, who=who, action=action, target=target)

    def webhooks(self, project_id: str | None = None) -> list[Webhook]:
        """Return the webhooks of a project, or of all projects."""
        with self._database.read_connection() as connection:
            return load_webhooks(connection, project_id)

    def add_webhook(
        self, project_id: str, url: str, secret: str, events: Mapping[str, Mapping[str, Any]], interval: float
    ) -> Webhook:
        """Add a webhook to a project: by the name of each event its options, and the least seconds between calls."""
        check_text(url, "the URL", min_length=1, max_length=2000)
        options = {event: dict(given) for event, given in events.items()}

        def insert(connection: Connection) -> Webhook:
            return insert_webhook(connection, self.project(project_id), url, secret, options, interval)

        added: Webhook = self._run(WriteTask(insert, reloads=False))
        return added

    def delete_webhook(self, project_id: str, number: int) -> None:
        """Delete a webhook of a project; raise UnknownWebhook if it has none with this number."""
        task = WriteTask(lambda connection: delete_webhook(connection, self.project(project_id), number), reloads=False)
        self._run(task)

    def items(self, project_id: str) -> ItemSet:
        """Return all items of a project, bit for bit; pictures are read from the database on access.

        float32 features are mapped into memory from a file in the data folder.
        """
        project = self.project(project_id)
        with self._adding_vectors, self._database.read_connection() as connection:
            load_one, load_full = partial(self.picture, project_id), partial(self._full_picture, project_id)
            return load_items(connection, project, self._folder, load_one, load_full)

    def vectors(self, project_id: str) -> npt.NDArray[np.float32]:
        """Return the features of all items of a project with float32 features, mapped into memory."""
        project = self.project(project_id)
        with self._adding_vectors, self._database.read_connection() as connection:
            return load_vectors(connection, project, self._folder)

    def add_items(self, project_id: str, items: ItemSet) -> int:
        """Append items to a project, all or none, and return its number of items. Their scaling is ignored."""
        self._check_not_archived(project_id)
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

    def picture(self, project_id: str, position: int, full: bool = False) -> bytes | None:
        """Return the picture of an item, or None if it has none; ``full``: a PNG or JPEG in its own size, bounded."""
        larger = self._full_picture(project_id, position) if full else None
        return larger or self._picture(project_id, position)

    def _full_picture(self, project_id: str, position: int) -> bytes | None:
        return self._picture(project_id, position, full=True)

    def _picture(self, project_id: str, position: int, full: bool = False) -> bytes | None:
        project = self.project(project_id)
        with self._database.read_connection() as connection:
            return load_picture(connection, project.number, position, full) if position < project.n_items else None

    def append(
        self,
        project_id: str,
        entries: Sequence[NewEntry | NewUndo],
        person: str = "",
        key: str | None = None,
        origin: Any = None,
    ) -> Future[AppendResult]:
        """Append entries to a log in order, all or none; the future is done when they are on the disk.

        Parameters
        ----------
        project_id : str
        entries : sequence of NewEntry and NewUndo
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
            By the call; the future may raise ``KeyConflict``, ``StoreUnavailable`` and the errors of ``undo``.
        """
        n_items = self.project(project_id).n_items
        if not entries:
            raise InvalidRequest("there are no entries; accepted: at least one")
        if origin is not None and len(entries) > MAX_BUNDLE_SIZE:
            raise InvalidRequest(f"the bundle has {len(entries):,} entries; accepted: up to {MAX_BUNDLE_SIZE:,}")
        for i, entry in enumerate(entries):
            if isinstance(entry, NewUndo):
                if not _is_below(entry.seq - 1, _MAX_SEQ) or not (entry.source is None or entry.source in _SOURCES):
                    raise InvalidRequest(
                        f"entry {i} undoes {entry.seq!r}, for {entry.source!r}; accepted: a number from 1"
                    )
                continue
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
        for each in {entry.person for entry in entries if isinstance(entry, NewEntry) and entry.person is not None}:
            check_text(each, "person")
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
            raise UnknownEntry.of(project_id, seq, self.project(project_id).seq)
        self.project(project_id)
        return self._submit(AppendRequest(project_id, (), *_check_person_and_key(person, key), undoes=seq))

    def entries(self, project_id: str, after: int = 0, limit: int = 1000) -> list[Entry]:
        """Return up to ``limit`` entries after number ``after``, in order."""
        project = self.project(project_id)
        with self._database.read_connection() as connection:
            return load_entries(connection, project.number, after, min(after + limit, project.seq))

    def pairs(self, project_id: str, after: int, last: int) -> list[AskedPair]:
        """Return what the entries after ``after`` up to ``last`` say about pairs of items; faster than ``entries``."""
        project = self.project(project_id)
        with self._database.read_connection() as connection:
            return load_pairs(connection, project.number, after, last)

    def chain(self, project_id: str, seq: int) -> bytes | None:
        """Return the chain of a log up to an entry, which identifies all entries up to it; None: there is no entry."""
        project = self.project(project_id)
        if seq == 0:
            return EMPTY_CHAIN
        with self._database.read_connection() as connection:
            return load_chain(connection, project.number, seq)

    def undone(self, project_id: str) -> dict[int, int]:
        """Return the numbers of all undone entries of a log, each with the number of its undo."""
        project = self.project(project_id)
        with self._database.read_connection() as connection:
            return load_undone(connection, project.number, project.seq)

    def entry(self, project_id: str, seq: int) -> Entry:
        """Return an entry; raise UnknownEntry if it does not exist."""
        project = self.project(project_id)
        if not 1 <= seq <= project.seq:
            raise UnknownEntry.of(project_id, seq, project.seq)
        return self.entries(project_id, seq - 1, 1)[0]

    def answers(
        self,
        project_id: str,
        filter: AnswerFilter,
        after: int | None = None,
        limit: int = 100,
        *,
        newest_first: bool = True,
        seconds: float = 2.0,
    ) -> AnswerRows:
        """Return up to ``limit`` answers that match a filter, in pages; a page may end early when the time is over."""
        project = self.project(project_id)
        with self._database.read_connection() as connection:
            return load_answers(
                connection,
                project.number,
                filter,
                last=project.seq,
                after=after,
                limit=limit,
                newest_first=newest_first,
                seconds=seconds,
            )

    def count_answers(self, project_id: str, filter: AnswerFilter, *, seconds: float = 2.0) -> int | None:
        """Return the number of answers that match a filter; None if counting takes longer than ``seconds``."""
        project = self.project(project_id)
        with self._database.read_connection() as connection:
            return count_answers(connection, project.number, filter, last=project.seq, seconds=seconds)

    def listen(self, callback: Listener) -> None:
        """Call ``callback`` with a project and its new entries after each commit, before the futures are done.

        It runs in the writer thread and delays the next commit.
        """
        self._writer.listen(callback)

    def listen_to_replacements(self, callback: ReplacementListener) -> None:
        """Call ``callback`` with projects whose log must be read again from its beginning, and why.

        The log was restored to an earlier point, another service has written to it, or answers were erased. It runs in
        the writer thread.
        """
        self._writer.listen_to_replacements(callback)

    def find_token(self, secret_hash: str) -> Token | None:
        """Return the token whose secret has this hash; ``open_tokens`` creates and revokes tokens."""
        return self._tokens.find(secret_hash)

    def _submit(self, request: AppendRequest) -> Future[AppendResult]:
        self._check_not_archived(request.project)
        self._writer.submit(request)
        return request.future

    def _check_not_archived(self, project_id: str) -> None:
        if self.project(project_id).archived_at is not None:
            raise ProjectArchived(f"{project_id!r} is archived: it can be read, but not changed; unarchive it first")

    def _run(self, task: WriteTask) -> Any:
        self._writer.submit(task)
        return task.future.result()


def _is_below(position: int, bound: int) -> bool:
    return type(position) is int and 0 <= position < bound


def _check_person_and_key(person: str, key: str | None) -> tuple[str, str | None]:
    return check_text(person, "person"), None if key is None else check_text(key, "the idempotency key", min_length=1)
