"""Access to projects: the caller, the project and the permission that a route requires."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Request
from fastapi.dependencies.models import Dependant
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from ocelad.service.api_error import ApiError
from ocelad.service.responses import json_response
from ocelad.service.security import Caller, current_caller
from ocelad.service.served_project import ServedProject
from ocelad.service.service import Service
from ocelad.service.store import StoreUnavailable
from ocelad.service.wire import ErrorResponse, Permission

PERSON_PATTERN, KEY_PATTERN = r"^[A-Za-z0-9 ._-]{0,64}$", r"^[!-~]{1,200}$"
Person = Annotated[
    str, Header(alias="Ocelad-Person", pattern=PERSON_PATTERN, description="The name of the person who answers")
]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=KEY_PATTERN,
        description="A request that is repeated with the same key takes effect once",
    ),
]


@dataclass(frozen=True, slots=True)
class Access:
    """A caller with the permission that a route requires.

    Attributes
    ----------
    service : Service
    project : ServedProject
    permission : {"read", "answer", "admin"}
        The highest permission of the caller on the project.
    caller : Caller
    person : str
        The name of the person as the client sent it.
    """

    service: Service
    project: ServedProject
    permission: Permission
    caller: Caller
    person: str
    _request: Request

    async def may_still_read(self) -> bool:
        """Return whether the caller may still read; a token may be revoked while a stream is open."""
        try:
            caller: Caller = await self._request.app.state.authenticate(self._request)
            return caller.permission_on(self.project.id) is not None
        except (ApiError, StoreUnavailable):
            return False


async def json_response_in_thread(make: Callable[..., BaseModel], *arguments: Any, **options: Any) -> Response:
    """Return the response of the model that ``make`` returns; for models that are slow to make or to serialize."""
    return await run_in_threadpool(lambda: json_response(make(*arguments, **options)))


def get_service(request: Request) -> Service:
    """Return the service of a request."""
    service: Service = request.app.state.service
    return service


async def reject_unknown_parameters(request: Request) -> None:
    """Reject a query parameter that the route does not have, instead of ignoring it."""
    if request.query_params:
        known = _query_parameters(request.scope["route"].dependant)
        for name in request.query_params:
            if name not in known:
                accepted = ", ".join(known) or "none"
                raise ApiError(422, f"there is no parameter {name[:100]!r}; accepted: {accepted}", where="query")


def _query_parameters(dependant: Dependant) -> list[str]:
    """Return the names of the query parameters of a route and its dependencies."""
    own = [parameter.alias for parameter in dependant.query_params]
    return own + [name for each in dependant.dependencies for name in _query_parameters(each)]


def _require(permission: Permission) -> Callable[..., Coroutine[Any, Any, Access]]:
    async def access(
        request: Request,
        project: Annotated[str, Path(max_length=64)],
        person: Person = "",
    ) -> Access:
        service, caller = get_service(request), current_caller(request)
        held = caller.permission_on(project)
        if held is None:  # without any permission a caller must not learn whether the project exists
            raise ApiError(404, f"there is no project {project!r}", code="unknown_project", where="path.project")
        served = service.project(project)
        if not caller.may(permission, project):
            raise ApiError(403, f"this requires the permission {permission!r} on {project!r}; the token has {held!r}")
        return Access(service, served, held, caller, person, request)

    return access


Reader = Annotated[Access, Depends(_require("read"))]
Answerer = Annotated[Access, Depends(_require("answer"))]
Admin = Annotated[Access, Depends(_require("admin"))]

# The error responses of any route, for the OpenAPI description.
ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse, "description": text}
    for status, text in {
        400: "The request cannot be parsed",
        401: "A token is required",
        403: "The permission is missing, or the origin is not accepted",
        404: "Not found",
        408: "The body arrived too slowly",
        409: "Conflict with the present state",
        413: "The body is too large",
        415: "The content type is not JSON",
        421: "The host name is not one of this service",
        422: "A value in the request is invalid",
        429: "Too many requests",
        503: "Temporarily unavailable; try again",
    }.items()
}
