"""Servers that start at once: ``ocelad serve``, forked from a process that has done its imports.

Run as a program it reads a list of arguments per line, and tells of the server by lines: "pid ...", whatever the server
prints, and "ended ..." when it has. What is killed is the whole of a server; only the interpreter's start is spared.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

# A snapshot is written after so many entries, so that kills come in the middle of one, too.
SNAPSHOT_ENTRIES = 40


class Forked:
    """The process that forks, and its server; one at a time."""

    def __init__(self, log: Path) -> None:
        with open(log, "ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )

    def start(self, arguments: list[str]) -> None:
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        self._pid = int(self._line("pid "))

    def address(self) -> str:
        """Where the server is; waits until it is there."""
        return self._line("ocelad is at ").split("/?")[0].split()[0].rstrip("/")

    def end(self, how: signal.Signals) -> None:
        os.kill(self._pid, how)
        while not self._process.stdout.readline().startswith("ended"):
            pass

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended, unless a test failed
            os.kill(self._pid, signal.SIGKILL)
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def _line(self, beginning: str) -> str:
        line = self._process.stdout.readline()
        assert line.startswith(beginning), f"the server said {line!r}, and more in its log"
        return line.removeprefix(beginning)


def _rehearse() -> None:
    """Do once what a server does at first and keeps: kernels, schemas, statements. All threads have ended after it."""
    from serving import served, some_items

    with TemporaryDirectory() as folder, served(Path(folder) / "data", some_items()) as (client, service):
        for answer in ("same", "different"):
            new = {"left": "item 0", "right": "item 1", "answer": answer}
            client.post("/v1/projects/some/comparisons", json=new).raise_for_status()
        assert service.project("some").learner.wait(2, 600)
        client.post("/v1/projects/some/undo", json={"seq": 2}).raise_for_status()
        for path in ("history?after=0&limit=1000", "metric?matrix=true"):
            client.get(f"/v1/projects/some/{path}").raise_for_status()


def main() -> None:
    import httptools  # noqa: F401
    import psycopg  # noqa: F401
    import uvicorn.loops.uvloop  # noqa: F401
    import uvloop  # noqa: F401

    import ocelad.cli
    from ocelad.service.learning import learner

    _rehearse()
    learner._SNAPSHOT_ENTRIES = SNAPSHOT_ENTRIES
    gc.collect()
    gc.freeze()  # or each server looks through all of it, and has all of it copied
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            print(f"pid {os.getpid()}", flush=True)
            sys.argv = ["ocelad", *json.loads(line)]
            try:
                ocelad.cli.main()
            finally:
                sys.stderr.flush()
                os._exit(0)
        print(f"ended {os.waitpid(pid, 0)[1]}", flush=True)


if __name__ == "__main__":
    main()
