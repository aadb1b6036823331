"""The database schema: create and update the tables with alembic's migrations."""

from __future__ import annotations

from pathlib import Path

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from ocelad.service.store.errors import StoreUnavailable

MIGRATIONS = Path(__file__).parent / "migrations"
VERSION_TABLE = "ocelad_schema"


def migrate(connection: Connection, name: str) -> None:
    """Apply the missing migrations within the connection's transaction.

    Alembic's ``env.py`` is not used: it would only repeat the connection and the tables.
    """
    scripts = ScriptDirectory(MIGRATIONS, version_locations=[MIGRATIONS])
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    current = context.get_current_revision()
    known = [script.revision for script in scripts.walk_revisions()]  # the newest first
    if current is not None and current not in known:
        raise StoreUnavailable(
            f"{name} was written by a newer version of ocelad (schema {current}); this version knows schemas up to "
            f"{known[0]}: use the newer version"
        )
    with Operations.context(context):
        for script in reversed(list(scripts.iterate_revisions("head", current or "base"))):
            script.module.upgrade()
            context.stamp(scripts, script.revision)


def is_current(connection: Connection) -> bool:
    """Return whether all migrations have been applied."""
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    head = ScriptDirectory(MIGRATIONS, version_locations=[MIGRATIONS]).get_current_head()
    return context.get_current_revision() == head
