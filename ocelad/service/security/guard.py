"""Protection against cross-site requests and DNS rebinding, and the security headers of responses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ocelad.service.api_error import ApiError
from ocelad.service.responses import error_response
from ocelad.service.security.addresses import LOOPBACK_NAMES, parse_address
from ocelad.service.token_secret import redact_secrets

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
_CHECKED_HEADERS = frozenset({b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest"})
_NO_STORE = (b"cache-control", b"no-store")
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Guard:
    """ASGI middleware that rejects requests which a foreign web page makes a browser send.

    Such a page can send requests to this machine from a browser on it. ``Origin`` and ``Sec-Fetch-Site`` reveal its
    origin, unless its name resolves to this machine (DNS rebinding); then ``Host`` reveals it.

    Parameters
    ----------
    app : ASGI application
    allowed_hosts : collection of str
        Accepted values of ``Host`` besides localhost, 127.0.0.1 and [::1], without ports: the address that the service
        listens on, and further names. With 0.0.0.0 or ::, any IP address is accepted: DNS rebinding needs a name.
    page_paths : collection of str
        The paths of the pages, which a link on another site may open.
    """

    def __init__(
        self, app: ASGIApp, *, allowed_hosts: Collection[str] = (), page_paths: Collection[str] = ("/",)
    ) -> None:
        self._app, self._page_paths = app, frozenset(page_paths)
        self._names = LOOPBACK_NAMES | {f"[{name}]" if ":" in name else name.lower() for name in allowed_hosts}
        addresses = map(parse_address, allowed_hosts)
        self._any_address = any(address is not None and address.is_unspecified for address in addresses)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with_headers = _with_security_headers(send)
        try:
            self._check(scope)
        except ApiError as error:
            await error_response(error)(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)

    def _check(self, scope: Scope) -> None:
        hosts, headers = [], {}
        for name, value in scope["headers"]:
            if name == b"host":
                hosts.append(value.decode("latin-1").lower())
            elif name in _CHECKED_HEADERS:
                headers[name] = value.decode("latin-1")
        self._check_host(hosts)
        origin = headers.get(b"origin")
        if origin is not None and not _same_origin(origin, scope["scheme"], hosts[0]):
            raise ApiError(403, "this request comes from another origin; accepted: requests of the service's own page")
        if headers.get(b"sec-fetch-site") in ("cross-site", "same-site") and not self._opens_page(scope, headers):
            raise ApiError(403, "this request comes from another site; accepted: requests of the service's own page")
        if scope["query_string"]:
            _reject_secrets(scope["query_string"])

    def _opens_page(self, scope: Scope, headers: Mapping[bytes, str]) -> bool:
        """Return whether the request follows a link to a page, which is harmless: only the user sees the response."""
        return (
            scope["method"] == "GET"
            and scope["path"] in self._page_paths
            and headers.get(b"sec-fetch-mode") == "navigate"
            and headers.get(b"sec-fetch-dest") == "document"
        )

    def _check_host(self, hosts: list[str]) -> None:
        if len(hosts) != 1:
            raise ApiError(400, f"the request has {len(hosts)} Host headers; accepted: one", where="header.host")
        name = _without_port(hosts[0])
        if name not in self._names and not (self._any_address and parse_address(name) is not None):
            raise ApiError(
                421,
                f"this service is not named {name[:100]!r}; accepted: {', '.join(sorted(self._names))}"
                " (--allow-host adds a name)",
                where="header.host",
            )


def _without_port(host: str) -> str:
    """Return the host without its port.

    >>> [_without_port(host) for host in ("localhost:80", "[::1]:8765", "[::1]", "example.org")]
    ['localhost', '[::1]', '[::1]', 'example.org']
    """
    name, _, port = host.rpartition(":")
    return name if name and port.isdigit() else host


def _same_origin(origin: str, scheme: str, host: str) -> bool:
    """Return whether an origin is that of this service; also with https, which a proxy in front of it may use.

    >>> [_same_origin(origin, "http", "a.org") for origin in ("http://a.org", "https://a.org:443", "http://a.org:8080")]
    [True, True, False]
    >>> _same_origin("http://a.org", "https", "a.org"), _same_origin("null", "http", "null")
    (False, False)
    """
    origin_scheme, separator, origin_host = origin.lower().partition("://")
    if not separator or origin_scheme not in (scheme, "https"):
        return False
    port = _DEFAULT_PORTS.get(origin_scheme, "")
    return origin_host.removesuffix(port) == host.removesuffix(port)


def _reject_secrets(query: bytes) -> None:
    """Reject a secret in the query: browsers, proxies and logs store URLs."""
    query_items = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    if any(name in ("token", "access_token") or redact_secrets(value) != value for name, value in query_items):
        raise ApiError(
            400,
            "a URL must not contain a token, because URLs are logged; send it as 'Authorization: Bearer ocelad_...'",
            where="query",
        )


def _with_security_headers(send: Send) -> Send:
    """Return ``send`` with the security headers added to the response."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_added_headers(message.get("headers", ()))]
        await send(message)

    return send_with_headers


def _added_headers(headers: Any) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers to add to a response; a route's own Cache-Control is kept."""
    if any(name.lower() == b"cache-control" for name, _ in headers):
        return SECURITY_HEADERS
    return (*SECURITY_HEADERS, _NO_STORE)
