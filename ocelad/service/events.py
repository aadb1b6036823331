"""Server-sent events of a project, which a client can resume at any entry."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic
from typing import Any, NamedTuple, Self

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
# The number of hexadecimal digits that identify a log.
_CHAIN_LENGTH = 16
_ERASED = "the answers of a person were erased"
_OTHER_LOG = "the log is not the one that this reader has seen: it was restored to an earlier point, or replaced"


class Cursor(NamedTuple):
    """What a reader has seen: the number of an entry and, if it knows it, the beginning of the log's chain there."""

    seq: int
    chain: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a cursor from the id of an event, ``SEQ`` or ``SEQ-CHAIN``.

        >>> Cursor.parse("7"), Cursor.parse("7-0123456789abcdef")
        (Cursor(seq=7, chain=None), Cursor(seq=7, chain='0123456789abcdef'))
        """
        seq, _, chain = text.partition("-")
        return cls(int(seq), chain or None)


async def event_stream(
    service: Service, project: ServedProject, after: Cursor | None, may_read: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    """Yield messages for a reader that has seen the log up to an entry; None: start at the end of the log.

    A reader has no queue but a position in the log. A slow reader thus costs no memory, and a disconnected one resumes
    with the last id that it has seen. A reader that has seen another log, such as that before a backup was restored, is
    told "replaced" and must forget what it knows; the stream then begins at the end of the log. If the log is replaced
    later, or answers are erased from it, the stream ends with "replaced".
    """
    chain = await run_in_threadpool(project.chain, project.seq if after is None else after.seq)
    knows_other = after is not None and (chain is None or not chain.hex().startswith(after.chain or ""))
    position = project.seq if after is None or knows_other else after.seq
    project.n_streams += 1
    project.notifier.notify()
    learned, n_items, n_streams = project.view.seq, len(project.items), project.n_streams
    check_at = monotonic() + PERMISSION_INTERVAL
    try:
        if knows_other:
            chain = await run_in_threadpool(project.chain, position)
            yield _message("replaced", {"reason": _OTHER_LOG}, position)
        state = {"seq": project.seq, "learned_seq": learned, "n_items": n_items, "people": n_streams}
        yield _message("hello", {**state, "log": _short(chain)}, position)
        while not service.stopping:
            if project.end is not None:
                yield _message("replaced", {"reason": project.end})
                return
            if monotonic() > check_at:
                if not await may_read():
                    return
                check_at = monotonic() + PERMISSION_INTERVAL
            sent = False
            entries = project.recent_entries(position, MAX_ENTRIES)
            if entries is None:
                entries = await run_in_threadpool(project.entries, position, MAX_ENTRIES)
            if any(entry.kind == "erase" for entry in entries):
                position = project.seq
                yield _message("replaced", {"reason": _ERASED}, position)
                continue
            if entries:
                position = entries[-1].seq
                serialized = [serialize.log_entry(project, entry).model_dump() for entry in entries]
                yield _message("comparisons", {"entries": serialized, "log": _short(entries[-1].chain)}, position)
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


def _short(chain: bytes | None) -> str:
    """Return the beginning of a chain, which is enough to tell logs apart."""
    return (chain or b"").hex()[:_CHAIN_LENGTH]


def _message(event: str, data: dict[str, Any], id: int | None = None) -> bytes:
    return format_sse_event(data_str=json.dumps(data), event=event, id=None if id is None else str(id))
