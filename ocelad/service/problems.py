"""Problems: every refusal, whatever refuses, becomes one JSON shape with one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from ocelad.service.refusal import Refusal, problem
from ocelad.service.wire import TAGS

Known = tuple[type[Exception], int, str]  # what else is raised, the status that it is told with, and the word

# So many characters of a path are told back.
_MOST_PATH = 200
# What the patterns of parameters ask for.
_IN_WORDS = {
    "id": "a project's name is of small letters, digits, - and _, begins with a letter or digit, and has at most 64",
    "ocelad-person": "a person's name is of letters without accents, digits, spaces and . _ -, at most 64",
    "idempotency-key": "a key is of 1 to 200 visible characters of ASCII",
    "last-event-id": "the number of an entry is expected, as an event's id was",
}


def tell_problems(app: FastAPI, known: Sequence[Known]) -> None:
    """Have all errors of an app told in the one shape."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        return problem(error)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        errors = error.errors()
        # What is not sent as JSON is not read as JSON, and then nothing about it is right.
        unread = any(each["loc"][:1] == ("body",) and each["type"] != "missing" for each in errors)
        if unread and not is_json(request):
            return problem(not_json())
        return problem(refusal_of_validation(errors))

    async def by_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return problem(_of_http(request, error))

    app.add_exception_handler(Refusal, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, by_http)
    for kind, status, code in known:

        async def by_kind(request: Request, error: Exception, status: int = status, code: str = code) -> Response:
            return problem(_of_known(error, status, code))

        app.add_exception_handler(kind, by_kind)


def is_json(request: Request) -> bool:
    """Whether the body is said to be JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def not_json() -> Refusal:
    return Refusal(
        415, "the body is not said to be JSON; send the header Content-Type: application/json", where="header"
    )


def refusal_of(error: Exception, known: Sequence[Known]) -> Refusal | None:
    """What an error that is known is told as; None of any other."""
    for kind, status, code in known:
        if isinstance(error, kind):
            return _of_known(error, status, code)
    return None


def _of_known(error: Exception, status: int, code: str) -> Refusal:
    if status != 503:
        return Refusal(status, str(error), code=code)
    # Why is for the log: the sentence may name files, hosts and databases.
    sentence = "this cannot be written or read now; nothing that was acknowledged is lost, and it can be sent again"
    return Refusal(503, sentence, code=code, headers={"Retry-After": "1"})


def _of_http(request: Request, error: HTTPException) -> Refusal:
    path = request.url.path
    path = path if len(path) <= _MOST_PATH else f"{path[:_MOST_PATH]}..."
    sentences = {
        404: f"there is nothing at {path}; /v1/openapi.json lists what there is",
        405: f"{request.method[:20]} is not for {path}",
    }
    message = sentences.get(error.status_code, str(error.detail))
    return Refusal(error.status_code, message, headers=error.headers)


def refusal_of_validation(errors: Sequence[Any], *within: str) -> Refusal:
    """One sentence of what pydantic found first, and where, in what part of the request."""
    first = errors[0]
    where = ".".join(str(part) for part in (*within, *first["loc"]) if part not in TAGS)
    if first["type"] == "json_invalid":
        return Refusal(400, f"the body is not JSON: {first.get('ctx', {}).get('error', 'it could not be read')}")
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    message = str(first["msg"])
    if first["type"] == "string_pattern_mismatch":
        message = _IN_WORDS.get(str(first["loc"][-1]).lower(), message)
    return Refusal(422, f"{where}: {message[:1].lower()}{message[1:]}{more}", where=where)
