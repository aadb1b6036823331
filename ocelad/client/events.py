"""The event stream of a project, restored without gaps after a lost connection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

import httpx

from ocelad.client.connection import Connection, RequestFailure
from ocelad.service.wire import LogEntry


@dataclass(frozen=True)
class Event:
    """An event of a project.

    Attributes
    ----------
    kind : str
        "hello": a connection was established; "comparisons": new log entries; "learned": the metric was updated;
        "items": items were added; "replaced": the log is another one than before, such as after a backup was restored,
        or answers were erased: forget all entries, and read the log again. Other kinds may follow in later versions.
    data : dict
    seq : int or None
        The number of the last log entry up to this event; pass it as ``after`` to continue later.
    """

    kind: str
    data: dict[str, Any]
    seq: int | None

    @property
    def entries(self) -> list[LogEntry]:
        """The log entries of an event of the kind "comparisons"; empty for other kinds."""
        return [LogEntry.model_validate(entry) for entry in self.data.get("entries", ())]


def follow(connection: Connection, path: str, after: int | None, max_outage: float | None) -> Iterator[Event]:
    """Yield events after an entry; after a lost connection, continue after the last entry that was yielded."""
    seq, log, n_failures, last_event = after, "", 0, monotonic()
    while True:
        # The beginning of the log's chain: a service whose log is another one says so.
        cursor = {} if seq is None else {"Last-Event-ID": f"{seq}-{log}" if log else str(seq)}
        try:
            for event in parse_events(connection.lines(path, {"Accept": "text/event-stream", **cursor})):
                if event.kind == "replaced":
                    seq, log = event.seq, ""
                elif event.seq is not None:
                    seq, log = event.seq, str(event.data.get("log", ""))
                yield event
                n_failures, last_event = 0, monotonic()
            failure = RequestFailure(httpx.RemoteProtocolError("the event stream ended"))
        except RequestFailure as error:
            failure = error
        if not failure.is_temporary(repeatable=True) or (
            max_outage is not None and monotonic() - last_event > max_outage
        ):
            raise failure.to_error(connection.address) from failure
        sleep(failure.pause(n_failures))
        n_failures += 1


def parse_events(lines: Iterable[str]) -> Iterator[Event]:
    """Parse the lines of an event stream; an event without its final empty line is dropped.

    >>> list(parse_events([": keep-alive", "", "event: learned", 'data: {"seq": 3}', "", "event: items"]))
    [Event(kind='learned', data={'seq': 3}, seq=None)]
    """
    fields: dict[str, str] = {}
    for line in lines:
        if line == "":
            if "data" in fields:
                seq = fields.get("id")
                yield Event(
                    fields.get("event", "message"), json.loads(fields["data"]), None if seq is None else int(seq)
                )
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            fields[name] = f"{fields['data']}\n{value}" if name == "data" and "data" in fields else value
