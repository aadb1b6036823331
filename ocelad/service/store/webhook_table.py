"""Webhooks in the database: URLs that are called when something happens in a project."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from ocelad.service.store.errors import InvalidRequest, UnknownWebhook
from ocelad.service.store.project_table import ProjectRecord, now_ms
from ocelad.service.store.tables import projects, webhooks

#: The largest number of webhooks of a project.
MAX_WEBHOOKS = 10


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook of a project.

    Attributes
    ----------
    number : int
    project : str
        The id of the project.
    url : str
    secret : str
        Signs the requests.
    events : dict of str to dict
        By the name of the event, its options.
    interval : float
        The least number of seconds between two calls for the same reason.
    created_at : int
        Milliseconds since 1970, UTC.
    """

    number: int
    project: str
    url: str
    secret: str = field(repr=False)
    events: dict[str, dict[str, Any]] = field(hash=False)
    interval: float
    created_at: int


def load_webhooks(connection: Connection, project: str | None = None) -> list[Webhook]:
    """Return the webhooks of a project, or of all projects."""
    of_project = webhooks.c.project == projects.c.number, projects.c.deleted_at.is_(None)
    query = select(webhooks, projects.c.id).where(*of_project).order_by(webhooks.c.number)
    rows = connection.execute(query if project is None else query.where(projects.c.id == project))
    return [_to_webhook(row) for row in rows]


def _to_webhook(row: Any) -> Webhook:
    stored = json.loads(row.events)
    return Webhook(row.number, row.id, row.url, row.secret, stored["events"], float(stored["interval"]), row.created_at)


def insert_webhook(
    connection: Connection,
    project: ProjectRecord,
    url: str,
    secret: str,
    events: dict[str, dict[str, Any]],
    interval: float,
) -> Webhook:
    """Add a webhook to a project and return it."""
    of_project = webhooks.c.project == project.number
    if (connection.scalar(select(func.count()).where(of_project)) or 0) >= MAX_WEBHOOKS:
        raise InvalidRequest(f"{project.id!r} has {MAX_WEBHOOKS} webhooks; accepted: up to {MAX_WEBHOOKS}")
    row = {
        "project": project.number,
        "url": url,
        "secret": secret,
        "events": json.dumps({"events": events, "interval": interval}),
        "created_at": now_ms(),
        "seq": project.seq,
    }
    connection.execute(insert(webhooks), row)
    return load_webhooks(connection, project.id)[-1]


def delete_webhook(connection: Connection, project: ProjectRecord, number: int) -> None:
    """Delete a webhook of a project."""
    result = connection.execute(
        delete(webhooks).where(webhooks.c.project == project.number, webhooks.c.number == number)
    )
    if not result.rowcount:
        raise UnknownWebhook(f"{project.id!r} has no webhook {number}")
