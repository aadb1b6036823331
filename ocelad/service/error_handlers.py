"""Exception handlers that give every error response the same JSON shape with one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from ocelad.service.api_error import ApiError
from ocelad.service.person_names import PERSON_RULE
from ocelad.service.responses import error_response
from ocelad.service.wire import TAGS

ErrorMapping = tuple[type[Exception], int, str]  # an exception, and the status and code of its response

#: Messages of errors with the status 503, by code.
UNAVAILABLE = {
    "store_unavailable": (
        "the service cannot read or write now; acknowledged data is safe, and the request may be repeated"
    ),
    "log_replaced": (
        "the database is not as this service left it: it was restored to an earlier point, or another service has "
        "written to it; nothing of this request was stored, and the logs are read again; try again"
    ),
    "database_lost": (
        "the file of the database was deleted or replaced while the service was running: nothing is stored any more; "
        "keep your answers, and tell the person who runs the service"
    ),
}
# A longer path is truncated in messages.
_MAX_PATH = 200
# Messages for parameters that do not match their pattern.
_PATTERN_MESSAGES = {
    "id": "a project's name has 1 to 64 lowercase letters, digits, - and _, and begins with a letter or digit",
    "ocelad-person": PERSON_RULE,
    "idempotency-key": "a key has 1 to 200 visible ASCII characters",
    "last-event-id": "the id of an event is the number of an entry, or that and - and 16 hexadecimal digits",
}


def install_error_handlers(app: FastAPI, errors: Sequence[ErrorMapping]) -> None:
    """Install handlers for ApiError, errors of FastAPI and Starlette, and the mapped exceptions."""

    async def handle_api_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        return error_response(error)

    async def handle_validation_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        details = error.errors()
        # FastAPI does not parse a body without a JSON content type, and then reports misleading errors.
        body_unread = any(each["loc"][:1] == ("body",) and each["type"] != "missing" for each in details)
        if body_unread and not is_json(request):
            return error_response(unsupported_media_type())
        return error_response(validation_error(details))

    async def handle_http_exception(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return error_response(_from_http_exception(request, error))

    app.add_exception_handler(ApiError, handle_api_error)
    app.add_exception_handler(RequestValidationError, handle_validation_error)
    app.add_exception_handler(HTTPException, handle_http_exception)
    for kind, status, code in errors:

        async def handle_mapped(request: Request, error: Exception, status: int = status, code: str = code) -> Response:
            return error_response(_from_mapped(error, status, code))

        app.add_exception_handler(kind, handle_mapped)


def is_json(request: Request) -> bool:
    """Return whether the content type of a request is JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def unsupported_media_type() -> ApiError:
    """Return the error of a body whose content type is not JSON."""
    return ApiError(
        415, "the content type of the body is not JSON; accepted: Content-Type: application/json", where="header"
    )


def to_api_error(error: Exception, errors: Sequence[ErrorMapping]) -> ApiError | None:
    """Return the ApiError of a mapped exception; None for any other exception."""
    for kind, status, code in errors:
        if isinstance(error, kind):
            return _from_mapped(error, status, code)
    return None


def _from_mapped(error: Exception, status: int, code: str) -> ApiError:
    if status != 503:
        return ApiError(status, str(error), code=code)
    # The reason is for the log: it may name files, hosts and databases.
    return ApiError(
        503, UNAVAILABLE.get(code, UNAVAILABLE["store_unavailable"]), code=code, headers={"Retry-After": "1"}
    )


def _from_http_exception(request: Request, error: HTTPException) -> ApiError:
    path = request.url.path
    path = path if len(path) <= _MAX_PATH else f"{path[:_MAX_PATH]}..."
    messages = {
        404: f"there is nothing at {path}; /v1/openapi.json lists all paths",
        405: f"{path} does not support {request.method[:20]}",
    }
    message = messages.get(error.status_code, str(error.detail))
    return ApiError(error.status_code, message, headers=error.headers)


def validation_error(details: Sequence[Any], *prefix: str) -> ApiError:
    """Return the error of a request that pydantic rejected: the first detail and its location after ``prefix``."""
    first = details[0]
    where = ".".join(str(part) for part in (*prefix, *first["loc"]) if part not in TAGS)
    if first["type"] == "json_invalid":
        return ApiError(400, f"the body is not valid JSON: {first.get('ctx', {}).get('error', 'it cannot be parsed')}")
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    message = str(first["msg"])
    if first["type"] == "string_pattern_mismatch":
        message = _PATTERN_MESSAGES.get(str(first["loc"][-1]).lower(), message)
    return ApiError(422, f"{where}: {message[:1].lower()}{message[1:]}{more}", where=where)
