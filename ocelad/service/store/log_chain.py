"""The chain of a log: a digest per entry that depends on all entries before it, and survives the erasure of a person.

Two logs with the same chain at an entry are the same up to it. So a reader that remembers one number and one chain
notices a database that was restored to an earlier point and has given the number to another entry.

Each entry is hashed with a random salt of its person. Erasing a person deletes the salt and the content and keeps the
digest of the entry: the chain still holds, and nobody can find the content by trying all answers.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256

from ocelad.service.entries import Entry

#: The chain before the first entry.
EMPTY_CHAIN = bytes(32)
_SALT_BYTES = 16


def new_salt() -> bytes:
    """Return the random salt of a person."""
    return os.urandom(_SALT_BYTES)


def entry_digest(entry: Entry, salt: bytes) -> bytes:
    """Return the salted digest of an entry; of an erased one, the digest that it had before.

    The text must never change: databases store the chain.

    >>> entry_digest(Entry(1, 1700000000000, "same", 3, 5, "given", "anna"), b"salt").hex()[:16]
    '97b2059eed3d5a5a'
    """
    if entry.erased is not None:
        return entry.erased
    content = [
        entry.seq,
        entry.at,
        entry.kind,
        entry.left,
        entry.right,
        entry.source,
        entry.person,
        entry.undoes,
        entry.name,
        entry.bundle,
    ]
    return sha256(salt + json.dumps(content).encode()).digest()


def next_chain(chain: bytes, digest: bytes) -> bytes:
    """Return the chain after an entry with this digest."""
    return sha256(chain + digest).digest()
