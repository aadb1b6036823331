"""Routes for projects and their items."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from ocelad.service import items as item_sets
from ocelad.service import serialize
from ocelad.service.api_error import ApiError
from ocelad.service.error_handlers import is_json, unsupported_media_type, validation_error
from ocelad.service.items import ColumnOptions, ItemsError
from ocelad.service.learning import check_settings
from ocelad.service.project_options import MAX_QUESTION, ProjectOptions
from ocelad.service.responses import json_response
from ocelad.service.routes.access import ERROR_RESPONSES, Admin, Reader, get_service, json_response_in_thread
from ocelad.service.routes.people import require_weights
from ocelad.service.security import current_caller
from ocelad.service.served_project import ServedProject
from ocelad.service.slow_work import SlowWork
from ocelad.service.wire import (
    ColumnValues,
    Item,
    ItemPage,
    ItemsAdded,
    MethodName,
    Name,
    NewItems,
    ProjectChange,
    ProjectInfo,
    ProjectList,
    UploadFormat,
)

# Longer guidelines are sent with PATCH: a proxy may refuse a longer URL.
_MAX_GUIDELINES_IN_URL = 4000
# With more features, the full matrices of all scales of the method rice would fill the memory.
_MAX_RANK = 1000
_JPEG_MAGIC = b"\xff\xd8"
router = APIRouter(tags=["projects"], responses=ERROR_RESPONSES)
_MEDIA_TYPES = {"csv": "text/csv", "jsonl": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}
_FILE_BODY = {
    "requestBody": {
        "required": True,
        "content": {type: {"schema": {"type": "string", "format": "binary"}} for type in _MEDIA_TYPES.values()},
    }
}


def _items_body() -> dict[str, Any]:
    """Return the OpenAPI description of new items, whose body the route parses itself."""
    schema = NewItems.model_json_schema()
    schema["properties"]["items"]["items"] = schema.pop("$defs")["NewItem"]
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


@router.get("/projects", response_model=ProjectList)
async def projects(
    request: Request,
    after: Annotated[int, Query(ge=0, le=2**53, description="The value of next of the page before")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    archived: Annotated[bool, Query(description="Include archived projects")] = False,
) -> Response:
    """List the projects that the caller may read, in the order of their creation, in pages."""
    service, caller = get_service(request), current_caller(request)
    return await json_response_in_thread(serialize.project_page, service, caller, after, limit, archived=archived)


@router.post("/projects", status_code=201, response_model=ProjectInfo, openapi_extra=_FILE_BODY)
async def create_project(
    request: Request,
    id: Annotated[Name, Query()],
    format: Annotated[UploadFormat, Query()],
    title: Annotated[str, Query(max_length=200)] = "",
    question: Annotated[str | None, Query(max_length=MAX_QUESTION, description="What people are asked")] = None,
    guidelines: Annotated[str | None, Query(max_length=_MAX_GUIDELINES_IN_URL, description="Plain text")] = None,
    item_id: Annotated[str | None, Query(max_length=200, description="The column of ids")] = None,
    item_title: Annotated[str | None, Query(max_length=200, description="The column that names an item")] = None,
    text: Annotated[str | None, Query(max_length=200, description="The column of texts to display")] = None,
    link: Annotated[str | None, Query(max_length=200, description="The column of links to display")] = None,
    picture: Annotated[str | None, Query(max_length=200, description="The column of pictures to display")] = None,
    show: Annotated[
        tuple[str, ...], Query(max_length=100, description="Further columns to display, in this order")
    ] = (),
    features: Annotated[str | None, Query(max_length=2000, description="Columns or patterns, comma-separated")] = None,
    fields: Annotated[tuple[str, ...], Query(max_length=100, description="Columns that are not learned from")] = (),
    exclude: Annotated[tuple[str, ...], Query(max_length=100, description="Columns that are not features")] = (),
    missing: Annotated[Literal["stop", "median"], Query(description="Refuse missing numbers, or fill them")] = "stop",
    method: Annotated[MethodName, Query(description="The method of learning")] = "adaptive",
    settings: Annotated[
        str | None, Query(max_length=4000, description="Settings of the method rice, as a JSON object")
    ] = None,
    curved: Annotated[
        bool | None, Query(description="Learn a curved distance; false: a linear one. Default: with adaptive")
    ] = None,
    transitive: Annotated[bool, Query(description="Let answers imply others, and make groups of items")] = True,
) -> Response:
    """Create a project from a file of items, which is the body."""
    service, caller = get_service(request), current_caller(request)
    if caller.permission_on(id) != "admin":
        raise ApiError(403, f"creating the project {id!r} requires the permission 'admin' on it or on all projects")
    learning = _learning_settings(method, settings, curved, transitive)
    words = _checked_words(question=question, guidelines=guidelines)
    columns: ColumnOptions = {
        "id": item_id,
        "title": item_title,
        "text": text,
        "picture": picture,
        "features": features,
        "fields": fields,
        "exclude": exclude,
    }
    given = {"title": item_title, "text": text, "link": link, "picture": picture, "fields": show or None}
    chosen = {role: name for role, name in given.items() if name is not None}

    def create() -> tuple[ServedProject, Response]:
        try:
            items = item_sets.read_upload(data, format, missing=missing, **columns)
            cards = item_sets.choose_cards(items, chosen) if chosen else None
        except ValueError as error:
            raise ApiError(422, str(error), code="bad_items", where="body") from None
        _check_learning(items.features.shape[1], learning)
        created = service.create(
            id, title or id, items, learning, options=ProjectOptions().changed(**words, cards=cards)
        )
        info = serialize.project_info(created, "admin", detailed=True, notes=items.notes)
        return created, json_response(info, 201)

    with _uploads(request).admit() as admission:  # before the body is read: waiting bodies would occupy memory
        data = await request.body()
        project, response = await admission.run(create)
    detail = {"items": len(project.items), "features": len(project.items.feature_names)}
    await service.audit.write(caller.name, "project.create", id, detail)
    return response


def _uploads(request: Request) -> SlowWork:
    uploads: SlowWork = request.app.state.uploads
    return uploads


def _learning_settings(
    method: MethodName, settings: str | None, curved: bool | None, transitive: bool
) -> dict[str, Any]:
    """Return the given settings of learning; raise ApiError if they are not a JSON object, or name one twice."""
    try:
        given = {} if settings is None else json.loads(settings)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        message = 'settings is not a JSON object; accepted: settings of the method rice, such as {"step_size": 0.1}'
        raise ApiError(422, message, where="query.settings")
    for name in ("method", "curved", "transitive"):
        if name in given:
            raise ApiError(422, f"settings contains {name}; accepted: the parameter {name}=", where="query.settings")
    learning = {**given, "method": method, "transitive": transitive}
    return learning if curved is None else {**learning, "curved": curved}


def _check_learning(n_features: int, learning: dict[str, Any]) -> None:
    """Raise ApiError if the settings are invalid, or if the matrices of the method rice would be too large."""
    try:
        checked = check_settings(n_features, learning)
    except (ValueError, TypeError, OverflowError) as error:
        raise ApiError(422, str(error), where="query.settings") from None
    rank = checked.get("max_rank")
    full_rank = checked["method"] == "rice" and not checked.get("diagonal") and (rank is None or rank > _MAX_RANK)
    if full_rank and n_features > _MAX_RANK:
        raise ApiError(
            422,
            f"the method rice with {n_features:,} features needs max_rank of at most {_MAX_RANK}, or diagonal, so that "
            "its matrices fit into memory",
            where="query.settings",
        )


def _checked_words(**given: str | None) -> dict[str, Any]:
    """Return the given question and guidelines, validated."""
    try:
        change = ProjectChange.model_validate({name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise validation_error(error.errors(include_url=False, include_input=False), "query") from None
    return change.model_dump(exclude_unset=True)


@router.get("/projects/{project}", response_model=ProjectInfo)
async def project(access: Reader) -> Response:
    """Return a project: its question, its cards, its numbers of items and answers, and the caller's permission."""
    return await json_response_in_thread(serialize.project_info, access.project, access.permission, detailed=True)


