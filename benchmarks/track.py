"""Measure ``ocelad track``: pairs and megabytes per second, and the times of reading and of learning.

    python benchmarks/track.py

The file has the paper's drifting stream with 25 features; settings are the defaults of RICE (no shrinkage). Reading and
learning are measured separately, as CPU time of all threads. Tracking is measured as wall-clock time, and includes
predictions, history and saving.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from results import save, show
from rich.console import Console
from rich.progress import track
from streams import scenario

from ocelad import MetricTracker
from ocelad._typing import Floats
from ocelad.estimators.file_tracker import CHUNK_SIZE, FileTracker
from ocelad.io import open_comparisons

STREAMS, TURNS = 4, 7


def draw_pairs() -> tuple[Floats, Floats]:
    """Return pairs of points whose differences are those of the paper's stream, and their labels."""
    events = [scenario(seed) for seed in range(STREAMS)]
    U, y = np.concatenate([each.U for each in events]), np.concatenate([each.y for each in events])
    z = np.random.default_rng(0).normal(size=U.shape)
    return np.stack([U + z, z], axis=1), y


PAIRS, Y = draw_pairs()
COUNT, N = PAIRS.shape[0], PAIRS.shape[2]
NAMES = [f"{side}_{j}" for side in "xz" for j in range(N)] + ["similar"]


def write_csv(path: Path) -> None:
    lines = [",".join(NAMES)]
    lines += [
        ",".join(map(repr, [*row, int(label)])) for row, label in zip(PAIRS.reshape(COUNT, -1).tolist(), Y, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")


def write_json_lines(path: Path) -> None:
    rows = zip(PAIRS.tolist(), Y, strict=True)
    path.write_text("".join(json.dumps({"x": x, "z": z, "similar": int(label)}) + "\n" for (x, z), label in rows))


def write_parquet(path: Path) -> None:
    columns = [*PAIRS.reshape(COUNT, -1).T, Y.astype(np.int8)]
    pq.write_table(pa.table(dict(zip(NAMES, columns, strict=True))), path)


FILES: dict[str, Callable[[Path], None]] = {
    "CSV": write_csv,
    "JSON lines": write_json_lines,
    "Parquet": write_parquet,
}
SUFFIXES = {"CSV": ".csv", "JSON lines": ".jsonl", "Parquet": ".parquet"}


def time_reading(path: Path) -> float:
    start = time.process_time()
    with open_comparisons(path, chunk_size=CHUNK_SIZE) as chunks:
        for _chunk in chunks:
            pass
    return time.process_time() - start


def time_learning() -> float:
    tracker = MetricTracker(method="rice")
    start = time.process_time()
    for first in range(0, COUNT, CHUNK_SIZE):
        tracker.test_then_train(PAIRS[first : first + CHUNK_SIZE], Y[first : first + CHUNK_SIZE])
    return time.process_time() - start


def time_tracking(path: Path, output: Path) -> float:
    start = time.perf_counter()
    with open_comparisons(path, chunk_size=CHUNK_SIZE) as chunks:
        for _progress in FileTracker(MetricTracker(method="rice")).follow(chunks, output):
            pass
    return time.perf_counter() - start


def measure(name: str, folder: Path) -> dict[str, Any]:
    path = folder / f"pairs{SUFFIXES[name]}"
    FILES[name](path)
    time_learning(), time_reading(path)  # compiles, and reads the file into the page cache
    turns = [(time_reading(path), time_learning(), time_tracking(path, folder / "tracker")) for _ in range(TURNS)]
    read, learned, tracked = (median(times) / COUNT for times in zip(*turns, strict=True))
    size = path.stat().st_size / 1e6
    return {
        "file": name,
        "MB": size,
        "reading, us": 1e6 * read,
        "learning, us": 1e6 * learned,
        "reading / learning": median(turn[0] / turn[1] for turn in turns),
        "pairs/s": 1 / tracked,
        "MB/s": size / (tracked * COUNT),
    }


def main() -> None:
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(name, Path(folder)) for name in track(FILES, "files", console=console)]
    show(console, f"Tracking {COUNT:,} pairs of {N} features, medians of {TURNS}", rows)
    console.print(f"Written to {save('track', {'pairs': COUNT, 'features': N, 'turns': TURNS}, rows)}")


if __name__ == "__main__":
    main()
