"""Routes for webhooks: URLs that are called when the metric of a project has moved or its question has changed."""

from __future__ import annotations

from secrets import token_urlsafe
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from ocelad.service import webhooks as hooks
from ocelad.service.api_error import ApiError
from ocelad.service.responses import json_response
from ocelad.service.routes.access import ERROR_RESPONSES, Person, check_permission, get_service
from ocelad.service.routes.lifecycle import ProjectId, audit_project
from ocelad.service.service import Service
from ocelad.service.store import Webhook
from ocelad.service.wire import NewWebhook, WebhookCreated, WebhookInfo, WebhookList

router = APIRouter(tags=["webhooks"], responses=ERROR_RESPONSES)


@router.get("/projects/{project}/webhooks", response_model=WebhookList)
async def webhooks(request: Request, project: ProjectId) -> Response:
    """List the webhooks of a project, without their secrets."""
    check_permission(request, project, "admin")
    service = get_service(request)
    found = await run_in_threadpool(service.store.webhooks, project)
    return json_response(WebhookList(webhooks=[WebhookInfo(**_describe(service, each)) for each in found]))


@router.post("/projects/{project}/webhooks", status_code=201, response_model=WebhookCreated)
async def add_webhook(request: Request, project: ProjectId, new: NewWebhook, person: Person = "") -> Response:
    """Add a webhook; its secret is in this response only.

    Each request is a POST of JSON with the header ``Ocelad-Signature: t=SECONDS,v1=HEX``, where HEX is the HMAC-SHA256
    of ``SECONDS.BODY`` with the secret.
    """
    check_permission(request, project, "admin")
    service, secret = get_service(request), token_urlsafe(32)
    options: dict[str, dict[str, Any]] = {"metric": {"threshold": new.threshold}}
    events: dict[str, dict[str, Any]] = {event: options.get(event, {}) for event in dict.fromkeys(new.events)}

    def add() -> Webhook:
        try:
            hooks.resolve(hooks.check_url(new.url), service.settings.webhook_networks)
        except hooks.WebhookRefused as error:
            raise ApiError(422, str(error), code="bad_webhook", where="body.url") from None
        return service.add_webhook(project, new.url, secret, events, new.interval)

    added = await run_in_threadpool(add)
    await audit_project(
        request, person, "webhook.add", project, number=added.number, host=hooks.check_url(new.url).host
    )
    return json_response(WebhookCreated(**_describe(service, added), secret=secret), 201)


@router.delete("/projects/{project}/webhooks/{number}", status_code=204, response_class=Response)
async def delete_webhook(
    request: Request, project: ProjectId, number: Annotated[int, Path(ge=0, le=2**31 - 1)], person: Person = ""
) -> Response:
    """Delete a webhook."""
    check_permission(request, project, "admin")
    await run_in_threadpool(get_service(request).delete_webhook, project, number)
    await audit_project(request, person, "webhook.delete", project, number=number)
    return Response(status_code=204)


def _describe(service: Service, webhook: Webhook) -> dict[str, Any]:
    return {
        "number": webhook.number,
        "url": webhook.url,
        "events": list(webhook.events),
        "threshold": webhook.events.get("metric", {}).get("threshold"),
        "interval": webhook.interval,
        "created_at": webhook.created_at,
        "failure": service.webhooks.failure(webhook),
    }
