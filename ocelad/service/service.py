"""The service: the store, the served projects, and their start and stop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, Self

from ocelad.service import items as item_sets
from ocelad.service.api_error import ApiError
from ocelad.service.entries import Entry
from ocelad.service.itemset import ItemSet
from ocelad.service.learning import check_settings, prepare_kernels, with_known_items
from ocelad.service.log_setup import get_logger
from ocelad.service.served_project import ServedProject
from ocelad.service.settings import Settings
from ocelad.service.store import DuplicateItem, ProjectExists, Store, StoreUnavailable
from ocelad.service.wire import NewItem

log = get_logger("ocelad.service")


class Service:
    """The store and the served projects; created by ``open``.

    Attributes
    ----------
    settings : Settings
    store : Store
    stopping : bool
        Whether the service is stopping, so that event streams end.
    """

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings, self.store = settings, store
        self.stopping = False
        self._projects: dict[str, ServedProject] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changing = Lock()  # of projects and their items; entries are serialized by the store's writer

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """Open the data folder, take the writer's lock, and start to learn from the remaining entries."""
        service = cls(settings, Store.open(settings.folder, settings.database_url))
        try:
            for record in service.store.projects():
                service._serve(record.id)
        except BaseException:
            service.close()
            raise
        service.store.listen(service._on_commit)
        return service

    def close(self) -> None:
        """Write what is queued, save snapshots, and release the writer's lock."""
        self.stopping = True
        self.store.close()
        for project in self._projects.values():
            project.close()

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
        return iter(list(self._projects.values()))

    def __contains__(self, id: str) -> bool:
        return id in self._projects

    def project(self, id: str) -> ServedProject:
        """Return a project; raise ApiError if it does not exist."""
        try:
            return self._projects[id]
        except KeyError:
            raise ApiError(404, f"there is no project {id!r}", code="unknown_project", where="path.project") from None

    def create(
        self,
        id: str,
        title: str,
        items: ItemSet,
        settings: Mapping[str, Any] | None = None,
        digest: str | None = None,
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
        """
        tracker_settings = check_settings(items.features.shape[1], settings or {})
        tracker_settings = with_known_items(tracker_settings, len(items))
        digest = digest or item_sets.items_digest(items)
        with self._changing:
            try:
                self.store.create_project(id, title, items, tracker_settings, digest)
            except ProjectExists:
                if id in self._projects:
                    raise
                # An earlier request stored it, but its confirmation was lost.
                if (self._serve(id).title, self.store.project(id).digest) != (title, digest):
                    raise
            project = self._projects.get(id) or self._serve(id)
        log.info("project created", project=id, items=len(items), features=len(items.feature_names))
        return project

    def _serve(self, id: str) -> ServedProject:
        record = self.store.project(id)
        snapshots = self.settings.folder / "snapshots"
        snapshots.mkdir(exist_ok=True)
        project = ServedProject(self.store, record, snapshots, self.settings.random_share)
        prepare_kernels(record.settings, project.view.metric.n_features)
        project.notifier.attach(self._loop)
        self._projects[id] = project
        return project

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
        self._projects[project_id].on_commit(entries)


def _ends_with(items: ItemSet, more: ItemSet) -> bool:
    n = len(more)
    return items.ids[-n:] == more.ids and bool((items.features[-n:] == more.features).all())
