"""Middleware that counts, times and logs each request by its route, never by its URL."""

from __future__ import annotations

import logging
from itertools import count
from time import perf_counter
from uuid import uuid4

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ocelad.service.api_error import ApiError
from ocelad.service.log_setup import get_logger
from ocelad.service.responses import error_response
from ocelad.service.service import Service

log = get_logger("ocelad.http")
_is_enabled = logging.getLogger("ocelad.http").isEnabledFor  # cheaper than formatting a line that is dropped
# A request id is the id of this run and a counter.
_RUN_ID, _COUNTER = uuid4().hex[:12], count(1)
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class PrometheusMetrics:
    """The metrics for Prometheus."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "ocelad_requests", "Requests, by route and status.", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "ocelad_request_seconds",
            "Seconds until the response was complete.",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        gauges = {
            "entries": "Durable entries in the log.",
            "backlog": "Durable entries that have not been learned from yet.",
            "items": "Items.",
            "people": "Open event streams.",
        }
        self._gauges = {
            name: Gauge(f"ocelad_{name}", text, ("project",), registry=self.registry) for name, text in gauges.items()
        }
        self._by_labels: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        found = self._by_labels.get((method, route, status))
        if found is None:  # cached: looking up labels takes longer than counting
            found = self.requests.labels(method, route, str(status)), self.seconds.labels(method, route)
            self._by_labels[method, route, status] = found
        requests, durations = found
        requests.inc()
        durations.observe(seconds)

    def render(self, service: Service) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        for gauge in self._gauges.values():
            gauge.clear()  # of projects that were deleted or have left memory
        for record in service.records():
            self._gauges["entries"].labels(record.id).set(record.seq)
            self._gauges["items"].labels(record.id).set(record.n_items)
        for project in service:
            self._gauges["backlog"].labels(project.id).set(project.backlog)
            self._gauges["people"].labels(project.id).set(project.n_streams)
        return generate_latest(self.registry)


class RequestLogging:
    """The outermost ASGI middleware; it turns uncaught exceptions into a response with status 500 and a log line."""

    def __init__(self, app: ASGIApp, metrics: PrometheusMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status, started = perf_counter(), 500, False
        request_id = f"{_RUN_ID}-{next(_COUNTER):x}"

        async def observed_send(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
                message["headers"] = [*message.get("headers", ()), (b"request-id", request_id.encode())]
            await send(message)

        structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            await self._app(scope, receive, observed_send)
        except Exception:
            log.exception("request failed", method=scope["method"], route=_route(scope))
            if started:
                raise
            message = f"internal error; the log of the service has details under the request id {request_id}"
            await error_response(ApiError(500, message))(scope, receive, observed_send)
        finally:
            seconds = perf_counter() - start
            route = _route(scope)
            self._metrics.observe(scope["method"], route, status, seconds)
            level = logging.DEBUG if status < 400 else logging.INFO if status < 500 else logging.ERROR
            if _is_enabled(level):
                log.log(
                    level, "request", method=scope["method"], route=route, status=status, ms=round(1000 * seconds, 2)
                )
            structlog.contextvars.unbind_contextvars("request_id")


def _route(scope: Scope) -> str:
    """Return the path pattern of the route: URLs contain names, and each would become a separate time series."""
    path = getattr(scope.get("route"), "path", None)
    version = "/v1" if scope["path"].startswith("/v1/") else ""
    return "none" if path is None else version + path.removeprefix("/v1")
