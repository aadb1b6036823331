"""Servers that start fast: ``ocelad serve``, forked from a process that has imported everything.

Run as a program, it reads one list of arguments per line and starts a server for each. It prints "pid ...", then the
output of the server, and "ended ..." when the server has ended. A kill ends the whole server; only the start of the
interpreter and the imports are saved.
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
from threading import Timer

# The longest time in which a server has to obey a signal.
SECONDS_TO_END = 60
# Entries between two snapshots: few, so that some kills interrupt the writing of a snapshot.
SNAPSHOT_ENTRIES = 40


class Forked:
    """The process that forks, and its present server."""

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
        """Wait until the server has started and return its URL."""
        return self._line("ocelad is at ").split("/?")[0].split()[0].rstrip("/")

    def end(self, signal_: signal.Signals) -> None:
        """Send a signal to the server and wait until it has ended by it."""
        os.kill(self._pid, signal_)
        last_resort = Timer(SECONDS_TO_END, os.kill, (self._pid, signal.SIGKILL))
        last_resort.start()
        while not (line := self._process.stdout.readline()).startswith("ended"):
            pass
        last_resort.cancel()
        status = int(line.removeprefix("ended "))
        assert signal_ == signal.SIGKILL or status != signal.SIGKILL, f"the server ignored {signal_.name}"

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # the server runs only if a test failed
            os.kill(self._pid, signal.SIGKILL)
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def _line(self, beginning: str) -> str:
        line = self._process.stdout.readline()
        assert line.startswith(beginning), f"the server printed {line!r}; see its log"
        return line.removeprefix(beginning)


def _warm_up() -> None:
    """Run a server once, so that kernels, schemas and statements are in the caches; its threads have ended after it."""
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
    from ocelad.service.learning import learner_thread

    _warm_up()
    learner_thread._SNAPSHOT_ENTRIES = SNAPSHOT_ENTRIES
    gc.collect()
    gc.freeze()  # or the collector of each child would touch, and thus copy, all pages
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
