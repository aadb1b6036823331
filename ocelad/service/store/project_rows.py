"""What is known of a project, and texts that both databases can keep."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from ocelad.service.store.errors import Refused
from ocelad.service.store.tables import entries, projects


@dataclass(frozen=True, slots=True)
class ProjectRow:
    """A project.

    Attributes
    ----------
    id, title : str
    created_at : int
        Milliseconds since 1970, UTC.
    settings : dict
        The tracker's parameters.
    about : dict
        ``ItemSet.metadata()`` of its items.
    digest : str
        Of what the items were made from.
    n_items : int
    seq : int
        Of the last entry in its log; 0 where there is none.
    number : int
        What the database calls it.
    """

    id: str
    title: str
    created_at: int
    settings: dict[str, Any]
    metadata: dict[str, Any]
    digest: str
    n_items: int
    seq: int
    number: int


def read_projects(connection: Connection) -> dict[str, ProjectRow]:
    """All projects that are whole, by id, in the order in which they were made."""
    last = select(func.max(entries.c.seq)).where(entries.c.project == projects.c.number).scalar_subquery()
    rows = connection.execute(
        select(projects, last.label("last")).where(projects.c.n_items > 0).order_by(projects.c.number)
    )
    return {
        row.id: ProjectRow(
            id=row.id,
            title=row.title,
            created_at=row.created_at,
            settings=json.loads(row.settings),
            metadata=json.loads(row.about),
            digest=row.digest,
            n_items=row.n_items,
            seq=row.last or 0,
            number=row.number,
        )
        for row in rows
    }


def now() -> int:
    """Milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000


def storable(value: str, name: str, *, at_least: int = 0, at_most: int = 200) -> str:
    """``value`` if both databases can keep it and give it back.

    >>> storable("a\\0b", "who")
    Traceback (most recent call last):
        ...
    ocelad.service.store.errors.Refused: who holds a zero or half a character; accepted: 0 to 200 characters of text
    """
    accepted = f"accepted: {at_least} to {at_most} characters of text"
    if not isinstance(value, str) or not at_least <= len(value) <= at_most:
        raise Refused(f"{name} is {str(value)[:60]!r}; {accepted}")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise Refused(f"{name} holds a zero or half a character; {accepted}")
    return value
