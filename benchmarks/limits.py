"""Compare the time per pair with the limits of the machine's arithmetic and memory.

    python benchmarks/limits.py

The arithmetic limit counts the operations that the algorithm needs, given the ranks and the number of learners that a
pair updates: multiplications and additions at the speed of a large matrix product, divisions at the speed of dividing
arrays in the cache. The memory limit is the time to read all learners' directions, at the speed of reading as many
bytes repeatedly. Speeds are measured here. Sorting, deflation, bookkeeping, weights and calls are not counted, and
hence part of the ratio.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import numpy as np
from engines import SCALES, WARM_UP, microseconds
from results import save, show
from rich.console import Console
from rich.progress import track
from streams import NUCLEAR, blobs
from threadpoolctl import threadpool_limits

from ocelad import Rice, track_metric
from ocelad.engines.blocked_bank import BlockedBank
from ocelad.engines.choose import choose_engine

ROOT_STEPS = 4  # approximate number of evaluations of the secular equation per root


def per_second(call: Any, amount: float) -> float:
    """Return the amount per second, given the amount of one call."""
    times = []
    for _ in range(9):
        start = time.process_time()
        for _ in range(20):
            call()
        times.append((time.process_time() - start) / 20)
    return amount / median(times)


def measure_peaks() -> dict[str, float]:
    """Measure the machine's speed of arithmetic."""
    A = np.random.default_rng(0).normal(size=(512, 512))
    x, y = np.ones(1024), np.full(1024, 3.0)
    out, product = np.empty(1024), np.empty((512, 512))

    def divide() -> None:
        for _ in range(1000):
            np.divide(x, y, out=out)

    return {
        "multiplications and additions per second": per_second(lambda: np.matmul(A, A, out=product), 2 * 512**3),
        "divisions per second": per_second(divide, 1024 * 1000),
    }


def read_speed(n_bytes: float) -> float:
    """Return the bytes per second of reading this number of bytes repeatedly."""
    x = np.ones(max(int(n_bytes // 8), 64))
    repeats = max(1, int(4e6 // len(x)))

    def read() -> None:
        for _ in range(repeats):
            x.dot(x)

    return per_second(read, 8 * len(x) * repeats)


def count_operations(engine: str, n: int, ranks: Any, moved: float) -> tuple[float, float]:
    """Return the number of multiplications and additions, and of divisions, that a pair needs."""
    total, squares = float(np.sum(ranks)), float(np.sum(np.square(ranks)))
    r = float(np.mean(ranks))
    m = r + 1
    direction_length, rotation_length = float(n), float(n)
    flops = 2 * total * n + 4 * total
    if engine == "blocked":
        B = BlockedBank.block
        flops += n * B + 2 * n * total + 2 * n * squares / B + 2 * total * (2 * r + B / 2)
        direction_length, rotation_length = 0.0, r + B / 2
    flops += moved * (2 * r * m * rotation_length + direction_length + 2 * r * r + m * m * (8 * ROOT_STEPS + 4 + 3))
    return flops, moved * m * m * (ROOT_STEPS + 2)


def measure(n: int, peak: dict[str, float]) -> dict[str, Any]:
    engine = choose_engine(n, Rice(shrinkage=0.5))
    n_pairs = 2000 if n <= 300 else 500
    events = blobs(n, WARM_UP + 6 * n_pairs)
    tracker = track_metric(n, engine=engine, n_scales=SCALES, **NUCLEAR)
    tracker.replay(events[:WARM_UP])
    times, ranks, moved = [], [], []
    for turn in range(5):
        part = events[WARM_UP + turn * n_pairs : WARM_UP + (turn + 1) * n_pairs]
        times.append(microseconds(lambda: tracker.replay(part), n_pairs))  # noqa: B023
        ranks.append(tracker.bank.ranks[:SCALES])
    for event in events[WARM_UP + 5 * n_pairs : WARM_UP + 5 * n_pairs + 300]:
        moved.append(int((tracker.step(event).losses > 0).sum()))
    ranks = np.mean(ranks, axis=0)
    flops, divisions = count_operations(engine, n, ranks, float(np.mean(moved)))
    flop_speed, division_speed = peak["multiplications and additions per second"], peak["divisions per second"]
    arithmetic = 1e6 * (flops / flop_speed + divisions / division_speed)
    n_bytes = 8.0 * n * float(np.sum(ranks))
    reading = 1e6 * n_bytes / read_speed(n_bytes)
    if engine == "blocked":
        reading *= 3 / BlockedBank.block  # two reads and one write per block
    duration = median(times)
    return {
        "n": n,
        "engine": engine,
        "us per pair": duration,
        "operations": flops + divisions,
        "arithmetic us": arithmetic,
        "over it": duration / arithmetic,
        "bytes": n_bytes,
        "reading us": reading,
        "over reading": duration / reading,
    }


def main() -> None:
    console = Console(width=120)
    with threadpool_limits(1):
        peak = measure_peaks()
        rows = [measure(n, peak) for n in track((10, 25, 50, 100, 300, 784, 2369), "limits", console=console)]
    show(console, f"{SCALES} scales, nuclear norm; " + ", ".join(f"{v:.2g} {k}" for k, v in peak.items()), rows)
    console.print(f"Written to {save('limits', peak, rows)}")


if __name__ == "__main__":
    main()
