"""Problems: every refusal, whatever refuses, becomes one JSON shape with one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from ocelad.service.wire import ErrorDetail, Problem

_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    409: "conflict",
    413: "too_large",
    415: "unsupported_type",
    422: "invalid",
    429: "too_many",
    500: "internal",
    503: "unavailable",
}
Known = tuple[type[Exception], int, str]  # what else is raised, the status that it is told with, and the word


class Refusal(Exception):
    """What cannot be done, in one sentence; the client is told so."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        where: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.where, self.headers = status, message, where, headers
        self.code = _CODES.get(status, "failed") if code is None else code


def problem(refusal: Refusal) -> Response:
    """The answer that tells of a refusal."""
    detail = ErrorDetail(code=refusal.code, message=refusal.message, where=refusal.where)
    return Response(
        Problem(error=detail).model_dump_json(),
        status_code=refusal.status,
        media_type="application/json",
        headers=refusal.headers,
    )


def tell_problems(app: FastAPI, known: Sequence[Known]) -> None:
    """Have all errors of an app told in the one shape."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        return problem(error)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return problem(_of_validation(error.errors()))

    async def by_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return problem(_of_http(request, error))

    app.add_exception_handler(Refusal, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, by_http)
    for kind, status, code in known:

        async def by_kind(request: Request, error: Exception, status: int = status, code: str = code) -> Response:
            headers = {"Retry-After": "1"} if status == 503 else None
            return problem(Refusal(status, str(error), code=code, headers=headers))

        app.add_exception_handler(kind, by_kind)


def _of_http(request: Request, error: HTTPException) -> Refusal:
    sentences = {
        404: f"there is nothing at {request.url.path}; /v1/openapi.json lists what there is",
        405: f"{request.method} is not for {request.url.path}",
    }
    message = sentences.get(error.status_code, str(error.detail))
    return Refusal(error.status_code, message, headers=error.headers)


def _of_validation(errors: Sequence[Any]) -> Refusal:
    """One sentence of what pydantic found first, and where."""
    first = errors[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "json_invalid":
        return Refusal(400, f"the body is not JSON: {first.get('ctx', {}).get('error', 'it could not be read')}")
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    message = str(first["msg"])
    return Refusal(422, f"{where}: {message[:1].lower()}{message[1:]}{more}", where=where)
