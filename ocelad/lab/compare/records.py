"""The records of finished trials of a comparison, over a journal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from ocelad.lab.compare.comparison_streams import PairStream, Stream, WordStream
from ocelad.lab.compare.methods import Method
from ocelad.lab.compare.point_streams import TableStream
from ocelad.lab.compare.registry import METHODS, STREAMS
from ocelad.lab.compare.trial import Record
from ocelad.lab.journal import Journal, key


class Records:
    """One record for each stream, method with its settings, and seed.

    Methods and streams of your own are kept in memory only: a file cannot know whether their code is still the same.

    Parameters
    ----------
    path, restart
        As of ``Journal``.
    """

    def __init__(self, path: Path | None = None, *, restart: bool = False) -> None:
        self._journal = Journal(path, restart=restart)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._journal.close()

    def missing(self, stream: Stream, methods: Sequence[Method], seed: int, every: int) -> tuple[Method, ...]:
        """The methods of which it has no record on this stream."""
        return tuple(method for method in methods if _key(stream, method, seed, every) not in self._journal)

    def record(self, stream: Stream, method: Method, seed: int, every: int) -> Record:
        """What it has."""
        return Record.from_json(self._journal[_key(stream, method, seed, every)])

    def keep(self, stream: Stream, methods: Sequence[Method], records: Sequence[Record], every: int) -> None:
        """Add records; those that the file keeps are on the disk when this returns."""
        for known in (True, False):
            of_kind = [pair for pair in zip(methods, records, strict=True) if _is_known(stream, pair[0]) is known]
            results = {_key(stream, method, record.seed, every): record.to_json() for method, record in of_kind}
            self._journal.keep(results, in_file=known)


def _is_known(stream: Stream, method: Method) -> bool:
    """Whether method and stream are as the package has them, or data that are known by their numbers."""
    known = METHODS.get(method.name)
    its_own = known is not None and known.make is method.make
    by_numbers = isinstance(stream, PairStream | TableStream) or (isinstance(stream, WordStream) and stream.origin)
    return its_own and (bool(by_numbers) or STREAMS.get(stream.name) is stream)


def _key(stream: Stream, method: Method, seed: int, every: int) -> str:
    of = "" if _is_known(stream, method) else f"{id(stream)} {id(method.make)}"
    return key(of, stream.fingerprint(), method.name, sorted(method.values.items()), seed, every)
