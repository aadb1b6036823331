"""Errors of the store; the message of each is one sentence."""

from __future__ import annotations


class StoreError(Exception):
    """Base class of all errors of the store."""


class InvalidRequest(StoreError, ValueError):
    """The request is invalid; repeating it does not help."""


class UnknownProject(InvalidRequest):
    """No project has this id."""


class ProjectExists(InvalidRequest):
    """A project with this id exists already."""


class UnknownItem(InvalidRequest):
    """No item is at this position."""


class DuplicateItem(InvalidRequest):
    """An item with this id exists already."""


class UnknownEntry(InvalidRequest):
    """No entry has this number."""


class NothingToUndo(InvalidRequest):
    """The person has no answer left to undo."""


class AlreadyUndone(InvalidRequest):
    """The entry was undone before, or is an undo itself."""


class KeyConflict(InvalidRequest):
    """The idempotency key was used before for another request."""


class TokenExists(InvalidRequest):
    """A token with this name exists or existed."""


class UnknownToken(InvalidRequest):
    """No token has this name."""


class Unavailable(StoreError, OSError):
    """The request is valid but cannot be served now; it may be repeated with the same key."""


class StoreUnavailable(Unavailable):
    """The database cannot be reached, read or written. The last entries may or may not have been committed."""


class StoreInUse(StoreUnavailable):
    """Another process writes to the database."""


class Overloaded(Unavailable):
    """The write queue is full; nothing of this request was written."""
