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


def tell_problems(app: FastAPI, known: Sequence[Known]) -> None:
    """Have all errors of an app told in the one shape."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        return problem(error)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return problem(refusal_of_validation(error.errors()))

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
    sentences = {
        404: f"there is nothing at {request.url.path}; /v1/openapi.json lists what there is",
        405: f"{request.method} is not for {request.url.path}",
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
    return Refusal(422, f"{where}: {message[:1].lower()}{message[1:]}{more}", where=where)
