"""Writer: the one thread that writes. What waits is written together, by one commit, and then answered."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from sqlalchemy import Connection, text
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from ocelad.service.entries import Entry
from ocelad.service.store.database import Database
from ocelad.service.store.entry_log import Appended, Group, Request, read_entries
from ocelad.service.store.errors import Overloaded, Refused, StoreError, StoreUnavailable
from ocelad.service.store.lock import lock_database
from ocelad.service.store.project_rows import ProjectRow, now, read_projects
from ocelad.service.store.schema import migrate

Listener: TypeAlias = Callable[[str, Sequence[Entry]], None]

# So many entries may wait; at 10,000 a second and more that is some seconds' worth.
MOST_WAITING = 200_000
# So many are written at once, so that nobody waits for long.
MOST_AT_ONCE = 50_000
# How often a database that went away is tried again, and one that nothing is written to is looked after.
RETRY_S, LOOK_S = 1.0, 10.0
_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Work:
    """Something else to write, in a transaction of its own; projects are read again after it."""

    run: Callable[[Connection], Any]
    future: Future[Any] = field(default_factory=Future)


class Writer:
    """The thread, its queue, and the connection that holds the lock.

    Parameters
    ----------
    database : Database

    Attributes
    ----------
    projects : dict of str to ProjectRow
        As the last commit left them; replaced, never changed.
    failure : str or None
        Why nothing can be written at present; None: it can, as far as is known.
    """

    def __init__(self, database: Database) -> None:
        self.projects: dict[str, ProjectRow] = {}
        self.failure: str | None = None
        self._database = database
        self._listeners: list[Listener] = []
        self._connection: Connection | None = self._connect()
        self.projects = self._read_projects(self._connection)
        self._waiting: deque[Request | Work] = deque()
        self._n_waiting = 0
        self._changed = threading.Condition()
        self._wanted = 1
        self._closing = False
        self._sizes = (1, 1)  # of the last two groups
        self._patience = 0.0
        self._thread = threading.Thread(target=self._run, name="ocelad-writer", daemon=True)
        self._thread.start()

    def listen(self, listener: Listener) -> None:
        """Call it with every project's new entries from now on."""
        self._listeners.append(listener)

    def submit(self, waiting: Request | Work) -> None:
        """Let it wait for its turn; its future says what came of it."""
        size = _size(waiting)
        with self._changed:
            if self._closing:
                raise StoreUnavailable(f"{self._database.name} is being closed")
            if self._waiting and self._n_waiting + size > MOST_WAITING:
                raise Overloaded(f"{self._n_waiting} entries wait to be written; try again later")
            self._waiting.append(waiting)
            self._n_waiting += size
            if len(self._waiting) >= self._wanted:
                self._changed.notify()

    def close(self) -> None:
        """Write what waits, then end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()
        self._disconnect()

    def _run(self) -> None:
        try:
            while (taken := self._take()) is not None:
                try:
                    self._write(taken)
                except Exception as error:  # whatever it is, nobody is to wait for ever, and others come after them
                    _log.exception("an error within the writer")
                    self._fail([waiting for waiting in taken if not waiting.future.done()], error)
        finally:
            with self._changed:
                self._closing = True
                left, self._waiting = self._waiting, deque()
            self.failure = f"{self._database.name} is no longer written to"
            for waiting in left:
                if waiting.future.set_running_or_notify_cancel():
                    waiting.future.set_exception(StoreUnavailable(self.failure))

    def _write(self, taken: list[Request | Work]) -> None:
        requests: list[Request] = []
        for waiting in taken:
            if isinstance(waiting, Request):
                requests.append(waiting)
            else:
                self._append(requests)
                self._work(waiting)
                requests = []
        self._append(requests)
        if not taken:
            self._look()

    def _take(self) -> list[Request | Work] | None:
        """What waits; nothing after a while in which nothing came; None at the end."""
        with self._changed:
            self._wanted = 1
            if not self._waiting and not self._closing:
                self._changed.wait(RETRY_S if self._connection is None else LOOK_S)
            # Those who were answered just now are likely to come again at once. To wait for them for part of a commit
            # is to pay one commit where there would be two.
            self._wanted = max(self._sizes)
            deadline = time.monotonic() + self._patience
            while self._waiting and len(self._waiting) < self._wanted and not self._closing:
                if (left := deadline - time.monotonic()) <= 0:
                    break
                self._changed.wait(left)
            if not self._waiting and self._closing:
                return None
            taken: list[Request | Work] = []
            size = 0
            while self._waiting and (not taken or size + _size(self._waiting[0]) <= MOST_AT_ONCE):
                waiting = self._waiting.popleft()
                size += _size(waiting)
                taken.append(waiting)
            self._n_waiting -= size
        self._sizes = self._sizes[1], max(1, len(taken))
        # Who has given up waiting by now is not written; from here on nobody can.
        return [waiting for waiting in taken if waiting.future.set_running_or_notify_cancel()]

    def _append(self, requests: list[Request]) -> None:
        if not requests:
            return
        started = time.monotonic()
        try:
            connection = self._connected()
            with connection.begin():
                group = Group(connection, self.projects, now())
                results = group.write(requests)
        except (IntegrityError, DataError) as error:
            # None that is known, or it would have been refused before. Whose it is shows when each is alone.
            if len(requests) > 1:
                for request in requests:
                    self._append([request])
            else:
                self._fail(requests, error)
        except Exception as error:
            self._fail(requests, error)
        else:
            self._patience = min(0.005, (time.monotonic() - started) / 2)
            self._succeed()
            for project, new in group.written.items():
                self._announce(project, new)
            for request, result in zip(requests, results, strict=True):
                if isinstance(result, Appended):
                    request.future.set_result(result)
                else:
                    request.future.set_exception(result)

    def _work(self, work: Work) -> None:
        try:
            connection = self._connected()
            with connection.begin():
                result = work.run(connection)
            self.projects = self._read_projects(connection)
        except Refused as refused:
            work.future.set_exception(refused)
        except Exception as error:
            self._fail([work], error)
        else:
            self._succeed()
            work.future.set_result(result)

    def _announce(self, project: str, new: Sequence[Entry]) -> None:
        """Tell of entries that are durable now."""
        if not new:
            return
        self.projects = {**self.projects, project: replace(self.projects[project], seq=new[-1].seq)}
        for listener in self._listeners:
            try:
                listener(project, new)
            except Exception:  # the entries are kept, whatever becomes of who listens
                _log.exception("a listener failed on the entries of %s up to %d", project, new[-1].seq)

    def _fail(self, several: Sequence[Request | Work], error: Exception) -> None:
        """Say so, and start from what the database says: nobody knows how far the commit came."""
        told = str(self._told(error))
        if self.failure is None:  # once, however many wait and however often it is tried
            _log.error("nothing can be written: %s", told)
        self.failure = told
        self._disconnect()
        for waiting in several:
            waiting.future.set_exception(self._told(error))

    def _succeed(self) -> None:
        if self.failure is not None:
            self.failure = None
            _log.warning("%s is back again", self._database.name)

    def _told(self, error: Exception) -> StoreError:
        """An exception of its own for each who waits: raising one changes it."""
        told: StoreError
        if isinstance(error, SQLAlchemyError):
            told = StoreUnavailable(self._database.sentence(error))
        elif isinstance(error, StoreError):
            told = type(error)(*error.args)
        else:
            told = StoreUnavailable(f"{self._database.name} cannot be used ({type(error).__name__}: {error})")
        told.__cause__ = error
        return told

    def _connected(self) -> Connection:
        """The connection that holds the lock; a new one where it was lost."""
        if self._connection is None:
            connection = self._connect()
            try:
                found = self._read_projects(connection)
                missed = {
                    project: read_entries(connection, row.number, self._seq(project), row.seq)
                    for project, row in found.items()
                    if row.seq > self._seq(project)
                }
                connection.rollback()
            except BaseException:
                _drop(connection)
                raise
            self._connection = connection
            self.projects = found
            for project, new in missed.items():  # commits whose answer was lost
                self._announce(project, new)
        return self._connection

    def _look(self) -> None:
        """With nothing to write, see whether the connection stands, or make a new one."""
        try:
            connection = self._connected()
            with connection.begin():
                connection.execute(text("SELECT 1"))
        except Exception as error:
            self._fail([], error)
        else:
            self._succeed()

    def _seq(self, project: str) -> int:
        return self.projects[project].seq if project in self.projects else 0

    def _connect(self) -> Connection:
        connection = self._database.writers.connect()
        try:
            if self._database.is_postgresql:
                lock_database(connection, self._database.name)
            with connection.begin():
                self._database.mark(connection)
                migrate(connection, self._database.name)
        except BaseException:
            _drop(connection)
            raise
        return connection

    def _read_projects(self, connection: Connection) -> dict[str, ProjectRow]:
        with connection.begin():
            return read_projects(connection)

    def _disconnect(self) -> None:
        if self._connection is not None:
            _drop(self._connection)
            self._connection = None


def _size(waiting: Request | Work) -> int:
    return max(1, len(waiting.new)) if isinstance(waiting, Request) else 1


def _drop(connection: Connection) -> None:
    """Close a connection that may be broken already."""
    try:
        connection.close()
    except Exception:
        connection.invalidate()
