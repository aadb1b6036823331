"""Routes for projects as a whole: archive, delete and copy them. Webhooks are in ``routes/webhooks.py``."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from ocelad.service import serialize
from ocelad.service.api_error import ApiError
from ocelad.service.responses import json_response
from ocelad.service.routes.access import ERROR_RESPONSES, Person, check_permission, get_service
from ocelad.service.security import current_caller
from ocelad.service.wire import Permission, ProjectCopy, ProjectInfo

router = APIRouter(tags=["projects"], responses=ERROR_RESPONSES)
ProjectId = Annotated[str, Path(max_length=64)]


@router.post("/projects/{project}/archive", response_model=ProjectInfo)
async def archive(request: Request, project: ProjectId, person: Person = "") -> Response:
    """Archive a project: it can be read but not answered, and lists leave it out."""
    return await _set_archived(request, project, person, True)


@router.post("/projects/{project}/unarchive", response_model=ProjectInfo)
async def unarchive(request: Request, project: ProjectId, person: Person = "") -> Response:
    """Serve an archived project as before."""
    return await _set_archived(request, project, person, False)


async def _set_archived(request: Request, project: str, person: str, archived: bool) -> Response:
    permission = check_permission(request, project, "admin")
    service = get_service(request)
    await run_in_threadpool(service.archive, project, archived)
    await audit_project(request, person, "project.archive" if archived else "project.unarchive", project)
    return json_response(serialize.project_summary(service, service.store.project(project), permission))


@router.delete("/projects/{project}", status_code=204, response_class=Response)
async def delete(
    request: Request,
    project: ProjectId,
    confirm: Annotated[str | None, Query(max_length=64, description="The id of the project, once more")] = None,
    person: Person = "",
) -> Response:
    """Delete a project with its items, its answers and everything that was learned. It cannot be restored."""
    check_permission(request, project, "admin")
    if confirm != project:
        message = f"deleting a project needs its id once more; accepted: confirm={project}"
        raise ApiError(422, message, code="not_confirmed", where="query.confirm")
    await run_in_threadpool(get_service(request).delete, project)
    await audit_project(request, person, "project.delete", project)
    return Response(status_code=204)


@router.post("/projects/{project}/copy", status_code=201, response_model=ProjectInfo)
async def copy(request: Request, project: ProjectId, new: ProjectCopy, person: Person = "") -> Response:
    """Copy a project: its items, its settings, its options and, on request, its log with people and times.

    It learns the same from the log, bit for bit. Webhooks are not copied.
    """
    check_permission(request, project, "admin")
    if current_caller(request).permission_on(new.id) != "admin":
        raise ApiError(403, f"creating the project {new.id!r} requires the permission 'admin' on it or on all projects")
    service = get_service(request)
    await run_in_threadpool(service.copy, project, new.id, new.title, answers=new.answers)
    await audit_project(request, person, "project.copy", project, copy=new.id, answers=new.answers)
    permission: Permission = "admin"
    return json_response(serialize.project_summary(service, service.store.project(new.id), permission), 201)


async def audit_project(request: Request, person: str, action: str, project: str, **detail: object) -> None:
    """Record an action on a project in the audit log."""
    who = current_caller(request).stored_name(person)
    await get_service(request).audit.write(who, action, project, detail)
