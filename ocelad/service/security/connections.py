"""Connections: those that send headers too slowly, or leave their answers unread, are closed."""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ocelad.service.refusal import Refusal, problem
from ocelad.service.security.addresses import far_address
from ocelad.service.security.guard import SECURITY_HEADERS

_MOST_HEADER_BYTES = 64 * 1024


class SlowHeaders(HttpToolsProtocol):
    """A connection of uvicorn's with limits that uvicorn has not: no client holds one by being slow.

    Attributes
    ----------
    header_timeout : float
        Seconds for the headers of a request to come, from the first byte on, or from when the connection is made.
    write_timeout : float
        Seconds that a client may leave an answer unread when no more fits into what lies between.
    max_connections, connections_each : int
        More are closed as they come: in all, and from one address that is not this machine's.
    """

    header_timeout: ClassVar[float] = 10.0
    write_timeout: ClassVar[float] = 30.0
    max_connections: ClassVar[int] = 1000
    connections_each: ClassVar[int] = 200

    _address: str | None = None
    _headers_due: TimerHandle | None = None
    _read_due: TimerHandle | None = None
    _in_headers = False
    _header_bytes = 0  # that came, while they are not complete
    _parsed_bytes = 0  # of them, without what came along with them

    @classmethod
    def within(cls, header_timeout: float) -> type[SlowHeaders]:
        """The class with another limit, for uvicorn's ``http=``, which makes the instances."""
        return type(cls.__name__, (cls,), {"header_timeout": header_timeout})

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = far_address({"client": self.client})
        if len(self.connections) > self.max_connections or self._too_many_alike():
            transport.abort()
            return
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_at_hand()
        self._answer_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_headers:
            self._header_bytes += len(data)
            if self._header_bytes > _MOST_HEADER_BYTES:
                self._refuse(_too_large())
                return
        if self._answering():
            self._headers_at_hand()
        else:  # uvicorn's own timer, for what is between requests, has just been stopped by whatever came
            self._await_headers()

    def on_message_begin(self) -> None:
        self._in_headers, self._header_bytes, self._parsed_bytes = True, 0, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._parsed_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._parsed_bytes += len(name) + len(value) + len(b": \r\n")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_headers = False
        if self._parsed_bytes > _MOST_HEADER_BYTES:
            raise _too_large()  # ends the parsing before there is a request; told by ``send_400_response``
        super().on_headers_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._answer_read()
        self._read_due = self.loop.call_later(self.write_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        self._answer_read()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        too_large = self._parsed_bytes > _MOST_HEADER_BYTES
        self._refuse(_too_large() if too_large else Refusal(400, "this cannot be read as a request of HTTP/1.1"))

    def _too_many_alike(self) -> bool:
        if self._address is None:
            return False
        alike: int = sum(getattr(other, "_address", None) == self._address for other in self.connections)
        return alike > self.connections_each

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _await_headers(self) -> None:
        if self._headers_due is None:
            self._headers_due = self.loop.call_later(self.header_timeout, self._headers_too_slow)

    def _headers_at_hand(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _answer_read(self) -> None:
        if self._read_due is not None:
            self._read_due.cancel()
            self._read_due = None

    def _headers_too_slow(self) -> None:
        self._headers_due = None
        if self._in_headers:
            self._refuse(Refusal(408, f"the headers did not come within {self.header_timeout:g} seconds"))
        else:
            self.transport.close()

    def _refuse(self, refusal: Refusal) -> None:
        self.transport.write(_told(refusal))
        self.transport.close()


def _too_large() -> Refusal:
    return Refusal(431, f"the headers are larger than the {_MOST_HEADER_BYTES:,} bytes accepted")


def _told(refusal: Refusal) -> bytes:
    """The answer to what never became a request."""
    response = problem(refusal)
    headers = [*response.raw_headers, *SECURITY_HEADERS, (b"connection", b"close")]
    lines = [f"HTTP/1.1 {refusal.status} {refusal.code}".encode(), *(b": ".join(header) for header in headers)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + bytes(response.body)
