"""Callers and their permissions on projects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ocelad.service.wire import Permission

#: Stands for all projects, also future ones.
ALL = "*"
_ORDER: dict[Permission, int] = {"read": 0, "answer": 1, "review": 2, "admin": 3}


def highest(*permissions: Permission) -> Permission:
    """Return the permission that includes the others.

    >>> highest("answer", "read")
    'answer'
    """
    return max(permissions, key=_ORDER.__getitem__)


@dataclass(frozen=True)
class Caller:
    """An authenticated client.

    Attributes
    ----------
    name : str
        The name of the token or of the person who has logged in; empty if no token is required.
    permissions : mapping of str to {"read", "answer", "review", "admin"}
        By project id, or "*" for all. Each includes those before it.
    personal : bool
        Whether the name is that of one person, who has logged in. A token may be shared, so that its answers are stored
        with the name that each person has chosen, too.

    Examples
    --------
    >>> alice = Caller("alice", {"*": "read", "digits": "admin"})
    >>> alice.permission_on("digits"), alice.permission_on("wines")
    ('admin', 'read')
    >>> Caller("bob", {"digits": "answer"}).permission_on("wines") is None
    True
    >>> alice.may("answer", "digits"), alice.may("answer", "wines")
    (True, False)
    """

    name: str
    permissions: Mapping[str, Permission]
    personal: bool = False

    def permission_on(self, project: str) -> Permission | None:
        """Return the highest permission on a project; None: the caller must not learn whether it exists."""
        held = [self.permissions[key] for key in (ALL, project) if key in self.permissions]
        return highest(*held) if held else None

    def may(self, permission: Permission, project: str) -> bool:
        """Return whether the caller has this permission on a project, or a higher one."""
        held = self.permission_on(project)
        return held is not None and _ORDER[held] >= _ORDER[permission]

    def stored_name(self, person: str) -> str:
        """Return the name under which the answers of a person are stored: "token/person" without empty parts.

        >>> Caller("anna", {}).stored_name("misty hare"), Caller("", {}).stored_name("misty hare")
        ('anna/misty hare', 'misty hare')
        >>> Caller("anna", {}, personal=True).stored_name("misty hare")
        'anna'
        """
        if self.personal:
            return self.name
        return "/".join(part for part in (self.name, person.strip()) if part)

    def has_stored(self, stored_name: str) -> bool:
        """Return whether an answer was given with this caller's token.

        >>> Caller("anna", {}).has_stored("anna/misty hare"), Caller("anna", {}).has_stored("ben")
        (True, False)
        """
        return stored_name.partition("/")[0] == self.name


#: The caller of every request to a service without tokens.
LOCAL_ADMIN = Caller("", {ALL: "admin"})
