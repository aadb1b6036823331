"""Store: what cannot be computed again, kept in a database by one writer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, Self, get_args

from sqlalchemy import Connection, insert, select

from ocelad.service.entries import Answer, Asked, Entry, NewEntry
from ocelad.service.itemset import ItemSet
from ocelad.service.store.database import Database
from ocelad.service.store.disk import make_folder
from ocelad.service.store.entry_log import Appended, Request, read_entries
from ocelad.service.store.errors import (
    ProjectExists,
    Refused,
    StoreError,
    StoreUnavailable,
    UnknownEntry,
    UnknownItem,
    UnknownProject,
)
from ocelad.service.store.item_rows import (
    Piece,
    check_alike,
    check_items,
    pieces,
    read_items,
    read_picture,
    remove_leftovers,
)
from ocelad.service.store.lock import FolderLock
from ocelad.service.store.project_rows import ProjectRow, now, storable
from ocelad.service.store.schema import is_current
from ocelad.service.store.tables import projects
from ocelad.service.store.tokens import Token, Tokens
from ocelad.service.store.writer import Listener, Work, Writer

# What a database and JSON can count to.
_MOST_ENTRIES = 2**53
_ANSWERS, _ASKED = frozenset(get_args(Answer)), frozenset(get_args(Asked))


class Store:
    """Projects, their items, their logs of entries, and tokens; made by ``Store.open``.

    What was acknowledged is on the disk. All of it may be used from any thread; reading waits for nobody.

    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from ocelad.service.itemset import Scaling
    >>> items = ItemSet(("a", "b"), np.eye(2), ("x", "y"), Scaling("none", np.ones(2)))
    >>> with TemporaryDirectory() as folder, Store.open(Path(folder)) as store:
    ...     project = store.create_project("letters", "Letters", items, settings={}, digest="")
    ...     kept = store.append("letters", [NewEntry(0, 1, "same")], who="me").result()
    >>> kept.entries[0].seq, kept.repeated
    (1, False)
    """

    def __init__(self, database: Database, lock: FolderLock) -> None:
        self._database = database
        self._lock = lock
        self._tokens = Tokens(database)
        with database.telling():
            self._writer = Writer(database)
        self._adding = Lock()  # what was added in part is of who holds it, or of nobody
        try:
            self._run(Work(remove_leftovers))
        except BaseException:
            self._writer.close()
            raise

    @classmethod
    def open(cls, folder: Path, url: str | None = None) -> Self:
        """Open what a folder keeps, or make it; nobody else may write to it until ``close``.

        Parameters
        ----------
        folder : Path
            The data folder; made if it is not there.
        url : str or None
            ``postgresql://...``; None: SQLite in the folder.
        """
        make_folder(folder)
        lock = FolderLock(folder)
        database = None
        try:
            database = Database(folder, url)
            return cls(database, lock)
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
        """Write what was appended, then let go of the folder and the database."""
        self._writer.close()
        self._database.dispose()
        self._lock.release()

    @property
    def failure(self) -> str | None:
        """Why nothing can be written at present, in a sentence for the log; None: it can. It is tried again."""
        return self._writer.failure

    def projects(self) -> list[ProjectRow]:
        """All projects, in the order in which they were made."""
        return list(self._writer.projects.values())

    def project(self, project_id: str) -> ProjectRow:
        """One project."""
        row = self._writer.projects.get(project_id)
        if row is None:
            raise UnknownProject(f"there is no project {project_id!r}")
        return row

    def create_project(
        self, id: str, title: str, items: ItemSet, settings: Mapping[str, Any], digest: str
    ) -> ProjectRow:
        """A new project with its items, of which there is at least one: all of it, or nothing."""
        storable(id, "the id of the project", at_least=1, at_most=64)
        storable(title, "the title of the project", at_most=500)
        storable(digest, "the digest")
        check_items(items)
        if not len(items):
            raise Refused(f"the project {id!r} has no items; accepted: at least one")
        row = {
            "id": id,
            "title": title,
            "created_at": now(),
            "settings": json.dumps(dict(settings)),
            "about": json.dumps(items.metadata()),
            "digest": digest,
            "n_items": 0,
        }

        def begin(connection: Connection) -> int:
            remove_leftovers(connection)
            if connection.scalar(select(projects.c.number).where(projects.c.id == id)) is not None:
                raise ProjectExists(f"there is a project {id!r} already; accepted: a new id")
            connection.execute(insert(projects), row)
            number: int = connection.scalars(select(projects.c.number).where(projects.c.id == id)).one()
            return number

        with self._adding:
            number = self._run(Work(begin))
            self._add(id, pieces(number, list(items.fields), 0, items))
            return self.project(id)

    def items(self, project_id: str) -> ItemSet:
        """All items of a project, bit for bit; pictures are read from the database when they are asked for."""
        project = self.project(project_id)
        with self._database.reading() as connection:
            return read_items(connection, project, lambda position: self.picture(project_id, position))

    def add_items(self, project_id: str, items: ItemSet) -> int:
        """Append items to those of a project, all or none; how many there are then. Their scaling is not looked at."""
        check_alike(self.project(project_id), items)
        check_items(items)
        with self._adding:
            self._run(Work(remove_leftovers))
            project = self.project(project_id)
            self._add(project_id, pieces(project.number, project.metadata["fields"], project.n_items, items))
            return self.project(project_id).n_items

    def _add(self, project_id: str, several: Iterator[Piece]) -> None:
        """Keep pieces one by one, so that answers come in between; nobody sees any before the last is kept."""
        piece = next(several)
        try:
            for following in several:
                self._run(Work(piece.insert))
                piece = following
            self._run(Work(piece.insert_last))
        except Exception as error:
            with suppress(StoreError):
                self._run(Work(remove_leftovers))
            row = self._writer.projects.get(project_id)
            if not isinstance(error, StoreUnavailable) or row is None or row.n_items != piece.n_items:
                raise  # otherwise only the answer to the last commit was lost

    def picture(self, project_id: str, position: int) -> bytes | None:
        """The PNG of an item, or None where there is none."""
        project = self.project(project_id)
        with self._database.reading() as connection:
            return read_picture(connection, project.number, position) if position < project.n_items else None

    def append(
        self, project_id: str, entries: Sequence[NewEntry], who: str = "", key: str | None = None
    ) -> Future[Appended]:
        """Append entries to a log, all or none, in their order; the future is done when they are on the disk.

        Parameters
        ----------
        key : str or None
            An idempotency key: the same request with the same key is kept once, however often it is made.

        Raises
        ------
        UnknownProject, UnknownItem, Refused, Overloaded, StoreUnavailable
            At once; ``KeyConflict`` and ``StoreUnavailable`` also by the future.
        """
        n_items = self.project(project_id).n_items
        if not entries:
            raise Refused("there are no entries; accepted: at least one")
        for i, entry in enumerate(entries):
            if entry.left == entry.right or not (_is_below(entry.left, n_items) and _is_below(entry.right, n_items)):
                raise UnknownItem(
                    f"entry {i} compares the items {entry.left} and {entry.right} of {project_id!r}; "
                    f"accepted: two of 0 to {n_items - 1}"
                )
            if entry.answer not in _ANSWERS or entry.asked not in _ASKED:
                raise Refused(
                    f"entry {i} has the answer {entry.answer!r}, asked {entry.asked!r}; "
                    f"accepted: {sorted(_ANSWERS)}, asked {sorted(_ASKED)}"
                )
        return self._submit(Request(project_id, entries, *_named(who, key)))

    def undo(self, project_id: str, seq: int | None, who: str = "", key: str | None = None) -> Future[Appended]:
        """Append an undo of entry ``seq``; None: of the last answer by ``who`` that stands.

        The future may raise ``NothingToUndo``, ``UnknownEntry`` or ``AlreadyUndone``; an undo cannot be undone.
        """
        if seq is not None and not _is_below(seq - 1, _MOST_ENTRIES):
            raise UnknownEntry(f"{project_id!r} has no entry {seq}; accepted: 1 to {self.project(project_id).seq}")
        self.project(project_id)
        return self._submit(Request(project_id, (), *_named(who, key), undoes=seq))

    def entries(self, project_id: str, after: int = 0, limit: int = 1000) -> list[Entry]:
        """Up to ``limit`` entries after number ``after``, in their order."""
        project = self.project(project_id)
        with self._database.reading() as connection:
            return read_entries(connection, project.number, after, min(after + limit, project.seq))

    def entry(self, project_id: str, seq: int) -> Entry:
        """One entry."""
        project = self.project(project_id)
        if not 1 <= seq <= project.seq:
            raise UnknownEntry(f"{project_id!r} has no entry {seq}; accepted: 1 to {project.seq}")
        return self.entries(project_id, seq - 1, 1)[0]

    def listen(self, callback: Listener) -> None:
        """Call it with a project and its new entries after each commit, in order, before who waits is answered.

        It is called in the thread that writes, and holds it up for as long as it takes.
        """
        self._writer.listen(callback)

    def find_token(self, secret_hash: str) -> Token | None:
        """The token whose secret has this hash; who makes and revokes them uses ``open_tokens``."""
        return self._tokens.find(secret_hash)

    def _submit(self, request: Request) -> Future[Appended]:
        self._writer.submit(request)
        return request.future

    def _run(self, work: Work) -> Any:
        self._writer.submit(work)
        return work.future.result()


@contextmanager
def open_tokens(folder: Path, url: str | None = None) -> Iterator[Tokens]:
    """The tokens of a data folder, also while a service runs on it."""
    make_folder(folder)
    database = Database(folder, url)
    try:
        with database.telling(), database.writers.connect() as connection:
            current = is_current(connection)
        if not current:  # nobody runs on it, or it would be
            Store.open(folder, url).close()
        yield Tokens(database)
    finally:
        database.dispose()


def _is_below(position: int, n_items: int) -> bool:
    return type(position) is int and 0 <= position < n_items


def _named(who: str, key: str | None) -> tuple[str, str | None]:
    return storable(who, "who"), None if key is None else storable(key, "the idempotency key", at_least=1)
