"""Measure the CPU time per row of reading files in every format, and with bad rows.

    python benchmarks/files.py

Rows have two points of 25 features, written with all digits of float64. Times are those of all threads.
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


def draw_rows() -> tuple[list[list[float]], list[int]]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(ROWS, 2 * FEATURES)).tolist(), np.where(rng.random(ROWS) < 0.5, 1, -1).tolist()


def write_csv(path: Path, quote: str = "", bad: int | None = None) -> None:
    lines = [",".join(NAMES)]
    for i, (row, label) in enumerate(zip(*draw_rows(), strict=True)):
        cells = ["bad" if bad and not i % bad else repr(row[0]), *map(repr, row[1:]), f"{quote}{label}{quote}"]
        lines.append(",".join(cells))
    path.write_text("\n".join(lines) + "\n")


def write_gzip(path: Path) -> None:
    write_csv(path)
    path.write_bytes(gzip.compress(path.read_bytes(), 6))


def write_lists(path: Path) -> None:
    records = [
        {"x": row[:FEATURES], "z": row[FEATURES:], "similar": label} for row, label in zip(*draw_rows(), strict=True)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def write_keys(path: Path) -> None:
    records = [dict(zip(NAMES, [*row, label], strict=True)) for row, label in zip(*draw_rows(), strict=True)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def make_table() -> pa.Table:
    numbers, labels = draw_rows()
    return pa.table(dict(zip(NAMES, [*np.array(numbers).T, np.array(labels)], strict=True)))


def write_arrow(path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, make_table().schema) as writer:
        writer.write_table(make_table())


CASES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "CSV": (".csv", write_csv),
    "CSV, labels in quotes": (".csv", lambda path: write_csv(path, '"')),
    "CSV, gzipped": (".csv.gz", write_gzip),
    "CSV, every 1000th row bad": (".csv", lambda path: write_csv(path, bad=1000)),
    "CSV, every 100th row bad": (".csv", lambda path: write_csv(path, bad=100)),
    "CSV, every row bad": (".csv", lambda path: write_csv(path, bad=1)),
    "JSON lines, lists": (".jsonl", write_lists),
    "JSON lines, one key per number": (".jsonl", write_keys),
    "Parquet": (".parquet", lambda path: pq.write_table(make_table(), path)),
    "Arrow": (".arrow", write_arrow),
}


def measure(name: str, folder: Path) -> dict[str, Any]:
    suffix, write = CASES[name]
    path = folder / f"rows{suffix}"
    write(path)
    times = []
    for _ in range(TURNS):
        start = time.process_time()
        with open_comparisons(path, on_error="skip") as stream:
            for _chunk in stream:
                pass
        times.append((time.process_time() - start) / ROWS * 1e6)
    return {"file": name, "us per row": min(times), "MB": path.stat().st_size / 1e6, "skipped": stream.n_skipped}


def main() -> None:
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as folder:
        results = [measure(name, Path(folder)) for name in track(CASES, "files", console=console)]
    show(console, f"Reading {ROWS} rows with two points of {FEATURES} features, CPU time, minimum of {TURNS}", results)
    settings = {"features": FEATURES, "rows": ROWS, "turns": TURNS, "pyarrow": pa.__version__}
    console.print(f"Written to {save('files', settings, results)}")


if __name__ == "__main__":
    main()
