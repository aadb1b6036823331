"""Access tokens: names, permissions and hashes of secrets; a name is never used twice."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from ocelad.service.store.database import Database
from ocelad.service.store.errors import InvalidRequest, TokenExists, UnknownToken
from ocelad.service.store.project_table import now_ms
from ocelad.service.store.tables import tokens as table
from ocelad.service.token_secret import generate_secret, hash_secret
from ocelad.service.wire import Permission

# Log entries name a person as "token/person", so that a name must not contain a slash.
_NAME = re.compile(r"[\w .-]{1,64}")


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret.

    Attributes
    ----------
    name : str
    permissions : dict of str to {"read", "answer", "admin"}
        By project id; "*" stands for all projects.
    created_at : int
        Milliseconds since 1970, UTC.
    revoked_at : int or None
        Since when the token is invalid; None if it is valid.
    """

    name: str
    permissions: dict[str, Permission]
    created_at: int
    revoked_at: int | None


class Tokens:
    """The tokens in a database; another process may write entries meanwhile."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str, permissions: Mapping[str, Permission]) -> str:
        """Create a token and return its secret, which is not stored."""
        if not _NAME.fullmatch(name):
            raise InvalidRequest(
                f"the name of the token is {name[:100]!r}; accepted: 1 to 64 letters, digits, spaces and . _ -"
            )
        if not permissions or not set(permissions.values()) <= set(get_args(Permission)):
            raise InvalidRequest(
                f"the permissions are {dict(permissions)!r}; "
                f"accepted: {', '.join(get_args(Permission))}, by project id or '*'"
            )
        secret = generate_secret()
        row = {
            "name": name,
            "hash": hash_secret(secret),
            "rights": json.dumps(dict(permissions)),
            "created_at": now_ms(),
        }
        try:
            with self._database.write_transaction() as connection:
                connection.execute(insert(table), row)
        except Exception as error:
            if isinstance(error.__cause__, IntegrityError):
                raise TokenExists(f"a token {name!r} exists or existed; accepted: a new name") from None
            raise
        return secret

    def all(self) -> list[Token]:
        """Return all tokens, also revoked ones, in the order of their creation."""
        with self._database.read_connection() as connection:
            return [_token(row) for row in connection.execute(select(table).order_by(table.c.created_at, table.c.name))]

    def find(self, hash: str) -> Token | None:
        """Return the token whose secret has this hash, also a revoked one; None if it is unknown."""
        with self._database.read_connection() as connection:
            row = connection.execute(select(table).where(table.c.hash == hash)).first()
        return None if row is None else _token(row)

    def revoke(self, name: str) -> Token:
        """Revoke a token and return it; the time of an earlier revocation stays."""
        with self._database.write_transaction() as connection:
            valid = table.c.name == name, table.c.revoked_at.is_(None)
            connection.execute(update(table).where(*valid).values(revoked_at=now_ms()))
            row = connection.execute(select(table).where(table.c.name == name)).first()
        if row is None:
            raise UnknownToken(f"there is no token {name!r}")
        return _token(row)


def _token(row: Any) -> Token:
    return Token(row.name, json.loads(row.rights), row.created_at, row.revoked_at)
