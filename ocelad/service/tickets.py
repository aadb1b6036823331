"""Tickets: signed notes of how a pair was chosen, which answers carry back to the service."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode

from ocelad.service.entries import PairSource

# The first character of a ticket, by the source. Tickets are kept in browsers: these letters must not change.
_LETTERS: dict[PairSource, str] = {
    "active": "a",
    "random": "r",
    "link": "l",
    "check": "c",
    "settle": "s",
    "repeat": "p",
}
_SOURCES = {letter: source for source, letter in _LETTERS.items()}
# Bytes of a signature: nobody guesses one, and 12 of them are 16 characters.
_N_BYTES = 12


class Tickets:
    """Issues and checks the tickets of a project.

    The accuracy on random pairs is honest only if clients cannot choose these pairs. So the service does not believe
    what a client says about the source of a pair: a pair that the service hands out comes with a ticket, and an answer
    that carries it back has the source that the ticket names. A ticket is the letter of the source and a message
    authentication code (HMAC-SHA-256) of the project, the pair and the source. Nothing is stored, and a ticket stays
    valid after a restart and for answers that a browser has kept.

    Parameters
    ----------
    secret : bytes
        The secret of the database.
    project_id : str
    created_at : int
        When the project was created: a later project with the same id has other items.

    Examples
    --------
    >>> tickets = Tickets(b"secret", "digits", 1700000000000)
    >>> ticket = tickets.issue(3, 5, "random")
    >>> tickets.source(ticket, 5, 3), tickets.source(ticket, 3, 4), tickets.source(None, 3, 5)
    ('random', 'given', 'given')
    """

    def __init__(self, secret: bytes, project_id: str, created_at: int) -> None:
        self._key = hmac.digest(secret, f"ticket {created_at} {project_id}".encode(), "sha256")

    def issue(self, left: int, right: int, source: PairSource) -> str:
        """Return the ticket of a pair that is handed out."""
        return self._sign(left, right, _LETTERS[source])

    def source(self, ticket: str | None, left: int, right: int) -> PairSource:
        """Return how a pair was chosen; "given" if the ticket is missing, of another pair, or not of this service."""
        if ticket is None:
            return "given"
        source = _SOURCES.get(ticket[:1])
        if source is None:
            return "given"
        expected = self._sign(left, right, ticket[0])
        return source if hmac.compare_digest(expected.encode(), ticket.encode(errors="replace")) else "given"

    def _sign(self, left: int, right: int, letter: str) -> str:
        pair = f"{letter} {left} {right}" if left < right else f"{letter} {right} {left}"
        digest = hmac.digest(self._key, pair.encode(), "sha256")
        return letter + urlsafe_b64encode(digest[:_N_BYTES]).decode()
