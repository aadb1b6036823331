"""Secrets of tokens: how they are made, what is kept of them, and how they are kept out of logs."""

from __future__ import annotations

import re
from hashlib import sha256
from secrets import token_urlsafe

_SECRET = re.compile(r"ocelad_[A-Za-z0-9_-]{43}")


def new_secret() -> str:
    """A secret of 256 random bits.

    >>> len(new_secret())
    50
    """
    return f"ocelad_{token_urlsafe(32)}"


def hash_of(secret: str) -> str:
    """What is kept of a secret: enough to know it again, too little to make it.

    A single SHA-256 is enough, without salt and without slowness: those hinder the guessing of what people choose, and
    nobody guesses 256 random bits.
    """
    return sha256(secret.encode()).hexdigest()


def is_secret(text: str) -> bool:
    """Whether a text looks like a secret.

    >>> is_secret(new_secret()), is_secret("ocelad_short")
    (True, False)
    """
    return _SECRET.fullmatch(text) is not None


def without_secrets(text: str) -> str:
    """A text that may be logged: whatever looks like a secret is left out.

    >>> without_secrets(f"Bearer {new_secret()}!")
    'Bearer ocelad_***!'
    """
    return _SECRET.sub("ocelad_***", text)
