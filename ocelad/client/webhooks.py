"""Verify the requests of webhooks."""

from __future__ import annotations

from time import time

from ocelad.service.webhook_signatures import verify


def verify_webhook(secret: str, body: bytes, signature: str, max_age: float = 300.0) -> None:
    """Raise ValueError unless a request is of the service, unchanged and recent.

    Parameters
    ----------
    secret : str
        The secret of the webhook, which the service showed once.
    body : bytes
        The body of the request, as it was received.
    signature : str
        The header ``Ocelad-Signature``.
    max_age : float
        The largest age in seconds; an older request may be a repetition by somebody who has read it.

    >>> verify_webhook("secret", b"{}", "t=1700000000,v1=" + 64 * "0")
    Traceback (most recent call last):
        ...
    ValueError: the signature does not match the body; accepted: the unchanged body, and the webhook's secret
    """
    verify(secret, body, signature, time(), max_age)
