"""Create the tables of projects, items, pictures, entries, idempotency keys and tokens."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "projects",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("about", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("n_items", sa.Integer, nullable=False),
    )
    op.create_table(
        "items",
        sa.Column("project", sa.Integer, sa.ForeignKey("projects.number"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("features", sa.LargeBinary, nullable=False),
        sa.Column("shown", sa.Text, nullable=False),
        sa.UniqueConstraint("project", "id"),
    )
    op.create_table(
        "pictures",
        sa.Column("project", sa.Integer, sa.ForeignKey("projects.number"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("png", sa.LargeBinary, nullable=False),
    )
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
        sa.CheckConstraint("kind IN ('same', 'different', 'skip', 'undo')", name="entries_kind"),
        sa.CheckConstraint("asked IN ('active', 'random', 'given')", name="entries_asked"),
        sa.CheckConstraint(
            "(undoes IS NOT NULL) = (kind = 'undo') AND (undoes IS NULL OR undoes < seq)", name="entries_undo"
        ),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "entries_undoes",
        "entries",
        ["project", "undoes"],
        unique=True,
        sqlite_where=sa.text("undoes IS NOT NULL"),
        postgresql_where=sa.text("undoes IS NOT NULL"),
    )
    op.create_index("entries_who", "entries", ["project", "who", "seq"])
    op.create_table(
        "keys",
        sa.Column("project", sa.Integer, sa.ForeignKey("projects.number"), primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("first_seq", sa.BigInteger, nullable=False),
        sa.Column("last_seq", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tokens",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("hash", sa.Text, nullable=False, unique=True),
        sa.Column("rights", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("revoked_at", sa.BigInteger),
    )
