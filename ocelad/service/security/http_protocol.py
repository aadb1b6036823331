"""Uvicorn's HTTP protocol with limits: slow, oversized or unread connections are closed."""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ocelad.service.api_error import ApiError
from ocelad.service.responses import error_response
from ocelad.service.security.addresses import remote_network
from ocelad.service.security.guard import SECURITY_HEADERS

_MAX_HEADER_BYTES = 64 * 1024


class LimitedHttpProtocol(HttpToolsProtocol):
    """A connection of uvicorn with limits that uvicorn lacks: a slow client cannot hold it for ever.

    Attributes
    ----------
    header_timeout : float
        Seconds for the headers of a request to arrive, from its first byte or from the start of the connection.
    write_timeout : float
        Seconds for which a client may leave a response unread while the send buffer is full.
    max_connections, max_connections_per_address : int
        Connections beyond these are closed at once: in total, and from one remote address.
    """

    header_timeout: ClassVar[float] = 10.0
    write_timeout: ClassVar[float] = 30.0
    max_connections: ClassVar[int] = 1000
    max_connections_per_address: ClassVar[int] = 200

    _address: str | None = None
    _header_timer: TimerHandle | None = None
    _write_timer: TimerHandle | None = None
    _in_headers = False
    _header_bytes = 0  # received while the headers are incomplete; may include bytes of the body
    _parsed_bytes = 0  # of the headers only

    @classmethod
    def with_header_timeout(cls, header_timeout: float) -> type[LimitedHttpProtocol]:
        """Return the class with another timeout, for uvicorn's ``http=``, which creates the instances."""
        return type(cls.__name__, (cls,), {"header_timeout": header_timeout})

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = remote_network({"client": self.client})
        if len(self.connections) > self.max_connections or self._too_many_from_address():
            transport.abort()
            return
        self._start_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_header_timer()
        self._stop_write_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_headers:
            self._header_bytes += len(data)
            if self._header_bytes > _MAX_HEADER_BYTES:
                self._reject(_headers_too_large())
                return
        if self._responding():
            self._stop_header_timer()
        else:  # any data stops uvicorn's own timer for idle connections
            self._start_header_timer()

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
        if self._parsed_bytes > _MAX_HEADER_BYTES:
            raise _headers_too_large()  # stops the parser; uvicorn then calls ``send_400_response``
        super().on_headers_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_write_timer()
        self._write_timer = self.loop.call_later(self.write_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_write_timer()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        too_large = self._parsed_bytes > _MAX_HEADER_BYTES
        self._reject(_headers_too_large() if too_large else ApiError(400, "this is not a valid HTTP/1.1 request"))

    def _too_many_from_address(self) -> bool:
        if self._address is None:
            return False
        n: int = sum(getattr(other, "_address", None) == self._address for other in self.connections)
        return n > self.max_connections_per_address

    def _responding(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start_header_timer(self) -> None:
        if self._header_timer is None:
            self._header_timer = self.loop.call_later(self.header_timeout, self._headers_timed_out)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _headers_timed_out(self) -> None:
        self._header_timer = None
        if self._in_headers:
            self._reject(ApiError(408, f"the headers did not arrive within {self.header_timeout:g} seconds"))
        else:
            self.transport.close()

    def _reject(self, error: ApiError) -> None:
        self.transport.write(_raw_response(error))
        self.transport.close()


def _headers_too_large() -> ApiError:
    return ApiError(431, f"the headers are larger than the {_MAX_HEADER_BYTES:,} bytes accepted")


def _raw_response(error: ApiError) -> bytes:
    """Return the bytes of an error response, for input that never became a request."""
    response = error_response(error)
    headers = [*response.raw_headers, *SECURITY_HEADERS, (b"connection", b"close")]
    lines = [f"HTTP/1.1 {error.status} {error.code}".encode(), *(b": ".join(header) for header in headers)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + bytes(response.body)
