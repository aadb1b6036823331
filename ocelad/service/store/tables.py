"""The tables, as queries name them. What makes them in a database are the migrations."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

projects = Table(
    "projects",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("title", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("settings", Text, nullable=False),
    Column("about", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("n_items", Integer, nullable=False),  # items beyond are still being added; 0: so is the project
)

items = Table(
    "items",
    metadata,
    Column("project", Integer, ForeignKey("projects.number"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("id", Text, nullable=False),
    Column("features", LargeBinary, nullable=False),  # float64, little-endian
    Column("shown", Text, nullable=False),  # JSON: the text, then the fields in the project's order
    UniqueConstraint("project", "id"),
)

# Apart from the items, so that who reads those does not read these.
pictures = Table(
    "pictures",
    metadata,
    Column("project", Integer, ForeignKey("projects.number"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("png", LargeBinary, nullable=False),
)

entries = Table(
    "entries",
    metadata,
    Column("project", Integer, ForeignKey("projects.number"), primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("left_item", Integer, nullable=False),
    Column("right_item", Integer, nullable=False),
    Column("asked", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("undoes", BigInteger),
    CheckConstraint("kind IN ('same', 'different', 'skip', 'undo')", name="entries_kind"),
    CheckConstraint("asked IN ('active', 'random', 'given')", name="entries_asked"),
    CheckConstraint("(undoes IS NOT NULL) = (kind = 'undo') AND (undoes IS NULL OR undoes < seq)", name="entries_undo"),
    sqlite_with_rowid=False,
)
Index(
    "entries_undoes",
    entries.c.project,
    entries.c.undoes,
    unique=True,
    sqlite_where=entries.c.undoes.is_not(None),
    postgresql_where=entries.c.undoes.is_not(None),
)
# For "my last answer", which else would be looked for in all of them.
Index("entries_who", entries.c.project, entries.c.who, entries.c.seq)

# Idempotency keys: what was asked for with them, and the entries that came of it.
keys = Table(
    "keys",
    metadata,
    Column("project", Integer, ForeignKey("projects.number"), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("digest", LargeBinary, nullable=False),
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

tokens = Table(
    "tokens",
    metadata,
    Column("name", Text, primary_key=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("rights", Text, nullable=False),  # JSON: a right by project, or by "*"
    Column("created_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger),
)
