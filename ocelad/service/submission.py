"""The one path of answers to the store, which the route and the fast path share."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

from starlette.responses import Response

from ocelad.service.api_error import ApiError
from ocelad.service.entries import NewEntry
from ocelad.service.responses import json_response
from ocelad.service.security import Caller
from ocelad.service.served_project import ServedProject
from ocelad.service.store import AppendResult, Store
from ocelad.service.wire import Acknowledgement, NewComparison, OneOrMany


@dataclass(frozen=True, slots=True)
class Submission:
    """The answers of one request, checked and ready for the store.

    Attributes
    ----------
    project_id : str
    entries : list of NewEntry
    person : str
        Who answered, as it is stored: the token and the person.
    key : str or None
        The idempotency key.
    """

    project_id: str
    entries: list[NewEntry]
    person: str
    key: str | None

    @classmethod
    def prepare(cls, project: ServedProject, body: OneOrMany, caller: Caller, person: str, key: str | None) -> Self:
        """Look up the items of a request; raise ApiError if one is unknown or compared with itself."""
        if isinstance(body, NewComparison):
            entries = [_new_entry(project, body, "body", ())]
        else:
            entries, pairs = [], set[frozenset[int]]()
            for i, each in enumerate(body.comparisons):
                entries.append(_new_entry(project, each, f"body.comparisons.{i}", pairs))
                pairs.add(frozenset((entries[-1].left, entries[-1].right)))
        return cls(project.id, entries, caller.stored_name(person), key)

    async def store(self, store: Store) -> Response:
        """Append the entries to the log and return the acknowledgement once they are durable."""
        result = await asyncio.wrap_future(store.append(self.project_id, self.entries, self.person, self.key))
        return acknowledge(result)


def _new_entry(project: ServedProject, new: NewComparison, where: str, earlier: Collection[frozenset[int]]) -> NewEntry:
    """Return the entry of an answer; ``earlier`` are the pairs before it in the same request."""
    left, right = project.position(new.left, f"{where}.left"), project.position(new.right, f"{where}.right")
    if left == right:
        raise ApiError(
            422, f"{new.left!r} is compared with itself; accepted: two different items", where=f"{where}.right"
        )
    source = project.tickets.source(new.ticket, left, right)
    # A pair that was answered before is not random any more: the metric has learned the answer.
    if source == "random" and (frozenset((left, right)) in earlier or project.is_answered(left, right)):
        source = "given"
    return NewEntry(left, right, new.answer, source)


def acknowledge(result: AppendResult) -> Response:
    """Return the response to a request whose entries are durable."""
    first, last = result.entries[0].seq, result.entries[-1].seq
    acknowledgement = Acknowledgement(first=first, last=last, repeated=result.repeated)
    return json_response(acknowledgement, 200 if result.repeated else 201)
