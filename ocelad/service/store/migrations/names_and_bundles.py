"""Add names of groups, bundles of entries that are undone together, and sources of pairs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_KIND = "kind IN ('same', 'different', 'skip', 'undo', 'name')"
_ASKED = "asked IN ('active', 'random', 'link', 'check', 'settle', 'given')"
_NAME = "(name IS NOT NULL) = (kind = 'name') AND (bundle IS NULL OR bundle <= seq)"
_COLUMNS = "project, seq, at, kind, left_item, right_item, asked, who, undoes"


def upgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        op.add_column("entries", sa.Column("name", sa.Text))
        op.add_column("entries", sa.Column("bundle", sa.BigInteger))
        op.drop_constraint("entries_kind", "entries")
        op.create_check_constraint("entries_kind", "entries", _KIND)
        op.drop_constraint("entries_asked", "entries")
        op.create_check_constraint("entries_asked", "entries", _ASKED)
        op.create_check_constraint("entries_name", "entries", _NAME)
    else:
        _copy_entries()


def _copy_entries() -> None:
    """Copy all entries into a new table: SQLite cannot change the constraints of a table."""
    for index in ("entries_undoes", "entries_who"):
        op.drop_index(index)
    op.rename_table("entries", "entries_before")
    op.create_table(
        "entries",
        sa.Column("project", sa.Integer, sa.ForeignKey("projects.number"), primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("left_item", sa.Integer, nullable=False),
        sa.Column("right_item", sa.Integer, nullable=False),
        sa.Column("asked", sa.Text, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("undoes", sa.BigInteger),
        sa.Column("name", sa.Text),
        sa.Column("bundle", sa.BigInteger),
        sa.CheckConstraint(_KIND, name="entries_kind"),
        sa.CheckConstraint(_ASKED, name="entries_asked"),
        sa.CheckConstraint(
            "(undoes IS NOT NULL) = (kind = 'undo') AND (undoes IS NULL OR undoes < seq)", name="entries_undo"
        ),
        sa.CheckConstraint(_NAME, name="entries_name"),
        sqlite_with_rowid=False,
    )
    op.execute(f"INSERT INTO entries ({_COLUMNS}) SELECT {_COLUMNS} FROM entries_before")
    op.drop_table("entries_before")
    op.create_index(
        "entries_undoes", "entries", ["project", "undoes"], unique=True, sqlite_where=sa.text("undoes IS NOT NULL")
    )
    op.create_index("entries_who", "entries", ["project", "who", "seq"])
