"""Projects in the database, and the check of texts that both databases can store."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from ocelad.service.store.errors import InvalidRequest
from ocelad.service.store.log_chain import EMPTY_CHAIN
from ocelad.service.store.tables import entries, projects


@dataclass(frozen=True, slots=True)
class ProjectRecord:
    """A project as it is stored.

    Attributes
    ----------
    id, title : str
    created_at : int
        Milliseconds since 1970, UTC.
    settings : dict
        The parameters of the tracker.
    metadata : dict
        ``ItemSet.metadata()`` of its items.
    digest : str
        The digest of the data that the items were read from.
    n_items : int
    seq : int
        The number of the last entry in the log; 0 if the log is empty.
    chain : bytes
        The chain of the log up to its last entry.
    options : dict
        What people can change later: the question, the columns of the cards, ...
    archived_at : int or None
        Since when the project is archived, in milliseconds since 1970; None: it is not.
    number : int
        The primary key in the database.
    """

    id: str
    title: str
    created_at: int
    settings: dict[str, Any]
    metadata: dict[str, Any]
    digest: str
    n_items: int
    seq: int
    chain: bytes
    options: dict[str, Any]
    archived_at: int | None
    number: int


def load_projects(connection: Connection) -> dict[str, ProjectRecord]:
    """Return all complete projects by id, in the order of their creation."""
    newest_first = entries.c.seq.desc()
    of_project = entries.c.project == projects.c.number
    seq, chain = (
        select(column).where(of_project).order_by(newest_first).limit(1).scalar_subquery()
        for column in (entries.c.seq, entries.c.chain)
    )
    rows = connection.execute(
        select(projects, seq.label("seq"), chain.label("chain"))
        .where(projects.c.n_items > 0, projects.c.deleted_at.is_(None))
        .order_by(projects.c.number)
    )
    return {row.id: _to_record(row) for row in rows}


def _to_record(row: Any) -> ProjectRecord:
    return ProjectRecord(
        id=row.id,
        title=row.title,
        created_at=row.created_at,
        settings=json.loads(row.settings),
        metadata=json.loads(row.about),
        digest=row.digest,
        n_items=row.n_items,
        seq=row.seq or 0,
        chain=EMPTY_CHAIN if row.chain is None else bytes(row.chain),
        options=json.loads(row.options),
        archived_at=row.archived_at,
        number=row.number,
    )


def now_ms() -> int:
    """Return the time in milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000


def check_text(value: str, name: str, *, min_length: int = 0, max_length: int = 200) -> str:
    """Return ``value`` if both databases can store it unchanged.

    >>> check_text("a\\0b", "person")
    Traceback (most recent call last):
        ...
    ocelad.service.store.errors.InvalidRequest: person contains a NUL or a surrogate; accepted: 0 to 200 characters
    """
    accepted = f"accepted: {min_length} to {max_length} characters"
    if not isinstance(value, str) or not min_length <= len(value) <= max_length:
        raise InvalidRequest(f"{name} is {str(value)[:60]!r}; {accepted}")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidRequest(f"{name} contains a NUL or a surrogate; {accepted}")
    return value
