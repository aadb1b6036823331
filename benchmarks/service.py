"""Measure the service under load: durable answers per second from many clients, and the latency of reads meanwhile.

    python benchmarks/service.py
    python benchmarks/service.py --seconds 5 --features 25

The service runs in a separate process, with SQLite in a temporary folder and 10,000 items. A second process holds 32
connections, each of which sends its next answer (or batch of 100) when the last one is durable. Meanwhile this process
reads by one connection at a constant rate, which slow responses do not reduce. One request of each kind is sent
before, so that everything is loaded.

Disks differ. So the rate is also given as a ratio to the simplest program that stores answers durably: a loop of SQLite
inserts in the same folder, each committed and flushed to the disk. It runs before and after each load, and the mean
counts. The service exceeds it, because waiting answers share a flush.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from results import save, show
from rich.console import Console

N_ITEMS, CLIENTS = 10_000, 32
READS_PER_SECOND = 40
PROJECT = "/v1/projects/items"


@contextmanager
def run_server(folder: Path, n_features: int) -> Iterator[tuple[str, int]]:
    """Run a service; yield its address and the id of its process."""
    rng = np.random.default_rng(0)
    columns = {f"f{j}": rng.normal(size=N_ITEMS) for j in range(n_features)}
    pq.write_table(pa.table({"id": [str(i) for i in range(N_ITEMS)], **columns}), folder / "items.parquet")
    command = [sys.executable, "-m", "ocelad", "serve", folder / "items.parquet", "--data-folder", folder / "data"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*map(str, command), "--port", "0", "--log-level", "warning"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    try:
        address = re.search(r"http://[^/\s]+", process.stdout.readline())
        assert address is not None, "the service did not start"
        yield address[0], process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()


class Sender(asyncio.Protocol):
    """A client that sends its next request when the last one is answered, with little CPU time of its own."""

    def __init__(self, number: int, batch: int, until: float) -> None:
        self.seconds: list[float] = []
        self.done = asyncio.get_running_loop().create_future()
        self._rng, self._number, self._batch, self._until = np.random.default_rng(number), number, batch, until
        self._received = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator or len(body) < int(re.search(rb"content-length: (\d+)", head)[1]):  # type: ignore[index]
            return
        if not head.startswith(b"HTTP/1.1 201"):
            self.done.set_exception(RuntimeError(self._received.decode()))
            return
        self._received = b""
        self.seconds.append(time.perf_counter() - self._sent)
        if self._sent > self._until:
            self.done.set_result(None)
            self._transport.close()
        else:
            self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError("the service closed the connection"))

    def _send(self) -> None:
        left = self._rng.integers(N_ITEMS - 1, size=self._batch).tolist()
        rows = ",".join(
            f'{{"left":"{i}","right":"{i + 1}","answer":"{"same" if i % 2 else "different"}"}}' for i in left
        )
        body = rows if self._batch == 1 else f'{{"comparisons":[{rows}]}}'
        self._sent = time.perf_counter()
        head = (
            f"POST {PROJECT}/comparisons HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Idempotency-Key: {self._number}-{self._batch}-{self._sent}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._transport.write((head + body).encode())


async def send(port: int, batch: int, seconds: float) -> None:
    """Send answers for some seconds, and print the rate and the latencies as JSON."""
    start = time.perf_counter()
    loop = asyncio.get_running_loop()
    senders = [
        (await loop.create_connection(lambda n=n: Sender(n, batch, start + seconds), "127.0.0.1", port))[1]
        for n in range(CLIENTS)
    ]
    await asyncio.gather(*(sender.done for sender in senders))
    duration = time.perf_counter() - start
    latencies = np.concatenate([sender.seconds for sender in senders])
    print(json.dumps({"per_second": batch * len(latencies) / duration, **quantiles("write", latencies)}))


def quantiles(name: str, seconds: Any) -> dict[str, float]:
    p50, p99 = np.quantile(seconds, [0.5, 0.99])
    return {f"{name} p50 ms": 1000 * float(p50), f"{name} p99 ms": 1000 * float(p99)}


def measure_reads(http: httpx.Client, load: subprocess.Popen[str] | None, min_reads: int) -> dict[str, float]:
    """Measure the latencies of reads of each kind in turn, until the load has ended."""
    rng = np.random.default_rng(1)
    reads = {
        "neighbors": lambda: http.get(f"{PROJECT}/neighbors", params={"item": str(rng.integers(N_ITEMS)), "k": 10}),
        "distance": lambda: http.post(f"{PROJECT}/distance", json={"pairs": [{"left": "1", "right": "2"}]}),
        "metric": lambda: http.get(f"{PROJECT}/metric"),
        "next-pair": lambda: http.get(f"{PROJECT}/next-pair"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in reads}
    due = time.perf_counter()
    while len(seconds["next-pair"]) < min_reads or (load is not None and load.poll() is None):
        for name, request in reads.items():
            time.sleep(max(0.0, due - time.perf_counter()))
            # The latency counts from when the request was due, so that waiting for a slow response is included.
            request().raise_for_status()
            seconds[name].append(time.perf_counter() - due)
            due = max(due + 1.0 / READS_PER_SECOND, time.perf_counter() - 1.0)
    total = np.concatenate(list(seconds.values()))
    result = {}
    for name, values in {"read": total, **seconds}.items():
        result |= quantiles(name, values)
    return result


def flushed_inserts_per_second(folder: Path, seconds: float = 2.0) -> float:
    """Return the rate of a loop that inserts one answer into SQLite and flushes it to the disk."""
    with closing(sqlite3.connect(folder / "plain.sqlite3", isolation_level=None)) as database:
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            database.execute(f"PRAGMA {pragma}").close()
        database.execute("CREATE TABLE IF NOT EXISTS answers (seq INTEGER PRIMARY KEY, a TEXT, b TEXT, same INTEGER)")
        n, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            database.execute("INSERT INTO answers (a, b, same) VALUES ('17', '18', 1)")
            n += 1
    return n / elapsed


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that a running process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def backlog(http: httpx.Client) -> int:
    """Return the number of stored answers that have not been learned from yet."""
    return int(http.get("/v1/ready").json()["backlog"]["items"])


def measure_load(
    http: httpx.Client, pid: int, folder: Path, n_features: int, batch: int, seconds: float
) -> dict[str, Any]:
    """Return a row: the rate of single answers or batches, and the latencies of reads meanwhile."""
    plain = [flushed_inserts_per_second(folder)]
    before = cpu_seconds(pid)
    command = [sys.executable, __file__, "--send", str(http.base_url.port), "--batch", str(batch)]
    load = subprocess.Popen([*command, "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True)
    assert load.stdout is not None
    reads = measure_reads(http, load, 10)
    sent = json.loads(load.stdout.read())
    load.stdout.close()
    load.wait()
    lag, start = backlog(http), time.perf_counter()
    while backlog(http) and time.perf_counter() - start < 120:
        time.sleep(0.05)
    learned_after = time.perf_counter() - start
    plain.append(flushed_inserts_per_second(folder))
    rate, plain_rate = sent.pop("per_second"), sum(plain) / len(plain)
    return {
        "n": n_features,
        "at once": batch,
        "answers/s": rate,
        "plain inserts/s": plain_rate,
        "ratio": rate / plain_rate,
        **sent,
        **reads,
        "not yet learned": lag,
        "learned after s": learned_after,
        "server CPU s": cpu_seconds(pid) - before,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--features", type=int, nargs="+", default=[25, 384])
    parser.add_argument("--batch", type=int)
    parser.add_argument("--send", type=int, metavar="PORT", help="run only the clients, of the service at this port")
    options = parser.parse_args()
    if options.send:
        asyncio.run(send(options.send, options.batch, options.seconds))
        return
    rows = []
    for n_features in options.features:
        with (
            tempfile.TemporaryDirectory() as folder,
            run_server(Path(folder), n_features) as (address, pid),
            httpx.Client(base_url=address, timeout=60.0, trust_env=False) as http,
        ):
            measure_reads(http, None, 1)
            http.post(f"{PROJECT}/comparisons", json={"left": "0", "right": "1", "answer": "same"}).raise_for_status()
            while backlog(http):
                time.sleep(0.05)
            rows.append({"n": n_features, "at once": 0, "answers/s": 0.0, **measure_reads(http, None, 40)})
            for batch in [1, 100] if options.batch is None else [options.batch]:
                rows.append(measure_load(http, pid, Path(folder), n_features, batch, options.seconds))
    columns = (
        "n",
        "at once",
        "answers/s",
        "plain inserts/s",
        "ratio",
        "write p50 ms",
        "write p99 ms",
        "read p50 ms",
        "read p99 ms",
        "not yet learned",
    )
    show(
        Console(width=130),
        "The service under load",
        [{name: row.get(name, "") for name in columns} for row in rows[::-1]],
    )
    settings = {"items": N_ITEMS, "clients": CLIENTS, "reads per second": READS_PER_SECOND, "seconds": options.seconds}
    print(save("service", settings, rows))


if __name__ == "__main__":
    main()
