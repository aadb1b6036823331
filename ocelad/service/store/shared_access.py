"""Tokens, sessions and the audit log of a data folder on which a service may run meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ocelad.service.store.audit_log import AuditEntry, load_audit
from ocelad.service.store.database import Database
from ocelad.service.store.durable_files import make_folder
from ocelad.service.store.schema import is_current
from ocelad.service.store.sessions import Sessions
from ocelad.service.store.store import Store
from ocelad.service.store.tokens import Tokens

# Entries of the audit log per read.
_AUDIT_PAGE = 1000


@contextmanager
def open_tokens(folder: Path, url: str | None = None, by: str = "") -> Iterator[Tokens]:
    """Open the tokens of a data folder; a service may run on it meanwhile. ``by`` is for the audit log."""
    with open_shared(folder, url) as database:
        yield Tokens(database, by)


@contextmanager
def open_sessions(folder: Path, url: str | None = None, by: str = "") -> Iterator[Sessions]:
    """Open the sessions of a data folder; a service may run on it meanwhile. ``by`` is for the audit log."""
    with open_shared(folder, url) as database:
        yield Sessions(database, by)


def read_audit(
    folder: Path,
    url: str | None = None,
    after: int = 0,
    *,
    who: str | None = None,
    action: str | None = None,
    target: str | None = None,
) -> Iterator[AuditEntry]:
    """Yield the entries of the audit log after a number, the oldest first; a service may run meanwhile."""
    with open_shared(folder, url) as database:
        while True:
            with database.read_connection() as connection:
                page = load_audit(connection, after, _AUDIT_PAGE, who=who, action=action, target=target)
            yield from page
            if len(page) < _AUDIT_PAGE:
                return
            after = page[-1].number


@contextmanager
def open_shared(folder: Path, url: str | None = None) -> Iterator[Database]:
    """Open the database of a data folder without the writer's lock; a service may run on it meanwhile."""
    make_folder(folder)
    database = Database(folder, url)
    try:
        with database.translating_errors(), database.writers.connect() as connection:
            current = is_current(connection)
        if not current:  # then no service runs on it: a running one has migrated it
            Store.open(folder, url).close()
        yield database
    finally:
        database.dispose()
