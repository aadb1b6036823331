"""Server-sent events of a project, which a client can resume at any entry."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic
from typing import Any

from fastapi.sse import format_sse_event
from starlette.concurrency import run_in_threadpool

from ocelad.service import serialize
from ocelad.service.served_project import ServedProject
from ocelad.service.service import Service

MAX_ENTRIES = 200
KEEP_ALIVE = 5.0
# Seconds between two checks of the reader's permission.
PERMISSION_INTERVAL = 2.0
# Seconds between two messages to one reader: at any rate of answers a reader gets at most ten messages a second.
PAUSE = 0.1


async def event_stream(
    service: Service, project: ServedProject, after: int | None, may_read: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    """Yield messages for a reader that has seen the log up to entry ``after``; None: start at the end of the log.

    A reader has no queue but a position in the log. A slow reader thus costs no memory, and a disconnected one resumes
    with the last id that it has seen.
    """
    # A reader that has seen more entries than exist knows another log, such as that before a restored backup.
    position = project.seq if after is None else min(after, project.seq)
    project.n_streams += 1
    project.notifier.notify()
    learned, n_items, n_streams = project.view.seq, len(project.items), project.n_streams
    check_at = monotonic() + PERMISSION_INTERVAL
    try:
        state = {"seq": project.seq, "learned_seq": learned, "n_items": n_items, "people": n_streams}
        yield _message("hello", state, position)
        while not service.stopping:
            if monotonic() > check_at:
                if not await may_read():
                    return
                check_at = monotonic() + PERMISSION_INTERVAL
            sent = False
            entries = project.recent_entries(position, MAX_ENTRIES)
            if entries is None:
                entries = await run_in_threadpool(project.entries, position, MAX_ENTRIES)
            if entries:
                position = entries[-1].seq
                serialized = [serialize.log_entry(project, entry).model_dump() for entry in entries]
                yield _message("comparisons", {"entries": serialized}, position)
                sent = True
            if n_items != len(project.items):
                n_items = len(project.items)
                yield _message("items", {"n_items": n_items})
                sent = True
            view = project.view
            if view.seq != learned:
                learned = view.seq
                yield _message("learned", {"seq": learned, "n_answers": view.n_answers})
                sent = True
            if n_streams != project.n_streams:
                n_streams = project.n_streams
                yield _message("people", {"people": n_streams})
                sent = True
            if sent:
                await asyncio.sleep(PAUSE)
            elif not await project.notifier.wait(KEEP_ALIVE):
                yield b": keep-alive\n\n"
    finally:
        project.n_streams -= 1
        project.notifier.notify()


def _message(event: str, data: dict[str, Any], id: int | None = None) -> bytes:
    return format_sse_event(data_str=json.dumps(data), event=event, id=None if id is None else str(id))
