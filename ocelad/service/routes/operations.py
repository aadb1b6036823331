"""Operations: is it there, can it be used, how does it do."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ocelad.service.refusal import Refusal
from ocelad.service.routes.access import REFUSALS, service_of, told
from ocelad.service.security import known_caller
from ocelad.service.wire import Health, Readiness

router = APIRouter(tags=["operations"], responses=REFUSALS)
measures_router = APIRouter(tags=["operations"], responses=REFUSALS)


@router.get("/health", response_model=Health)
async def health() -> Response:
    """The process answers."""
    return told(Health(status="ok", version=version("ocelad")))


@router.get("/ready", response_model=Readiness, responses={503: {"model": Readiness}})
async def ready(request: Request) -> Response:
    """Whether it can be used, and how far learning is behind the log; 503 where it cannot."""
    readiness = service_of(request).readiness()
    caller_knows = request.app.state.open_to_all
    shown = readiness if caller_knows else readiness.model_copy(update={"behind": {}, "reason": None})
    return told(shown, 200 if readiness.status == "ready" else 503)


@measures_router.get(
    "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
)
async def prometheus(request: Request) -> Response:
    """Counters and times, for Prometheus; needs the right to read all projects."""
    if known_caller(request).right("*") is None:
        raise Refusal(403, "this needs the right 'read' on all projects")
    return Response(request.app.state.measures.told(service_of(request)), media_type="text/plain; version=0.0.4")
