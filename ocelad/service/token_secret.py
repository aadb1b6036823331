"""Secrets of tokens: generation, hashing and redaction."""

from __future__ import annotations

import re
from hashlib import sha256
from secrets import token_urlsafe

_SECRET = re.compile(r"ocelad_[A-Za-z0-9_-]{43}")


def generate_secret() -> str:
    """Return a new secret with 256 random bits.

    >>> len(generate_secret())
    50
    """
    return f"ocelad_{token_urlsafe(32)}"


def hash_secret(secret: str) -> str:
    """Return the SHA-256 of a secret, which is all that is stored of it.

    Salt and a slow hash protect passwords that people choose. A secret of 256 random bits cannot be guessed anyway.
    """
    return sha256(secret.encode()).hexdigest()


def looks_like_secret(text: str) -> bool:
    """Return whether a text has the form of a secret.

    >>> looks_like_secret(generate_secret()), looks_like_secret("ocelad_short")
    (True, False)
    """
    return _SECRET.fullmatch(text) is not None


def redact_secrets(text: str) -> str:
    """Return a text with everything that looks like a secret replaced.

    >>> redact_secrets(f"Bearer {generate_secret()}!")
    'Bearer ocelad_***!'
    """
    return _SECRET.sub("ocelad_***", text)
