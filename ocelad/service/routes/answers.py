"""Routes for answers: store, undo, list, follow and export them."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from ocelad.service import serialize
from ocelad.service.api_error import ApiError
from ocelad.service.events import Cursor, event_stream
from ocelad.service.exports import MEDIA_TYPES, SUFFIXES, ExportContent, ExportFormat, export_chunks
from ocelad.service.responses import json_response
from ocelad.service.routes.access import ERROR_RESPONSES, Answerer, Key, Reader, json_response_in_thread
from ocelad.service.routes.groups import require_groups
from ocelad.service.served_project import ServedProject
from ocelad.service.slow_work import SlowStream, SlowWork
from ocelad.service.submission import Submission
from ocelad.service.wire import Acknowledgement, HistoryPage, OneOrMany, Seq, Undo, UndoResult

router = APIRouter(tags=["answers"], responses=ERROR_RESPONSES)


@router.post("/projects/{project}/comparisons", status_code=201, response_model=Acknowledgement)
async def compare(access: Answerer, new: OneOrMany, key: Key = None) -> Response:
    """Store one answer, or several in order; the response is sent when they are durable."""
    submission = Submission.prepare(access.project, new, access.caller, access.person, key)
    return await submission.store(access.service.store)


@router.post("/projects/{project}/undo", status_code=201, response_model=UndoResult)
async def undo(access: Answerer, which: Undo, key: Key = None) -> Response:
    """Undo the entry with a given number, or the person's last entry that is not undone.

    The answers of a merge or a split are undone together. Nothing is deleted: the undo is an entry of the log itself.
    """
    project, store = access.project, access.service.store
    if which.seq is not None and access.permission != "admin":
        given = await run_in_threadpool(store.entry, project.id, which.seq)
        if not access.caller.has_stored(given.person):
            raise ApiError(403, f"entry {which.seq} is of another token; undoing it requires the permission 'admin'")
    result = await asyncio.wrap_future(store.undo(project.id, which.seq, access.caller.stored_name(access.person), key))
    undo_entry = result.entries[-1]
    assert undo_entry.undoes is not None
    entry = serialize.log_entry(project, await run_in_threadpool(store.entry, project.id, undo_entry.undoes))
    n_undone = len(result.entries)
    undone = UndoResult(seq=undo_entry.seq, entry=entry, n_undone=n_undone, repeated=result.repeated)
    return json_response(undone, 200 if result.repeated else 201)


@router.get("/projects/{project}/history", response_model=HistoryPage)
async def history(
    access: Reader,
    after: Annotated[Seq, Query(description="List the entries after this number")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List the entries of the log in order, in pages."""
    return await json_response_in_thread(_history_page, access.project, after, limit)


def _history_page(project: ServedProject, after: int, limit: int) -> HistoryPage:
    entries = project.entries(after, limit)
    following = entries[-1].seq if entries and entries[-1].seq < project.seq else None
    return HistoryPage(entries=[serialize.log_entry(project, entry) for entry in entries], next=following)


@router.get(
    "/projects/{project}/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(
    access: Reader,
    after: Annotated[Seq | None, Query(description="The number of the last entry seen")] = None,
    last_event_id: Annotated[str | None, Header(pattern=r"^[0-9]{1,16}(-[0-9a-f]{16})?$")] = None,
) -> Response:
    """Stream server-sent events; Last-Event-ID or ``after`` resumes an interrupted stream.

    Last-Event-ID is the id of the last event, or ``ID-LOG`` with the ``log`` of the last event that had one. Then a
    reader that has seen another log, such as that before a backup was restored, gets the event "replaced".
    """
    if last_event_id is not None:
        seen: Cursor | None = Cursor.parse(last_event_id)
    else:
        seen = None if after is None else Cursor(after)
    headers = {"X-Accel-Buffering": "no"}  # asks a proxy to pass messages on at once
    stream = event_stream(access.service, access.project, seen, access.may_still_read)
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


@router.get(
    "/projects/{project}/export",
    response_class=StreamingResponse,
    responses={200: {"content": {media_type: {} for media_type in MEDIA_TYPES.values()}}},
)
async def export(
    access: Reader,
    request: Request,
    content: Annotated[ExportContent, Query()] = "comparisons",
    format: Annotated[ExportFormat, Query()] = "parquet",
) -> Response:
    """Export the answers that are not undone, the whole log, the items, or the groups as a file.

    The groups are all items with the id and the name of their group; an item without answers is its own group.
    ``ocelad track comparisons.parquet --items items.parquet`` learns from the answers and the items. The answers can
    also be written as a training file of dedupe, or as labelled pairs of Splink or Zingg.
    """
    project = access.project
    if content == "groups":
        require_groups(project)
    name = f"{project.id}-{content}.{SUFFIXES.get(format, format)}"
    exports: SlowWork = request.app.state.exports
    chunks = export_chunks(project, content, format)
    admission = exports.admit()
    try:
        first = await admission.run(lambda: next(chunks, b""))  # before the response begins: it may raise an error
    except BaseException:
        admission.leave()
        raise
    await access.audit("export", content=content, format=format)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return SlowStream(admission, first, chunks, media_type=MEDIA_TYPES[format], headers=headers)
