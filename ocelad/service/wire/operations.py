"""The JSON models of callers, the audit log, health and readiness."""

from __future__ import annotations

from typing import Any, Literal

from ocelad.service.wire.models import Permission, ResponseModel


class CallerInfo(ResponseModel):
    name: str  # of the token or of the person who has logged in; empty on a service without tokens
    permissions: dict[str, Permission]  # by project id; "*" stands for all
    personal: bool  # whether the name is that of one person; a token may be shared
    session: bool  # whether POST /v1/logout ends a session


class LoggedOut(ResponseModel):
    ended: bool  # false: the caller has no session


class AuditItem(ResponseModel):
    number: int
    at: int  # milliseconds since 1970, UTC
    who: str
    action: str
    target: str  # what was changed: the id of a project, the name of a token
    detail: dict[str, Any]


class AuditPage(ResponseModel):
    entries: list[AuditItem]
    next: int | None  # ``after`` of the next page; None: there is none


class Health(ResponseModel):
    status: Literal["ok"]
    version: str
    page: str | None = None  # the digest of the page's files: a page with another one is of another version


ServiceStatus = Literal["ready", "failing", "stopping"]


ProjectStatus = Literal["ready", "starting", "failing", "rebuilding"]


class ProjectReadiness(ResponseModel):
    status: ProjectStatus  # "starting": it learns from earlier answers; "rebuilding": its log was replaced
    reason: str | None
    backlog: int | None  # the number of durable entries that have not been learned from yet; None: it is not in memory


class Readiness(ResponseModel):
    status: ServiceStatus  # "ready": the service stores answers and serves projects
    reason: str | None
    backlog: dict[str, int]  # by project in memory: the durable entries that have not been learned from yet
    projects: dict[str, ProjectReadiness]  # those in memory; empty unless all callers may read them
