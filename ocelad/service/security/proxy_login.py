"""Login by a header that a reverse proxy sets after it has authenticated a person."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hmac import compare_digest
from ipaddress import IPv4Network, IPv6Network
from typing import Any

from ocelad.service.api_error import ApiError
from ocelad.service.security.addresses import parse_address
from ocelad.service.security.callers import Caller
from ocelad.service.security.login_rules import LoginRules, login_name

SECRET_HEADER = "Ocelad-Proxy-Secret"


class ProxyLogin:
    """Find the caller of a request by the header of a trusted proxy.

    Any client can send this header, so that it counts only if the request comes from the proxy. Names with ``_`` in the
    place of ``-`` are refused: some proxies replace the header by its own spelling only, and other programs read both.

    Parameters
    ----------
    header : str
        The header with the name of the person.
    rules : LoginRules
    trusted : sequence of networks
        The addresses of the proxy; empty: any.
    secret : str or None
        What the proxy sends in the header ``Ocelad-Proxy-Secret``; None: nothing.
    groups_header : str or None
        The header with the comma-separated groups of the person.
    """

    def __init__(
        self,
        header: str,
        rules: LoginRules,
        *,
        trusted: Sequence[IPv4Network | IPv6Network] = (),
        secret: str | None = None,
        groups_header: str | None = None,
    ) -> None:
        if not trusted and not secret:
            raise ValueError("login by a header needs the addresses of the proxy or a secret; see --trust-proxy")
        self._header, self._groups_header, self._rules = header, groups_header, rules
        self._trusted, self._secret = trusted, secret
        self._name, self._groups = header.lower().encode(), (groups_header or "").lower().encode()
        self._checked = {each for each in (self._name, self._groups) if each}

    def find(self, scope: Any) -> Caller | None:
        """Return the caller; None if the request has no such header; raise ApiError if it may not have one."""
        sent: dict[bytes, list[bytes]] = {}
        secrets = []
        for name, value in scope["headers"]:
            dashed = name.replace(b"_", b"-")
            if dashed in self._checked:
                if dashed != name:
                    raise _refused(
                        f"the header {_text(name)} is not accepted; accepted: {_text(dashed)}, from the proxy"
                    )
                sent.setdefault(name, []).append(value)
            elif name == SECRET_HEADER.lower().encode():
                secrets.append(value)
        if not sent:
            return None
        self._check_sender(scope, secrets)
        for name, values in sent.items():
            if len(values) > 1:
                raise ApiError(400, f"the request has {len(values)} headers {_text(name)}; accepted: one")
        if self._name not in sent:
            return None
        name = login_name(_decode(sent[self._name][0]))
        if name is None:
            raise ApiError(
                401,
                f"the header {self._header} holds no name; "
                "accepted: 1 to 64 letters and digits of any script, spaces and . _ - ' ’ · @ + | :",
            )
        return self._rules.caller(name, _split(sent.get(self._groups, [])))

    def _check_sender(self, scope: Any, secrets: Sequence[bytes]) -> None:
        client = scope.get("client")
        address = None if client is None else parse_address(client[0])
        if self._trusted and (address is None or not any(address in network for network in self._trusted)):
            raise _refused(f"the header {self._header} is accepted from the proxy only, not from this address")
        if self._secret is not None and not (len(secrets) == 1 and compare_digest(secrets[0], self._secret.encode())):
            raise _refused(f"the header {self._header} is accepted from the proxy only, with its secret")


def _split(values: Iterable[bytes]) -> list[str]:
    return [group.strip() for value in values for group in _decode(value).split(",") if group.strip()]


def _decode(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return ""


def _text(name: bytes) -> str:
    return name.decode("latin-1")


def _refused(message: str) -> ApiError:
    return ApiError(403, message, code="untrusted_login")
