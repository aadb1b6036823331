"""The JSON models of webhooks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ocelad.service.wire.models import RequestModel, ResponseModel

WebhookEvent = Literal["metric", "change", "answers"]


class NewWebhook(RequestModel):
    url: Annotated[str, Field(min_length=1, max_length=2000)]  # http or https, of a public host
    # "metric": distances have moved; "change": a change of the question was detected; "answers": there are new entries
    events: Annotated[list[WebhookEvent], Field(min_length=1, max_length=10)] = ["metric", "change"]
    # How far distances have to move since the last call: on average, relative to their mean.
    threshold: Annotated[float, Field(gt=0, le=10, allow_inf_nan=False)] = 0.05
    interval: Annotated[float, Field(ge=1, le=86_400, allow_inf_nan=False)] = 60.0  # least seconds between two calls


class WebhookInfo(ResponseModel):
    number: int
    url: str
    events: list[WebhookEvent]
    threshold: float | None
    interval: float
    created_at: int  # milliseconds since 1970, UTC
    failure: str | None  # why the last request failed; it is repeated


class WebhookCreated(WebhookInfo):
    secret: str  # signs the requests; it is not shown again


class WebhookList(ResponseModel):
    webhooks: list[WebhookInfo]
