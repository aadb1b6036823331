"""The identity of a database: which one it is, and how often a writer has opened it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select, update

from ocelad.service.store.tables import identity as table


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells a database from another one, and from an earlier state of itself.

    Attributes
    ----------
    id : str
        Random; made with the database.
    epoch : int
        The number of times that a writer has opened it. A writer that comes back and finds another number has not been
        alone, or the database was restored.
    secret : bytes
        Signs what the service hands out and wants to recognize later.
    """

    id: str
    epoch: int
    secret: bytes


def open_identity(connection: Connection) -> Identity:
    """Count an opening by a writer, and return the identity after it."""
    connection.execute(update(table).values(epoch=table.c.epoch + 1))
    row = connection.execute(select(table)).one()
    return Identity(row.id, row.epoch, bytes(row.secret))
