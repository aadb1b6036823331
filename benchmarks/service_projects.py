"""Measure a service with many projects: start, memory, and the first answer in a project that is not in memory.

    python benchmarks/service_projects.py
    python benchmarks/service_projects.py --projects 100 --features 25

One project is made through the store and learned by a service. All others are copies of its rows and of its snapshot,
written directly to the database, as if each had been made and learned like it. Then a service is started in a separate
process. The start ends when ``/v1/ready`` answers 200. An answer is sent to every project, one after the other, then
each is asked for its next pair: all of them are loaded twice and leave memory again. Memory is the resident set of the
process, the largest value of the whole run. The last rows are of projects without a snapshot.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from results import save, show
from rich.console import Console

from ocelad.service.entries import NewEntry
from ocelad.service.items import fit_scaling
from ocelad.service.itemset import ItemSet
from ocelad.service.service import Service
from ocelad.service.settings import Settings

# Projects whose snapshots are removed.
N_UNLEARNED = 20


def make_first(folder: Path, n_items: int, n_features: int, n_answers: int) -> None:
    """Make the first project, and learn from its answers."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(n_items, n_features))
    ids, names = tuple(f"item {i}" for i in range(n_items)), tuple(f"f{j}" for j in range(n_features))
    service = Service.open(Settings(folder=folder, port=0))
    try:
        project = service.create("p0", "Project 0", ItemSet(ids, features, names, fit_scaling(features, "features")))
        pairs = [sorted(map(int, rng.choice(n_items, 2, replace=False))) for _ in range(n_answers)]
        same = np.abs(features[[a for a, _ in pairs], 0] - features[[b for _, b in pairs], 0]) < 0.7
        answers = [
            NewEntry(a, b, "same" if is_same else "different") for (a, b), is_same in zip(pairs, same, strict=True)
        ]
        service.store.append("p0", answers, "anna").result()
        assert project.learner.wait(n_answers, 600)
    finally:
        service.close()


def copy_projects(folder: Path, n_projects: int) -> None:
    """Copy the first project, its rows and its snapshot."""
    with closing(sqlite3.connect(folder / "ocelad.sqlite3")) as connection, connection:
        columns = {
            table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            for table in ("projects", "items", "entries", "people")
        }
        (number,) = connection.execute("SELECT number FROM projects WHERE id = 'p0'").fetchone()
        for i in range(1, n_projects):
            new = {"number": str(number + i), "id": f"'p{i}'", "title": f"'Project {i}'", "project": str(number + i)}
            for table, names in columns.items():
                values = ", ".join(
                    name if table != "projects" and name == "id" else new.get(name, name) for name in names
                )
                key = "number" if table == "projects" else "project"
                connection.execute(
                    f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM {table} WHERE {key} = ?", (number,)
                )
    snapshots = folder / "snapshots"
    for i in range(1, n_projects):
        shutil.copy(snapshots / "p0.tracker", snapshots / f"p{i}.tracker")


class Memory:
    """The resident set of a process, in megabytes."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def read(self, name: str) -> float:
        """Return the present value (VmRSS) or the largest one (VmHWM)."""
        status = Path(f"/proc/{self._pid}/status").read_text()
        found = re.search(rf"{name}:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024


@contextmanager
def run_server(folder: Path) -> Iterator[tuple[httpx.Client, Memory, float]]:
    """Run a service; yield a client, its memory, and the seconds until it was ready."""
    command = [sys.executable, "-m", "ocelad", "serve", "--data-folder", str(folder), "--port", "0"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OCELAD_SERVE_RATE": "1000000"}
    begin = time.perf_counter()
    process = subprocess.Popen([*command, "--log-level", "warning"], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        address = re.search(r"http://[^/\s]+", process.stdout.readline())
        assert address is not None, "the service did not start"
        with httpx.Client(base_url=address[0], timeout=60) as client:
            while client.get("/v1/ready").status_code != 200:
                time.sleep(0.01)
            yield client, Memory(process.pid), time.perf_counter() - begin
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)
        process.stdout.close()


def answer(client: httpx.Client, i: int) -> None:
    """Send one answer to a project."""
    body = {"left": "item 1", "right": "item 2", "answer": "same"}
    assert client.post(f"/v1/projects/p{i}/comparisons", json=body).status_code == 201


def ask(client: httpx.Client, i: int) -> None:
    """Ask a project for its next pair."""
    assert client.get(f"/v1/projects/p{i}/next-pair").status_code == 200


def measure(name: str, request: Callable[[int], None], projects: range, memory: Memory) -> dict[str, Any]:
    """Send a request to each project; return the durations in milliseconds and the memory after them."""
    seconds = []
    for i in projects:
        begin = time.perf_counter()
        request(i)
        seconds.append(time.perf_counter() - begin)
    ms = 1000 * np.array(seconds)
    return {
        "what": name,
        "projects": len(projects),
        "median, ms": float(np.median(ms)),
        "99 %, ms": float(np.quantile(ms, 0.99)),
        "largest, ms": float(ms.max()),
        "memory after, MB": memory.read("VmRSS"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--projects", type=int, default=1000)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--features", type=int, default=25)
    parser.add_argument("--answers", type=int, default=1000)
    parser.add_argument("--touch", type=int, help="send requests to this many projects only, evenly spread")
    options = parser.parse_args()
    console, n = Console(), options.projects
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "data")
        make_first(folder, options.items, options.features, options.answers)
        copy_projects(folder, n)
        for i in range(n - N_UNLEARNED, n):
            (folder / "snapshots" / f"p{i}.tracker").unlink()
        unlearned = range(n - N_UNLEARNED, n)
        learned = range(0, n - N_UNLEARNED, max(1, (n - N_UNLEARNED) // (options.touch or n)))
        with run_server(folder) as (client, memory, seconds):
            at_start = memory.read("VmRSS")
            rows = [
                measure("first answer, cold project", lambda i: answer(client, i), learned, memory),
                measure("next pair, cold project", lambda i: ask(client, i), learned, memory),
                measure("first answer, without a snapshot", lambda i: answer(client, i), unlearned, memory),
            ]
            begin = time.perf_counter()
            listed, after = 0, 0
            while after is not None:
                page = client.get("/v1/projects", params={"after": after}).json()
                listed, after = listed + len(page["projects"]), page["next"]
            assert listed == n
            list_ms = 1000 * (time.perf_counter() - begin)
            largest = memory.read("VmHWM")
    show(console, f"{n:,} projects of {options.items:,} items and {options.answers:,} answers", rows)
    console.print(
        f"ready after {seconds:.1f} s; memory {at_start:.0f} MB after the start, at most {largest:.0f} MB; "
        f"all projects listed in {list_ms:.0f} ms"
    )
    settings = {
        **vars(options),
        "ready after, s": seconds,
        "memory after the start, MB": at_start,
        "largest memory, MB": largest,
        "all projects listed, ms": list_ms,
    }
    console.print(f"saved {save('service_projects', settings, rows)}")


if __name__ == "__main__":
    main()
