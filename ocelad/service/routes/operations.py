"""Routes for operation: health, readiness and metrics for Prometheus."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ocelad.service import serialize
from ocelad.service.api_error import ApiError
from ocelad.service.responses import json_response
from ocelad.service.routes.access import ERROR_RESPONSES, get_service
from ocelad.service.security import current_caller
from ocelad.service.wire import Health, Readiness

router = APIRouter(tags=["operations"], responses=ERROR_RESPONSES)
metrics_router = APIRouter(tags=["operations"], responses=ERROR_RESPONSES)


@router.get("/health", response_model=Health)
async def health() -> Response:
    """Return 200 if the process responds."""
    return json_response(Health(status="ok", version=version("ocelad")))


@router.get("/ready", response_model=Readiness, responses={503: {"model": Readiness}})
async def ready(request: Request) -> Response:
    """Return whether the service is ready and the backlog of learning; the status is 503 if it is not."""
    readiness = serialize.readiness(get_service(request))
    status = 200 if readiness.status == "ready" else 503
    if not request.app.state.open_to_all:  # the route needs no token, and these name projects
        readiness = readiness.model_copy(update={"backlog": {}, "reason": None})
    return json_response(readiness, status)


@metrics_router.get(
    "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
)
async def prometheus(request: Request) -> Response:
    """Return counters and durations for Prometheus; requires the permission to read all projects."""
    if current_caller(request).permission_on("*") is None:
        raise ApiError(403, "this requires the permission 'read' on all projects")
    return Response(request.app.state.metrics.render(get_service(request)), media_type="text/plain; version=0.0.4")
