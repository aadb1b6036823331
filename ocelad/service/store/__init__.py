"""The durable data of a service, in SQLite or PostgreSQL."""

from ocelad.service.store.backups import backup, restore
from ocelad.service.store.cleanup import removed_on_failure
from ocelad.service.store.entry_log import AppendResult
from ocelad.service.store.errors import (
    AlreadyUndone,
    DuplicateItem,
    InvalidRequest,
    KeyConflict,
    NothingToUndo,
    Overloaded,
    ProjectExists,
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
from ocelad.service.store.project_table import ProjectRecord
from ocelad.service.store.store import Store, open_tokens
from ocelad.service.store.tokens import Token, Tokens

__all__ = [
    "AlreadyUndone",
    "AppendResult",
    "DuplicateItem",
    "InvalidRequest",
    "KeyConflict",
    "NothingToUndo",
    "Overloaded",
    "ProjectExists",
    "ProjectRecord",
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
    "removed_on_failure",
    "restore",
]