@router.patch("/projects/{project}", response_model=ProjectInfo)
async def change_project(access: Admin, change: ProjectChange) -> Response:
    """Change the title, the question, the guidelines, the cards, or how several people answer.

    What the distance is learned from cannot be changed: the features, the ids and the method.
    """
    project = access.project
    if change.weights is not None and change.weights.people:
        require_weights(project)

    def changed(options: ProjectOptions) -> ProjectOptions:
        own = {"question", "guidelines", "repeat_share", "repeat_people", "weights"}
        words = change.model_dump(include=own, exclude_none=True)
        if change.cards is None:
            return options.changed(**words)
        update = change.cards.model_dump(exclude_unset=True)
        return options.changed(**words, cards={**project.cards.model_dump(), **update})

    def store() -> ProjectInfo:
        try:
            access.service.change(project, changed, title=change.title)
        except ItemsError as error:
            raise ApiError(422, str(error), code="bad_cards", where=f"body.{error.where or 'cards'}") from None
        return serialize.project_info(project, access.permission, detailed=True)

    info = await run_in_threadpool(store)
    await access.audit("project.change", changed=sorted(change.model_fields_set))
    return json_response(info)


@router.get("/projects/{project}/items", response_model=ItemPage)
async def items(
    access: Reader,
    after: Annotated[int, Query(ge=-1, le=2**53, description="List the items after this position")] = -1,
    limit: Annotated[int, Query(ge=1, le=200)] = 100,
) -> Response:
    """List items in the order of their positions, in pages."""
    return await json_response_in_thread(_item_page, access.project, after, limit)


