"""Service: the store, the projects that are being served, and their beginning and end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, Self

from ocelad.service import items as reading
from ocelad.service.entries import Entry
from ocelad.service.itemset import ItemSet
from ocelad.service.learning import checked_settings
from ocelad.service.logs import logger
from ocelad.service.refusal import Refusal
from ocelad.service.served_project import ServedProject
from ocelad.service.settings import Settings
from ocelad.service.store import DuplicateItem, ProjectExists, Store, StoreUnavailable
from ocelad.service.wire import NewItem, Readiness

log = logger("ocelad.service")


class Service:
    """What the routes stand on. Made by ``open``; ``close`` waits for what was taken on, and saves.

    Attributes
    ----------
    settings : Settings
    store : Store
    stopping : bool
        Whether it was told to stop: streams of events end then.
    """

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings, self.store = settings, store
        self.stopping = False
        self._live: dict[str, ServedProject] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changing = Lock()  # of projects and their items; entries have the store's writer

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """Open the data folder, take the writer's lock, and begin to learn from what was not learned from yet."""
        service = cls(settings, Store.open(settings.folder, settings.database_url))
        try:
            for row in service.store.projects():
                service._serve(row.id)
        except BaseException:
            service.close()
            raise
        service.store.listen(service._committed)
        return service

    def close(self) -> None:
        """Wait for what was taken on, save what was learned, and let others write."""
        self.stopping = True
        self.store.close()
        for live in self._live.values():
            live.close()

    def attach(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Tell of changes in this loop from now on; None: no more."""
        self._loop = loop
        for live in self:
            live.beacon.attach(loop)

    def stop(self) -> None:
        """End the streams of events, and take on nothing more that lasts."""
        self.stopping = True
        for live in self:
            live.beacon.ring()

    def __iter__(self) -> Iterator[ServedProject]:
        return iter(list(self._live.values()))

    def __contains__(self, id: str) -> bool:
        return id in self._live

    def project(self, id: str) -> ServedProject:
        """The project of this name."""
        try:
            return self._live[id]
        except KeyError:
            raise Refusal(404, f"there is no project {id!r}", code="unknown_project", where="path.project") from None

    def create(
        self,
        id: str,
        title: str,
        items: ItemSet,
        settings: Mapping[str, Any] | None = None,
        digest: str | None = None,
    ) -> ServedProject:
        """A new project of these items.

        ``settings`` are the tracker's, where they are not the usual ones; ``digest`` is what the items are known by
        when they are brought again, that of themselves by default.
        """
        chosen, known_by = checked_settings(items.features.shape[1], settings or {}), digest or reading.digest(items)
        with self._changing:
            try:
                self.store.create_project(id, title, items, chosen, known_by)
            except ProjectExists:
                if id in self._live:
                    raise
                # Kept when it was asked for before, though it could not be told of.
                if (self._serve(id).title, self.store.project(id).digest) != (title, known_by):
                    raise
            live = self._live.get(id) or self._serve(id)
        log.info("project made", project=id, items=len(items), features=len(items.feature_names))
        return live

    def _serve(self, id: str) -> ServedProject:
        row = self.store.project(id)
        snapshots = self.settings.folder / "snapshots"
        snapshots.mkdir(exist_ok=True)
        live = ServedProject(self.store, row, snapshots, self.settings.random_share)
        live.beacon.attach(self._loop)
        self._live[id] = live
        return live

    def add_items(self, live: ServedProject, new: Sequence[NewItem]) -> int:
        """Append items to a project; how many it has then."""
        with self._changing:
            more = reading.append(live.items, new)
            try:
                n_items = self.store.add_items(live.id, more)
            except (DuplicateItem, StoreUnavailable):
                # They may have been kept when they were asked for before, though that could not be told.
                if self.store.project(live.id).n_items <= len(live.items):
                    raise
                live.added(self.store.items(live.id))
                if not _ends_with(live.items, more):
                    raise
            else:
                known = n_items == len(live.items) + len(more)
                live.added(reading.joined(live.items, more) if known else self.store.items(live.id))
            return len(live.items)

    def _committed(self, project: str, entries: Sequence[Entry]) -> None:
        self._live[project].committed(entries)

    def readiness(self) -> Readiness:
        """Whether it can be used, and if not, why."""
        behind = {live.id: live.behind for live in self}
        failed = next((f"{live.id}: {live.learner.failure}" for live in self if live.learner.failure), None)
        if self.stopping:
            return Readiness(status="stopping", reason="the service was told to stop", behind=behind)
        if self.store.failure is not None:  # which may name what is nobody's business
            return Readiness(status="failing", reason="the database cannot be written to at present", behind=behind)
        if failed is not None:
            return Readiness(status="failing", reason=failed, behind=behind)
        late = [live.id for live in self if live.view.seq < live.begun_with]
        if late:
            return Readiness(
                status="starting", reason=f"still learning what was answered before: {late}", behind=behind
            )
        return Readiness(status="ready", reason=None, behind=behind)


def _ends_with(items: ItemSet, more: ItemSet) -> bool:
    n = len(more)
    return items.ids[-n:] == more.ids and bool((items.features[-n:] == more.features).all())
