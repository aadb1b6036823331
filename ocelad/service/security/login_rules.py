"""Who may do what after a login: permissions by name and group, and the names that are accepted."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import get_args

from ocelad.service.api_error import ApiError
from ocelad.service.person_names import is_name_character
from ocelad.service.security.callers import ALL, Caller, highest
from ocelad.service.wire import Permission

MAX_NAME = 64


@dataclass(frozen=True)
class GroupRule:
    """The members of a group have a permission on a project; "*": on all.

    >>> GroupRule.parse("reviewers=admin"), GroupRule.parse("cn=tasters=answer:wines")
    (GroupRule(group='reviewers', permission='admin', project='*'), \
GroupRule(group='cn=tasters', permission='answer', project='wines'))
    """

    group: str
    permission: Permission
    project: str = ALL

    @classmethod
    def parse(cls, text: str) -> GroupRule:
        """Return the rule of GROUP=PERMISSION or GROUP=PERMISSION:PROJECT."""
        group, _, granted = text.strip().rpartition("=")
        permission, _, project = granted.partition(":")
        if not group or permission not in get_args(Permission):
            raise ValueError(
                f"{text!r} is not GROUP=PERMISSION or GROUP=PERMISSION:PROJECT; permissions: {_PERMISSIONS}"
            )
        return cls(group, permission, project or ALL)  # type: ignore[arg-type]


_PERMISSIONS = ", ".join(get_args(Permission))


@dataclass(frozen=True)
class LoginRules:
    """The permissions of people who log in.

    Attributes
    ----------
    everybody : {"read", "answer", "admin"} or None
        The permission of everybody on all projects.
    admins : collection of str
        The names with the permission "admin" on all projects.
    groups : sequence of GroupRule

    Examples
    --------
    >>> rules = LoginRules("answer", {"anna"}, [GroupRule("tasters", "admin", "wines")])
    >>> rules.caller("anna", []).permissions, rules.caller("ben", ["tasters"]).permissions
    ({'*': 'admin'}, {'*': 'answer', 'wines': 'admin'})
    """

    everybody: Permission | None = "answer"
    admins: Collection[str] = ()
    groups: Sequence[GroupRule] = field(default=())

    def caller(self, name: str, groups: Collection[str]) -> Caller:
        """Return the caller of a person; raise ApiError if nothing is permitted to the person."""
        granted: dict[str, Permission] = {} if self.everybody is None else {ALL: self.everybody}
        if name in self.admins:
            granted[ALL] = "admin"
        for rule in self.groups:
            if rule.group in groups:
                held = granted.get(rule.project)
                granted[rule.project] = rule.permission if held is None else highest(held, rule.permission)
        if not granted:
            raise ApiError(403, "your login is valid, but you have no permission here; ask the service's operator")
        return Caller(name, granted, personal=True)


def refused_login(message: str) -> ApiError:
    """Return the error of a login that is not accepted."""
    return ApiError(401, message, code="login_refused")


def login_name(text: str) -> str | None:
    """Return a name of a person in its normal form; None if it is not accepted.

    >>> login_name("anna@example.org"), login_name(" अनिता "), login_name("a/b"), login_name("a\\u200bb")
    ('anna@example.org', 'अनिता', None, None)
    """
    name = unicodedata.normalize("NFC", text.strip())
    accepted = 0 < len(name) <= MAX_NAME and all(map(is_name_character, name))
    return name if accepted else None
