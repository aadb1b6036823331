"""Answers: they are taken, undone, listed, followed and taken away."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from ocelad.service import exports
from ocelad.service.entries import NewEntry
from ocelad.service.events import events as messages
from ocelad.service.refusal import Refusal
from ocelad.service.routes.access import REFUSALS, Answerer, Key, Reader, is_of, told, told_by
from ocelad.service.served_project import ServedProject
from ocelad.service.store import Appended
from ocelad.service.wire import Acknowledged, HistoryPage, NewComparison, OneOrMany, Seq, Undo, Undone

router = APIRouter(tags=["answers"], responses=REFUSALS)


@router.post("/projects/{project}/comparisons", status_code=201, response_model=Acknowledged)
async def compare(access: Answerer, new: OneOrMany, key: Key = None) -> Response:
    """Keep one answer, or many in their order; told when they are durable."""
    live = access.live
    kept = await asyncio.wrap_future(access.service.store.append(live.id, entries_of(live, new), access.who, key))
    return acknowledged(kept)


def entries_of(live: ServedProject, new: OneOrMany) -> list[NewEntry]:
    """What is to be kept of one answer, or of many."""
    if isinstance(new, NewComparison):
        return [_entry(live, new, "body")]
    return [_entry(live, each, f"body.comparisons.{i}") for i, each in enumerate(new.comparisons)]


def acknowledged(kept: Appended) -> Response:
    """That they are durable."""
    first, last = kept.entries[0].seq, kept.entries[-1].seq
    return told(Acknowledged(first=first, last=last, repeated=kept.repeated), 200 if kept.repeated else 201)


def _entry(live: ServedProject, new: NewComparison, where: str) -> NewEntry:
    left, right = live.position(new.left, f"{where}.left"), live.position(new.right, f"{where}.right")
    if left == right:
        raise Refusal(422, f"{new.left!r} is compared with itself; accepted: two items", where=f"{where}.right")
    return NewEntry(left, right, new.answer, new.asked)


@router.post("/projects/{project}/undo", status_code=201, response_model=Undone)
async def undo(access: Answerer, which: Undo, key: Key = None) -> Response:
    """Have an answer count as never given: the one of a number, or the caller's last one that stands.

    Nothing is removed: the undo is an entry of the log itself.
    """
    live, store = access.live, access.service.store
    if which.seq is not None and access.right != "admin":
        named = await run_in_threadpool(store.entry, live.id, which.seq)
        if not is_of(access.caller, named.who):
            raise Refusal(403, f"entry {which.seq} is somebody else's; undoing it needs the right 'admin'")
    kept = await asyncio.wrap_future(store.undo(live.id, which.seq, access.who, key))
    (made,) = kept.entries
    assert made.undoes is not None
    entry = live.told(await run_in_threadpool(store.entry, live.id, made.undoes))
    return told(Undone(seq=made.seq, entry=entry, repeated=kept.repeated), 200 if kept.repeated else 201)


@router.get("/projects/{project}/history", response_model=HistoryPage)
async def history(
    access: Reader,
    after: Annotated[Seq, Query(description="The entry before the first one wanted")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """The log in its order, some entries at a time."""
    return await told_by(_page, access.live, after, limit)


def _page(live: ServedProject, after: int, limit: int) -> HistoryPage:
    entries = live.entries(after, limit)
    following = entries[-1].seq if entries and entries[-1].seq < live.seq else None
    return HistoryPage(entries=[live.told(entry) for entry in entries], next=following)


@router.get(
    "/projects/{project}/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(
    access: Reader,
    after: Annotated[Seq | None, Query(description="The last entry that was seen")] = None,
    last_event_id: Annotated[str | None, Header(pattern=r"^[0-9]{1,16}$")] = None,
) -> Response:
    """What happens, as server-sent events; Last-Event-ID or ``after`` takes them up where they broke off."""
    seen = after if last_event_id is None else int(last_event_id)
    # A proxy is asked not to hold messages back until there are many.
    headers = {"X-Accel-Buffering": "no"}
    stream = messages(access.service, access.live, seen, access.stands)
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


@router.get(
    "/projects/{project}/export",
    response_class=StreamingResponse,
    responses={200: {"content": {kind: {} for kind in exports.TYPES.values()}}},
)
async def export(
    access: Reader,
    what: Annotated[exports.What, Query()] = "comparisons",
    format: Annotated[exports.Format, Query()] = "parquet",
) -> Response:
    """The answers that stand, the whole log, or the items, as a file.

    ``ocelad track comparisons.parquet --items items.parquet`` learns from the first and the last.
    """
    live = access.live
    name = f"{live.id}-{what}.{format}"
    return StreamingResponse(
        exports.chunks(live, what, format),
        media_type=exports.TYPES[format],
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )
