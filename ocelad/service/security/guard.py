"""Guard: which requests are let in at all, by where they come from and are meant for; what browsers are told."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ocelad.service.refusal import Refusal, problem
from ocelad.service.secret import without_secrets
from ocelad.service.security.addresses import LOOPBACK_NAMES, address_of

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), payment=(), usb=()"),
)
_LOOKED_AT = frozenset({b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest"})
_NO_STORE = (b"cache-control", b"no-store")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Guard:
    """ASGI middleware that refuses what a page of somebody else's could make a browser send.

    Such a page can send requests to this machine from a browser that runs on it. Its own origin gives it away
    (``Origin``, ``Sec-Fetch-Site``), unless its name is made to point here (DNS rebinding): then ``Host`` does.

    Parameters
    ----------
    app : ASGI application
    allowed_hosts : collection of str
        What it is called beside localhost, 127.0.0.1 and [::1], without ports: the address that it is bound to, and
        more names. Where 0.0.0.0 or :: is among them, any address in numbers is accepted: no name can feign one.
    """

    def __init__(self, app: ASGIApp, *, allowed_hosts: Collection[str] = ()) -> None:
        self._app = app
        self._names = LOOPBACK_NAMES | {f"[{name}]" if ":" in name else name.lower() for name in allowed_hosts}
        addresses = map(address_of, allowed_hosts)
        self._any_address = any(address is not None and address.is_unspecified for address in addresses)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with_headers = _sending_headers(send, scope["path"])
        try:
            self._check(scope)
        except Refusal as refusal:
            await problem(refusal)(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)

    def _check(self, scope: Scope) -> None:
        hosts, said = [], {}
        for name, value in scope["headers"]:
            if name == b"host":
                hosts.append(value.decode("latin-1").lower())
            elif name in _LOOKED_AT:
                said[name] = value.decode("latin-1")
        self._check_host(hosts)
        origin = said.get(b"origin")
        if origin is not None and not _same_origin(origin, scope["scheme"], hosts[0]):
            raise Refusal(403, "this comes from a page of another origin; only this service's own page may ask")
        if said.get(b"sec-fetch-site") in ("cross-site", "same-site") and not _opens_the_page(scope, said):
            raise Refusal(403, "this comes from a page of another site; only this service's own page may ask")
        if scope["query_string"]:
            _refuse_secrets(scope["query_string"])

    def _check_host(self, hosts: list[str]) -> None:
        if len(hosts) != 1:
            raise Refusal(400, f"the request has {len(hosts)} headers Host; accepted: one", where="header.host")
        name = _without_port(hosts[0])
        if name not in self._names and not (self._any_address and address_of(name) is not None):
            raise Refusal(
                421,
                f"this service is not called {name[:100]!r}; accepted: {', '.join(sorted(self._names))}"
                " (--allow-host adds a name)",
                where="header.host",
            )


def _without_port(host: str) -> str:
    """
    >>> [_without_port(host) for host in ("localhost:80", "[::1]:8765", "[::1]", "example.org")]
    ['localhost', '[::1]', '[::1]', 'example.org']
    """
    name, _, port = host.rpartition(":")
    return name if name and port.isdigit() else host


def _same_origin(origin: str, scheme: str, host: str) -> bool:
    """Whether a page of this origin came from here; by https, too, which a proxy before this service may speak.

    >>> [_same_origin(origin, "http", "a.org") for origin in ("http://a.org", "https://a.org:443", "http://a.org:8080")]
    [True, True, False]
    >>> _same_origin("http://a.org", "https", "a.org"), _same_origin("null", "http", "null")
    (False, False)
    """
    said, separator, place = origin.lower().partition("://")
    if not separator or said not in (scheme, "https"):
        return False
    port = _DEFAULT_PORTS.get(said, "")
    return place.removesuffix(port) == host.removesuffix(port)


def _opens_the_page(scope: Scope, said: Mapping[bytes, str]) -> bool:
    """Whether somebody follows a link to the page, which shows it to them and tells nobody else anything."""
    return (
        scope["method"] == "GET"
        and scope["path"] == "/"
        and said.get(b"sec-fetch-mode") == "navigate"
        and said.get(b"sec-fetch-dest") == "document"
    )


def _refuse_secrets(query: bytes) -> None:
    """Addresses are kept by browsers, proxies and logs: no place for a secret."""
    said = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    if any(name in ("token", "access_token") or without_secrets(value) != value for name, value in said):
        raise Refusal(
            400,
            "a token does not belong into an address, which others keep; send it as 'Authorization: Bearer ocelad_...'",
            where="query",
        )


def _sending_headers(send: Send, path: str) -> Send:
    private = not (path == "/" or path.startswith("/static/"))

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_added(message.get("headers", ()), private)]
        await send(message)

    return sending


def _added(headers: Any, private: bool) -> tuple[tuple[bytes, bytes], ...]:
    """What is added to an answer's headers; what a route itself says of caching stands."""
    if private and not any(name.lower() == b"cache-control" for name, _ in headers):
        return (*SECURITY_HEADERS, _NO_STORE)
    return SECURITY_HEADERS
