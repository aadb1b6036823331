"""Middleware that keeps the projects of a request in memory until its response is complete."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from ocelad.service.served_project import ServedProject
from ocelad.service.service import Service

# The key of the held projects in a request's scope.
_HELD = "ocelad.held_projects"


class HeldProjects:
    """ASGI middleware that releases the projects that ``hold_project`` has held for a request."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        held: list[ServedProject] = []
        scope[_HELD] = held
        try:
            await self._app(scope, receive, send)
        finally:
            for project in held:
                self._service.release(project)


async def hold_project(request: HTTPConnection, service: Service, id: str) -> ServedProject:
    """Return a project, which is loaded if necessary and stays in memory until the end of the request."""
    held: list[ServedProject] | None = request.scope.get(_HELD)
    while True:
        project = await service.load(id)
        if held is None:  # without the middleware nobody would release it
            return project
        if service.hold(project):
            held.append(project)
            return project
        # It has just left memory.
