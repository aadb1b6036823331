"""Finished trials, kept in a file as they come, so that nothing is computed twice and an interrupt loses little."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Self

import ocelad
from ocelad.compare.catalogue import METHODS, STREAMS
from ocelad.compare.methods import Method
from ocelad.compare.streams import PairStream, Stream
from ocelad.compare.trial import Record

# What reads, sums up, prints or draws, and changes no trial.
ONLY_SHOWN = ("cli", "files", "plots.py", "compare/picture.py", "compare/summary.py")
# What trials are computed with beside the package's own sources.
PACKAGES = ("numba", "numpy", "scikit-learn", "scipy")
# How a line begins.
BEGINNING = b'{"key": "'


class Journal:
    """The records of finished trials: in memory, and in a file of JSON lines where a path is given.

    A line counts when it is whole and was written by this very program, with the same versions of what it stands on,
    for this stream, method, settings and seed. Methods and streams of your own are kept in memory only: a file cannot
    know whether their code is still the same.

    Parameters
    ----------
    path : Path or None
        Made, with its folder, if it is not there. While it is open no other journal may have it.
    restart : bool
        Whether what is in the file is forgotten.
    """

    def __init__(self, path: Path | None = None, *, restart: bool = False) -> None:
        self._records: dict[str, Record] = {}
        self._file: IO[bytes] | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "a+b")  # noqa: SIM115  it is held until close()
            try:
                _lock(self._file, path)
                self._read(self._file, path)
                if restart:
                    self._file.truncate(0)
                    self._records = {}
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self, file: IO[bytes], path: Path) -> None:
        file.seek(0)
        whole = 0
        for line in file.read().splitlines(keepends=True):
            if not line.endswith(b"\n") and BEGINNING.startswith(line[: len(BEGINNING)]):
                file.truncate(whole)  # it was being written when the program was killed
                return
            kept = _parsed(line)
            if kept is None:
                raise ValueError(
                    f"{path} is no journal of trials, its line {line[:60]!r} is not one; name another folder"
                )
            # Another version of the program may have kept other things; what it computed does not count anyway.
            with suppress(KeyError, TypeError, ValueError):
                self._records[kept["key"]] = Record.from_json(kept)
            whole += len(line)

    def missing(self, stream: Stream, methods: Sequence[Method], seed: int, every: int) -> tuple[Method, ...]:
        """The methods of which it has no record on this stream."""
        return tuple(method for method in methods if _key(stream, method, seed, every) not in self._records)

    def record(self, stream: Stream, method: Method, seed: int, every: int) -> Record:
        """What it has."""
        return self._records[_key(stream, method, seed, every)]

    def keep(self, stream: Stream, methods: Sequence[Method], records: Sequence[Record], every: int) -> None:
        """Add records; those that the file keeps are on the disk when this returns."""
        lines = []
        for method, record in zip(methods, records, strict=True):
            key = _key(stream, method, record.seed, every)
            self._records[key] = record
            if _is_known(stream, method):
                lines.append(json.dumps({"key": key, **record.to_json()}) + "\n")
        if self._file is not None and lines:
            self._file.write("".join(lines).encode())
            self._file.flush()
            os.fsync(self._file.fileno())


def _parsed(line: bytes) -> dict[str, Any] | None:
    """What a line of a journal holds, or None where it is none."""
    try:
        kept = json.loads(line)
    except ValueError:
        return None
    return kept if isinstance(kept, dict) and isinstance(kept.get("key"), str) else None


def _lock(file: IO[bytes], path: Path) -> None:
    """Refuse a file that another comparison has open, where the system can tell."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(f"another comparison is writing to {path}; wait for it, or name another folder") from None


def _is_known(stream: Stream, method: Method) -> bool:
    """Whether method and stream are as the package has them, or given pairs, which are known by their numbers."""
    known = METHODS.get(method.name)
    its_own = known is not None and known.make is method.make
    return its_own and (isinstance(stream, PairStream) or STREAMS.get(stream.name) is stream)


def _key(stream: Stream, method: Method, seed: int, every: int) -> str:
    of = "" if _is_known(stream, method) else f"{id(stream)} {id(method.make)}"
    about = [_program(), of, stream.fingerprint(), method.name, sorted(method.values.items()), seed, every]
    return hashlib.sha256(repr(about).encode()).hexdigest()[:32]


@cache
def _program() -> str:
    """A digest of the package's sources and of versions: what another program computed is not this one's result."""
    digest = hashlib.sha256(repr([version(package) for package in PACKAGES]).encode())
    root = Path(ocelad.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if not any(path.is_relative_to(root / part) for part in ONLY_SHOWN):
            digest.update(path.read_bytes())
    return digest.hexdigest()
