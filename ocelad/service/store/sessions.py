"""Logins that have begun, and sessions; of their secrets only hashes are stored."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select

from ocelad.service.store.audit_log import insert_audit
from ocelad.service.store.database import Database
from ocelad.service.store.project_table import now_ms
from ocelad.service.store.tables import logins, sessions


@dataclass(frozen=True, slots=True)
class PendingLogin:
    """A login that has begun.

    Attributes
    ----------
    nonce, verifier : str
        What the provider must put into the ID token, and what proves that the code was asked for here.
    next : str
        Where the browser goes after the login.
    created_at : int
        Milliseconds since 1970, UTC.
    """

    nonce: str
    verifier: str
    next: str
    created_at: int


@dataclass(frozen=True, slots=True)
class Session:
    """A session of a person who has logged in.

    Attributes
    ----------
    who : str
    groups : tuple of str
        The groups of the person at the login.
    created_at, expires_at : int
        Milliseconds since 1970, UTC.
    """

    who: str
    groups: tuple[str, ...]
    created_at: int
    expires_at: int


class Sessions:
    """The sessions in a database; another process may write entries meanwhile.

    Parameters
    ----------
    database : Database
    by : str
        Who ends the sessions of others, for the audit log.
    """

    def __init__(self, database: Database, by: str = "") -> None:
        self._database, self._by = database, by

    def add_login(self, state: str, nonce: str, verifier: str, next: str, max_age: float) -> None:
        """Store a login that has begun, and delete those that are older than ``max_age`` seconds."""
        row = {"state": state, "nonce": nonce, "verifier": verifier, "next": next, "created_at": now_ms()}
        with self._database.write_transaction() as connection:
            connection.execute(delete(logins).where(logins.c.created_at < now_ms() - int(max_age * 1000)))
            connection.execute(insert(logins), row)

    def take_login(self, state: str) -> PendingLogin | None:
        """Delete a login that has begun and return it; None if it is unknown or was taken before."""
        with self._database.read_connection() as connection:
            row = connection.execute(select(logins).where(logins.c.state == state)).first()
        if row is None:  # without a write, since anybody can ask for unknown states
            return None
        with self._database.write_transaction() as connection:
            taken = connection.execute(delete(logins).where(logins.c.state == state)).rowcount
        # Two requests may have read the row, but the database lets only one of them delete it.
        return PendingLogin(row.nonce, row.verifier, row.next, row.created_at) if taken == 1 else None

    def start(self, hash: str, who: str, groups: Collection[str], seconds: float) -> None:
        """Store a session, and delete those that have expired."""
        now = now_ms()
        row = {
            "hash": hash,
            "who": who,
            "rights": json.dumps({"groups": list(groups)}),
            "created_at": now,
            "expires_at": now + int(seconds * 1000),
        }
        with self._database.write_transaction() as connection:
            connection.execute(delete(sessions).where(sessions.c.expires_at <= now))
            connection.execute(insert(sessions), row)

    def find(self, hash: str) -> Session | None:
        """Return the session whose secret has this hash, also an expired one; None if there is none."""
        with self._database.read_connection() as connection:
            row = connection.execute(select(sessions).where(sessions.c.hash == hash)).first()
        return None if row is None else _session(row)

    def all(self) -> list[Session]:
        """Return the sessions that have not expired, in the order of their logins."""
        with self._database.read_connection() as connection:
            valid = select(sessions).where(sessions.c.expires_at > now_ms())
            return [_session(row) for row in connection.execute(valid.order_by(sessions.c.created_at))]

    def end(self, hash: str) -> None:
        """Delete a session; one that does not exist is ignored."""
        with self._database.write_transaction() as connection:
            connection.execute(delete(sessions).where(sessions.c.hash == hash))

    def clear(self) -> None:
        """Delete all sessions and logins that have begun: in a restored database, some had ended already."""
        with self._database.write_transaction() as connection:
            connection.execute(delete(sessions))
            connection.execute(delete(logins))

    def end_all(self, who: str | None = None) -> int:
        """Delete all sessions of a person, or of everybody, and return their number."""
        condition = () if who is None else (sessions.c.who == who,)
        with self._database.write_transaction() as connection:
            n_ended = connection.execute(delete(sessions).where(*condition)).rowcount
            insert_audit(connection, self._by, "session.end", who or "", {"sessions": n_ended})
        return n_ended


def _session(row: Any) -> Session:
    return Session(row.who, tuple(json.loads(row.rights)["groups"]), row.created_at, row.expires_at)
