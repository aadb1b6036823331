"""LoadedProjects: the projects in memory. They are loaded when asked for, and the least recently used leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from time import monotonic

from ocelad.service.api_error import ApiError
from ocelad.service.log_setup import get_logger
from ocelad.service.served_project import ServedProject

log = get_logger("ocelad.service")
# Threads that load projects; further loads wait.
_N_LOADERS = 4


class LoadedProjects:
    """The projects in memory, bounded by their number and an estimate of their size. Thread-safe.

    A project leaves memory only if nobody uses it and everything that it has learned is in its snapshot. If too many
    cannot leave, the bounds are exceeded.

    Parameters
    ----------
    make : callable (str) -> ServedProject
        Loads a project; raises ApiError if it does not exist.
    max_projects : int
    max_bytes : int
    """

    def __init__(self, make: Callable[[str], ServedProject], max_projects: int, max_bytes: int) -> None:
        self._make, self._max_projects, self._max_bytes = make, max_projects, max_bytes
        self._lock = Lock()
        self._projects: dict[str, ServedProject] = {}
        self._leaving: dict[str, ServedProject] = {}  # their snapshots are being written
        self._loading: dict[str, Future[ServedProject]] = {}
        self._refused: dict[str, ApiError] = {}
        self._versions: Counter[str] = Counter()  # how often a project was dropped: it may have been loaded before
        self._loaders = ThreadPoolExecutor(_N_LOADERS, thread_name_prefix="ocelad-loader")

    def __iter__(self) -> Iterator[ServedProject]:
        with self._lock:
            return iter(list(self._projects.values()))

    def get(self, id: str) -> ServedProject | None:
        """Return a project if it is in memory."""
        project = self._projects.get(id)
        if project is not None:
            project.used_at = monotonic()
        return project

    def load(self, id: str, *, refused: bool = False) -> Future[ServedProject]:
        """Load a project, once for all that ask meanwhile; ``refused`` loads it even while requests are refused."""
        with self._lock:
            future = self._loading.get(id)
            if id in self._refused and not refused:  # also if it is being loaded
                future = Future()
                future.set_exception(_copy(self._refused[id]))
            elif future is None:
                future = self._loading[id] = Future()
                future.set_running_or_notify_cancel()  # several callers wait for it, and none may cancel it
                try:
                    self._loaders.submit(self._load, id, future, refused)
                except RuntimeError:  # the service is stopping
                    del self._loading[id]
                    future.set_exception(ApiError(503, "the service is stopping", headers={"Retry-After": "5"}))
            return future

    def _load(self, id: str, future: Future[ServedProject], refused: bool) -> None:
        try:
            project = self._load_current(id, future, refused)
        except BaseException as error:
            with self._lock:
                self._finish(id, future)
            future.set_exception(error)
        else:
            future.set_result(project)
            self._evict(keep=project)

    def _finish(self, id: str, future: Future[ServedProject]) -> None:
        """Let the next request load the project again; a later load may have begun already."""
        if self._loading.get(id) is future:
            del self._loading[id]

    def _load_current(self, id: str, future: Future[ServedProject], refused: bool) -> ServedProject:
        while True:
            with self._lock:
                if id in self._refused and not refused:
                    raise _copy(self._refused[id])
                if id in self._projects:
                    self._finish(id, future)
                    return self._projects[id]
                version = self._versions[id]
            project = self._make(id)
            with self._lock:
                if version == self._versions[id]:
                    self._projects[id] = project
                    self._finish(id, future)
                    break
            project.discard("it was replaced while it was loaded")
        # From now on the store's writer passes entries to it; those that were stored before are read.
        try:
            project.catch_up()
        except BaseException:
            with self._lock:
                if self._projects.get(id) is project:
                    del self._projects[id]
            project.discard("its log could not be read to the end")
            raise
        return project

    def hold(self, project: ServedProject) -> bool:
        """Keep a project in memory until ``release``; return False if it has left in the meantime."""
        with self._lock:
            if self._projects.get(project.id) is not project:
                return False
            project.n_holders += 1
            return True

    def release(self, project: ServedProject) -> None:
        """Allow a held project to leave memory."""
        with self._lock:
            project.n_holders -= 1
            project.used_at = monotonic()

    def drop(self, ids: Sequence[str], error: ApiError, reason: str) -> list[str]:
        """Forget projects at once and without snapshots; refuse requests with ``error`` until ``allow``.

        Returns
        -------
        list of str
            The projects that were in memory.
        """
        with self._lock:
            found = [self._projects.pop(id, None) for id in ids] + [self._leaving.get(id) for id in ids]
            for id in ids:
                self._versions[id] += 1
                self._refused[id] = error
        dropped = [project for project in found if project is not None]
        for project in dropped:
            project.discard(reason)
        return [project.id for project in dropped]

    def allow(self, id: str) -> None:
        """Serve a project again."""
        with self._lock:
            self._refused.pop(id, None)

    def refusal(self, id: str) -> ApiError | None:
        """Return why requests about a project are refused at present; None: they are not."""
        error = self._refused.get(id)
        return None if error is None else _copy(error)

    def _evict(self, keep: ServedProject) -> None:
        """Let the least recently used projects leave until the rest is within the bounds."""
        with self._lock:
            oldest_first = sorted(self._projects.values(), key=lambda project: project.used_at)
        n, n_bytes = len(oldest_first), sum(project.n_bytes for project in oldest_first)
        for project in oldest_first:
            if n <= self._max_projects and n_bytes <= self._max_bytes:
                return
            if project is keep or not project.can_be_evicted:
                continue
            with self._lock:
                if self._projects.get(project.id) is not project or project.n_holders or project.id in self._leaving:
                    continue
                del self._projects[project.id]
                self._leaving[project.id] = project
            n, n_bytes = n - 1, n_bytes - project.n_bytes
            try:
                project.close()
            finally:
                with self._lock:
                    del self._leaving[project.id]
            log.debug("project left memory", project=project.id)

    def close(self) -> None:
        """Wait for loads, and save the snapshots of all projects."""
        self._loaders.shutdown(wait=True, cancel_futures=True)
        for project in self:
            project.close()


def _copy(error: ApiError) -> ApiError:
    """Return a new error: raising one modifies it."""
    return ApiError(error.status, error.message, code=error.code, where=error.where, headers=error.headers)
