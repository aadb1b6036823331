"""Add what a team needs: chained logs, people, options, expiring keys and tokens, logins, an audit log, webhooks."""

from __future__ import annotations

import os
import time
import uuid
from itertools import groupby
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from alembic import op

from ocelad.service.entries import Entry
from ocelad.service.store.log_chain import EMPTY_CHAIN, entry_digest, new_salt, next_chain

revision = "0003"
down_revision = "0002"

_OLD_COLUMNS = "project, seq, at, kind, left_item, right_item, asked, who, undoes, name, bundle"
_BATCH = 10_000


def upgrade() -> None:
    connection = op.get_bind()
    _create_identity(connection)
    for column in (
        sa.Column("options", sa.Text, nullable=False, server_default="{}"),
        sa.Column("archived_at", sa.BigInteger),
        sa.Column("deleted_at", sa.BigInteger),
    ):
        op.add_column("projects", column)
    op.add_column("pictures", sa.Column("full_size", sa.LargeBinary))
    _create_people(connection)
    _copy_entries(connection)
    _copy_keys(connection)
    _extend_tokens()
    _create_tables()


def _create_identity(connection: sa.Connection) -> None:
    table = op.create_table(
        "identity",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
    )
    connection.execute(table.insert(), {"number": 1, "id": uuid.uuid4().hex, "epoch": 0, "secret": os.urandom(32)})


def _create_people(connection: sa.Connection) -> None:
    table = op.create_table(
        "people",
        sa.Column("project", sa.Integer, sa.ForeignKey("projects.number"), primary_key=True),
        sa.Column("who", sa.Text, primary_key=True),
        sa.Column("salt", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    found = connection.execute(sa.text("SELECT DISTINCT project, who FROM entries")).all()
    if found:
        connection.execute(table.insert(), [{"project": p, "who": who, "salt": new_salt()} for p, who in found])


def _move_aside(table: str) -> None:
    """Rename a table, and on PostgreSQL also its primary key, whose name the new table needs."""
    op.rename_table(table, f"{table}_before")
    if op.get_context().dialect.name == "postgresql":
        op.execute(f"ALTER TABLE {table}_before RENAME CONSTRAINT {table}_pkey TO {table}_before_pkey")


def _copy_entries(connection: sa.Connection) -> None:
    """Copy all entries into a new table with their chain: SQLite cannot change the constraints of a table."""
    for index in ("entries_undoes", "entries_who"):
        op.drop_index(index, "entries")
    _move_aside("entries")
    table = op.create_table(
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
        sa.Column("chain", sa.LargeBinary, nullable=False),
        sa.Column("erased", sa.LargeBinary),
        sa.CheckConstraint(
            "kind IN ('same', 'different', 'skip', 'undo', 'name', 'erased', 'erase')", name="entries_kind"
        ),
        sa.CheckConstraint(
            "asked IN ('active', 'random', 'link', 'check', 'settle', 'given', 'repeat', 'review', 'import')",
            name="entries_asked",
        ),
        sa.CheckConstraint(
            "(undoes IS NOT NULL) = (kind = 'undo') AND (undoes IS NULL OR undoes < seq)", name="entries_undo"
        ),
        sa.CheckConstraint(
            "(name IS NOT NULL) = (kind = 'name') AND (bundle IS NULL OR bundle <= seq)", name="entries_name"
        ),
        sqlite_with_rowid=False,
    )
    salts = {(row.project, row.who): bytes(row.salt) for row in connection.execute(sa.text("SELECT * FROM people"))}
    names = [column.name for column in table.columns]
    new: list[tuple[Any, ...]] = []

    def flush() -> None:
        if new:
            connection.execute(table.insert(), [dict(zip(names, row, strict=True)) for row in new])
            new.clear()

    rows = connection.execute(sa.text(f"SELECT {_OLD_COLUMNS} FROM entries_before ORDER BY project, seq")).all()
    for project, of_project in groupby(rows, key=attrgetter("project")):
        chain = EMPTY_CHAIN
        for row in of_project:
            values: list[Any] = list(row)
            chain = next_chain(chain, entry_digest(Entry(*values[1:]), salts[project, row.who]))
            new.append((*values, chain, None))
            if len(new) >= _BATCH:
                flush()
    flush()
    op.drop_table("entries_before")
    op.create_index(
        "entries_undoes",
        "entries",
        ["project", "undoes"],
        unique=True,
        sqlite_where=sa.text("undoes IS NOT NULL"),
        postgresql_where=sa.text("undoes IS NOT NULL"),
    )
    op.create_index("entries_who", "entries", ["project", "who", "seq"])


def _copy_keys(connection: sa.Connection) -> None:
    """Give each key to the person whose entries it stands for."""
    _move_aside("keys")
    op.create_table(
        "keys",
        sa.Column("project", sa.Integer, sa.ForeignKey("projects.number"), primary_key=True),
        sa.Column("who", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("first_seq", sa.BigInteger, nullable=False),
        sa.Column("last_seq", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    connection.execute(
        sa.text(
            "INSERT INTO keys (project, who, key, digest, first_seq, last_seq, at)"
            " SELECT k.project, e.who, k.key, k.digest, k.first_seq, k.last_seq, :now FROM keys_before AS k"
            " JOIN entries AS e ON e.project = k.project AND e.seq = k.first_seq"
        ),
        {"now": time.time_ns() // 1_000_000},
    )
    op.drop_table("keys_before")
    op.create_index("keys_at", "keys", ["at"])


def _extend_tokens() -> None:
    for column in (
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("previous_hash", sa.Text),
        sa.Column("previous_until", sa.BigInteger),
    ):
        op.add_column("tokens", column)
    op.create_index("tokens_previous_hash", "tokens", ["previous_hash"], unique=True)


def _create_tables() -> None:
    op.create_table(
        "sessions",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("rights", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "logins",
        sa.Column("state", sa.Text, primary_key=True),
        sa.Column("nonce", sa.Text, nullable=False),
        sa.Column("verifier", sa.Text, nullable=False),
        sa.Column("next", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )
    op.create_table(
        "webhooks",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("project", sa.Integer, sa.ForeignKey("projects.number"), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("events", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
    )
