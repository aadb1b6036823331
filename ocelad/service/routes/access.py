"""Access to projects: the caller, the project and the permission that a route requires."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Request
from fastapi.dependencies.models import Dependant
from fastapi.responses import Response
from pydantic import AfterValidator, BaseModel
from pydantic_core import PydanticCustomError
from starlette.concurrency import run_in_threadpool

from ocelad.service.api_error import ApiError
from ocelad.service.held_projects import hold_project
from ocelad.service.person_names import PERSON_PATTERN, decode_person
from ocelad.service.responses import json_response
from ocelad.service.security import Caller, current_caller
from ocelad.service.served_project import ServedProject
from ocelad.service.service import Service, unknown_project
from ocelad.service.store import StoreUnavailable
from ocelad.service.wire import ErrorResponse, Permission

KEY_PATTERN = r"^[!-~]{1,200}$"


def _decoded(header: str) -> str:
    try:
        return decode_person(header)
    except ValueError as error:
        raise PydanticCustomError("person", str(error)) from None


Person = Annotated[
    str,
    Header(
        alias="Ocelad-Person",
        pattern=PERSON_PATTERN,
        description="The name of the person who answers, percent-encoded",
    ),
    AfterValidator(_decoded),
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
    permission : {"read", "answer", "review", "admin"}
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

    @property
    def who(self) -> str:
        """Who acts, as the answers and the audit log store it."""
        return self.caller.stored_name(self.person)

    async def audit(self, action: str, target: str | None = None, **detail: Any) -> None:
        """Record an action such as "project.rename" on the project, or on ``target``; not for single answers.

        ``detail`` has JSON values: numbers, names and ids, never secrets or the content of answers. In a thread, call
        ``access.service.audit.record(access.who, ...)``.
        """
        await self.service.audit.write(self.who, action, self.project.id if target is None else target, detail)

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


def check_permission(request: Request, project: str, permission: Permission) -> Permission:
    """Return the caller's permission on a project, which is not loaded; raise ApiError if it is not sufficient."""
    service, caller = get_service(request), current_caller(request)
    held = caller.permission_on(project)
    if held is None or project not in service:  # without any permission a caller must not learn whether it exists
        raise unknown_project(project)
    if not caller.may(permission, project):
        raise ApiError(403, f"this requires the permission {permission!r} on {project!r}; the token has {held!r}")
    return held


def check_not_archived(service: Service, project: str) -> None:
    """Raise ApiError if a project is archived: people cannot answer then."""
    if service.store.project(project).archived_at is not None:
        message = f"{project!r} is archived: it can be read, but not answered; unarchive it first"
        raise ApiError(409, message, code="archived")


def _require(permission: Permission) -> Callable[..., Coroutine[Any, Any, Access]]:
    async def access(
        request: Request,
        project: Annotated[str, Path(max_length=64)],
        person: Person = "",
    ) -> Access:
        service, caller = get_service(request), current_caller(request)
        held = check_permission(request, project, permission)
        if permission == "answer":
            check_not_archived(service, project)
        served = await hold_project(request, service, project)
        return Access(service, served, held, caller, person, request)

    return access


Reader = Annotated[Access, Depends(_require("read"))]
Answerer = Annotated[Access, Depends(_require("answer"))]
Reviewer = Annotated[Access, Depends(_require("review"))]
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
