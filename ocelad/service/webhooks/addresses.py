"""Addresses that webhooks may be sent to: not this machine, nor private networks, unless a setting allows them."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}
_ACCEPTED = "accepted: http:// or https://, a public host, and no user or password"


class WebhookRefused(ValueError):
    """A URL that webhooks must not be sent to; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of a webhook's URL."""

    scheme: str
    host: str
    port: int
    path: str


def check_url(url: str) -> Target:
    """Return the parts of a URL; raise WebhookRefused if webhooks cannot be sent to such a URL.

    >>> check_url("https://example.org/hook?x=1")
    Target(scheme='https', host='example.org', port=443, path='/hook?x=1')
    >>> check_url("file:///etc/passwd")
    Traceback (most recent call last):
        ...
    ocelad.service.webhooks.addresses.WebhookRefused: 'file:///etc/passwd' is not a URL of a webhook; accepted: ...
    """
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS[parts.scheme]
        host = (parts.hostname or "").encode("idna").decode()
    except (ValueError, KeyError):
        host = ""
    printable = url.isascii() and url.isprintable() and " " not in url
    if not host or not printable or parts.username is not None or parts.password is not None:
        raise WebhookRefused(f"{url[:200]!r} is not a URL of a webhook; {_ACCEPTED}")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port, path)


def resolve(target: Target, allowed: Sequence[IPv4Network | IPv6Network]) -> str:
    """Return an address of a host; raise WebhookRefused if one of its addresses is not public and not allowed.

    The request must be sent to this address: if the name were resolved again, the result could be another one.
    """
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise WebhookRefused(f"the host {target.host[:200]!r} has no address; {_ACCEPTED}") from None
    addresses = [str(each[4][0]).partition("%")[0] for each in found]
    for address in addresses:
        if not _may_send(ip_address(address), allowed):
            raise WebhookRefused(
                f"the host {target.host[:200]!r} has the address {address}, which is not public; accepted: a public "
                "host, or a network that the service was started with (--allow-webhook-network)"
            )
    return addresses[0]


def _may_send(address: IPv4Address | IPv6Address, allowed: Sequence[IPv4Network | IPv6Network]) -> bool:
    # Addresses that contain an IPv4 address lead to it.
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is not None:
            return _may_send(inner, allowed)
        if address in _NAT64:
            return _may_send(IPv4Address(address.packed[-4:]), allowed)
    if any(address in network for network in allowed):
        return True
    # Outside the global unicast addresses there are others that contain IPv4 addresses or are of a site.
    is_unicast = isinstance(address, IPv4Address) or address in _GLOBAL_UNICAST
    return is_unicast and address.is_global and not address.is_multicast


_NAT64, _GLOBAL_UNICAST = IPv6Network("64:ff9b::/96"), IPv6Network("2000::/3")
