"""The server process: bind a socket and serve the application until a signal."""

from __future__ import annotations

import gc
import socket
import sys
from collections.abc import Callable
from errno import EACCES, EADDRINUSE
from signal import SIGINT
from types import FrameType

import uvicorn

from ocelad.service.app import create_app
from ocelad.service.security import LimitedHttpProtocol
from ocelad.service.service import Service
from ocelad.service.settings import Settings

# The longest time that a learning thread may hold the interpreter before a request; a tenth of Python's default.
_SWITCH_SECONDS = 0.0005


class Server(uvicorn.Server):
    """Serves the application of a service until SIGINT, SIGTERM or ``stop``; running requests are finished first.

    Parameters
    ----------
    service : Service
        Closed at the end.
    on_start : callable
        Called once the server accepts requests.
    """

    def __init__(self, service: Service, on_start: Callable[[], None]) -> None:
        settings = service.settings
        super().__init__(
            uvicorn.Config(
                create_app(service),
                http=LimitedHttpProtocol.with_header_timeout(settings.header_timeout),
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=settings.stop_timeout,
                backlog=1024,
            )
        )
        self._service, self._on_start = service, on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        sys.setswitchinterval(_SWITCH_SECONDS)
        gc.collect()
        gc.freeze()  # the objects of the start live as long as the process: scanning them again would delay requests
        await super().startup(sockets)
        self._on_start()

    def stop(self) -> None:
        """Shut down soon; may be called from any thread, and from a signal handler: it takes no lock."""
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.stop()  # event streams do not end by themselves
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Uvicorn's own handler raises the signal again at the end, as if being stopped were a failure.
        self.force_exit = self.should_exit and sig == SIGINT
        self.stop()


def bind_socket(settings: Settings) -> tuple[socket.socket, Settings]:
    """Return a socket bound as the settings say, and the settings with its port if theirs is 0."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        reason = error.strerror or str(error)
        hint = "; choose another with --port" if error.errno in (EADDRINUSE, EACCES) else ""
        raise OSError(f"cannot listen on {settings.host} port {settings.port}: {reason}{hint}") from None
    return listening, settings.model_copy(update={"port": listening.getsockname()[1]})
