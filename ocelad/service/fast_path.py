"""Quick: answers that are plainly right go straight to the store."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ocelad.service.entries import NewEntry
from ocelad.service.problems import Known, refusal_of
from ocelad.service.refusal import Refusal, problem
from ocelad.service.routes.access import KEY, PERSON, named
from ocelad.service.routes.answers import acknowledged, compare, entries_of, router
from ocelad.service.security import known_caller
from ocelad.service.service import Service
from ocelad.service.wire import OneOrMany

_PATH = re.compile(r"/v1/projects/([a-z0-9_-]{1,64})/comparisons")
_PERSON, _KEY = re.compile(PERSON), re.compile(KEY)
_NEW: TypeAdapter[OneOrMany] = TypeAdapter(OneOrMany)
_ROUTE = next(route for route in router.routes if getattr(route, "endpoint", None) is compare)


class Quick:
    """ASGI middleware for the one request that comes in thousands: an answer.

    To find its route, its parameters and what they depend on takes the framework three times as long as all else
    together. So an answer with which everything is right is taken here. Whatever is not plainly right is left to the
    route ``compare``, as if nothing had been, and refused there: the two must never differ in what they do.

    Parameters
    ----------
    app : ASGI application
    service : Service
    known : sequence
        How errors of the store are told.
    """

    def __init__(self, app: ASGIApp, service: Service, known: Sequence[Known]) -> None:
        self._app, self._service, self._known = app, service, known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if match is None:
            await self._app(scope, receive, send)
            return
        messages, whole = await _all_of(receive)
        right = self._right(scope, match[1], b"".join(message["body"] for message in messages)) if whole else None
        if right is None:
            await self._app(scope, _again(messages, receive), send)
            return
        scope["route"] = _ROUTE
        try:
            kept = await asyncio.wrap_future(self._service.store.append(*right))
        except Exception as error:
            refusal = refusal_of(error, self._known)
            if refusal is None:
                raise
            await problem(refusal)(scope, receive, send)
        else:
            await acknowledged(kept)(scope, receive, send)

    def _right(self, scope: Scope, project: str, body: bytes) -> tuple[str, list[NewEntry], str, str | None] | None:
        """What the store is to keep: project, entries, who and key; None where anything is wrong, or unusual."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        person, key = (_text(headers.get(name)) for name in (b"ocelad-person", b"idempotency-key"))
        unusual = len(headers) < len(scope["headers"]) or scope["query_string"]
        if unusual or headers.get(b"content-type") != b"application/json":
            return None
        if not _PERSON.match(person or "") or not (key is None or _KEY.match(key)):
            return None
        caller = known_caller(HTTPConnection(scope))
        if not caller.may("answer", project):
            return None
        try:
            live = self._service.project(project)
            return live.id, entries_of(live, _NEW.validate_json(body)), named(caller, person or ""), key
        except (Refusal, ValidationError):
            return None


def _text(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")


async def _all_of(receive: Receive) -> tuple[list[Message], bool]:
    """The messages that a body comes in, and whether that is all of it: the client may go away before."""
    messages = [await receive()]
    while messages[-1].get("more_body", False):
        messages.append(await receive())
    return messages, messages[-1]["type"] == "http.request"


def _again(messages: Sequence[Message], receive: Receive) -> Any:
    """Gives messages that were received as if they came now."""
    remaining = iter(messages)

    async def again() -> Message:
        message = next(remaining, None)
        return await receive() if message is None else message

    return again
