"""Tokens: who may do what. Only hashes of their secrets are kept, and a name is never given twice."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from ocelad.service.secret import hash_of, new_secret
from ocelad.service.store.database import Database
from ocelad.service.store.errors import Refused, TokenExists, UnknownToken
from ocelad.service.store.project_rows import now
from ocelad.service.store.tables import tokens as table
from ocelad.service.wire import Right

# What people may call themselves: log entries tell "token/person", and must not be mistaken.
_NAME = re.compile(r"[\w .-]{1,64}")


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token.

    Attributes
    ----------
    name : str
    rights : dict of str to {"read", "answer", "admin"}
        By project; "*" stands for all.
    created_at : int
        Milliseconds since 1970, UTC.
    revoked_at : int or None
        Since when it opens nothing.
    """

    name: str
    rights: dict[str, Right]
    created_at: int
    revoked_at: int | None


class Tokens:
    """The tokens in a database; written at once, also while another program writes entries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str, rights: Mapping[str, Right]) -> str:
        """A new token's secret, which is told this once."""
        if not _NAME.fullmatch(name):
            raise Refused(
                f"the name of the token is {name[:100]!r}; accepted: 1 to 64 letters, digits, spaces and . _ -"
            )
        if not rights or not set(rights.values()) <= set(get_args(Right)):
            raise Refused(f"the rights are {dict(rights)!r}; accepted: {', '.join(get_args(Right))}, by project or '*'")
        secret = new_secret()
        row = {"name": name, "hash": hash_of(secret), "rights": json.dumps(dict(rights)), "created_at": now()}
        try:
            with self._database.writing() as connection:
                connection.execute(insert(table), row)
        except Exception as error:
            if isinstance(error.__cause__, IntegrityError):
                raise TokenExists(f"there is, or was, a token {name!r}; accepted: a new name") from None
            raise
        return secret

    def all(self) -> list[Token]:
        """All that ever were, in the order in which they were made."""
        with self._database.reading() as connection:
            return [_token(row) for row in connection.execute(select(table).order_by(table.c.created_at, table.c.name))]

    def find(self, hash: str) -> Token | None:
        """The token whose secret has this hash; a revoked one, too."""
        with self._database.reading() as connection:
            row = connection.execute(select(table).where(table.c.hash == hash)).first()
        return None if row is None else _token(row)

    def revoke(self, name: str) -> Token:
        """Let it open nothing from now on. One that was revoked before stays so."""
        with self._database.writing() as connection:
            standing = table.c.name == name, table.c.revoked_at.is_(None)
            connection.execute(update(table).where(*standing).values(revoked_at=now()))
            row = connection.execute(select(table).where(table.c.name == name)).first()
        if row is None:
            raise UnknownToken(f"there is no token {name!r}")
        return _token(row)


def _token(row: Any) -> Token:
    return Token(row.name, json.loads(row.rights), row.created_at, row.revoked_at)
