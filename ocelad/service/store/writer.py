"""The writer thread: it writes all queued requests in one commit and then completes their futures."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from sqlalchemy import Connection, text
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from ocelad.service.entries import Entry
from ocelad.service.store.database import Database
from ocelad.service.store.entry_log import (
    AppendRequest,
    AppendResult,
    Salts,
    WriteBatch,
    delete_old_keys,
    load_chain,
    load_entries,
)
from ocelad.service.store.errors import InvalidRequest, LogReplaced, Overloaded, StoreError, StoreUnavailable
from ocelad.service.store.identity import Identity, open_identity
from ocelad.service.store.lock import lock_database
from ocelad.service.store.project_table import ProjectRecord, load_projects, now_ms
from ocelad.service.store.schema import migrate

Listener: TypeAlias = Callable[[str, Sequence[Entry]], None]
#: Called with the ids of projects whose log is not the one that was announced before, and a sentence that says why.
ReplacementListener: TypeAlias = Callable[[Sequence[str], str], None]

# The capacity of the queue in entries; at 10,000 a second and more these take some seconds.
MAX_QUEUED = 200_000
# The largest number of entries in one commit, so that no caller waits long.
MAX_COMMIT_SIZE = 50_000
# Seconds between attempts to reconnect, and between checks of an idle connection.
RETRY_S, PING_S = 1.0, 10.0
# Seconds between deletions of expired idempotency keys, and the largest number of salts in memory.
_CLEANUP_S, _MAX_SALTS = 3600.0, 50_000
_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class WriteTask:
    """A write other than appending entries, in its own transaction.

    Attributes
    ----------
    run : callable
    reloads : bool
        Whether projects are reloaded after it.
    replaces : str or None
        The id of a project whose log it changes, not only extends.
    """

    run: Callable[[Connection], Any]
    reloads: bool = True
    replaces: str | None = None
    future: Future[Any] = field(default_factory=Future)


_Job: TypeAlias = AppendRequest | WriteTask


class Writer:
    """The writer thread, its queue, and the connection that holds the lock.

    Parameters
    ----------
    database : Database

    Attributes
    ----------
    projects : dict of str to ProjectRecord
        The projects after the last commit; the dict is replaced, never modified.
    failure : str or None
        Why writing fails at present; None if the last attempt succeeded.
    identity : Identity or None
        That of the database, as this writer has last opened it.
    """

    def __init__(self, database: Database) -> None:
        self.projects: dict[str, ProjectRecord] = {}
        self.failure: str | None = None
        self._database = database
        self._listeners: list[Listener] = []
        self._replacement_listeners: list[ReplacementListener] = []
        self._salts: Salts = {}
        self._cleaned_up_at = -_CLEANUP_S
        self.identity: Identity | None = None
        self._connection: Connection | None = self._connect()
        self.projects = self._load_projects(self._connection)
        self._queue: deque[_Job] = deque()
        self._n_queued = 0
        self._changed = threading.Condition()
        self._wake_at = 1  # the length of the queue at which the thread is woken
        self._closing = False
        self._batch_sizes = (1, 1)  # of the last two batches
        self._linger_s = 0.0
        self._thread = threading.Thread(target=self._run, name="ocelad-writer", daemon=True)
        self._thread.start()

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` with every project's new entries from now on."""
        self._listeners.append(listener)

    def listen_to_replacements(self, listener: ReplacementListener) -> None:
        """Call ``listener`` when the log of a project turns out to be another one, or content was erased from it."""
        self._replacement_listeners.append(listener)

    def submit(self, job: _Job) -> None:
        """Add a job to the queue; its future holds the result."""
        size = _size(job)
        with self._changed:
            if self._closing:
                raise StoreUnavailable(f"{self._database.name} is being closed")
            if self._queue and self._n_queued + size > MAX_QUEUED:
                raise Overloaded(f"{self._n_queued} entries are queued for writing; try again later")
            self._queue.append(job)
            self._n_queued += size
            if len(self._queue) >= self._wake_at:
                self._changed.notify()

    def close(self) -> None:
        """Write what is queued, then stop the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()
        self._disconnect()

    def _run(self) -> None:
        try:
            while (jobs := self._take()) is not None:
                try:
                    self._write(jobs)
                except Exception as error:  # no caller may wait for ever, and later jobs must still be written
                    _log.exception("unexpected error in the writer thread")
                    self._fail([job for job in jobs if not job.future.done()], error)
        finally:
            with self._changed:
                self._closing = True
                left, self._queue = self._queue, deque()
            self.failure = f"the writer of {self._database.name} has stopped"
            for job in left:
                if job.future.set_running_or_notify_cancel():
                    job.future.set_exception(StoreUnavailable(self.failure))

    def _write(self, jobs: list[_Job]) -> None:
        requests: list[AppendRequest] = []
        for job in jobs:
            if isinstance(job, AppendRequest):
                requests.append(job)
            else:
                self._append(requests)
                self._run_task(job)
                requests = []
        self._append(requests)
        if not jobs:
            self._ping()
        if self._connection is not None and time.monotonic() - self._cleaned_up_at > _CLEANUP_S:
            self._cleaned_up_at = time.monotonic()
            with self._connection.begin():
                delete_old_keys(self._connection, now_ms())

    def _take(self) -> list[_Job] | None:
        """Return the queued jobs, an empty list after an idle period, or None at the end."""
        with self._changed:
            self._wake_at = 1
            if not self._queue and not self._closing:
                self._changed.wait(RETRY_S if self._connection is None else PING_S)
            # Callers whose requests were just completed are likely to send the next ones at once. Waiting for them for
            # a fraction of a commit replaces two commits by one.
            self._wake_at = max(self._batch_sizes)
            deadline = time.monotonic() + self._linger_s
            while self._queue and len(self._queue) < self._wake_at and not self._closing:
                if (left := deadline - time.monotonic()) <= 0:
                    break
                self._changed.wait(left)
            if not self._queue and self._closing:
                return None
            jobs: list[_Job] = []
            size = 0
            while self._queue and (not jobs or size + _size(self._queue[0]) <= MAX_COMMIT_SIZE):
                job = self._queue.popleft()
                size += _size(job)
                jobs.append(job)
            self._n_queued -= size
        self._batch_sizes = self._batch_sizes[1], max(1, len(jobs))
        # Cancelled jobs are dropped here; after this call a future cannot be cancelled any more.
        return [job for job in jobs if job.future.set_running_or_notify_cancel()]

    def _append(self, requests: list[AppendRequest]) -> None:
        if not requests:
            return
        started = time.monotonic()
        try:
            connection = self._connected()
            with connection.begin():
                batch = WriteBatch(connection, self.projects, now_ms(), self._salts)
                results = batch.write(requests)
            self._database.check_files()
        except (IntegrityError, DataError) as error:
            # Known invalid requests were rejected before. Writing each request separately finds the one at fault.
            if len(requests) > 1:
                for request in requests:
                    self._append([request])
            else:
                self._fail(requests, error)
        except Exception as error:
            self._fail(requests, error)
        else:
            self._linger_s = min(0.005, (time.monotonic() - started) / 2)
            self._succeed()
            self._remember_salts(batch.found_salts)
            for project, new in batch.written.items():
                self._announce(project, new)
            for request, result in zip(requests, results, strict=True):
                if isinstance(result, AppendResult):
                    request.future.set_result(result)
                else:
                    request.future.set_exception(result)

    def _run_task(self, task: WriteTask) -> None:
        try:
            connection = self._connected()
            with connection.begin():
                result = task.run(connection)
            self._database.check_files()
            if task.reloads:
                self.projects = self._load_projects(connection)
                self._salts = {}  # SQLite may give the number of a deleted project to a new one
        except InvalidRequest as error:
            task.future.set_exception(error)
        except Exception as error:
            self._fail([task], error)
        else:
            self._succeed()
            if task.replaces is not None:
                self._announce_replaced([task.replaces], "the answers of a person were erased")
            task.future.set_result(result)

    def _remember_salts(self, found: Salts) -> None:
        if len(self._salts) + len(found) > _MAX_SALTS:
            self._salts = {}
        self._salts |= found

    def _announce(self, project: str, new: Sequence[Entry]) -> None:
        """Pass entries that are durable now to the listeners."""
        if not new:
            return
        last = new[-1]
        self.projects = {**self.projects, project: replace(self.projects[project], seq=last.seq, chain=last.chain)}
        for listener in self._listeners:
            try:
                listener(project, new)
            except Exception:  # the entries are durable, whatever a listener does
                _log.exception("a listener failed on the entries of %s up to %d", project, new[-1].seq)

    def _announce_replaced(self, projects: Sequence[str], reason: str) -> None:
        """Tell the listeners that these logs must be read again from their beginning."""
        for listener in self._replacement_listeners:
            try:
                listener(projects, reason)
            except Exception:
                _log.exception("a listener failed on the replaced logs of %s", ", ".join(projects))

    def _fail(self, jobs: Sequence[_Job], error: Exception) -> None:
        """Fail the jobs and drop the connection: whether the commit took effect must be read from the database."""
        message = str(self._store_error(error))
        if self.failure is None:  # logged once per outage, not once per job and attempt
            _log.error("writing failed: %s", message)
        self.failure = message
        self._disconnect()
        for job in jobs:
            job.future.set_exception(self._store_error(error))

    def _succeed(self) -> None:
        if self.failure is not None:
            self.failure = None
            _log.warning("%s is available again", self._database.name)

    def _store_error(self, error: Exception) -> StoreError:
        """Return a new StoreError: each future needs its own, because raising an exception modifies it."""
        result: StoreError
        if isinstance(error, SQLAlchemyError):
            result = StoreUnavailable(self._database.describe_error(error))
        elif isinstance(error, StoreError):
            result = type(error)(*error.args)
        else:
            result = StoreUnavailable(f"cannot use {self._database.name} ({type(error).__name__}: {error})")
        result.__cause__ = error
        return result

    def _connected(self) -> Connection:
        """Return the connection that holds the lock; reconnect if it was lost.

        Raises
        ------
        LogReplaced
            Once, if the database is not the one that was left, or another writer was there meanwhile. Requests that
            were made before then are refused: they may be about items and entries that do not exist any more.
        """
        if self._connection is None:
            before = self.identity
            connection = self._connect()
            try:
                found = self._load_projects(connection)
                replaced, reason = self._find_replaced(connection, before, found)
                missed = {
                    project: load_entries(connection, record.number, self._last_seq(project), record.seq)
                    for project, record in found.items()
                    if project not in replaced and record.seq > self._last_seq(project)
                }
                connection.rollback()
            except BaseException:
                _close(connection)
                self._forget_opening(before)
                raise
            self._connection = connection
            self._salts = {}
            self.projects = found
            for project, new in missed.items():  # from commits whose confirmation was lost
                self._announce(project, new)
            if replaced:
                _log.error(
                    "%s: %s; these projects are read again: %s", self._database.name, reason, ", ".join(replaced)
                )
                self._announce_replaced(replaced, reason)
                self._reject_queued(reason)
                raise LogReplaced(f"{self._database.name} is not as this service left it: {reason}; try again")
        return self._connection

    def _forget_opening(self, before: Identity | None) -> None:
        """Compare the next opening with the state before this one, but count this one: it was our own."""
        if before is not None and self.identity is not None and self.identity.epoch == before.epoch + 1:
            self.identity = replace(before, epoch=self.identity.epoch)
        else:
            self.identity = before

    def _find_replaced(
        self, connection: Connection, before: Identity | None, found: Mapping[str, ProjectRecord]
    ) -> tuple[list[str], str]:
        """Return the projects whose log does not continue the one that is known, and a sentence that says why."""
        now = self.identity
        assert now is not None
        if before is None or not self.projects:
            return [], ""
        if now.id != before.id:
            return list(self.projects), "another database is in its place"
        if now.epoch != before.epoch + 1:
            return list(self.projects), (
                "another service has written to it meanwhile"
                if now.epoch > before.epoch
                else "it was restored to an earlier point"
            )
        replaced = [id for id, known in self.projects.items() if not _continues(connection, known, found.get(id))]
        return replaced, "it was restored to an earlier point"

    def _reject_queued(self, reason: str) -> None:
        """Refuse what was queued before the logs turned out to be replaced."""
        with self._changed:
            left, self._queue, self._n_queued = self._queue, deque(), 0
        for job in left:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(LogReplaced(f"{self._database.name} is not as it was: {reason}; try again"))

    def _ping(self) -> None:
        """Check an idle connection, or reconnect."""
        try:
            connection = self._connected()
            with connection.begin():
                connection.execute(text("SELECT 1"))
            self._database.check_files()
        except Exception as error:
            self._fail([], error)
        else:
            self._succeed()

    def _last_seq(self, project: str) -> int:
        return self.projects[project].seq if project in self.projects else 0

    def _connect(self) -> Connection:
        self._database.check_files()  # SQLite would create a new, empty file in the place of a deleted one
        connection = self._database.writers.connect()
        try:
            if self._database.is_postgresql:
                lock_database(connection, self._database.name)
            with connection.begin():
                self._database.set_application_id(connection)
                migrate(connection, self._database.name)
                self.identity = open_identity(connection)
            self._database.remember_files()
        except BaseException:
            _close(connection)
            raise
        return connection

    def _load_projects(self, connection: Connection) -> dict[str, ProjectRecord]:
        with connection.begin():
            return load_projects(connection)

    def _disconnect(self) -> None:
        if self._connection is not None:
            _close(self._connection)
            self._connection = None
            self._database.forget_log()


def _continues(connection: Connection, known: ProjectRecord, found: ProjectRecord | None) -> bool:
    """Return whether a project's log begins with the entries that are known."""
    if found is None or found.number != known.number or found.seq < known.seq:
        return False
    return known.seq == 0 or load_chain(connection, known.number, known.seq) == known.chain


def _size(job: _Job) -> int:
    return max(1, len(job.new)) if isinstance(job, AppendRequest) else 1


def _close(connection: Connection) -> None:
    """Close a connection that may be broken."""
    try:
        connection.close()
    except Exception:
        connection.invalidate()
