"""The route for the audit log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from ocelad.service.api_error import ApiError
from ocelad.service.routes.access import ERROR_RESPONSES, get_service, json_response_in_thread
from ocelad.service.security import ALL, current_caller
from ocelad.service.service import Service
from ocelad.service.wire import AuditItem, AuditPage, Seq

router = APIRouter(tags=["operations"], responses=ERROR_RESPONSES)


@router.get("/audit", response_model=AuditPage)
async def audit(
    request: Request,
    after: Annotated[Seq, Query(description="List the entries after this number")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    who: Annotated[str | None, Query(max_length=200)] = None,
    action: Annotated[str | None, Query(max_length=200, description="Such as project.delete")] = None,
    target: Annotated[str | None, Query(max_length=200, description="The id of a project, the name of a token")] = None,
) -> Response:
    """List who did what, the oldest first, in pages; requires the permission "admin" on all projects."""
    if not current_caller(request).may("admin", ALL):
        raise ApiError(403, "this requires the permission 'admin' on all projects")
    return await json_response_in_thread(_page, get_service(request), after, limit, who, action, target)


def _page(
    service: Service, after: int, limit: int, who: str | None, action: str | None, target: str | None
) -> AuditPage:
    found = service.store.audit(after, limit + 1, who=who, action=action, target=target)
    entries = [
        AuditItem(number=e.number, at=e.at, who=e.who, action=e.action, target=e.target, detail=e.detail)
        for e in found[:limit]
    ]
    return AuditPage(entries=entries, next=entries[-1].number if len(found) > limit else None)
