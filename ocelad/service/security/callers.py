"""Callers: who asks, by their token, and what they may do in which project."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from starlette.requests import HTTPConnection

from ocelad.service.refusal import Refusal
from ocelad.service.secret import hash_of, is_secret
from ocelad.service.wire import Right

#: In the place of a project's id: all projects, those to come, too.
ALL = "*"
_ORDER: dict[Right, int] = {"read": 0, "answer": 1, "admin": 2}
# What a proxy adds to what it passes on.
_OF_PROXIES = frozenset({b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via"})


class Token(Protocol):
    """What is known of a token, as the store keeps it."""

    @property
    def name(self) -> str: ...
    @property
    def rights(self) -> Mapping[str, Right]: ...
    @property
    def revoked_at(self) -> int | None: ...


class Tokens(Protocol):
    """Where tokens are found: the store."""

    def find_token(self, secret_hash: str) -> Token | None: ...


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


class Authenticator:
    """Knows callers by the token that they send.

    Parameters
    ----------
    tokens : Tokens
        The store. That it looks for the hash of a secret, and not for the secret, leaves nothing to learn from how long
        it takes: nobody can choose a secret by its hash.
    token_needed : bool
        Where it is not, everybody is let in as an admin.
    cache_for : float
        So many seconds a token is believed before it is looked up again: a revoked one ends within them.
    """

    def __init__(self, tokens: Tokens, token_needed: bool, *, cache_for: float = 2.0) -> None:
        self._tokens, self._token_needed, self._cache_for = tokens, token_needed, cache_for
        self._known: dict[str, tuple[float, Caller]] = {}

    async def __call__(self, request: HTTPConnection) -> Caller:
        """Who sends this request; a Refusal where that is nobody known."""
        if not self._token_needed:
            _refuse_proxies(request.scope["headers"])
            return EVERYONE
        hash = hash_of(_secret(request.headers.get("authorization")))
        until, caller = self._known.get(hash, (0.0, None))
        if caller is not None and monotonic() < until:
            return caller
        self._known.pop(hash, None)
        token = await asyncio.to_thread(self._tokens.find_token, hash)  # a database may let one wait
        if token is None or token.revoked_at is not None:
            raise _unauthorized("this token is not known here, or was revoked; `ocelad token create` makes one")
        if len(self._known) >= 1000:
            self._known.clear()
        caller = Caller(token.name, dict(token.rights))
        self._known[hash] = (monotonic() + self._cache_for, caller)
        return caller


def _secret(authorization: str | None) -> str:
    if authorization is None:
        raise _unauthorized("a token is needed; accepted: the header 'Authorization: Bearer ocelad_...'")
    scheme, _, secret = authorization.partition(" ")
    if scheme.lower() != "bearer" or not is_secret(secret.strip()):
        raise _unauthorized("the header Authorization holds no token of this service; accepted: 'Bearer ocelad_...'")
    return secret.strip()


def _unauthorized(message: str) -> Refusal:
    return Refusal(401, message, headers={"WWW-Authenticate": 'Bearer realm="ocelad"'})


def _refuse_proxies(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Behind a proxy everybody would come from loopback, and be let in as if they sat here."""
    if not _OF_PROXIES.isdisjoint(name for name, _ in headers):
        raise Refusal(
            403,
            "this came through a proxy, and the service is open to its own machine alone; see --require-token",
            code="behind_proxy",
        )
