"""Delete projects: first they become invisible, then their rows are deleted in batches, also after a restart."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select, update

from ocelad.service.store.project_table import now_ms
from ocelad.service.store.tables import entries, items, keys, people, pictures, projects, webhooks

# Rows that one commit deletes, so that answers need not wait for all rows of a large project.
_BATCH = 20_000


def hide_project(connection: Connection, number: int) -> None:
    """Make a project invisible and its id free; ``delete_hidden`` deletes its rows."""
    # No project can have this id: ids have no spaces.
    hidden = {"deleted_at": now_ms(), "id": f"deleted {number}", "title": ""}
    connection.execute(update(projects).where(projects.c.number == number).values(hidden))


def show_project(connection: Connection, number: int) -> None:
    """Make a project visible that was hidden until it was complete."""
    connection.execute(update(projects).where(projects.c.number == number).values(deleted_at=None))


def delete_hidden(connection: Connection) -> bool:
    """Delete some rows of the projects that are hidden; return whether there may be more."""
    number = connection.scalar(select(projects.c.number).where(projects.c.deleted_at.is_not(None)).limit(1))
    if number is None:
        return False
    for table, position in ((entries, entries.c.seq), (pictures, pictures.c.position), (items, items.c.position)):
        some = select(position).where(table.c.project == number).order_by(position).limit(_BATCH)
        last = max(connection.scalars(some).all(), default=None)
        if last is not None:
            connection.execute(delete(table).where(table.c.project == number, position <= last))
            return True
    for table in (keys, people, webhooks):
        connection.execute(delete(table).where(table.c.project == number))
    connection.execute(delete(projects).where(projects.c.number == number))
    return True
