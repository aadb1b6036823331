"""What the store says when it cannot do what it was asked: one sentence each."""

from __future__ import annotations


class StoreError(Exception):
    """Whatever the store says no to."""


class Refused(StoreError, ValueError):
    """What was asked for cannot be: asking again will not help."""


class UnknownProject(Refused):
    """There is no project of this id."""


class ProjectExists(Refused):
    """There is a project of this id already."""


class UnknownItem(Refused):
    """There is no item at this position."""


class DuplicateItem(Refused):
    """There is an item of this id already."""


class UnknownEntry(Refused):
    """There is no entry of this number."""


class NothingToUndo(Refused):
    """Who asks has no answer that stands."""


class AlreadyUndone(Refused):
    """The entry was undone before, or is an undo itself."""


class KeyConflict(Refused):
    """The idempotency key was used before, for something else."""


class TokenExists(Refused):
    """There is, or was, a token of this name."""


class UnknownToken(Refused):
    """There is no token of this name."""


class Unavailable(StoreError, OSError):
    """Nothing is wrong with what was asked for; it can be asked again, with the same key."""


class StoreUnavailable(Unavailable):
    """The database cannot be reached, read or written; whether the last entries were kept shows when it is back."""


class StoreInUse(StoreUnavailable):
    """Another program writes to it."""


class Overloaded(Unavailable):
    """Too much waits to be written; nothing of this request was."""
