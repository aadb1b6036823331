"""The tables as queries use them; the migrations create them."""

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
    Column("about", Text, nullable=False),  # JSON: ItemSet.metadata()
    Column("digest", Text, nullable=False),
    Column("n_items", Integer, nullable=False),  # items at later positions are being added; 0: the project is
)

items = Table(
    "items",
    metadata,
    Column("project", Integer, ForeignKey("projects.number"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("id", Text, nullable=False),
    Column("features", LargeBinary, nullable=False),  # of the type in projects.about, little-endian
    Column("shown", Text, nullable=False),  # JSON list: the text, then the values of the fields in the project's order
    UniqueConstraint("project", "id"),
)

# Separate from the items: reading all items must not read their pictures.
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
    Column("asked", Text, nullable=False),  # Entry.source
    Column("who", Text, nullable=False),  # Entry.person
    Column("undoes", BigInteger),
    Column("name", Text),
    Column("bundle", BigInteger),
    CheckConstraint("kind IN ('same', 'different', 'skip', 'undo', 'name')", name="entries_kind"),
    CheckConstraint(
        "asked IN ('active', 'random', 'link', 'check', 'settle', 'given')",
        name="entries_asked",
    ),
    CheckConstraint("(undoes IS NOT NULL) = (kind = 'undo') AND (undoes IS NULL OR undoes < seq)", name="entries_undo"),
    CheckConstraint("(name IS NOT NULL) = (kind = 'name') AND (bundle IS NULL OR bundle <= seq)", name="entries_name"),
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
# Finds the last answer of a person without a scan of the log.
Index("entries_who", entries.c.project, entries.c.who, entries.c.seq)

# Idempotency keys: the digest of the request and the entries that it created.
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
    Column("rights", Text, nullable=False),  # JSON: permissions by project id or "*"
    Column("created_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger),
)
