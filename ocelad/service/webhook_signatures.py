"""Signatures of webhooks: an HMAC of the time and the body, by which a receiver recognizes requests of the service."""

from __future__ import annotations

import hmac
import re
from hashlib import sha256

#: The header of the signature.
HEADER = "Ocelad-Signature"
_PATTERN = re.compile(r"t=(\d{1,12}),v1=([0-9a-f]{64})")


def sign(secret: str, body: bytes, at: int) -> str:
    """Return the signature of a body that is sent at a time, in seconds since 1970.

    >>> sign("secret", b"{}", 1700000000)[:32]
    't=1700000000,v1=b8569b78799ff9e3'
    """
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, sha256).hexdigest()
    return f"t={at},v1={digest}"


def verify(secret: str, body: bytes, signature: str, now: float, max_age: float) -> None:
    """Raise ValueError unless a signature is of this body and secret, and at most ``max_age`` seconds old."""
    found = _PATTERN.fullmatch(signature)
    if found is None:
        raise ValueError(f"the signature is {signature[:100]!r}; accepted: t=SECONDS,v1=HEX")
    at = int(found[1])
    if not hmac.compare_digest(sign(secret, body, at), signature):
        raise ValueError(
            "the signature does not match the body; accepted: the unchanged body, and the webhook's secret"
        )
    if abs(now - at) > max_age:
        raise ValueError(f"the signature is {abs(now - at):.0f} seconds old; accepted: up to {max_age:.0f}")
