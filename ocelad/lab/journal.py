"""A journal of finished results, so that an interrupted run loses little and no result is computed twice.

>>> journal = Journal()
>>> key = result_key("square", 3)
>>> key in journal
False
>>> journal.add({key: {"square": 9}})
>>> journal[key]
{'square': 9}
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
# Sources that only read, summarize, print or draw. The runner adds the digest of an experiment's own module.
EXCLUDED = (
    "cli",
    "lab/experiments",
    "lab/figures",
    "io",
    "evaluation/picture_style.py",
    "evaluation/plots.py",
    "lab/statistics.py",
    "lab/compare/comparison_plot.py",
    "lab/compare/suite",
    "lab/compare/suites.py",
    "lab/compare/few_answers/few_answers_plot.py",
    "lab/compare/few_answers/few_answers_results.py",
    "lab/compare/few_answers/no_harm.py",
    "lab/compare/comparison.py",
)
# Dependencies whose version can change a result.
PACKAGES = ("numba", "numpy", "scikit-learn", "scipy")
# The first bytes of every line.
LINE_PREFIX = b'{"key": "'


class Journal:
    """Results by key, in memory and, if a path is given, in a file of JSON lines.

    Parameters
    ----------
    path : path or None
        Created together with its folder if missing. No other journal can open the file while this one is open.
    restart : bool
        Whether to ignore the results in the file. They stay in the file until the first new result is added.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, restart: bool = False) -> None:
        self._results: dict[str, dict[str, Any]] = {}
        self._file: IO[bytes] | None = None
        self._restart = restart
        if path is not None:
            path = Path(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "a+b")  # noqa: SIM115  close() closes it
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
        """Close the file and release its lock."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __contains__(self, key: str) -> bool:
        return key in self._results

    def __getitem__(self, key: str) -> dict[str, Any]:
        return self._results[key]

    def add(self, results: Mapping[str, dict[str, Any]], *, persist: bool = True) -> None:
        """Add JSON-serializable results; with ``persist`` they are on disk when this returns, if there is a file."""
        self._results |= results
        if self._file is not None and persist and results:
            if self._restart:
                self._file.truncate(0)
                self._restart = False
            lines = [json.dumps({"key": key, **result}, allow_nan=False) + "\n" for key, result in results.items()]
            self._file.write("".join(lines).encode())
            self._file.flush()
            os.fsync(self._file.fileno())

    def _read(self, file: IO[bytes], path: Path) -> None:
        """Read all complete and valid lines, and cut off an incomplete last line."""
        file.seek(0)
        content = file.read()
        complete = content[: content.rfind(b"\n") + 1]
        lines = complete.splitlines()
        results = [result for line in lines if (result := _parse_line(line)) is not None]
        if not results and (lines or not LINE_PREFIX.startswith(content[: len(LINE_PREFIX)])):
            raise ValueError(f"{path} is not a journal of trials, it begins with {content[:60]!r}; name another folder")
        if not self._restart:
            self._results = {result.pop("key"): result for result in results}
            file.truncate(len(complete))


def result_key(*request: Any) -> str:
    """Return the key of a result: a digest of the request and of ``source_digest()``.

    A result of other sources, or of other versions of the dependencies, has another key.

    >>> result_key("square", 3) == result_key("square", 3), result_key("square", 3) == result_key("square", 4)
    (True, False)
    """
    return hashlib.sha256(repr([source_digest(), *request]).encode()).hexdigest()[:32]


@cache
def source_digest() -> str:
    """Return a digest of the package's sources, except ``EXCLUDED``, and of the versions of its dependencies."""
    digest = hashlib.sha256(repr([version(package) for package in PACKAGES]).encode())
    for path in sorted(ROOT.rglob("*.py")):
        if not any(path.is_relative_to(ROOT / part) for part in EXCLUDED):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _parse_line(line: bytes) -> dict[str, Any] | None:
    """Return the content of a line, or None if it is not a valid entry."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("key"), str) else None


def _lock(file: IO[bytes], path: Path) -> None:
    """Raise ValueError if another process has the file open, on systems with ``fcntl``."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(f"another run is writing to {path}; wait for it, or name another folder") from None
