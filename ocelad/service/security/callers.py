"""Callers: who asks, and what they may do in which project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ocelad.service.wire import Right

#: In the place of a project's id: all projects, those to come, too.
ALL = "*"
_ORDER: dict[Right, int] = {"read": 0, "answer": 1, "admin": 2}


@dataclass(frozen=True)
class Caller:
    """Who asks.

    Attributes
    ----------
    name : str
        Of the token; empty where none is needed.
    rights : mapping of str to {"read", "answer", "admin"}
        By project, or for all of them by "*". Who may answer may read, and an admin may do both.

    Examples
    --------
    >>> alice = Caller("alice", {"*": "read", "digits": "admin"})
    >>> alice.right("digits"), alice.right("wines"), Caller("bob", {"digits": "answer"}).right("wines")
    ('admin', 'read', None)
    >>> alice.may("answer", "digits"), alice.may("answer", "wines")
    (True, False)
    """

    name: str
    rights: Mapping[str, Right]

    def right(self, project: str) -> Right | None:
        """The most that they may do in a project; None: they may not know that there is one."""
        held = [self.rights[key] for key in (ALL, project) if key in self.rights]
        return max(held, key=_ORDER.__getitem__, default=None)

    def may(self, right: Right, project: str) -> bool:
        """Whether they have this right in a project, or a greater one."""
        held = self.right(project)
        return held is not None and _ORDER[held] >= _ORDER[right]


#: Where no token is needed.
EVERYONE = Caller("", {ALL: "admin"})
