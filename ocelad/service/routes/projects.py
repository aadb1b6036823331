"""Projects and their items."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from ocelad.service import items as reading
from ocelad.service.items import ItemsError
from ocelad.service.problems import is_json, not_json, refusal_of_validation
from ocelad.service.refusal import Refusal
from ocelad.service.routes.access import REFUSALS, Admin, Reader, service_of, told, told_by
from ocelad.service.security import known_caller
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

router = APIRouter(tags=["projects"], responses=REFUSALS)
_TYPES = {"csv": "text/csv", "jsonl": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}
_FILE = {
    "requestBody": {
        "required": True,
        "content": {type: {"schema": {"type": "string", "format": "binary"}} for type in _TYPES.values()},
    }
}


def _described() -> dict[str, Any]:
    """The body of new items, which the route reads itself, for the API's description."""
    schema = NewItems.model_json_schema()
    schema["properties"]["items"]["items"] = schema.pop("$defs")["NewItem"]
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


@router.get("/projects", response_model=ProjectList)
async def projects(request: Request) -> Response:
    """The projects that the caller may read."""
    caller = known_caller(request)
    rights = [(live, caller.right(live.id)) for live in service_of(request)]
    return told(ProjectList(projects=[live.info(right) for live, right in rights if right is not None]))


@router.post("/projects", status_code=201, response_model=ProjectInfo, openapi_extra=_FILE)
async def create_project(
    request: Request,
    id: Annotated[Name, Query()],
    format: Annotated[UploadFormat, Query()],
    title: Annotated[str, Query(max_length=200)] = "",
    item_id: Annotated[str | None, Query(max_length=200, description="The column of ids")] = None,
    text: Annotated[str | None, Query(max_length=200, description="The column of texts to show")] = None,
    features: Annotated[str | None, Query(max_length=2000, description="Columns or patterns, by commas")] = None,
    fields: Annotated[tuple[str, ...], Query(max_length=100, description="Columns that are not learned on")] = (),
) -> Response:
    """Make a project of a file of items, which is the body."""
    service, caller = service_of(request), known_caller(request)
    if caller.right(id) != "admin":
        raise Refusal(403, f"making the project {id!r} needs the right 'admin' on it, or on all")
    data = await request.body()

    def make() -> ServedProject:
        try:
            read = reading.read_upload(data, format, id=item_id, text=text, features=features, fields=fields)
        except ValueError as error:
            raise Refusal(422, str(error), code="bad_items", where="body") from None
        return service.create(id, title or id, read)

    return told((await run_in_threadpool(make)).info("admin"), 201)


@router.get("/projects/{project}", response_model=ProjectInfo)
async def project(access: Reader) -> Response:
    """One project: how many items and answers, and what the caller may do."""
    return told(access.live.info(access.right))


@router.get("/projects/{project}/items", response_model=ItemPage)
async def items(
    access: Reader,
    after: Annotated[int, Query(ge=-1, le=2**53, description="The position before the first one wanted")] = -1,
    limit: Annotated[int, Query(ge=1, le=200)] = 100,
) -> Response:
    """Items in the order of their positions, some at a time."""
    return await told_by(_page, access.live, after, limit)


def _page(live: ServedProject, after: int, limit: int) -> ItemPage:
    last = min(after + limit, len(live.items) - 1)
    page = [live.item(position) for position in range(after + 1, last + 1)]
    return ItemPage(items=page, next=last if page and last + 1 < len(live.items) else None)


@router.post("/projects/{project}/items", status_code=201, response_model=ItemsAdded, openapi_extra=_described())
async def add_items(access: Admin, request: Request) -> Response:
    """Append items; their features are in the order of the project's feature names, in the same units."""
    if not is_json(request):
        raise not_json()
    data = await request.body()

    def add() -> ItemsAdded:  # in a thread: it takes long, and much of it lets others go on
        try:
            new = NewItems.model_validate_json(data).items
            return ItemsAdded(n_items=access.service.add_items(access.live, new), n_added=len(new))
        except ValidationError as error:
            raise refusal_of_validation(error.errors(include_url=False, include_input=False), "body") from None
        except ItemsError as error:
            raise Refusal(422, str(error), code="bad_items", where=f"body.{error.where or 'items'}") from None

    return told(await run_in_threadpool(add), 201)


@router.get("/projects/{project}/items/{item:path}", response_model=Item)
async def item(access: Reader, item: str) -> Response:
    """One item with its features."""
    live = access.live
    return told(live.item(live.position(item, "path.item"), with_features=True))


@router.get(
    "/projects/{project}/pictures/{position}",
    response_class=Response,
    responses={200: {"content": {"image/png": {}}}},
)
async def picture(access: Reader, position: int) -> Response:
    """The picture of the item at a position."""
    picture = None
    if 0 <= position < len(access.live.items):
        picture = await run_in_threadpool(access.service.store.picture, access.live.id, position)
    if picture is None:
        raise Refusal(404, f"there is no picture at position {position}", where="path.position")
    return Response(picture, media_type="image/png", headers={"Cache-Control": "private, max-age=86400"})


@router.get("/projects/{project}/columns/{name:path}", response_model=ColumnValues)
async def column(access: Reader, name: str) -> Response:
    """The values of a column that is not learned from, one per item."""
    live = access.live
    if name not in live.items.fields:
        raise Refusal(404, f"there is no column {name!r} to colour by", where="path.name")
    return await told_by(reading.column, live.items, name)
