"""Events: what happens in a project, followed over lost connections without a gap."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

import httpx

from ocelad.client.connection import Connection, Failed
from ocelad.service.wire import LogEntry


@dataclass(frozen=True)
class Event:
    """Something that happened.

    Attributes
    ----------
    kind : str
        "hello" whenever a connection is made; "comparisons": entries of the log; "learned": the metric is newer;
        "items": there are more items. Others may come.
    data : dict
    seq : int or None
        The last entry that has been told of with this event; what to go on ``after`` later.
    """

    kind: str
    data: dict[str, Any]
    seq: int | None

    @property
    def entries(self) -> list[LogEntry]:
        """The entries of the log that it tells of; empty unless it is of comparisons."""
        return [LogEntry.model_validate(entry) for entry in self.data.get("entries", ())]


def follow(connection: Connection, path: str, after: int | None, patience: float | None) -> Iterator[Event]:
    """Events as they come, from an entry on; where the connection is lost, from the last one told of."""
    place, in_vain, heard = after, 0, monotonic()
    while True:
        cursor = {} if place is None else {"Last-Event-ID": str(place)}
        try:
            for event in parsed(connection.lines(path, {"Accept": "text/event-stream", **cursor})):
                place = place if event.seq is None else event.seq
                yield event
                in_vain, heard = 0, monotonic()
            failed = Failed(httpx.RemoteProtocolError("the stream of events has ended"))
        except Failed as error:
            failed = error
        if not failed.may_pass(repeatable=True) or (patience is not None and monotonic() - heard > patience):
            raise failed.told(connection.place) from failed
        sleep(failed.pause(in_vain))
        in_vain += 1


def parsed(lines: Iterable[str]) -> Iterator[Event]:
    """The events of a stream; one that breaks off before its empty line has not come.

    >>> list(parsed([": still here", "", "event: learned", 'data: {"seq": 3}', "", "event: items"]))
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
