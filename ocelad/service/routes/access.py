"""Access: who asks, of which project, and whether they may."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Request
from fastapi.dependencies.models import Dependant
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from ocelad.service.refusal import Refusal
from ocelad.service.security import Caller, known_caller
from ocelad.service.served_project import ServedProject
from ocelad.service.service import Service
from ocelad.service.store import StoreUnavailable
from ocelad.service.wire import Problem, Right

PERSON, KEY = r"^[A-Za-z0-9 ._-]{0,64}$", r"^[!-~]{1,200}$"
Person = Annotated[str, Header(alias="Ocelad-Person", pattern=PERSON, description="Who answers")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=KEY,
        description="The same request with the same key is done once, however often it is sent",
    ),
]


@dataclass(frozen=True, slots=True)
class Access:
    """A caller who may do what the route is for.

    Attributes
    ----------
    caller : str
        The name of the token; empty where none is needed.
    who : str
        Who answers, as it is kept: the caller, and the person that they name.
    """

    service: Service
    live: ServedProject
    right: Right
    caller: str
    who: str
    _request: Request

    async def stands(self) -> bool:
        """Whether the caller may still read; tokens are revoked while streams are open."""
        try:
            caller: Caller = await self._request.app.state.authenticate(self._request)
            return caller.right(self.live.id) is not None
        except (Refusal, StoreUnavailable):
            return False


def told(model: BaseModel, status: int = 200) -> Response:
    """The answer of a model that is known to be right: it is not checked again on its way out."""
    return Response(model.model_dump_json(), status_code=status, media_type="application/json")


async def told_by(make: Callable[..., BaseModel], *arguments: Any) -> Response:
    """The same of a model that takes long to make or to write: neither is done in the loop."""
    return await run_in_threadpool(lambda: told(make(*arguments)))


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def only_known_parameters(request: Request) -> None:
    """Refuse a parameter of the query that the route does not have: who sends it thinks that it has an effect."""
    if request.query_params:
        known = _parameters(request.scope["route"].dependant)
        for name in request.query_params:
            if name not in known:
                accepted = ", ".join(known) or "none"
                raise Refusal(422, f"there is no parameter {name[:100]!r}; accepted: {accepted}", where="query")


def _parameters(dependant: Dependant) -> list[str]:
    """What a route, and what it depends on, take from the query."""
    own = [parameter.alias for parameter in dependant.query_params]
    return own + [name for each in dependant.dependencies for name in _parameters(each)]


def _needs(right: Right) -> Callable[..., Coroutine[Any, Any, Access]]:
    async def access(
        request: Request,
        project: Annotated[str, Path(max_length=64)],
        person: Person = "",
    ) -> Access:
        service, caller = service_of(request), known_caller(request)
        has = caller.right(project)
        if has is None:  # whether there is such a project is not for everyone to know
            raise Refusal(404, f"there is no project {project!r}", code="unknown_project", where="path.project")
        live = service.project(project)
        if not caller.may(right, project):
            raise Refusal(403, f"this needs the right {right!r} on {project!r}; the token has {has!r}")
        return Access(service, live, has, caller.name, named(caller, person), request)

    return access


def named(caller: Caller, person: str) -> str:
    """Who answers, as it is kept."""
    return "/".join(part for part in (caller.name, person.strip()) if part)


def is_of(caller: str, who: str) -> bool:
    """Whether an answer was given with a token.

    >>> is_of("anna", "anna/misty hare"), is_of("anna", "ben")
    (True, False)
    """
    return who.partition("/")[0] == caller


Reader = Annotated[Access, Depends(_needs("read"))]
Answerer = Annotated[Access, Depends(_needs("answer"))]
Admin = Annotated[Access, Depends(_needs("admin"))]

# What any route may refuse with, for the API's description.
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text}
    for status, text in {
        400: "Not a request that can be read",
        401: "A token is needed",
        403: "Not with these rights, or not from there",
        404: "No such thing",
        408: "The body came too slowly",
        409: "Not as things are",
        413: "Too large",
        415: "Not said to be JSON",
        421: "Meant for a service of another name",
        422: "Something in the request is not accepted",
        429: "Too many requests",
        503: "Not now; try again",
    }.items()
}
