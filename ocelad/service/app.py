"""The ASGI application: routes, middleware and the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import Depends, FastAPI

from ocelad.service import store as store_errors
from ocelad.service.error_handlers import ErrorMapping, install_error_handlers
from ocelad.service.fast_path import FastPath
from ocelad.service.held_projects import HeldProjects
from ocelad.service.item_search import ItemSearches
from ocelad.service.items import ItemsError
from ocelad.service.log_setup import get_logger
from ocelad.service.page_files import PageFiles
from ocelad.service.request_logging import PrometheusMetrics, RequestLogging
from ocelad.service.routes import (
    answer_lists,
    answers,
    audit,
    disagreements,
    groups,
    imports,
    lifecycle,
    login,
    operations,
    people,
    projects,
    queries,
    webhooks,
)
from ocelad.service.routes.access import reject_unknown_parameters
from ocelad.service.security import (
    CALLBACK_PATH,
    Authentication,
    Authenticator,
    Guard,
    Logins,
    RequestLimits,
    requires_token,
)
from ocelad.service.service import Service
from ocelad.service.slow_work import SlowWork

log = get_logger("ocelad.service")
# The responses to errors that are raised below the routes.
ERRORS: tuple[ErrorMapping, ...] = (
    (store_errors.KeyConflict, 409, "key_conflict"),
    (store_errors.NothingToUndo, 409, "nothing_to_undo"),
    (store_errors.UnknownWebhook, 404, "unknown_webhook"),
    (store_errors.UnknownEntry, 404, "unknown_entry"),
    (store_errors.AlreadyUndone, 409, "already_undone"),
    (store_errors.ProjectExists, 409, "project_exists"),
    (store_errors.ProjectArchived, 409, "archived"),
    (store_errors.DuplicateItem, 409, "duplicate_item"),
    (store_errors.UnknownProject, 404, "unknown_project"),
    (store_errors.UnknownItem, 404, "unknown_item"),
    (store_errors.InvalidRequest, 422, "invalid"),
    (ItemsError, 422, "bad_items"),
    (store_errors.Overloaded, 503, "overloaded"),
    (store_errors.LogReplaced, 503, "log_replaced"),
    (store_errors.DatabaseLost, 503, "database_lost"),
    (store_errors.StoreUnavailable, 503, "store_unavailable"),
)


def create_app(service: Service) -> FastAPI:
    """Return the application of an open service; the service is closed when the application shuts down."""
    settings = service.settings

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.attach(asyncio.get_running_loop())
        log.info("started", projects=len(service.records()))
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
    logins = Logins.of(settings, service.store.sessions)
    authenticate = Authenticator(
        service.store,
        token_required,
        unavailable=store_errors.StoreUnavailable,
        proxy=logins.proxy,
        openid=logins.openid,
        cookies=logins.cookies,
    )
    app.state.service, app.state.metrics = service, metrics
    app.state.authenticate, app.state.logins, app.state.login_limits = authenticate, logins, login.LoginLimits()
    app.state.open_to_all = not (token_required or settings.has_login)
    app.state.uploads = SlowWork("uploads", settings.max_uploads)
    app.state.exports = SlowWork("exports", settings.max_exports)
    app.state.imports = SlowWork("imports", settings.max_imports)
    app.state.lists, app.state.list_files = SlowWork("lists of answers", 8), SlowWork("files of answers", 8)
    app.state.figures = SlowWork("figures of people", 4)
    app.state.searches = ItemSearches()
    install_error_handlers(app, ERRORS)
    for router in (
        projects.router,
        lifecycle.router,
        webhooks.router,
        answers.router,
        answer_lists.router,
        imports.router,
        groups.router,
        people.router,
        disagreements.router,
        queries.router,
        operations.router,
        audit.router,
        login.router,
    ):
        app.include_router(router, prefix="/v1", dependencies=[Depends(reject_unknown_parameters)])
    app.include_router(operations.metrics_router)
    app.include_router(login.pages)

    page_files = app.state.page_files = PageFiles()
    page_files.install(app)
    # The last middleware added is the outermost, so that the fast path is next to the routes.
    app.add_middleware(FastPath, service=service, errors=ERRORS)
    app.add_middleware(HeldProjects, service=service)
    app.add_middleware(
        RequestLimits,
        max_body=settings.max_body,
        max_items_body=settings.max_items_body,
        max_upload=settings.max_upload,
        max_import=settings.max_import,
        body_timeout=settings.body_timeout,
        request_timeout=settings.request_timeout,
    )
    app.add_middleware(
        Authentication, authenticate=authenticate, errors=ERRORS, rate=settings.rate, max_streams=settings.max_streams
    )
    # The provider of a login sends the browser back by a link; the state in its URL protects that path.
    app.add_middleware(Guard, allowed_hosts=settings.host_names, page_paths=(*page_files.paths, CALLBACK_PATH))
    app.add_middleware(RequestLogging, metrics=metrics)
    return app
