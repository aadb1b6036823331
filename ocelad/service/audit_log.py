"""The audit log of a service: who did what to which project; never secrets, and never the content of answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from ocelad.service.log_setup import get_logger
from ocelad.service.store import StoreError

log = get_logger("ocelad.audit")
_MAX_TEXT = 200


class AuditStore(Protocol):
    """What the audit log needs of the store."""

    def add_audit(
        self, who: str, action: str, target: str = "", detail: Mapping[str, Any] | None = None
    ) -> Future[Any]: ...


class AuditLog:
    """Record actions. If an action was done but cannot be recorded, the log of the service says so.

    >>> class Memory(list):
    ...     def add_audit(self, *entry):
    ...         self.append(entry)
    ...         future = Future()
    ...         future.set_result(None)
    ...         return future
    >>> memory = Memory()
    >>> AuditLog(memory).record("anna", "project.rename", "wines", {"title": "Wines"})
    >>> memory
    [('anna', 'project.rename', 'wines', {'title': 'Wines'})]
    """

    def __init__(self, store: AuditStore) -> None:
        self._store = store

    def record(self, who: str, action: str, target: str = "", detail: Mapping[str, Any] | None = None) -> None:
        """Record an action and wait until it is on the disk; not in the event loop."""
        try:
            self._add(who, action, target, detail or {}).result()
        except StoreError as error:
            _report(who, action, target, error)

    async def write(self, who: str, action: str, target: str = "", detail: Mapping[str, Any] | None = None) -> None:
        """Record an action and wait until it is on the disk, in the event loop."""
        try:
            await asyncio.wrap_future(self._add(who, action, target, detail or {}))
        except StoreError as error:
            _report(who, action, target, error)

    def _add(self, who: str, action: str, target: str, detail: Mapping[str, Any]) -> Future[Any]:
        return self._store.add_audit(_storable(who), action, _storable(target), detail)


def _storable(text: str) -> str:
    """Return a text that the database can store: callers have not always checked what a client sent.

    >>> _storable("a\\0b" + "x" * 300)[:6], len(_storable("a\\0b" + "x" * 300))
    ('a?bxxx', 200)
    """
    return text[:_MAX_TEXT].replace("\0", "?").encode(errors="replace").decode()


def _report(who: str, action: str, target: str, error: StoreError) -> None:
    log.error("an action was not recorded", who=who, action=action, target=target, reason=str(error)[:300])
