"""A service for tests: in a thread of this process, or as the real command in a process of its own."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import numpy as np

from ocelad.service.items import fit_scaling
from ocelad.service.itemset import ItemSet
from ocelad.service.learning import precompile_learning
from ocelad.service.log_setup import configure_logging
from ocelad.service.server import Server as Uvicorn
from ocelad.service.server import bind_socket
from ocelad.service.service import Service
from ocelad.service.settings import Settings

_ADDRESS = re.compile(r"ocelad is at (http://\S+?)/(\?\S*)?\s")


def some_items(m: int = 12, n: int = 3, seed: int = 0) -> ItemSet:
    """Return items with features f0, f1, ... and a field "colour"."""
    features = np.random.default_rng(seed).normal(size=(m, n))
    return ItemSet(
        ids=tuple(f"item {i}" for i in range(m)),
        features=features,
        feature_names=tuple(f"f{j}" for j in range(n)),
        scaling=fit_scaling(features, "features"),
        fields={"colour": ["red" if i % 2 else "blue" for i in range(m)]},
    )


@contextmanager
def served(folder: Path, *items: ItemSet, **settings: Any) -> Iterator[tuple[httpx.Client, Service]]:
    """Yield a client and its service in a thread; each set of items is a project: "some", "some1", ..."""
    handlers, level = logging.root.handlers[:], logging.root.level
    configure_logging("json")
    listening, bound_settings = bind_socket(Settings(folder=folder, port=0, **settings))
    with listening:
        precompile_learning([3])  # as the command does: no request waits until kernels are compiled
        service = Service.open(bound_settings)
        for i, each in enumerate(items):
            name = f"some{i}" if i else "some"
            if name not in service:
                service.create(name, "Some items", each)
        started = Event()
        server = Uvicorn(service, started.set)
        thread = Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            assert started.wait(20)
            with httpx.Client(base_url=bound_settings.address, timeout=20) as client:
                yield client, service
        finally:
            server.stop()
            thread.join(20)
            logging.root.handlers[:], logging.root.level = handlers, level


class Server:
    """The real command in a process of its own."""

    def __init__(self, folder: Path, *arguments: str, env: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "ocelad", "serve", "--data-folder", str(folder), "--port", "0", *arguments]
        self.log = folder.with_name(folder.name + ".log")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OCELAD_SERVE_RATE": "1000000", **(env or {})},
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        match = _ADDRESS.match(line)
        if match is None:
            self.process.wait(10)
            raise AssertionError(f"the server did not start: {line!r}; {self.log.read_text()[-2000:]}")
        self.url = match[1]

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.process.kill()
        self._wait()

    def stop(self) -> int:
        """Stop the process with SIGTERM and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self._wait()

    def _wait(self) -> int:
        code = self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code
