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
    Column("options", Text, nullable=False),  # JSON: ProjectOptions
    Column("archived_at", BigInteger),
    Column("deleted_at", BigInteger),  # its rows are being deleted
)

# One row: which database this is, how often a writer has opened it, and a secret that signs what is handed out.
identity = Table(
    "identity",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("secret", LargeBinary, nullable=False),
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
    Column("full_size", LargeBinary),  # PNG or JPEG; NULL: the size of png
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
    Column("chain", LargeBinary, nullable=False),
    Column("erased", LargeBinary),
    CheckConstraint(
        "kind IN ('same', 'different', 'skip', 'undo', 'name', 'erased', 'erase')",
        name="entries_kind",
    ),
    CheckConstraint(
        "asked IN ('active', 'random', 'link', 'check', 'settle', 'given', 'repeat', 'review', 'import')",
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

# The salt of each person's entries in the chain of a log; deleted with the person's answers.
people = Table(
    "people",
    metadata,
    Column("project", Integer, ForeignKey("projects.number"), primary_key=True),
    Column("who", Text, primary_key=True),
    Column("salt", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

# Idempotency keys of each person: the digest of the request and the entries that it created.
keys = Table(
    "keys",
    metadata,
    Column("project", Integer, ForeignKey("projects.number"), primary_key=True),
    Column("who", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("digest", LargeBinary, nullable=False),
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
# Finds the keys that have expired.
Index("keys_at", keys.c.at)

tokens = Table(
    "tokens",
    metadata,
    Column("name", Text, primary_key=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("rights", Text, nullable=False),  # JSON: permissions by project id or "*"
    Column("created_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger),
    Column("expires_at", BigInteger),
    # A rotated secret remains valid until this time.
    Column("previous_hash", Text),
    Column("previous_until", BigInteger),
)
Index("tokens_previous_hash", tokens.c.previous_hash, unique=True)

# Sessions of people who have logged in with OpenID Connect, by the hash of the cookie.
sessions = Table(
    "sessions",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("who", Text, nullable=False),
    Column("rights", Text, nullable=False),  # JSON: permissions by project id or "*"
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)

# Logins that have begun at the provider of identities; each is deleted when it is used.
logins = Table(
    "logins",
    metadata,
    Column("state", Text, primary_key=True),
    Column("nonce", Text, nullable=False),
    Column("verifier", Text, nullable=False),
    Column("next", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

# Who did what: everything that people change except answers, which are in the log.
audit = Table(
    "audit",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("who", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("detail", Text, nullable=False),  # JSON
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("project", Integer, ForeignKey("projects.number"), nullable=False),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False),
    Column("events", Text, nullable=False),  # JSON: the options of each event by its name, and the interval
    Column("created_at", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),  # the last entry when it was added
)
