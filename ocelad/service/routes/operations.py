"""Routes for operation: health, readiness and metrics for Prometheus."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from ocelad.service import serialize
from ocelad.service.api_error import ApiError
from ocelad.service.responses import json_response
from ocelad.service.routes.access import ERROR_RESPONSES, get_service
from ocelad.service.security import current_caller
from ocelad.service.service import unknown_project
from ocelad.service.wire import Health, ProjectReadiness, Readiness

router = APIRouter(tags=["operations"], responses=ERROR_RESPONSES)
metrics_router = APIRouter(tags=["operations"], responses=ERROR_RESPONSES)


@router.get("/health", response_model=Health)
async def health(request: Request) -> Response:
    """Return 200 if the process responds."""
    digest = request.app.state.page_files.digest
    return json_response(Health(status="ok", version=version("ocelad"), page=digest))


@router.get("/ready", response_model=Readiness, responses={503: {"model": Readiness}})
async def ready(request: Request) -> Response:
    """Return whether the service stores answers and serves projects; the status is 503 if it does not.

    A project whose learning fails does not count: ``/projects/{project}/ready`` is about a single one.
    """
    readiness = serialize.readiness(get_service(request))
    status = 200 if readiness.status == "ready" else 503
    if not request.app.state.open_to_all:  # the route needs no token, and these name projects
        readiness = readiness.model_copy(update={"backlog": {}, "projects": {}})
    return json_response(readiness, status)


@router.get("/projects/{project}/ready", response_model=ProjectReadiness, responses={503: {"model": ProjectReadiness}})
async def project_ready(request: Request, project: Annotated[str, Path(max_length=64)]) -> Response:
    """Return whether a project is ready and its backlog of learning; the status is 503 if it is not.

    A project that is not in memory is not loaded.
    """
    service = get_service(request)
    if current_caller(request).permission_on(project) is None or project not in service:
        raise unknown_project(project)
    readiness = serialize.project_readiness(service, project)
    return json_response(readiness, 200 if readiness.status == "ready" else 503)


@metrics_router.get(
    "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
)
async def prometheus(request: Request) -> Response:
    """Return counters and durations for Prometheus; requires the permission to read all projects."""
    if current_caller(request).permission_on("*") is None:
        raise ApiError(403, "this requires the permission 'read' on all projects")
    return Response(request.app.state.metrics.render(get_service(request)), media_type="text/plain; version=0.0.4")
