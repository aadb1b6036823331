"""Raw HTTP over sockets, for requests that no proper client sends, and servers in this process."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time

import uvicorn


@contextlib.contextmanager
def serving(app, **settings):
    """Serve an app in a thread of this process and yield its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(app, ws="none", log_config=None, access_log=False, lifespan="off", **settings)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.005)
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


class Connection:
    """A socket to a server on this machine."""

    def __init__(self, port: int, timeout: float = 20.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self._file = self.socket.makefile("rb")

    def send(self, *parts: str | bytes) -> None:
        for part in parts:
            self.socket.sendall(part.encode("latin-1") if isinstance(part, str) else part)

    def read_response(self):
        """Read a response: status, headers by lowercase names, and body; None if the server closed the connection."""
        try:
            line = self._file.readline()
        except ConnectionResetError:
            return None
        if not line:
            return None
        headers = {}
        while (header := self._file.readline().strip()) != b"":
            name, _, value = header.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        body = self._file.read(int(headers.get("content-length", 0)))
        return int(line.split()[1]), headers, body

    def is_closed(self) -> bool:
        """Return whether the server closes the connection before the timeout of the socket."""
        try:
            return self._file.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def send_raw(port: int, *parts: str | bytes, timeout: float = 20.0):
    """Send bytes on a new connection and return the response."""
    with Connection(port, timeout) as connection:
        connection.send(*parts)
        return connection.read_response()


def error_code(response) -> str:
    """Check the shape and the headers of an error response, and return its code."""
    status, headers, body = response
    assert status >= 400
    assert headers["content-type"] == "application/json"
    assert headers["x-content-type-options"] == "nosniff"
    error = json.loads(body)["error"]
    assert set(error) == {"code", "message", "where"}
    assert error["message"]
    return error["code"]
