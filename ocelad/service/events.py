"""Events: what happens in a project, as server-sent events that can be taken up again where they broke off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic
from typing import Any

from fastapi.sse import format_sse_event
from starlette.concurrency import run_in_threadpool

from ocelad.service.served_project import ServedProject
from ocelad.service.service import Service

MOST_ENTRIES = 200
KEEP_ALIVE = 5.0
# So many seconds a reader is believed to have the right to read before that is looked at again.
ALLOWED_FOR = 2.0
# Between two messages to one reader, so that any number of answers a second become ten messages.
PAUSE = 0.1


async def events(
    service: Service, live: ServedProject, after: int | None, may_read: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    """Messages for one reader, who has seen the log up to an entry; None: who begins at its end.

    There is no queue per reader: each has a place in the log, and is sent what comes after it. So a slow reader costs
    no memory, and one that was cut off names the last id that it has seen.
    """
    # Who has seen more than there is knows another log, such as one from before a backup was restored.
    place = live.seq if after is None else min(after, live.seq)
    live.people += 1
    live.beacon.ring()
    learned, n_items, people = live.view.seq, len(live.items), live.people
    allowed_until = monotonic() + ALLOWED_FOR
    try:
        yield _message("hello", {"seq": live.seq, "learned": learned, "n_items": n_items, "people": people}, place)
        while not service.stopping:
            if monotonic() > allowed_until:
                if not await may_read():
                    return
                allowed_until = monotonic() + ALLOWED_FOR
            sent = False
            entries = live.recent(place, MOST_ENTRIES)
            if entries is None:
                entries = await run_in_threadpool(live.entries, place, MOST_ENTRIES)
            if entries:
                place = entries[-1].seq
                yield _message("comparisons", {"entries": [live.told(entry).model_dump() for entry in entries]}, place)
                sent = True
            if n_items != len(live.items):
                n_items = len(live.items)
                yield _message("items", {"n_items": n_items})
                sent = True
            view = live.view
            if view.seq != learned:
                learned = view.seq
                yield _message("learned", {"seq": learned, "n_answers": view.n_answers})
                sent = True
            if people != live.people:
                people = live.people
                yield _message("people", {"people": people})
                sent = True
            if sent:
                await asyncio.sleep(PAUSE)
            elif not await live.beacon.wait(KEEP_ALIVE):
                yield b": still here\n\n"
    finally:
        live.people -= 1
        live.beacon.ring()


def _message(event: str, data: dict[str, Any], id: int | None = None) -> bytes:
    return format_sse_event(data_str=json.dumps(data), event=event, id=None if id is None else str(id))
