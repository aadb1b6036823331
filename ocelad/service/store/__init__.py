"""The store: the durable truth of a service, in SQLite or PostgreSQL."""

from ocelad.service.store.backups import backup, restore
from ocelad.service.store.entry_log import Appended
from ocelad.service.store.errors import (
    AlreadyUndone,
    DuplicateItem,
    KeyConflict,
    NothingToUndo,
    Overloaded,
    ProjectExists,
    Refused,
    StoreError,
    StoreInUse,
    StoreUnavailable,
    TokenExists,
    Unavailable,
    UnknownEntry,
    UnknownItem,
    UnknownProject,
    UnknownToken,
)
from ocelad.service.store.project_rows import ProjectRow
from ocelad.service.store.store import Store, open_tokens
from ocelad.service.store.tokens import Token, Tokens
from ocelad.service.store.unused import without_leftovers

__all__ = [
    "AlreadyUndone",
    "Appended",
    "DuplicateItem",
    "KeyConflict",
    "NothingToUndo",
    "Overloaded",
    "ProjectExists",
    "ProjectRow",
    "Refused",
    "Store",
    "StoreError",
    "StoreInUse",
    "StoreUnavailable",
    "Token",
    "TokenExists",
    "Tokens",
    "Unavailable",
    "UnknownEntry",
    "UnknownItem",
    "UnknownProject",
    "UnknownToken",
    "backup",
    "open_tokens",
    "restore",
    "without_leftovers",
]
