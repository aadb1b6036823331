"""Run the app: bind, say where, serve until told to stop."""

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
from ocelad.service.security import SlowHeaders
from ocelad.service.service import Service
from ocelad.service.settings import Settings

# How long a thread that learns may keep the interpreter from one that answers; ten times less than usual.
_SWITCH_SECONDS = 0.0005


class Server(uvicorn.Server):
    """Serves the app of a service until SIGINT or SIGTERM, or ``stop``; then what is at hand is finished and saved.

    Parameters
    ----------
    service : Service
        It is closed at the end.
    started : callable
        Called once requests are taken.
    """

    def __init__(self, service: Service, started: Callable[[], None]) -> None:
        settings = service.settings
        super().__init__(
            uvicorn.Config(
                create_app(service),
                http=SlowHeaders.within(settings.header_timeout),
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=settings.stop_timeout,
                backlog=1024,
            )
        )
        self._service, self._tell = service, started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        sys.setswitchinterval(_SWITCH_SECONDS)
        gc.collect()
        gc.freeze()  # what is here now stays: to look through it again and again would hold up requests
        await super().startup(sockets)
        self._tell()

    def stop(self) -> None:
        """Take no more requests, and end; from any thread."""
        self._service.stop()  # streams of events have no end of their own
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Not uvicorn's own, which raises the signal again in the end: being told to stop is no failure.
        self.force_exit = self.should_exit and sig == SIGINT
        self.stop()


def bound(settings: Settings) -> tuple[socket.socket, Settings]:
    """A socket that listens where the settings say, and the settings with its port, where they leave it open."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        reason = error.strerror or str(error)
        hint = "; --port says another" if error.errno in (EADDRINUSE, EACCES) else ""
        raise OSError(f"cannot listen at {settings.host} port {settings.port}: {reason}{hint}") from None
    return listening, settings.model_copy(update={"port": listening.getsockname()[1]})
