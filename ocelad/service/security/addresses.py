"""Addresses and host names: which belong to this machine, and which network a client is in."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


@lru_cache(maxsize=4096)
def parse_address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address that a text spells; None for a name.

    >>> parse_address("[::1]"), parse_address("::ffff:10.0.0.1"), parse_address("example.org")
    (IPv6Address('::1'), IPv4Address('10.0.0.1'), None)
    """
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a name or address.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "192.168.1.7", "example.org")]
    [True, True, True, False, False, False]
    """
    address = parse_address(host)
    return host == "localhost" if address is None else address.is_loopback


@lru_cache(maxsize=4096)
def client_network(host: str) -> str:
    """Return the network that identifies a client: a single customer usually owns a whole IPv6 /64 network.

    >>> client_network("192.0.2.7"), client_network("2001:db8::7")
    ('192.0.2.7', '2001:db8::/64')
    """
    address = parse_address(host)
    if isinstance(address, IPv6Address):
        return str(ip_network((address, 64), strict=False))
    return str(address or host)


def remote_network(scope: Any) -> str | None:
    """Return the client network of a request; None for loopback, where a proxy may forward for many clients.

    >>> remote_network({"client": ("2001:db8::7", 5000)}), remote_network({"client": ("127.0.0.1", 5000)})
    ('2001:db8::/64', None)
    """
    client = scope.get("client")
    return None if client is None or is_loopback(client[0]) else client_network(client[0])


def requires_token(host: str, require: bool) -> bool:
    """Return whether a service that listens on ``host`` requires tokens: always beyond loopback, or if ``require``.

    >>> requires_token("127.0.0.1", False), requires_token("0.0.0.0", False), requires_token("127.0.0.1", True)
    (False, True, True)
    """
    return require or not is_loopback(host)
