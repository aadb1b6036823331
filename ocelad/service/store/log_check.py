"""Check the chains of all logs: that no entry was changed, removed or added behind the back of the service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, select

from ocelad.service.entries import Entry
from ocelad.service.store.database import Database
from ocelad.service.store.entry_log import SELECT_ENTRY
from ocelad.service.store.log_chain import EMPTY_CHAIN, entry_digest, next_chain
from ocelad.service.store.project_table import load_projects
from ocelad.service.store.shared_access import open_shared
from ocelad.service.store.tables import entries as table
from ocelad.service.store.tables import people

_PAGE_SIZE = 10_000


@dataclass(frozen=True, slots=True)
class ChainCheck:
    """The result of checking a log.

    Attributes
    ----------
    n_entries, n_erased : int
        The number of entries that were checked, and of those whose content is erased.
    broken_at : int or None
        The number of the first entry that does not fit; None: the whole chain holds.
    reason : str
        What is wrong with it; empty if nothing is.
    """

    n_entries: int
    n_erased: int
    broken_at: int | None = None
    reason: str = ""


def verify_chain(entries: Iterable[Entry], salts: Mapping[str, bytes]) -> ChainCheck:
    """Check a log from its beginning.

    Each entry must follow the one before it, and its chain must follow from the chain before it and from its content,
    hashed with the salt of its person. The content of an erased entry is gone: of it, the digest is checked, and that
    a later entry records an erasure.

    Parameters
    ----------
    entries : iterable of Entry
        All entries of a log, in order.
    salts : mapping of str to bytes
        By person.
    """
    chain, n_entries, n_erased = EMPTY_CHAIN, 0, 0
    first_erased: int | None = None  # that no entry has recorded yet
    for entry in entries:
        reason = _find_fault(entry, n_entries + 1, chain, salts)
        if reason:
            return ChainCheck(n_entries, n_erased, n_entries + 1, reason)
        chain, n_entries = entry.chain, n_entries + 1
        if entry.erased is not None:
            n_erased += 1
            first_erased = first_erased or entry.seq
        if entry.kind == "erase":
            first_erased = None
    if first_erased is not None:
        return ChainCheck(n_entries, n_erased, first_erased, "its content is erased, but no later entry records it")
    return ChainCheck(n_entries, n_erased)


def _find_fault(entry: Entry, seq: int, chain: bytes, salts: Mapping[str, bytes]) -> str:
    """Return what is wrong with the entry that should have the number ``seq``; empty if nothing is."""
    if entry.seq != seq:
        return f"it is missing: the next entry has the number {entry.seq}"
    if entry.erased is None and entry.person not in salts:
        return "its person has no salt, so that its content cannot be checked"
    if entry.erased is not None and (entry.kind not in ("erased", "undo", "erase") or entry.name is not None):
        return "it is marked as erased, but has content"
    if entry.kind == "erased" and entry.erased is None:
        return "its content is erased, but not its digest"
    if next_chain(chain, entry_digest(entry, salts.get(entry.person, b""))) != entry.chain:
        return "its content, or its place, is not that of the chain"
    return ""


def verify_logs(folder: Path, url: str | None = None) -> Iterator[tuple[str, ChainCheck]]:
    """Check the logs of all projects of a data folder and yield the result of each; a service may run meanwhile."""
    with open_shared(folder, url) as database:
        with database.read_connection() as connection:
            ids = list(load_projects(connection))
        for id in ids:
            check = _verify_log(database, id)
            if check is not None and check.broken_at is not None:
                check = _verify_log(database, id)  # answers may have been erased while it was read
            if check is not None:
                yield id, check


def _verify_log(database: Database, id: str) -> ChainCheck | None:
    """Check the log of a project; None if it was deleted meanwhile."""
    with database.read_connection() as connection:
        project = load_projects(connection).get(id)
        if project is None:
            return None
        query = select(people).where(people.c.project == project.number)
        salts = {row.who: bytes(row.salt) for row in connection.execute(query)}
        return verify_chain(_read_all(connection, project.number, project.seq), salts)


def _read_all(connection: Connection, number: int, last: int) -> Iterator[Entry]:
    """Yield all entries of a log up to ``last``, page by page."""
    after = 0
    query = SELECT_ENTRY.where(table.c.project == number, table.c.seq <= last).order_by(table.c.seq)
    while page := [Entry(*row) for row in connection.execute(query.where(table.c.seq > after).limit(_PAGE_SIZE))]:
        yield from page
        after = page[-1].seq
