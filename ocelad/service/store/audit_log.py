"""The audit log: who changed what, except answers, which are in the logs of their projects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, select

from ocelad.service.store.project_table import check_text, now_ms
from ocelad.service.store.tables import audit as table


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An action of a person.

    Attributes
    ----------
    number : int
        Grows with each entry; there may be gaps.
    at : int
        Milliseconds since 1970, UTC.
    who : str
        The name of the token or of the person who has logged in; empty on a service without tokens.
    action : str
        Such as "project.delete".
    target : str
        What was changed: the id of a project, the name of a token.
    detail : dict
        JSON values; never secrets or the content of answers.
    """

    number: int
    at: int
    who: str
    action: str
    target: str
    detail: dict[str, Any]


def insert_audit(connection: Connection, who: str, action: str, target: str, detail: Mapping[str, Any]) -> None:
    """Insert an entry."""
    row = {
        "at": now_ms(),
        "who": check_text(who, "who"),
        "action": check_text(action, "the action", min_length=1),
        "target": check_text(target, "the target"),
        "detail": json.dumps(dict(detail)),
    }
    connection.execute(insert(table), row)


def load_audit(
    connection: Connection, after: int, limit: int, *, who: str | None, action: str | None, target: str | None
) -> list[AuditEntry]:
    """Return up to ``limit`` entries after a number, the oldest first; those of a person, action or target if given."""
    query = select(table).where(table.c.number > after)
    for column, value in ((table.c.who, who), (table.c.action, action), (table.c.target, target)):
        if value is not None:
            query = query.where(column == value)
    rows = connection.execute(query.order_by(table.c.number).limit(limit))
    return [AuditEntry(r.number, r.at, r.who, r.action, r.target, json.loads(r.detail)) for r in rows]
