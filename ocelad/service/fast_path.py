"""A fast path for answers: valid requests bypass the routing of the framework."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ocelad.service.api_error import ApiError
from ocelad.service.error_handlers import ErrorMapping, to_api_error
from ocelad.service.person_names import PERSON_PATTERN, decode_person
from ocelad.service.responses import error_response
from ocelad.service.routes.access import KEY_PATTERN
from ocelad.service.routes.answers import compare, router
from ocelad.service.security import current_caller
from ocelad.service.service import Service
from ocelad.service.submission import Submission
from ocelad.service.wire import OneOrMany

_PATH = re.compile(r"/v1/projects/([a-z0-9_-]{1,64})/comparisons")
_PERSON, _KEY = re.compile(PERSON_PATTERN), re.compile(KEY_PATTERN)
_BODY: TypeAdapter[OneOrMany] = TypeAdapter(OneOrMany)
_ROUTE = next(route for route in router.routes if getattr(route, "endpoint", None) is compare)


class FastPath:
    """ASGI middleware for the most frequent request, ``POST /v1/projects/{project}/comparisons``.

    The framework needs three times as long to resolve the route, its parameters and dependencies as everything else
    takes together. This middleware handles a valid request itself, through the same ``Submission`` as the route
    ``compare``. It passes any invalid or unusual request on to the route unchanged, so that the responses of both are
    the same.

    The app mounts it as the innermost middleware: authentication and all limits come before it.

    Parameters
    ----------
    app : ASGI application
    service : Service
    errors : sequence of ErrorMapping
        The responses to errors of the store.
    """

    def __init__(self, app: ASGIApp, service: Service, errors: Sequence[ErrorMapping]) -> None:
        self._app, self._service, self._errors = app, service, errors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if match is None:
            await self._app(scope, receive, send)
            return
        messages, complete = await _receive_body(receive)
        body = b"".join(message["body"] for message in messages) if complete else b""
        submission = self._prepare(scope, match[1], body) if complete else None
        if submission is None:
            await self._app(scope, _replay(messages, receive), send)
            return
        scope["route"] = _ROUTE
        try:
            response = await submission.store(self._service.store)
        except Exception as error:
            api_error = to_api_error(error, self._errors)
            if api_error is None:
                raise
            response = error_response(api_error)
        await response(scope, receive, send)

    def _prepare(self, scope: Scope, project_id: str, body: bytes) -> Submission | None:
        """Return the submission of a valid request; None if anything is invalid or unusual."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        person, key = (_decode(headers.get(name)) for name in (b"ocelad-person", b"idempotency-key"))
        unusual = len(headers) < len(scope["headers"]) or scope["query_string"]
        if unusual or headers.get(b"content-type") != b"application/json":
            return None
        if not _PERSON.match(person or "") or not (key is None or _KEY.match(key)):
            return None
        caller = current_caller(HTTPConnection(scope))
        if not caller.may("answer", project_id):
            return None
        try:
            project = self._service.peek(project_id)
            if project is None or project.archived_at is not None:  # the route loads it, or refuses the request
                return None
            name = decode_person(person or "")
            return Submission.prepare(project, _BODY.validate_json(body), caller, name, key)
        except (ApiError, ValueError):  # pydantic's ValidationError is a ValueError
            return None


def _decode(header: bytes | None) -> str | None:
    return None if header is None else header.decode("latin-1")


async def _receive_body(receive: Receive) -> tuple[list[Message], bool]:
    """Return the messages of a body and whether it is complete: the client may disconnect before its end."""
    messages = [await receive()]
    while messages[-1].get("more_body", False):
        messages.append(await receive())
    return messages, messages[-1]["type"] == "http.request"


def _replay(messages: Sequence[Message], receive: Receive) -> Any:
    """Return a ``receive`` that repeats messages which were received already."""
    remaining = iter(messages)

    async def replay() -> Message:
        message = next(remaining, None)
        return await receive() if message is None else message

    return replay
