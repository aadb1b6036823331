"""Limits: how much anybody may send, how slowly, and how long an answer may take to begin."""

from __future__ import annotations

import asyncio
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ocelad.service.refusal import Refusal, problem

# A body that comes faster than this has all the time that it needs.
_LEAST_BYTES_PER_SECOND = 16 * 1024
_DISCONNECT: Message = {"type": "http.disconnect"}
_CLOSE = {"Connection": "close"}
_PROJECTS, _ITEMS = re.compile(r"/v1/projects/?"), re.compile(r"/v1/projects/[^/]+/items/?")


class Limits:
    """ASGI middleware that bounds what a request may cost.

    Parameters
    ----------
    app : ASGI application
    max_body, max_items_body, max_upload : int
        Bytes of a body: of any, of one that adds items to a project, and of one that a project is made of.
    body_timeout : float
        Seconds for a body to come, plus one for every 16 KiB that came.
    request_timeout, upload_timeout : float
        Seconds until the answer begins, the coming of the body not counted: of any request, and of one that makes a
        project, for which reading the items alone may take minutes.
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
    ) -> None:
        self._app = app
        self._max_body, self._max_items_body, self._max_upload = max_body, max_items_body, max_upload
        self._body_timeout, self._request_timeout = body_timeout, request_timeout
        self._upload_timeout = max(upload_timeout, request_timeout)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most, seconds = self._of(scope)
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > most:
                await problem(_too_large(most))(scope, receive, send)
                return
        exchange = _Exchange(receive, send, most, self._body_timeout, seconds)
        refusal = await exchange.run(self._app, scope)
        if refusal is not None:
            await problem(refusal)(scope, receive, send)

    def _of(self, scope: Scope) -> tuple[int, float]:
        """Bytes of the body, and seconds until the answer."""
        if scope["method"] == "POST":
            if _PROJECTS.fullmatch(scope["path"]):
                return self._max_upload, self._upload_timeout
            if _ITEMS.fullmatch(scope["path"]):
                return self._max_items_body, self._request_timeout
        return self._max_body, self._request_timeout


class _Exchange:
    """One request and its answer; what goes beyond a limit is cut short, and ``run`` returns the refusal of it."""

    def __init__(self, receive: Receive, send: Send, most: int, body_timeout: float, request_timeout: float) -> None:
        self._receive, self._send, self._most = receive, send, most
        self._body_timeout, self._request_timeout = body_timeout, request_timeout
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self._received = 0
        self._has_body = self._awaits_body = self._started = False
        self._refusal: Refusal | None = None

    async def run(self, app: ASGIApp, scope: Scope) -> Refusal | None:
        try:
            async with asyncio.timeout(self._request_timeout) as self._patience:
                await app(scope, self._receiving, self._sending)
        except Exception as error:
            if isinstance(error, TimeoutError) and self._patience.expired():
                self._refusal = self._too_slow() if self._awaits_body else _too_long(scope, self._request_timeout)
            elif self._refusal is None:
                raise
        return None if self._started else self._refusal

    async def _receiving(self) -> Message:
        if self._refusal is not None:
            return _DISCONNECT
        if self._has_body or self._started:  # what comes now can only be that the client goes away, whenever that is
            return await self._receive()
        self._awaits_body = True
        self._patience.reschedule(self._began + self._body_timeout + self._received / _LEAST_BYTES_PER_SECOND)
        message = await self._receive()
        self._awaits_body = False
        self._patience.reschedule(self._clock() + self._request_timeout)
        self._received += len(message.get("body", b""))
        self._has_body = not message.get("more_body", False)
        if self._received > self._most:
            # The application is told as of a client that went away. Whatever it makes of that is not sent.
            self._refusal = _too_large(self._most)
            return _DISCONNECT
        return message

    async def _sending(self, message: Message) -> None:
        if self._refusal is not None and not self._started:
            return
        if message["type"] == "http.response.start":
            self._started = True
            self._patience.reschedule(None)
        await self._send(message)

    def _too_slow(self) -> Refusal:
        return Refusal(408, f"the body did not come within {self._body_timeout:g} seconds", headers=_CLOSE)


def _too_long(scope: Scope, seconds: float) -> Refusal:
    if scope["method"] != "POST":
        then = "ask again later"
    elif any(name == b"idempotency-key" for name, _ in scope["headers"]):
        then = "what was sent may have been kept: send it again with the same Idempotency-Key"
    else:
        then = "what was sent may be kept all the same: look whether it is there before you send it again"
    sentence = f"no answer began within {seconds:g} seconds; {then}"
    return Refusal(503, sentence, code="timeout", headers={"Retry-After": "5"})


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"the body is larger than the {most:,} bytes that are accepted here", headers=_CLOSE)
