"""The schema: bringing a database to the tables that this program knows, by alembic's migrations."""

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
    """Make what is missing, within the connection's transaction: all of it, or nothing.

    Without an ``env.py``: it would only say again which database and which tables.
    """
    scripts = ScriptDirectory(MIGRATIONS, version_locations=[MIGRATIONS])
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    current = context.get_current_revision()
    known = [script.revision for script in scripts.walk_revisions()]  # the newest first
    if current is not None and current not in known:
        raise StoreUnavailable(
            f"{name} was written by a newer ocelad (its schema is {current}); this one knows up to {known[0]}: "
            "use the newer one"
        )
    with Operations.context(context):
        for script in reversed(list(scripts.iterate_revisions("head", current or "base"))):
            script.module.upgrade()
            context.stamp(scripts, script.revision)


def is_current(connection: Connection) -> bool:
    """Whether nothing is missing."""
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    head = ScriptDirectory(MIGRATIONS, version_locations=[MIGRATIONS]).get_current_head()
    return context.get_current_revision() == head
