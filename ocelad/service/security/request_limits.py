"""Limits on a request: the size of its body, the time to send it, and the time until the response begins."""

from __future__ import annotations

import asyncio
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ocelad.service.api_error import ApiError
from ocelad.service.responses import error_response

# A body that arrives faster than this never times out.
_MIN_BYTES_PER_SECOND = 16 * 1024
_DISCONNECT: Message = {"type": "http.disconnect"}
_CLOSE = {"Connection": "close"}
_PROJECTS, _ITEMS = re.compile(r"/v1/projects/?"), re.compile(r"/v1/projects/[^/]+/items/?")
_IMPORT = re.compile(r"/v1/projects/[^/]+/import/?")


class RequestLimits:
    """ASGI middleware that limits the cost of a request.

    Parameters
    ----------
    app : ASGI application
    max_body, max_items_body, max_upload, max_import : int
        The largest body in bytes: of any request, of one that adds items, of one that creates a project, and of one
        that imports answers.
    body_timeout : float
        Seconds for a body to arrive, plus one for every 16 KiB received.
    request_timeout, upload_timeout : float
        Seconds from the end of the body to the begin of the response: of any request, and of one that creates a
        project or imports answers, where reading the file may take minutes.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        max_body: int,
        max_items_body: int,
        max_upload: int,
        body_timeout: float,
        request_timeout: float,
        upload_timeout: float = 180.0,
        max_import: int = 64 << 20,
    ) -> None:
        self._app = app
        self._max_body, self._max_items_body, self._max_upload = max_body, max_items_body, max_upload
        self._max_import = max_import
        self._body_timeout, self._request_timeout = body_timeout, request_timeout
        self._upload_timeout = max(upload_timeout, request_timeout)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        max_body, seconds = self._limits_of(scope)
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > max_body:
                await error_response(_too_large(max_body))(scope, receive, send)
                return
        exchange = _Exchange(receive, send, max_body, self._body_timeout, seconds)
        error = await exchange.run(self._app, scope)
        if error is not None:
            await error_response(error)(scope, receive, send)

    def _limits_of(self, scope: Scope) -> tuple[int, float]:
        """Return the largest body in bytes and the seconds until the response."""
        if scope["method"] == "POST":
            if _PROJECTS.fullmatch(scope["path"]):
                return self._max_upload, self._upload_timeout
            if _ITEMS.fullmatch(scope["path"]):
                return self._max_items_body, self._request_timeout
            if _IMPORT.fullmatch(scope["path"]):
                return self._max_import, self._upload_timeout
        return self._max_body, self._request_timeout


class _Exchange:
    """A request and its response; it is cut off at a limit, and ``run`` returns the error."""

    def __init__(
        self, receive: Receive, send: Send, max_body: int, body_timeout: float, request_timeout: float
    ) -> None:
        self._receive, self._send, self._max_body = receive, send, max_body
        self._body_timeout, self._request_timeout = body_timeout, request_timeout
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self._received = 0
        self._has_body = self._awaits_body = self._started = False
        self._error: ApiError | None = None

    async def run(self, app: ASGIApp, scope: Scope) -> ApiError | None:
        try:
            async with asyncio.timeout(self._request_timeout) as self._timeout:
                await app(scope, self._limited_receive, self._limited_send)
        except Exception as error:
            if isinstance(error, TimeoutError) and self._timeout.expired():
                self._error = self._body_too_slow() if self._awaits_body else _timed_out(scope, self._request_timeout)
            elif self._error is None:
                raise
        return None if self._started else self._error

    async def _limited_receive(self) -> Message:
        if self._error is not None:
            return _DISCONNECT
        if self._has_body or self._started:  # the next message can only be the disconnect of the client
            return await self._receive()
        self._awaits_body = True
        self._timeout.reschedule(self._began + self._body_timeout + self._received / _MIN_BYTES_PER_SECOND)
        message = await self._receive()
        self._awaits_body = False
        self._timeout.reschedule(self._clock() + self._request_timeout)
        self._received += len(message.get("body", b""))
        self._has_body = not message.get("more_body", False)
        if self._received > self._max_body:
            # The application sees a disconnected client; its response is not sent.
            self._error = _too_large(self._max_body)
            return _DISCONNECT
        return message

    async def _limited_send(self, message: Message) -> None:
        if self._error is not None and not self._started:
            return
        if message["type"] == "http.response.start":
            self._started = True
            self._timeout.reschedule(None)
        await self._send(message)

    def _body_too_slow(self) -> ApiError:
        return ApiError(408, f"the body did not arrive within {self._body_timeout:g} seconds", headers=_CLOSE)


def _timed_out(scope: Scope, seconds: float) -> ApiError:
    if scope["method"] != "POST":
        advice = "try again later"
    elif any(name == b"idempotency-key" for name, _ in scope["headers"]):
        advice = "the data may have been stored: repeat the request with the same Idempotency-Key"
    else:
        advice = "the data may have been stored: check before you repeat the request"
    message = f"the response did not begin within {seconds:g} seconds; {advice}"
    return ApiError(503, message, code="timeout", headers={"Retry-After": "5"})


def _too_large(max_body: int) -> ApiError:
    return ApiError(413, f"the body is larger than the {max_body:,} bytes accepted here", headers=_CLOSE)
