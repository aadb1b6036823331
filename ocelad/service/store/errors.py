"""Errors of the store; the message of each is one sentence."""

from __future__ import annotations

from typing import Self


class StoreError(Exception):
    """Base class of all errors of the store."""


class InvalidRequest(StoreError, ValueError):
    """The request is invalid; repeating it does not help."""


class UnknownProject(InvalidRequest):
    """No project has this id."""


class ProjectExists(InvalidRequest):
    """A project with this id exists already."""


class ProjectArchived(InvalidRequest):
    """The project can be read, but not changed."""


class UnknownItem(InvalidRequest):
    """No item is at this position."""


class DuplicateItem(InvalidRequest):
    """An item with this id exists already."""


class UnknownEntry(InvalidRequest):
    """No entry has this number."""

    @classmethod
    def of(cls, project_id: str, seq: int, last: int) -> Self:
        """Return the error about entry ``seq`` of a log that ends with entry ``last``.

        >>> print(UnknownEntry.of("wines", 3, 2), UnknownEntry.of("wines", 3, 0), sep=chr(10))
        'wines' has no entry 3; accepted: 1 to 2
        'wines' has no entry 3; nobody has answered yet
        """
        rest = f"accepted: 1 to {last}" if last else "nobody has answered yet"
        return cls(f"{project_id!r} has no entry {seq}; {rest}")


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


class UnknownWebhook(InvalidRequest):
    """The project has no webhook with this number."""


class Unavailable(StoreError, OSError):
    """The request is valid but cannot be served now; it may be repeated with the same key."""


class StoreUnavailable(Unavailable):
    """The database cannot be reached, read or written. The last entries may or may not have been committed."""


class LogReplaced(StoreUnavailable):
    """The log in the database is not the one that was known: it was restored, or another writer was there."""


class DatabaseLost(StoreUnavailable):
    """A file of the database was deleted or replaced while it was open."""


class StoreInUse(StoreUnavailable):
    """Another process writes to the database."""


class Overloaded(Unavailable):
    """The write queue is full; nothing of this request was written."""
