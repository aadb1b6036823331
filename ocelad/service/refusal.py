"""Refusal: what cannot be done, in one sentence, and the answer that tells of it."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

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
    421: "wrong_host",
    422: "invalid",
    429: "too_many",
    431: "headers_too_large",
    500: "internal",
    503: "unavailable",
}


class Refusal(Exception):
    """What cannot be done, in one sentence; the client is told so.

    Examples
    --------
    >>> Refusal(404, "there is no project 'wines'; accepted: digits").code
    'not_found'
    """

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
