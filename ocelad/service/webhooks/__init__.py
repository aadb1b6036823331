"""Webhooks: signed requests to other services when a metric has moved or the question has changed."""

from ocelad.service.webhooks.addresses import WebhookRefused as WebhookRefused
from ocelad.service.webhooks.addresses import check_url as check_url
from ocelad.service.webhooks.addresses import resolve as resolve
from ocelad.service.webhooks.sender import WebhookSender as WebhookSender