def _item_page(project: ServedProject, after: int, limit: int) -> ItemPage:
    last = min(after + limit, len(project.items) - 1)
    page = [serialize.item(project, position) for position in range(after + 1, last + 1)]
    return ItemPage(items=page, next=last if page and last + 1 < len(project.items) else None)


@router.post("/projects/{project}/items", status_code=201, response_model=ItemsAdded, openapi_extra=_items_body())
async def add_items(access: Admin, request: Request) -> Response:
    """Append items; their features are in the order of the project's feature names and in the same units."""
    if not is_json(request):
        raise unsupported_media_type()

    def add() -> ItemsAdded:  # in a thread: it is slow and releases the interpreter most of the time
        try:
            new = NewItems.model_validate_json(data).items
            return ItemsAdded(n_items=access.service.add_items(access.project, new), n_added=len(new))
        except ValidationError as error:
            raise validation_error(error.errors(include_url=False, include_input=False), "body") from None
        except ItemsError as error:
            raise ApiError(422, str(error), code="bad_items", where=f"body.{error.where or 'items'}") from None

    with _uploads(request).admit() as admission:
        data = await request.body()
        added = await admission.run(add)
    await access.audit("items.add", items=added.n_added)
    return json_response(added, 201)


@router.get("/projects/{project}/items/{item:path}", response_model=Item)
async def item(access: Reader, item: str) -> Response:
    """Return an item with its features."""
    project = access.project
    return json_response(serialize.item(project, project.position(item, "path.item"), with_features=True))


@router.get("/projects/{project}/item", response_model=Item)
async def any_item(
    access: Reader,
    id: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    position: Annotated[int | None, Query(ge=0, le=2**53)] = None,
) -> Response:
    """Return an item with its features, by its id or its position; also one whose id a path cannot contain."""
    project = access.project
    if (id is None) == (position is None):
        raise ApiError(422, "the item is not named; accepted: id= or position=, one of them", where="query")
    if id is not None:
        position = project.position(id, "query.id")
    if position is None or position >= len(project.items):
        last = len(project.items) - 1
        message = f"there is no item at position {position}; accepted: 0 to {last}"
        raise ApiError(404, message, code="unknown_item", where="query.position")
    return json_response(serialize.item(project, position, with_features=True))


@router.get(
    "/projects/{project}/pictures/{position}",
    response_class=Response,
    responses={200: {"content": {"image/png": {}, "image/jpeg": {}}}},
)
async def picture(
    access: Reader,
    position: int,
    size: Annotated[
        Literal["display", "full"], Query(description="At most 256 pixels on a side; full: at most 2048")
    ] = "display",
) -> Response:
    """Return the picture of the item at a position."""
    picture = None
    if 0 <= position < len(access.project.items):
        picture = await run_in_threadpool(access.service.store.picture, access.project.id, position, size == "full")
    if not picture:
        raise ApiError(404, f"there is no picture at position {position}", where="path.position")
    media_type = "image/jpeg" if picture.startswith(_JPEG_MAGIC) else "image/png"
    return Response(picture, media_type=media_type, headers={"Cache-Control": "private, max-age=86400"})


@router.get("/projects/{project}/columns/{name:path}", response_model=ColumnValues)
async def column(access: Reader, name: str) -> Response:
    """Return the values of a column that is not learned from, one per item."""
    items = access.project.items
    if name not in items.fields:
        raise ApiError(404, f"there is no column {name!r} to colour by", where="path.name")
    return await json_response_in_thread(serialize.column_values, items, name)
