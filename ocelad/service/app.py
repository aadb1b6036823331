"""The app: routes, what guards them, and the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from fastapi import Depends, FastAPI
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles

from ocelad.service import store as stored
from ocelad.service.fast_path import Quick
from ocelad.service.items import ItemsError
from ocelad.service.logs import logger
from ocelad.service.problems import Known, tell_problems
from ocelad.service.request_logging import Measures, Observed
from ocelad.service.routes import answers, operations, projects, questions
from ocelad.service.routes.access import only_known_parameters
from ocelad.service.security import Authentication, Authenticator, Guard, Limits, needs_token
from ocelad.service.service import Service

log = logger("ocelad.service")
PAGE = Path(__file__).parent / "page"
# What is refused below the routes, and what that is to a client.
KNOWN: tuple[Known, ...] = (
    (stored.KeyConflict, 409, "key_conflict"),
    (stored.NothingToUndo, 409, "nothing_to_undo"),
    (stored.UnknownEntry, 404, "unknown_entry"),
    (stored.AlreadyUndone, 409, "already_undone"),
    (stored.ProjectExists, 409, "project_exists"),
    (stored.DuplicateItem, 409, "duplicate_item"),
    (stored.UnknownProject, 404, "unknown_project"),
    (stored.UnknownItem, 404, "unknown_item"),
    (stored.Refused, 422, "invalid"),
    (ItemsError, 422, "bad_items"),
    (stored.Overloaded, 503, "overloaded"),
    (stored.StoreUnavailable, 503, "store_unavailable"),
)


def create_app(service: Service) -> FastAPI:
    """The app of an open service, which is closed with it."""
    settings = service.settings

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.attach(asyncio.get_running_loop())
        log.info("started", projects=[live.id for live in service])
        try:
            yield
        finally:
            service.attach(None)
            await asyncio.to_thread(service.close)
            log.info("stopped")

    app = FastAPI(
        title="ocelad",
        version=version("ocelad"),
        summary="A distance, learned from answers to: are these two the same?",
        openapi_url="/v1/openapi.json",
        docs_url=None,  # they load their scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    measures = Measures()
    token_needed = needs_token(settings.host, settings.require_token)
    app.state.service, app.state.measures, app.state.open_to_all = service, measures, not token_needed
    authenticate = Authenticator(service.store, token_needed, unavailable=stored.StoreUnavailable)
    app.state.authenticate = authenticate
    tell_problems(app, KNOWN)
    for router in (projects.router, answers.router, questions.router, operations.router):
        app.include_router(router, prefix="/v1", dependencies=[Depends(only_known_parameters)])
    app.include_router(operations.measures_router)

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page() -> Response:
        return FileResponse(PAGE / "index.html")

    app.mount("/static", StaticFiles(directory=PAGE), name="static")
    # The last one added is the outermost.
    app.add_middleware(Quick, service=service, known=KNOWN)
    app.add_middleware(
        Limits,
        max_body=settings.max_body,
        max_items_body=settings.max_items_body,
        max_upload=settings.max_upload,
        body_timeout=settings.body_timeout,
        request_timeout=settings.request_timeout,
    )
    app.add_middleware(
        Authentication, authenticate=authenticate, known=KNOWN, rate=settings.rate, max_streams=settings.max_streams
    )
    app.add_middleware(Guard, allowed_hosts=(settings.host, *settings.allow_hosts))
    app.add_middleware(Observed, measures=measures)
    return app
