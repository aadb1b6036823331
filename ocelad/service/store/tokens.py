"""Access tokens: names, permissions and hashes of secrets; a name is never used twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from sqlalchemy import Connection, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from ocelad.service.person_names import is_name_character
from ocelad.service.store.audit_log import insert_audit
from ocelad.service.store.database import Database
from ocelad.service.store.errors import InvalidRequest, TokenExists, UnknownToken
from ocelad.service.store.project_table import now_ms
from ocelad.service.store.tables import tokens as table
from ocelad.service.token_secret import generate_secret, hash_secret
from ocelad.service.wire import Permission

# Log entries name a person as "token/person", so that a name must not contain a slash.
_MAX_NAME = 64
# The end of the year 9999, in milliseconds: the last time that Python can write.
_MAX_EXPIRY = 253_402_300_799_000


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret.

    Attributes
    ----------
    name : str
    permissions : dict of str to {"read", "answer", "review", "admin"}
        By project id; "*" stands for all projects.
    created_at : int
        Milliseconds since 1970, UTC.
    revoked_at : int or None
        Since when the token is invalid; None if it is valid.
    expires_at : int or None
        From when on the token is refused; None: never. For a secret that was replaced, the end of its grace period.
    """

    name: str
    permissions: dict[str, Permission]
    created_at: int
    revoked_at: int | None
    expires_at: int | None = None


class Tokens:
    """The tokens in a database; another process may write entries meanwhile.

    Parameters
    ----------
    database : Database
    by : str
        Who creates, rotates and revokes tokens, for the audit log.
    """

    def __init__(self, database: Database, by: str = "") -> None:
        self._database, self._by = database, by

    def create(self, name: str, permissions: Mapping[str, Permission], expires_at: int | None = None) -> str:
        """Create a token and return its secret, which is not stored.

        Parameters
        ----------
        name : str
        permissions : mapping of str to {"read", "answer", "review", "admin"}
        expires_at : int or None
            From when on the token is refused, in milliseconds since 1970, UTC; None: never.
        """
        if not 0 < len(name) <= _MAX_NAME or not all(map(is_name_character, name)):
            raise InvalidRequest(
                f"the name of the token is {name[:100]!r}; "
                f"accepted: 1 to {_MAX_NAME} letters and digits of any script, spaces and . _ - ' ’ · @ + | :"
            )
        if not permissions or not set(permissions.values()) <= set(get_args(Permission)):
            raise InvalidRequest(
                f"the permissions are {dict(permissions)!r}; "
                f"accepted: {', '.join(get_args(Permission))}, by project id or '*'"
            )
        _check_expiry(expires_at)
        secret = generate_secret()
        row = {
            "name": name,
            "hash": hash_secret(secret),
            "rights": json.dumps(dict(permissions)),
            "created_at": now_ms(),
            "expires_at": expires_at,
        }
        try:
            with self._database.write_transaction() as connection:
                connection.execute(insert(table), row)
                detail = {"permissions": dict(permissions), "expires_at": expires_at}
                insert_audit(connection, self._by, "token.create", name, detail)
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
        """Return the token whose secret has this hash, also a revoked or expired one; None if it is unknown.

        A secret that was replaced expires at the end of its grace period.
        """
        with self._database.read_connection() as connection:
            either = or_(table.c.hash == hash, table.c.previous_hash == hash)
            row = connection.execute(select(table).where(either)).first()
        if row is None:
            return None
        token = _token(row)
        if row.hash == hash:
            return token
        ends = [time for time in (row.previous_until, token.expires_at) if time is not None]
        return replace(token, expires_at=min(ends))

    def rotate(self, name: str, grace_ms: int = 0, expires_at: int | None = None) -> str:
        """Give a token a new secret and return it; name and permissions stay.

        Parameters
        ----------
        name : str
        grace_ms : int
            For how many milliseconds the old secret remains valid. The one before it is refused at once.
        expires_at : int or None
            A new time from which the token is refused; None: the time stays.
        """
        if grace_ms < 0:
            raise InvalidRequest(f"the grace period is {grace_ms} ms; accepted: 0 or more")
        _check_expiry(expires_at)
        secret, now = generate_secret(), now_ms()
        with self._database.write_transaction() as connection:
            row = self._valid_row(connection, name)
            expiry = row.expires_at if expires_at is None else expires_at
            if expiry is not None and expiry <= now:
                raise InvalidRequest(f"the token {name!r} has expired; give it a new time with --expires")
            values = {
                "hash": hash_secret(secret),
                "expires_at": expiry,
                "previous_hash": row.hash,
                "previous_until": now + grace_ms,
            }
            connection.execute(update(table).where(table.c.name == name).values(**values))
            detail = {"grace_until": now + grace_ms, "expires_at": expiry}
            insert_audit(connection, self._by, "token.rotate", name, detail)
        return secret

    def revoke(self, name: str) -> Token:
        """Revoke a token and return it; the time of an earlier revocation stays."""
        with self._database.write_transaction() as connection:
            valid = table.c.name == name, table.c.revoked_at.is_(None)
            if connection.execute(update(table).where(*valid).values(revoked_at=now_ms())).rowcount:
                insert_audit(connection, self._by, "token.revoke", name, {})
            row = connection.execute(select(table).where(table.c.name == name)).first()
        if row is None:
            raise UnknownToken(f"there is no token {name!r}")
        return _token(row)

    def _valid_row(self, connection: Connection, name: str) -> Any:
        row = connection.execute(select(table).where(table.c.name == name)).first()
        if row is None:
            raise UnknownToken(f"there is no token {name!r}")
        if row.revoked_at is not None:
            raise InvalidRequest(f"the token {name!r} was revoked; create one with a new name")
        return row


def _check_expiry(expires_at: int | None) -> None:
    if expires_at is not None and not now_ms() < expires_at <= _MAX_EXPIRY:
        raise InvalidRequest("a token must expire in the future, and before the year 10000")


def _token(row: Any) -> Token:
    return Token(row.name, json.loads(row.rights), row.created_at, row.revoked_at, row.expires_at)
