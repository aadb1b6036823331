"""Addresses and names of machines: which of them are this one, and whose they are."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


@lru_cache(maxsize=4096)
def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a text says in numbers; None of a name.

    >>> address_of("[::1]"), address_of("::ffff:10.0.0.1"), address_of("example.org")
    (IPv6Address('::1'), IPv4Address('10.0.0.1'), None)
    """
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's own, which no other machine reaches.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "192.168.1.7", "example.org")]
    [True, True, True, False, False, False]
    """
    address = address_of(host)
    return host == "localhost" if address is None else address.is_loopback


@lru_cache(maxsize=4096)
def neighbourhood(host: str) -> str:
    """Whom an address belongs to, as far as can be told: one customer has all of an IPv6 network of 64 bits.

    >>> neighbourhood("192.0.2.7"), neighbourhood("2001:db8::7")
    ('192.0.2.7', '2001:db8::/64')
    """
    address = address_of(host)
    if isinstance(address, IPv6Address):
        return str(ip_network((address, 64), strict=False))
    return str(address or host)


def far_address(scope: Any) -> str | None:
    """Whom a request comes from, as far as its address tells; None of this machine, where a proxy may stand for many.

    >>> far_address({"client": ("2001:db8::7", 5000)}), far_address({"client": ("127.0.0.1", 5000)})
    ('2001:db8::/64', None)
    """
    client = scope.get("client")
    return None if client is None or is_loopback(client[0]) else neighbourhood(client[0])


def needs_token(host: str, require: bool) -> bool:
    """Whether a service that listens at ``host`` asks for tokens: beyond loopback it does, or where it is told to.

    >>> needs_token("127.0.0.1", False), needs_token("0.0.0.0", False), needs_token("127.0.0.1", True)
    (False, True, True)
    """
    return require or not is_loopback(host)
