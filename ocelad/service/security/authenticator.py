"""Authenticator: knows callers by the token that they send."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from time import monotonic
from typing import Protocol

from starlette.requests import HTTPConnection

from ocelad.service.refusal import Refusal
from ocelad.service.secret import hash_of, is_secret
from ocelad.service.security.addresses import far_address
from ocelad.service.security.callers import EVERYONE, Caller
from ocelad.service.security.token_buckets import Rates, too_many
from ocelad.service.wire import Right

# What a proxy adds to what it passes on.
_OF_PROXIES = frozenset(
    {
        b"forwarded",
        b"via",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-proto",
        b"x-forwarded-server",
        b"x-real-ip",
    }
)
_MOST_KNOWN = 1000
# Of tokens that turn out to be none, from one address: so many a second, after so many at once.
_FAILURES_PER_SECOND, _FAILURES_AT_ONCE = 1.0, 20.0


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
class _Known:
    """A caller, when their token is to be looked up again, and how long they are believed where it cannot be."""

    caller: Caller
    look_again: float
    believed_until: float


class Authenticator:
    """Knows callers by the token that they send.

    Parameters
    ----------
    tokens : Tokens
        The store. That it looks for the hash of a secret, and not for the secret, leaves nothing to learn from how long
        it takes: nobody can choose a secret by its hash.
    token_needed : bool
        Where it is not, everybody is let in as an admin.
    unavailable : type of Exception
        What the store raises while it cannot look.
    cache_for : float
        So many seconds a token is believed before it is looked up again: a revoked one ends within them.
    believe_for : float
        So many seconds it is believed where it cannot be looked up again: the database is away, and reading goes on.
    patience : float
        So many seconds a look-up may take before it counts as one that cannot be done, of a token that is believed.
    """

    def __init__(
        self,
        tokens: Tokens,
        token_needed: bool,
        *,
        unavailable: type[Exception],
        cache_for: float = 2.0,
        believe_for: float = 60.0,
        patience: float = 1.0,
    ) -> None:
        self._tokens, self._token_needed, self._unavailable = tokens, token_needed, unavailable
        self._cache_for, self._believe_for, self._patience = cache_for, believe_for, patience
        self._known: dict[str, _Known] = {}  # by the hash of the secret; the one looked up first comes first
        self._looking: dict[str, asyncio.Task[Caller]] = {}
        self._failures = Rates(_FAILURES_PER_SECOND, _FAILURES_AT_ONCE)

    async def __call__(self, request: HTTPConnection) -> Caller:
        """Who sends this request; a Refusal where that is nobody known."""
        if not self._token_needed:
            _refuse_proxies(request.scope["headers"])
            return EVERYONE
        hash = hash_of(_secret(request.headers.get("authorization")))
        known, now = self._known.get(hash), monotonic()
        if known is None:
            return await self._unknown(hash, far_address(request.scope))
        if now < known.look_again:
            return known.caller
        if now >= known.believed_until:
            return await self._looked_up(hash)
        return await self._believed(hash, known)

    async def _unknown(self, hash: str, address: str | None) -> Caller:
        """A token of which nothing is known: who sends many that are none is not looked up any more for a while."""
        if address is not None and (wait := self._failures.wait(address)):
            raise too_many("too many tokens that are not known here came from this address", wait)
        try:
            return await self._looked_up(hash)
        except Refusal:
            if address is not None:
                self._failures.take(address)
            raise

    async def _believed(self, hash: str, known: _Known) -> Caller:
        looking = self._look_up(hash)
        await asyncio.wait({looking}, timeout=self._patience)
        if looking.done() and not isinstance(looking.exception(), self._unavailable):
            return looking.result()
        if self._known.get(hash) == known:
            self._known[hash] = replace(known, look_again=monotonic() + self._cache_for)
        return known.caller

    async def _looked_up(self, hash: str) -> Caller:
        looking = self._look_up(hash)
        await asyncio.wait({looking})  # who waits may go away; the look-up is for others, too
        return looking.result()

    def _look_up(self, hash: str) -> asyncio.Task[Caller]:
        """The one look-up of this hash that is under way."""
        if hash not in self._looking:
            looking = self._looking[hash] = asyncio.create_task(self._find(hash))
            looking.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # told to who still waits
        return self._looking[hash]

    async def _find(self, hash: str) -> Caller:
        try:
            token = await asyncio.to_thread(self._tokens.find_token, hash)  # a database may let one wait
        finally:
            del self._looking[hash]
        if token is None or token.revoked_at is not None:
            self._known.pop(hash, None)
            raise _unauthorized("this token is not known here, or was revoked; `ocelad token create` makes one")
        caller, now = Caller(token.name, dict(token.rights)), monotonic()
        self._known.pop(hash, None)
        if len(self._known) >= _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[hash] = _Known(caller, now + self._cache_for, now + self._believe_for)
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
