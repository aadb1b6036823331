"""Reading files: microseconds per row in every format, and what bad rows cost.

    python benchmarks/files.py

Rows of 25 features on each side, written with as many digits as float64 has. The time is that of all threads.
"""

from __future__ import annotations

import gzip
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from results import save, show
from rich.console import Console
from rich.progress import track

from ocelad.io import open_comparisons

FEATURES, ROWS, TURNS = 25, 20_000, 5
NAMES = [*(f"x_{j}" for j in range(FEATURES)), *(f"z_{j}" for j in range(FEATURES)), "similar"]


def rows() -> tuple[list[list[float]], list[int]]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(ROWS, 2 * FEATURES)).tolist(), np.where(rng.random(ROWS) < 0.5, 1, -1).tolist()


def delimited(path: Path, quote: str = "", bad: int | None = None) -> None:
    lines = [",".join(NAMES)]
    for i, (row, label) in enumerate(zip(*rows(), strict=True)):
        cells = ["bad" if bad and not i % bad else repr(row[0]), *map(repr, row[1:]), f"{quote}{label}{quote}"]
        lines.append(",".join(cells))
    path.write_text("\n".join(lines) + "\n")


def zipped(path: Path) -> None:
    delimited(path)
    path.write_bytes(gzip.compress(path.read_bytes(), 6))


def lists(path: Path) -> None:
    records = [{"x": row[:FEATURES], "z": row[FEATURES:], "similar": label} for row, label in zip(*rows(), strict=True)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def flat(path: Path) -> None:
    records = [dict(zip(NAMES, [*row, label], strict=True)) for row, label in zip(*rows(), strict=True)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def table() -> pa.Table:
    numbers, labels = rows()
    return pa.table(dict(zip(NAMES, [*np.array(numbers).T, np.array(labels)], strict=True)))


def ipc(path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table().schema) as writer:
        writer.write_table(table())


CASES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "CSV": (".csv", delimited),
    "CSV, labels in quotes": (".csv", lambda path: delimited(path, '"')),
    "CSV, gzipped": (".csv.gz", zipped),
    "CSV, every 1000th row bad": (".csv", lambda path: delimited(path, bad=1000)),
    "CSV, every 100th row bad": (".csv", lambda path: delimited(path, bad=100)),
    "CSV, every row bad": (".csv", lambda path: delimited(path, bad=1)),
    "JSON lines, lists": (".jsonl", lists),
    "JSON lines, one key per number": (".jsonl", flat),
    "Parquet": (".parquet", lambda path: pq.write_table(table(), path)),
    "Arrow": (".arrow", ipc),
}


def measure(name: str, folder: Path) -> dict[str, Any]:
    suffix, write = CASES[name]
    path = folder / f"rows{suffix}"
    write(path)
    times = []
    for _ in range(TURNS):
        begin = time.process_time()
        with open_comparisons(path, on_error="skip") as stream:
            for _chunk in stream:
                pass
        times.append((time.process_time() - begin) / ROWS * 1e6)
    return {"file": name, "us per row": min(times), "MB": path.stat().st_size / 1e6, "skipped": stream.n_skipped}


def main() -> None:
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as folder:
        found = [measure(name, Path(folder)) for name in track(CASES, "files", console=console)]
    show(console, f"Reading {ROWS} rows of {FEATURES} features on each side, CPU time, the best of {TURNS}", found)
    settings = {"features": FEATURES, "rows": ROWS, "turns": TURNS, "pyarrow": pa.__version__}
    console.print(f"Written to {save('files', settings, found)}")


if __name__ == "__main__":
    main()
