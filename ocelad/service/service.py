"""The service: the store, the served projects, and their start and stop."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from time import time_ns
from typing import Any, Self

from ocelad.service import items as item_sets
from ocelad.service.api_error import ApiError
from ocelad.service.audit_log import AuditLog
from ocelad.service.entries import Entry
from ocelad.service.itemset import ItemSet
from ocelad.service.learning import LearnerPool, check_settings, prepare_kernels, with_known_items, with_version
from ocelad.service.loaded_projects import LoadedProjects
from ocelad.service.log_setup import get_logger
from ocelad.service.project_options import ProjectOptions
from ocelad.service.served_project import Notice, ServedProject
from ocelad.service.settings import Settings
from ocelad.service.store import (
    DuplicateItem,
    ProjectExists,
    ProjectRecord,
    Store,
    StoreError,
    StoreUnavailable,
    UnknownProject,
    Webhook,
)
from ocelad.service.webhooks import WebhookSender
from ocelad.service.wire import NewItem

log = get_logger("ocelad.service")
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class Service:
    """The store and the served projects; created by ``open``.

    Projects are loaded when they are asked for. Iteration is over those in memory; ``records`` returns all.

    Attributes
    ----------
    settings : Settings
    store : Store
    audit : AuditLog
        Who did what to which project.
    stopping : bool
        Whether the service is stopping, so that event streams end.
    webhooks : WebhookSender
    notices : dict of str to Notice
        The last replacement of each project's log since the start.
    """

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings, self.store = settings, store
        self.audit = AuditLog(store)
        self.stopping = False
        self.notices: dict[str, Notice] = {}
        self.webhooks = WebhookSender(store.webhooks, settings.webhook_networks)
        self._pool = LearnerPool(settings.learner_threads)
        self._loaded = LoadedProjects(self._make, settings.max_loaded_projects, settings.max_loaded_bytes)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changing = Lock()  # of projects and their items; entries are serialized by the store's writer
        self._unconfirmed: set[str] = set()  # ids of projects that may have been stored without a confirmation

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """Open the data folder and take the writer's lock. No project is loaded."""
        service = cls(settings, Store.open(settings.folder, settings.database_url))
        service.store.listen(service._on_commit)
        service.store.listen_to_replacements(service._on_replaced)
        for record in service.store.projects():
            if not is_project_id(record.id):
                log.error("a project is not served", reason=_invalid_id(record.id))
        return service

    def close(self) -> None:
        """Write what is queued, save snapshots, and release the writer's lock."""
        self.stopping = True
        self.store.close()
        self._loaded.close()
        self._pool.close()
        self.webhooks.close()

    def attach(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Notify coroutines of this loop from now on; None: notifications are dropped."""
        self._loop = loop
        for project in self:
            project.notifier.attach(loop)

    def stop(self) -> None:
        """End the event streams."""
        self.stopping = True
        for project in self:
            project.notifier.notify()

    def __iter__(self) -> Iterator[ServedProject]:
        return iter(self._loaded)

    def __contains__(self, id: str) -> bool:
        return is_project_id(id) and self.store.has_project(id)

    def records(self) -> list[ProjectRecord]:
        """Return all projects that can be served, as they are stored, in the order of their creation."""
        return [record for record in self.store.projects() if is_project_id(record.id)]

    def peek(self, id: str) -> ServedProject | None:
        """Return a project if it is in memory."""
        return self._loaded.get(id)

    def refusal(self, id: str) -> ApiError | None:
        """Return why requests about a project are refused at present; None: they are not."""
        return self._loaded.refusal(id)

    def project(self, id: str) -> ServedProject:
        """Return a project, which is loaded if necessary; raise ApiError if it does not exist."""
        return self._loaded.get(id) or self._loaded.load(id).result()

    async def load(self, id: str) -> ServedProject:
        """Return a project; it is loaded outside the event loop if necessary."""
        project = self._loaded.get(id)
        if project is not None:
            return project
        self._record(id)  # a project that does not exist takes no thread
        return await asyncio.shield(asyncio.wrap_future(self._loaded.load(id)))

    def hold(self, project: ServedProject) -> bool:
        """Keep a project in memory until ``release``; return False if it has left in the meantime."""
        return self._loaded.hold(project)

    def release(self, project: ServedProject) -> None:
        """Allow a held project to leave memory."""
        self._loaded.release(project)

    def _record(self, id: str) -> ProjectRecord:
        try:
            record = self.store.project(id)
        except UnknownProject:
            raise unknown_project(id) from None
        if not is_project_id(id):
            raise ApiError(409, _invalid_id(id), code="invalid_project", where="path.project")
        return record

    def _make(self, id: str) -> ServedProject:
        record = self._record(id)
        project = ServedProject(
            self.store,
            record,
            self._snapshot_path(id),
            self.settings.random_share,
            self._pool,
            partial(self.webhooks.put, id),
        )
        if project.replay.kind == "changed":
            log.warning("the log is not learned as before", project=id, reason=project.replay.note)
        prepare_kernels(record.settings, project.view.metric.n_features)
        project.notifier.attach(self._loop)
        project.notice = self.notices.get(id)
        self.webhooks.put(id, project.view)  # what later views are compared with
        return project

    def _snapshot_path(self, id: str) -> Path:
        assert is_project_id(id)  # it becomes the name of a file
        folder = self.settings.folder / "snapshots"
        folder.mkdir(exist_ok=True)
        return folder / f"{id}.tracker"

    # Logs that are not the ones that were learned from.

    def _on_replaced(self, ids: Sequence[str], reason: str) -> None:
        """Forget projects, read them again, and refuse requests meanwhile; called by the store's writer thread."""
        ids = [id for id in ids if is_project_id(id)]
        message = f"the log of this project is not the one that this service knew: {reason}; it is read again"
        error = ApiError(503, f"{message}; try again", code="log_replaced", headers={"Retry-After": "1"})
        loaded = self._loaded.drop(ids, error, reason)
        for id in ids:
            with suppress(OSError):  # of a project that is not in memory
                self._snapshot_path(id).unlink(missing_ok=True)
        log.warning("logs were replaced", reason=reason, projects=ids)
        Thread(target=self._rebuild, args=(ids, loaded, reason), name="ocelad-rebuild", daemon=True).start()

    def _rebuild(self, ids: Sequence[str], loaded: Sequence[str], reason: str) -> None:
        """Load projects again whose log was replaced, then serve all."""
        for id in sorted(ids, key=lambda id: id in loaded):  # the others need not wait
            self.notices[id] = Notice(time_ns() // 1_000_000, f"the log was read again, because {reason}")
            try:
                if id in loaded:
                    self._loaded.load(id, refused=True).result()
            except Exception as error:  # the next request tries again
                log.warning("a replaced project could not be loaded", project=id, reason=str(error))
            self._loaded.allow(id)
            log.warning("the log was read again", project=id, reason=reason)
            self.audit.record("", "log.replaced", id, {"reason": reason})
        with suppress(StoreError):
            self.webhooks.reload()

    def create(
        self,
        id: str,
        title: str,
        items: ItemSet,
        settings: Mapping[str, Any] | None = None,
        digest: str | None = None,
        options: ProjectOptions | None = None,
    ) -> ServedProject:
        """Create a project and return it.

        Parameters
        ----------
        id, title : str
        items : ItemSet
        settings : mapping or None
            Parameters of the tracker; missing ones have their default.
        digest : str or None
            Identifies the source of the items if they are read again; None: the digest of the items.
        options : ProjectOptions or None
            The question, the guidelines and the cards; None: the defaults.
        """
        tracker_settings = check_settings(items.features.shape[1], settings or {})
        tracker_settings = with_version(with_known_items(tracker_settings, len(items)))
        options = options or ProjectOptions()
        if options.cards is not None:
            item_sets.check_cards(items, options.cards)
        digest = digest or item_sets.items_digest(items)
        with self._changing:
            try:
                self.store.create_project(id, title, items, tracker_settings, digest, options.stored())
            except StoreUnavailable:
                self._unconfirmed.add(id)
                raise
            except ProjectExists:
                # An earlier request may have stored it, although its confirmation was lost.
                record = self.store.project(id)
                if id not in self._unconfirmed or (record.title, record.digest) != (title, digest):
                    raise
            self._unconfirmed.add(id)
            project = self.project(id)
            self._unconfirmed.discard(id)
        log.info("project created", project=id, items=len(items), features=len(items.feature_names))
        return project

    def change(
        self,
        project: ServedProject,
        change: Callable[[ProjectOptions], ProjectOptions],
        *,
        title: str | None = None,
    ) -> None:
        """Change the options of a project, and its title; ``change`` gets the present options."""
        with self._changing:
            options = change(project.options)
            if options.cards is not None:
                item_sets.check_cards(project.items, options.cards)
            self.store.update_project(project.id, title=title, options=options.stored())
        project = self.peek(project.id) or project  # it may have been loaded again meanwhile
        project.use_weights()
        project.notifier.notify()

    def archive(self, id: str, archived: bool) -> None:
        """Archive a project, or serve it as before."""
        self._record(id)
        self.store.update_project(id, archived=archived)

    def delete(self, id: str) -> None:
        """Delete a project with everything that belongs to it; requests about it get 404 from now on."""
        with self._changing:
            self._record(id)
            self._loaded.drop([id], unknown_project(id), "the project was deleted")
            try:
                self.store.delete_project(id)
                self._snapshot_path(id).unlink(missing_ok=True)
            finally:  # also if it exists still, because the database is not available
                self._loaded.allow(id)
            self.notices.pop(id, None)
            self.webhooks.reload()
        log.info("project deleted", project=id)

    def copy(self, id: str, new_id: str, title: str | None = None, *, answers: bool = False) -> None:
        """Copy the items, the settings and the options of a project and, on request, its log."""
        with self._changing:
            record = self._record(id)
            if self.store.has_project(new_id):
                raise ProjectExists(f"a project {new_id!r} exists already; accepted: a new id")
            message = f"{new_id!r} is being copied; try again"
            self._loaded.drop([new_id], ApiError(503, message, headers={"Retry-After": "1"}), message)
            try:
                self.store.copy_project(id, new_id, record.title if title is None else title, answers=answers)
            finally:
                self._loaded.allow(new_id)
        log.info("project copied", project=id, copy=new_id, answers=answers)

    def add_webhook(
        self, id: str, url: str, secret: str, events: Mapping[str, Mapping[str, Any]], interval: float
    ) -> Webhook:
        """Add a webhook to a project and return it."""
        webhook = self.store.add_webhook(id, url, secret, events, interval)
        self.webhooks.reload()
        self.webhooks.put(id, self.project(id).view)
        return webhook

    def delete_webhook(self, id: str, number: int) -> None:
        """Delete a webhook of a project."""
        self.store.delete_webhook(id, number)
        self.webhooks.reload()

    def add_items(self, project: ServedProject, new: Sequence[NewItem]) -> int:
        """Append items to a project and return its number of items."""
        with self._changing:
            more = item_sets.check_new_items(project.items, new)
            try:
                n_items = self.store.add_items(project.id, more)
            except (DuplicateItem, StoreUnavailable):
                # An earlier request may have stored them, although its confirmation was lost.
                if self.store.project(project.id).n_items <= len(project.items):
                    raise
                project.replace_items(self.store.items(project.id))
                if not _ends_with(project.items, more):
                    raise
            else:
                if n_items == len(project.items) + len(more):
                    features = self.store.vectors(project.id) if more.is_single else None
                    project.replace_items(item_sets.concatenate(project.items, more, features))
                else:
                    project.replace_items(self.store.items(project.id))
            return len(project.items)

    def _on_commit(self, project_id: str, entries: Sequence[Entry]) -> None:
        project = self._loaded.get(project_id)
        if project is not None:  # otherwise they are read when it is loaded
            project.on_commit(entries)


def is_project_id(id: str) -> bool:
    """Return whether an id may become the name of a file and a part of a path; a restored database may have others."""
    return _ID.fullmatch(id) is not None


def unknown_project(id: str) -> ApiError:
    """Return the error of a request about a project that does not exist."""
    return ApiError(404, f"there is no project {id!r}", code="unknown_project", where="path.project")


def _invalid_id(id: str) -> str:
    return (
        f"the database has a project with the id {id[:100]!r}, which is not served; accepted: 1 to 64 lowercase "
        "letters, digits, - and _"
    )


def _ends_with(items: ItemSet, more: ItemSet) -> bool:
    n = len(more)
    return items.ids[-n:] == more.ids and bool((items.features[-n:] == more.features).all())
