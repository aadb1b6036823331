"""Finished trials, kept in a file as they come, so that nothing is computed twice and an interrupt loses little."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import ocelad
from ocelad.compare.methods import Method
from ocelad.compare.streams import Stream
from ocelad.compare.trial import Record

# What reads, sums up, prints or draws, and changes no trial.
ONLY_SHOWN = ("cli", "files", "plots.py", "compare/picture.py", "compare/summary.py")


class Journal:
    """The records of finished trials: in memory, and in a file of JSON lines where a path is given.

    A line counts when it is whole and was written by this very program for this stream, method, settings and seed.

    Parameters
    ----------
    path : Path or None
        Made, with its folder, if it is not there.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._records: dict[str, Record] = {}
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                self._read(path)

    def _read(self, path: Path) -> None:
        whole = 0
        for line in path.read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                os.truncate(path, whole)  # it was being written when the program was killed
                break
            try:
                kept = json.loads(line)
                self._records[kept["key"]] = Record.from_json(kept)
            except (ValueError, KeyError, TypeError):
                raise ValueError(
                    f"{path} is no journal of trials, its line {line[:60]!r} is not one; name another folder"
                ) from None
            whole += len(line)

    def missing(self, stream: Stream, methods: Sequence[Method], seed: int, every: int) -> tuple[Method, ...]:
        """The methods of which it has no record on this stream."""
        return tuple(method for method in methods if _key(stream, method, seed, every) not in self._records)

    def record(self, stream: Stream, method: Method, seed: int, every: int) -> Record:
        """What it has."""
        return self._records[_key(stream, method, seed, every)]

    def keep(self, stream: Stream, methods: Sequence[Method], records: Sequence[Record], every: int) -> None:
        """Add records; they are on the disk when this returns."""
        lines = []
        for method, record in zip(methods, records, strict=True):
            key = _key(stream, method, record.seed, every)
            self._records[key] = record
            lines.append(json.dumps({"key": key, **record.to_json()}) + "\n")
        if self._path is not None:
            with self._path.open("a") as file:
                file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())


def _key(stream: Stream, method: Method, seed: int, every: int) -> str:
    about = [_program(), stream.fingerprint(), method.name, sorted(method.values.items()), seed, every]
    return hashlib.sha256(repr(about).encode()).hexdigest()[:32]


@cache
def _program() -> str:
    """A digest of the package's sources: what another program computed is not this one's result."""
    digest = hashlib.sha256()
    root = Path(ocelad.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if not any(path.is_relative_to(root / part) for part in ONLY_SHOWN):
            digest.update(path.read_bytes())
    return digest.hexdigest()
