"""The exception that becomes an error response of the HTTP API."""

from __future__ import annotations

from collections.abc import Mapping

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


class ApiError(Exception):
    """A request that cannot be served, with one sentence for the client.

    Parameters
    ----------
    status : int
        The HTTP status.
    message : str
    code : str or None
        A constant for programs; None: the default of the status.
    where : str or None
        The location in the request, such as "body.comparisons.3.left".
    headers : mapping or None
        Further headers of the response.

    Examples
    --------
    >>> ApiError(404, "there is no project 'wines'; accepted: digits").code
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
