"""Login by OpenID Connect: from the link on the page to a session, by the authorization code flow with PKCE."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from secrets import token_urlsafe
from time import time
from typing import Any, ParamSpec, Protocol, TypeVar

from ocelad.service.security.cached_callers import KnownCaller
from ocelad.service.security.callers import Caller
from ocelad.service.security.login_rules import LoginRules, login_name, refused_login

# Seconds from the link on the page until the provider has sent the browser back.
LOGIN_SECONDS = 600
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
# Where a login may lead: to a page of the service, with any query. No link to a login leads elsewhere, or to another.
_NEXT = re.compile(r"/(?!login)([a-z0-9-]{1,50}(\.html)?)?(\?[!-\[\]-~]{0,1000})?")
_MAX_GROUPS = 1000
# Requests to the provider at one time. They have threads of their own: a provider that hangs delays nobody else.
_N_THREADS = 4
_P = ParamSpec("_P")
_R = TypeVar("_R")


class PendingLogin(Protocol):
    """A login that has begun, as the store returns it."""

    @property
    def nonce(self) -> str: ...
    @property
    def verifier(self) -> str: ...
    @property
    def next(self) -> str: ...
    @property
    def created_at(self) -> int: ...


class Session(Protocol):
    """A session, as the store returns it."""

    @property
    def who(self) -> str: ...
    @property
    def groups(self) -> Collection[str]: ...
    @property
    def expires_at(self) -> int: ...


class SessionStore(Protocol):
    """What a login needs of the store."""

    def add_login(self, state: str, nonce: str, verifier: str, next: str, max_age: float) -> None: ...
    def take_login(self, state: str) -> PendingLogin | None: ...
    def start(self, hash: str, who: str, groups: Collection[str], seconds: float) -> None: ...
    def find(self, hash: str) -> Session | None: ...
    def end(self, hash: str) -> None: ...


class Provider(Protocol):
    """What a login needs of the OpenID provider."""

    issuer: str

    def authorization_url(self, state: str, nonce: str, verifier: str) -> str: ...
    def exchange(self, code: str, verifier: str) -> str: ...
    def verify(self, token: str, nonce: str | None = None) -> dict[str, Any]: ...


@dataclass(frozen=True)
class BegunLogin:
    """Where the browser goes to log in, and the secret that it keeps meanwhile in a cookie."""

    url: str
    binding: str


@dataclass(frozen=True)
class FinishedLogin:
    """The caller, the secret of the new session, and where the browser goes next."""

    caller: Caller
    secret: str
    next: str


class OpenIdLogin:
    """Logins by an OpenID provider, and the sessions that follow. All methods block; ``run`` awaits them.

    Parameters
    ----------
    provider : Provider
    store : SessionStore
    rules : LoginRules
    claim : str
        The claim that holds the name of the person. "email" is accepted only if the provider has verified it.
    groups_claim : str
        The claim that holds the groups of the person, if the provider sends it.
    session_seconds : float
        After which time a session ends.
    """

    def __init__(
        self,
        provider: Provider,
        store: SessionStore,
        rules: LoginRules,
        *,
        claim: str = "email",
        groups_claim: str = "groups",
        session_seconds: float = 12 * 3600.0,
    ) -> None:
        self._provider, self._store, self._rules = provider, store, rules
        self._claim, self._groups_claim, self.session_seconds = claim, groups_claim, session_seconds
        self._threads = ThreadPoolExecutor(_N_THREADS, "ocelad-login")

    async def run(self, method: Callable[_P, _R], *arguments: _P.args, **options: _P.kwargs) -> _R:
        """Return the result of a method, computed in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: method(*arguments, **options))

    def begin(self, next: str) -> BegunLogin:
        """Begin a login; ``next`` is where the browser goes after it."""
        state, nonce, verifier, binding = (token_urlsafe(32) for _ in range(4))
        url = self._provider.authorization_url(state, nonce, verifier)
        self._store.add_login(_login_key(state, binding), nonce, verifier, safe_next(next), LOGIN_SECONDS)
        return BegunLogin(url, binding)

    def finish(self, state: str, binding: str, code: str, issuer: str | None = None) -> FinishedLogin:
        """Finish the login that has this state and began in this browser; it is deleted, whatever follows.

        Without the binding to the browser, a link could log a person in under the name of its author.
        """
        pending = None
        if _SECRET.fullmatch(state) and _SECRET.fullmatch(binding):
            pending = self._store.take_login(_login_key(state, binding))
        if pending is None or time() * 1000 > pending.created_at + LOGIN_SECONDS * 1000:
            raise refused_login("this login is unknown, used or too old, or it began in another browser; log in again")
        if issuer is not None and issuer != self._provider.issuer:
            raise refused_login("this login comes from another provider; log in again")
        claims = self._provider.verify(self._provider.exchange(code, pending.verifier), pending.nonce)
        name, groups = self._name(claims), self._groups(claims)
        caller = self._rules.caller(name, groups)
        secret = token_urlsafe(32)  # never one that the browser has sent: it may know a session of somebody else
        self._store.start(_session_key(secret), name, groups, self.session_seconds)
        return FinishedLogin(caller, secret, safe_next(pending.next))

    def session_hash(self, secret: str) -> str | None:
        """Return the hash of a session's secret; None if it is not a secret."""
        return _session_key(secret) if _SECRET.fullmatch(secret) else None

    def find_session(self, hash: str) -> KnownCaller:
        """Return the caller of a session by its hash; the present rules apply, not those of the login."""
        session = self._store.find(hash)
        if session is None or time() * 1000 >= session.expires_at:
            raise refused_login("your session has ended; log in again")
        return KnownCaller(self._rules.caller(session.who, session.groups), session.expires_at / 1000)

    def end_session(self, hash: str) -> None:
        """End a session; one that has ended already is ignored."""
        self._store.end(hash)

    def identify(self, token: str) -> KnownCaller:
        """Return the caller of a token that a program obtained from the provider itself."""
        claims = self._provider.verify(token)
        return KnownCaller(self._rules.caller(self._name(claims), self._groups(claims)), float(claims["exp"]))

    def _name(self, claims: Mapping[str, Any]) -> str:
        value = claims.get(self._claim)
        name = login_name(value) if isinstance(value, str) else None
        if name is None:
            raise refused_login(f"the login token has no claim {self._claim!r} with a name; see --oidc-claim")
        if self._claim == "email" and claims.get("email_verified") not in (True, "true"):
            raise refused_login("the login provider has not verified your mail address; see --oidc-claim")
        return name

    def _groups(self, claims: Mapping[str, Any]) -> list[str]:
        groups = claims.get(self._groups_claim)
        groups = [groups] if isinstance(groups, str) else groups
        return [each for each in groups if isinstance(each, str)][:_MAX_GROUPS] if isinstance(groups, list) else []


def safe_next(next: str) -> str:
    """Return where to go after a login: a page of the service, or the first page if the text is anything else.

    >>> [safe_next(next) for next in ("/?project=digits", "//evil.example", "/\\\\evil.example", "/v1/logout")]
    ['/?project=digits', '/', '/', '/']
    """
    return next if _NEXT.fullmatch(next) else "/"


def looks_like_jwt(text: str) -> bool:
    """Return whether a text has the form of a signed JWT.

    >>> looks_like_jwt("eyJh.eyJp.c2ln"), looks_like_jwt("ocelad_x")
    (True, False)
    """
    return re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]*", text, re.ASCII) is not None


def _login_key(state: str, binding: str) -> str:
    return sha256(f"login {state} {binding}".encode()).hexdigest()


def _session_key(secret: str) -> str:
    return sha256(f"session {secret}".encode()).hexdigest()
