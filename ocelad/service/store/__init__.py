"""The durable data of a service, in SQLite or PostgreSQL."""

from ocelad.service.store.answer_query import AnswerFilter, AnswerRows
from ocelad.service.store.audit_log import AuditEntry
from ocelad.service.store.backups import backup, restore
from ocelad.service.store.cleanup import removed_on_failure
from ocelad.service.store.entry_log import AppendResult, AskedPair
from ocelad.service.store.errors import (
    AlreadyUndone,
    DatabaseLost,
    DuplicateItem,
    InvalidRequest,
    KeyConflict,
    LogReplaced,
    NothingToUndo,
    Overloaded,
    ProjectArchived,
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
    UnknownWebhook,
)
from ocelad.service.store.project_table import ProjectRecord
from ocelad.service.store.sessions import Session, Sessions
from ocelad.service.store.shared_access import open_sessions, open_shared, open_tokens, read_audit
from ocelad.service.store.store import Store
from ocelad.service.store.tokens import Token, Tokens
from ocelad.service.store.webhook_table import Webhook

__all__ = [
    "AlreadyUndone",
    "AnswerFilter",
    "AnswerRows",
    "AppendResult",
    "AskedPair",
    "AuditEntry",
    "DatabaseLost",
    "DuplicateItem",
    "InvalidRequest",
    "KeyConflict",
    "LogReplaced",
    "NothingToUndo",
    "Overloaded",
    "ProjectArchived",
    "ProjectExists",
    "ProjectRecord",
    "Session",
    "Sessions",
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
    "UnknownWebhook",
    "Webhook",
    "backup",
    "open_sessions",
    "open_shared",
    "open_tokens",
    "read_audit",
    "removed_on_failure",
    "restore",
]
