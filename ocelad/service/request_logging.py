"""Observed: each request is counted, timed and logged, by its route and never by its address."""

from __future__ import annotations

import logging
from itertools import count
from time import perf_counter
from uuid import uuid4

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ocelad.service.logs import logger
from ocelad.service.refusal import Refusal, problem
from ocelad.service.service import Service

log = logger("ocelad.http")
_enabled = logging.getLogger("ocelad.http").isEnabledFor  # cheaper than to write what is thrown away
# Names of requests: of this run of the service, and numbered.
_THIS_RUN, _NUMBERS = uuid4().hex[:12], count(1)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Measures:
    """What Prometheus is told."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "ocelad_requests", "Requests, by route and status.", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "ocelad_request_seconds",
            "Seconds until an answer was complete.",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        gauges = {
            "entries": "Durable entries in the log.",
            "behind": "Durable entries that have not been learned from yet.",
            "items": "Items.",
            "people": "Readers of the stream of events.",
        }
        self._gauges = {
            name: Gauge(f"ocelad_{name}", text, ("project",), registry=self.registry) for name, text in gauges.items()
        }

        self._of: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        of = self._of.get((method, route, status))
        if of is None:  # to find them by their labels takes longer than to count
            of = self.requests.labels(method, route, str(status)), self.seconds.labels(method, route)
            self._of[method, route, status] = of
        of[0].inc()
        of[1].observe(seconds)

    def told(self, service: Service) -> bytes:
        """All of it, in the text format."""
        for live in service:
            values = {"entries": live.seq, "behind": live.behind, "items": len(live.items), "people": live.people}
            for name, value in values.items():
                self._gauges[name].labels(live.id).set(value)
        return generate_latest(self.registry)


class Observed:
    """The outermost layer of the app. What nothing else has caught becomes a 500 in the one shape, and a log line."""

    def __init__(self, app: ASGIApp, measures: Measures) -> None:
        self._app, self._measures = app, measures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status, begun = perf_counter(), 500, False
        request_id = f"{_THIS_RUN}-{next(_NUMBERS):x}"

        async def noting(message: Message) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                message["headers"] = [*message.get("headers", ()), (b"request-id", request_id.encode())]
            await send(message)

        structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            await self._app(scope, receive, noting)
        except Exception:
            log.exception("request failed", method=scope["method"], route=_route(scope))
            if begun:
                raise
            sentence = f"something went wrong in the service; its log tells more under the request {request_id}"
            await problem(Refusal(500, sentence))(scope, receive, noting)
        finally:
            seconds = perf_counter() - start
            route = _route(scope)
            self._measures.observe(scope["method"], route, status, seconds)
            level = logging.DEBUG if status < 400 else logging.INFO if status < 500 else logging.ERROR
            if _enabled(level):
                log.log(
                    level, "request", method=scope["method"], route=route, status=status, ms=round(1000 * seconds, 2)
                )
            structlog.contextvars.unbind_contextvars("request_id")


def _route(scope: Scope) -> str:
    """The route's pattern: addresses hold what people have named, and would make as many counters."""
    path = getattr(scope.get("route"), "path", None)
    version = "/v1" if scope["path"].startswith("/v1/") else ""
    return "none" if path is None else version + path.removeprefix("/v1")
