"""Finished work, kept in a file as it comes, so that nothing is computed twice and an interrupt loses little.

>>> journal = Journal()
>>> one = key("square", 3)
>>> one in journal
False
>>> journal.keep({one: {"is": 9}})
>>> journal[one]
{'is': 9}
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Self

ROOT = Path(__file__).parent.parent
# What reads, sums up, prints or draws, and changes no result; and experiments, each of which is asked for by itself.
NOT_IN_ALL = (
    "cli",
    "lab/experiments",
    "lab/figures",
    "io",
    "evaluation/plots.py",
    "lab/compare/plot.py",
    "lab/compare/suite",
    "lab/compare/summary.py",
)
# What is computed with beside the package's own sources.
PACKAGES = ("numba", "numpy", "scikit-learn", "scipy")
# How a line begins.
BEGINNING = b'{"key": "'


class Journal:
    """Results by their keys: in memory, and in a file of JSON lines where a path is given.

    Parameters
    ----------
    path : path or None
        Made, with its folder, if it is not there. While it is open no other journal may have it.
    restart : bool
        Whether what is in the file is forgotten. It stays there until there is something new to keep.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, restart: bool = False) -> None:
        self._results: dict[str, dict[str, Any]] = {}
        self._file: IO[bytes] | None = None
        self._forgets = restart
        if path is not None:
            path = Path(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "a+b")  # noqa: SIM115  it is held until close()
            try:
                _lock(self._file, path)
                self._read(self._file, path)
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

    def __contains__(self, key: str) -> bool:
        return key in self._results

    def __getitem__(self, key: str) -> dict[str, Any]:
        return self._results[key]

    def keep(self, results: Mapping[str, dict[str, Any]], *, in_file: bool = True) -> None:
        """Add results, which JSON can hold; when this returns they are on the disk, if there is a file for them."""
        self._results |= results
        if self._file is not None and in_file and results:
            if self._forgets:
                self._file.truncate(0)
                self._forgets = False
            lines = [json.dumps({"key": key, **result}, allow_nan=False) + "\n" for key, result in results.items()]
            self._file.write("".join(lines).encode())
            self._file.flush()
            os.fsync(self._file.fileno())

    def _read(self, file: IO[bytes], path: Path) -> None:
        """Take what whole lines hold; damaged ones among them, and a last one that was being written, are no loss."""
        file.seek(0)
        content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.splitlines()
        kept = [result for line in lines if (result := _parsed(line)) is not None]
        if not kept and (lines or not BEGINNING.startswith(content[: len(BEGINNING)])):
            raise ValueError(f"{path} is no journal of trials, it begins with {content[:60]!r}; name another folder")
        if not self._forgets:
            self._results = {result.pop("key"): result for result in kept}
            file.truncate(len(whole))


def key(*metadata: Any) -> str:
    """What a result is found by: a digest of what is asked for, and of the program that would answer.

    What another version of the package, or of what it stands on, has computed is not this one's result.

    >>> key("square", 3) == key("square", 3), key("square", 3) == key("square", 4)
    (True, False)
    """
    return hashlib.sha256(repr([program(), *metadata]).encode()).hexdigest()[:32]


@cache
def program() -> str:
    """A digest of the package's sources, less what changes no result, and of the versions of what it stands on."""
    digest = hashlib.sha256(repr([version(package) for package in PACKAGES]).encode())
    for path in sorted(ROOT.rglob("*.py")):
        if not any(path.is_relative_to(ROOT / part) for part in NOT_IN_ALL):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _parsed(line: bytes) -> dict[str, Any] | None:
    """What a line of a journal holds, or None where it is none."""
    try:
        kept = json.loads(line)
    except ValueError:
        return None
    return kept if isinstance(kept, dict) and isinstance(kept.get("key"), str) else None


def _lock(file: IO[bytes], path: Path) -> None:
    """Refuse a file that another program has open, where the system can tell."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(f"another run is writing to {path}; wait for it, or name another folder") from None
