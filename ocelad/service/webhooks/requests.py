"""Send a webhook: one POST to an address that was checked, without redirects, within a time."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from threading import Timer

from ocelad.service.webhooks.addresses import Target

#: Seconds for the connection and each part of the response, and for everything.
TIMEOUT, TOTAL_TIMEOUT = 5.0, 15.0


class _Connection(http.client.HTTPConnection):
    """A connection to a given address of a host, instead of one that the name resolves to now."""

    def __init__(self, target: Target, address: str) -> None:
        super().__init__(target.host, target.port, timeout=TIMEOUT)
        self._target, self._address = target, address

    def connect(self) -> None:
        connected = socket.create_connection((self._address, self._target.port), TIMEOUT)
        if self._target.scheme == "https":
            context = ssl.create_default_context()
            try:
                connected = context.wrap_socket(connected, server_hostname=self._target.host)
            except BaseException:
                connected.close()
                raise
        self.sock = connected

    def abort(self) -> None:
        """End the exchange from another thread."""
        if self.sock is not None:
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)


def post(target: Target, address: str, body: bytes, headers: Mapping[str, str]) -> int:
    """Send a body and return the status of the response, whose content is not read.

    Raises
    ------
    OSError, http.client.HTTPException
        If there is no valid response within the time.
    """
    connection = _Connection(target, address)
    timer = Timer(TOTAL_TIMEOUT, connection.abort)
    timer.daemon = True
    timer.start()
    try:
        connection.request("POST", target.path, body, dict(headers))
        return connection.getresponse().status
    finally:
        timer.cancel()
        connection.close()
