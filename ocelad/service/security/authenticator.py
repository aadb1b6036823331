"""The authenticator: find the caller of a request by its token, its proxy, or its login."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from math import inf
from time import time
from typing import Protocol

from starlette.requests import HTTPConnection

from ocelad.service.api_error import ApiError
from ocelad.service.security.addresses import remote_network
from ocelad.service.security.cached_callers import CachedCallers, KnownCaller
from ocelad.service.security.callers import LOCAL_ADMIN, Caller
from ocelad.service.security.login_cookies import LoginCookies
from ocelad.service.security.openid_login import OpenIdLogin, looks_like_jwt
from ocelad.service.security.proxy_login import ProxyLogin
from ocelad.service.security.rate_limiter import RateLimiter, rate_limit_error
from ocelad.service.token_secret import hash_secret, looks_like_secret
from ocelad.service.wire import Permission

#: Where a browser logs in; a response with the status 401 names it in the header ``Ocelad-Login``.
LOGIN_PATH = "/login"
# Headers that proxies add to the requests that they forward.
_PROXY_HEADERS = frozenset(
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
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
# Login tokens that are not accepted from one address: the rate, and the burst before it applies.
_FAILURES_PER_SECOND, _FAILURE_BURST = 1.0, 20.0


class Token(Protocol):
    """A token as the store returns it."""

    @property
    def name(self) -> str: ...
    @property
    def permissions(self) -> Mapping[str, Permission]: ...
    @property
    def revoked_at(self) -> int | None: ...
    @property
    def expires_at(self) -> int | None: ...


class TokenLookup(Protocol):
    """What the authenticator needs of the store."""

    def find_token(self, secret_hash: str) -> Token | None: ...


class Authenticator:
    """Find the caller of a request by its bearer token, by the header of a proxy, or by the cookie of a session.

    Parameters
    ----------
    tokens : TokenLookup
        The store. It compares hashes of secrets, so that the time of a look-up leaks nothing: a client cannot choose a
        secret by its hash.
    token_required : bool
        If False, every caller is an admin, unless there is a login.
    unavailable : type of Exception
        What the store raises while it cannot look up tokens.
    proxy : ProxyLogin or None
        Login by the header of a proxy.
    openid : OpenIdLogin or None
        Login by OpenID Connect.
    cookies : LoginCookies or None
        The cookies of sessions.
    cache_seconds, max_stale_seconds, lookup_timeout : float
        As in ``CachedCallers``.
    """

    def __init__(
        self,
        tokens: TokenLookup,
        token_required: bool,
        *,
        unavailable: type[Exception],
        proxy: ProxyLogin | None = None,
        openid: OpenIdLogin | None = None,
        cookies: LoginCookies | None = None,
        cache_seconds: float = 2.0,
        max_stale_seconds: float = 60.0,
        lookup_timeout: float = 1.0,
    ) -> None:
        self._store, self._proxy, self._openid = tokens, proxy, openid
        self._cookies = cookies or LoginCookies(secure=False)
        self._required = token_required or proxy is not None or openid is not None
        self._failures = RateLimiter(_FAILURES_PER_SECOND, _FAILURE_BURST)

        def cached(find: object, what: str) -> CachedCallers:
            return CachedCallers(
                find,  # type: ignore[arg-type]
                what,
                unavailable=unavailable,
                cache_seconds=cache_seconds,
                max_stale_seconds=max_stale_seconds,
                lookup_timeout=lookup_timeout,
            )

        self._tokens = cached(self._find_token, "tokens")
        self._sessions = None if openid is None else cached(openid.find_session, "sessions")

    async def __call__(self, request: HTTPConnection) -> Caller:
        """Return the caller of a request; raise ApiError if it cannot be identified."""
        if not self._required:
            _reject_proxies(request.scope["headers"])
            return LOCAL_ADMIN
        try:
            return await self._identify(request)
        except ApiError as error:
            if error.status == 401:
                challenge = {"WWW-Authenticate": 'Bearer realm="ocelad"'}
                login = {} if self._openid is None else {"Ocelad-Login": LOGIN_PATH}
                error.headers = {**challenge, **login, **(error.headers or {})}
            raise

    def session_hash(self, request: HTTPConnection) -> str | None:
        """Return the hash of the session that a request names; None if it names none."""
        secret = self._cookies.get(request, self._cookies.session)
        return None if self._openid is None or not secret else self._openid.session_hash(secret)

    def forget_session(self, hash: str) -> None:
        """Refuse an ended session at once."""
        if self._sessions is not None:
            self._sessions.forget(hash)

    async def _identify(self, request: HTTPConnection) -> Caller:
        address = remote_network(request.scope)
        proxied = None if self._proxy is None else self._proxy.find(request.scope)
        authorizations = request.headers.getlist("authorization")
        scheme, _, secret = authorizations[0].partition(" ") if authorizations else ("", "", "")
        if len(authorizations) == 1 and scheme.lower() == "bearer":
            if looks_like_secret(secret.strip()):
                return await self._tokens.get(hash_secret(secret.strip()), address)
            if self._openid is not None and looks_like_jwt(secret.strip()):
                return await self._identify_by_jwt(self._openid, secret.strip(), address)
        if proxied is not None:
            if "cookie" in request.headers:  # then a browser sent it, and the proxy may know the person by a cookie
                _check_origin(request)
            return proxied
        session = None if authorizations else self.session_hash(request)
        if session is not None and self._sessions is not None:
            _check_origin(request)
            return await self._sessions.get(session, address)
        raise _unidentified(bool(authorizations), self._openid is not None)

    async def _identify_by_jwt(self, openid: OpenIdLogin, token: str, address: str | None) -> Caller:
        if address is not None and (wait := self._failures.wait(address)):
            raise rate_limit_error("too many login tokens that are not valid from this address", wait)
        try:
            return (await openid.run(openid.identify, token)).caller
        except ApiError as error:
            if address is not None and error.status == 401:
                self._failures.take(address)
            raise

    def _find_token(self, hash: str) -> KnownCaller:
        token = self._store.find_token(hash)
        if token is None or token.revoked_at is not None:
            raise ApiError(401, "this token is unknown or revoked; `ocelad token create` makes a new one")
        valid_until = inf if token.expires_at is None else token.expires_at / 1000
        if time() >= valid_until:
            when = datetime.fromtimestamp(valid_until, UTC).strftime("%Y-%m-%d %H:%M UTC")
            raise ApiError(401, f"this token expired at {when}; `ocelad token rotate` makes a new secret")
        return KnownCaller(Caller(token.name, dict(token.permissions)), valid_until)


def _check_origin(request: HTTPConnection) -> None:
    """Require that a browser has sent a change from the service's own page: it adds the cookie to any request.

    ``Guard`` has refused other origins already. A request that does not say where it comes from is refused here.
    """
    if request.scope.get("method", "GET") in _READING:
        return
    if "origin" not in request.headers and request.headers.get("sec-fetch-site") != "same-origin":
        raise ApiError(403, "this change does not say which page it comes from; accepted: the service's own page")


def _unidentified(authorized: bool, login: bool) -> ApiError:
    more = ", or a login" if login else ""
    if authorized:
        accepted = "'Bearer ocelad_...'" + more
        return ApiError(401, f"the header Authorization holds no token of this service; accepted: {accepted}")
    return ApiError(401, f"a token is required; accepted: the header 'Authorization: Bearer ocelad_...'{more}")


def _reject_proxies(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Reject forwarded requests: through a proxy, every client would appear to be on loopback and be an admin."""
    if not _PROXY_HEADERS.isdisjoint(name for name, _ in headers):
        raise ApiError(
            403,
            "this request came through a proxy, but without tokens the service accepts local requests only; "
            "see --require-token",
            code="behind_proxy",
        )
