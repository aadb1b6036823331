"""Routes for projects and their items."""

from __future__ import annotations

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
from ocelad.service.responses import json_response
from ocelad.service.routes.access import ERROR_RESPONSES, Admin, Reader, get_service, json_response_in_thread
from ocelad.service.security import current_caller
from ocelad.service.served_project import ServedProject
from ocelad.service.wire import (
    ColumnValues,
    Item,
    ItemPage,
    ItemsAdded,
    Name,
    NewItems,
    ProjectInfo,
    ProjectList,
    UploadFormat,
)

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
async def projects(request: Request) -> Response:
    """List the projects that the caller may read."""
    caller = current_caller(request)
    held = [(project, caller.permission_on(project.id)) for project in get_service(request)]
    infos = [serialize.project_info(project, permission) for project, permission in held if permission is not None]
    return json_response(ProjectList(projects=infos))


@router.post("/projects", status_code=201, response_model=ProjectInfo, openapi_extra=_FILE_BODY)
async def create_project(
    request: Request,
    id: Annotated[Name, Query()],
    format: Annotated[UploadFormat, Query()],
    title: Annotated[str, Query(max_length=200)] = "",
    item_id: Annotated[str | None, Query(max_length=200, description="The column of ids")] = None,
    text: Annotated[str | None, Query(max_length=200, description="The column of texts to display")] = None,
    features: Annotated[str | None, Query(max_length=2000, description="Columns or patterns, comma-separated")] = None,
    fields: Annotated[tuple[str, ...], Query(max_length=100, description="Columns that are not learned from")] = (),
    exclude: Annotated[tuple[str, ...], Query(max_length=100, description="Columns that are not features")] = (),
    missing: Annotated[Literal["stop", "median"], Query(description="Refuse missing numbers, or fill them")] = "stop",
    curved: Annotated[bool, Query(description="Learn a curved distance; false: a linear one")] = True,
    transitive: Annotated[bool, Query(description="Let answers imply others, and make groups of items")] = True,
) -> Response:
    """Create a project from a file of items, which is the body."""
    service, caller = get_service(request), current_caller(request)
    if caller.permission_on(id) != "admin":
        raise ApiError(403, f"creating the project {id!r} requires the permission 'admin' on it or on all projects")
    data = await request.body()
    columns: ColumnOptions = {"id": item_id, "text": text, "features": features, "fields": fields, "exclude": exclude}

    def create() -> ServedProject:
        try:
            items = item_sets.read_upload(data, format, missing=missing, **columns)
        except ValueError as error:
            raise ApiError(422, str(error), code="bad_items", where="body") from None
        return service.create(id, title or id, items, {"curved": curved, "transitive": transitive})

    return json_response(serialize.project_info(await run_in_threadpool(create), "admin"), 201)


@router.get("/projects/{project}", response_model=ProjectInfo)
async def project(access: Reader) -> Response:
    """Return a project: its numbers of items and answers, and the caller's permission."""
    return await json_response_in_thread(serialize.project_info, access.project, access.permission, with_groups=True)


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
    data = await request.body()

    def add() -> ItemsAdded:  # in a thread: it is slow and releases the interpreter most of the time
        try:
            new = NewItems.model_validate_json(data).items
            return ItemsAdded(n_items=access.service.add_items(access.project, new), n_added=len(new))
        except ValidationError as error:
            raise validation_error(error.errors(include_url=False, include_input=False), "body") from None
        except ItemsError as error:
            raise ApiError(422, str(error), code="bad_items", where=f"body.{error.where or 'items'}") from None

    return json_response(await run_in_threadpool(add), 201)


@router.get("/projects/{project}/items/{item:path}", response_model=Item)
async def item(access: Reader, item: str) -> Response:
    """Return an item with its features."""
    project = access.project
    return json_response(serialize.item(project, project.position(item, "path.item"), with_features=True))


@router.get(
    "/projects/{project}/pictures/{position}",
    response_class=Response,
    responses={200: {"content": {"image/png": {}}}},
)
async def picture(access: Reader, position: int) -> Response:
    """Return the picture of the item at a position."""
    picture = None
    if 0 <= position < len(access.project.items):
        picture = await run_in_threadpool(access.service.store.picture, access.project.id, position)
    if picture is None:
        raise ApiError(404, f"there is no picture at position {position}", where="path.position")
    return Response(picture, media_type="image/png", headers={"Cache-Control": "private, max-age=86400"})


@router.get("/projects/{project}/columns/{name:path}", response_model=ColumnValues)
async def column(access: Reader, name: str) -> Response:
    """Return the values of a column that is not learned from, one per item."""
    items = access.project.items
    if name not in items.fields:
        raise ApiError(404, f"there is no column {name!r} to colour by", where="path.name")
    return await json_response_in_thread(serialize.column_values, items, name)
