"""The ASGI application: routes, middleware and the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from fastapi import Depends, FastAPI
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles

from ocelad.service import store as store_errors
from ocelad.service.error_handlers import ErrorMapping, install_error_handlers
from ocelad.service.fast_path import FastPath
from ocelad.service.items import ItemsError
from ocelad.service.log_setup import get_logger
from ocelad.service.request_logging import PrometheusMetrics, RequestLogging
from ocelad.service.routes import answers, groups, operations, projects, queries
from ocelad.service.routes.access import reject_unknown_parameters
from ocelad.service.security import Authentication, Authenticator, Guard, RequestLimits, requires_token
from ocelad.service.service import Service

log = get_logger("ocelad.service")
PAGE = Path(__file__).parent / "page"
# The responses to errors that are raised below the routes.
ERRORS: tuple[ErrorMapping, ...] = (
    (store_errors.KeyConflict, 409, "key_conflict"),
    (store_errors.NothingToUndo, 409, "nothing_to_undo"),
    (store_errors.UnknownEntry, 404, "unknown_entry"),
    (store_errors.AlreadyUndone, 409, "already_undone"),
    (store_errors.ProjectExists, 409, "project_exists"),
    (store_errors.DuplicateItem, 409, "duplicate_item"),
    (store_errors.UnknownProject, 404, "unknown_project"),
    (store_errors.UnknownItem, 404, "unknown_item"),
    (store_errors.InvalidRequest, 422, "invalid"),
    (ItemsError, 422, "bad_items"),
    (store_errors.Overloaded, 503, "overloaded"),
    (store_errors.StoreUnavailable, 503, "store_unavailable"),
)


def create_app(service: Service) -> FastAPI:
    """Return the application of an open service; the service is closed when the application shuts down."""
    settings = service.settings

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.attach(asyncio.get_running_loop())
        log.info("started", projects=[project.id for project in service])
        try:
            yield
        finally:
            service.attach(None)
            await asyncio.to_thread(service.close)
            log.info("stopped")

    app = FastAPI(
        title="ocelad",
        version=version("ocelad"),
        summary="Learns a distance from answers to: are these two the same?",
        openapi_url="/v1/openapi.json",
        docs_url=None,  # docs and redoc load scripts from other servers
        redoc_url=None,
        lifespan=lifespan,
    )
    metrics = PrometheusMetrics()
    token_required = requires_token(settings.host, settings.require_token)
    app.state.service, app.state.metrics, app.state.open_to_all = service, metrics, not token_required
    authenticate = Authenticator(service.store, token_required, unavailable=store_errors.StoreUnavailable)
    app.state.authenticate = authenticate
    install_error_handlers(app, ERRORS)
    for router in (projects.router, answers.router, groups.router, queries.router, operations.router):
        app.include_router(router, prefix="/v1", dependencies=[Depends(reject_unknown_parameters)])
    app.include_router(operations.metrics_router)

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page() -> Response:
        return FileResponse(PAGE / "index.html")

    app.mount("/static", StaticFiles(directory=PAGE), name="static")
    # The last middleware added is the outermost, so that the fast path is next to the routes.
    app.add_middleware(FastPath, service=service, errors=ERRORS)
    app.add_middleware(
        RequestLimits,
        max_body=settings.max_body,
        max_items_body=settings.max_items_body,
        max_upload=settings.max_upload,
        body_timeout=settings.body_timeout,
        request_timeout=settings.request_timeout,
    )
    app.add_middleware(
        Authentication, authenticate=authenticate, errors=ERRORS, rate=settings.rate, max_streams=settings.max_streams
    )
    app.add_middleware(Guard, allowed_hosts=(settings.host, *settings.allow_hosts))
    app.add_middleware(RequestLogging, metrics=metrics)
    return app
