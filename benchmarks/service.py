"""What the service stands: durable answers a second from many clients at once, and how long reads take meanwhile.

    python benchmarks/service.py
    python benchmarks/service.py --seconds 5 --features 25

The real command in a process of its own, on SQLite in a temporary folder, with 10,000 items. A second process holds 32
connections, each of which sends its next answer (or batch of 100) when the last one is durable. This process reads
meanwhile, by one connection, at a steady pace that does not wait for slow answers to catch up. Before that, one request
of each kind is made, so that everything is loaded.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
def server(folder: Path, n_features: int) -> Iterator[tuple[str, int]]:
    """The address of a running service, and the id of its process."""
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
    """A client that sends its next request when the last one is answered; as little work as can be."""

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
        head, ended, body = self._received.partition(b"\r\n\r\n")
        if not ended or len(body) < int(re.search(rb"content-length: (\d+)", head)[1]):  # type: ignore[index]
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
    """Load the service, and print what came of it."""
    start = time.perf_counter()
    loop = asyncio.get_running_loop()
    senders = [
        (await loop.create_connection(lambda n=n: Sender(n, batch, start + seconds), "127.0.0.1", port))[1]
        for n in range(CLIENTS)
    ]
    await asyncio.gather(*(sender.done for sender in senders))
    took = time.perf_counter() - start
    waited = np.concatenate([sender.seconds for sender in senders])
    print(json.dumps({"per_second": batch * len(waited) / took, **quantiles("write", waited)}))


def quantiles(name: str, seconds: Any) -> dict[str, float]:
    middle, late = np.quantile(seconds, [0.5, 0.99])
    return {f"{name} p50 ms": 1000 * float(middle), f"{name} p99 ms": 1000 * float(late)}


def read(http: httpx.Client, loading: subprocess.Popen[str] | None, least: int) -> dict[str, float]:
    """Latencies of reads, one after the other in turn, until the load is over."""
    rng = np.random.default_rng(1)
    reads = {
        "neighbors": lambda: http.get(f"{PROJECT}/neighbors", params={"item": str(rng.integers(N_ITEMS)), "k": 10}),
        "distance": lambda: http.post(f"{PROJECT}/distance", json={"pairs": [{"left": "1", "right": "2"}]}),
        "metric": lambda: http.get(f"{PROJECT}/metric"),
        "next-pair": lambda: http.get(f"{PROJECT}/next-pair"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in reads}
    due = time.perf_counter()
    while len(seconds["next-pair"]) < least or (loading is not None and loading.poll() is None):
        for name, ask in reads.items():
            time.sleep(max(0.0, due - time.perf_counter()))
            # From when it was due: who waits for a slow answer would have asked in the meantime.
            ask().raise_for_status()
            seconds[name].append(time.perf_counter() - due)
            due = max(due + 1.0 / READS_PER_SECOND, time.perf_counter() - 1.0)
    every = np.concatenate(list(seconds.values()))
    rows = {}
    for name, values in {"read": every, **seconds}.items():
        rows |= quantiles(name, values)
    return rows


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a running process, so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def behind(http: httpx.Client) -> int:
    return int(http.get("/v1/ready").json()["backlog"]["items"])


def measured(http: httpx.Client, pid: int, n_features: int, batch: int, seconds: float) -> dict[str, Any]:
    """One row: the load of singles or batches, and reads meanwhile."""
    before = cpu_seconds(pid)
    command = [sys.executable, __file__, "--send", str(http.base_url.port), "--batch", str(batch)]
    loading = subprocess.Popen([*command, "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True)
    assert loading.stdout is not None
    reads = read(http, loading, 10)
    sent = json.loads(loading.stdout.read())
    loading.stdout.close()
    loading.wait()
    lag, start = behind(http), time.perf_counter()
    while behind(http) and time.perf_counter() - start < 120:
        time.sleep(0.05)
    return {
        "n": n_features,
        "at once": batch,
        "answers/s": sent.pop("per_second"),
        **sent,
        **reads,
        "not yet learned": lag,
        "learned after s": time.perf_counter() - start,
        "server CPU s": cpu_seconds(pid) - before,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--features", type=int, nargs="+", default=[25, 784])
    parser.add_argument("--batch", type=int)
    parser.add_argument("--send", type=int, metavar="PORT", help="be the clients of a service at this port")
    options = parser.parse_args()
    if options.send:
        asyncio.run(send(options.send, options.batch, options.seconds))
        return
    rows = []
    for n_features in options.features:
        with (
            tempfile.TemporaryDirectory() as folder,
            server(Path(folder), n_features) as (address, pid),
            httpx.Client(base_url=address, timeout=60.0, trust_env=False) as http,
        ):
            read(http, None, 1)
            http.post(f"{PROJECT}/comparisons", json={"left": "0", "right": "1", "answer": "same"}).raise_for_status()
            while behind(http):
                time.sleep(0.05)
            rows.append({"n": n_features, "at once": 0, "answers/s": 0.0, **read(http, None, 40)})
            for batch in [1, 100] if options.batch is None else [options.batch]:
                rows.append(measured(http, pid, n_features, batch, options.seconds))
    columns = (
        "n",
        "at once",
        "answers/s",
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
