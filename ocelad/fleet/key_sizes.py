"""KeySize: how much a fleet has of a key."""

from __future__ import annotations

from typing import NamedTuple

from ocelad.fleet.packed_trackers import read_header


class KeySize(NamedTuple):
    """How much a fleet has of a key.

    Attributes
    ----------
    n_answers : int
    n_bytes : int
        The size of its state, as it is stored.
    """

    n_answers: int
    n_bytes: int


def count_answers(head: bytes) -> int:
    """Return the number of answers of a state, from its first bytes."""
    return read_header(head).n_answers
