"""How far a pair's time is from what the machine's arithmetic and memory allow.

    python benchmarks/limits.py

The operations that the mathematics needs are counted from the ranks and the number of learners that the pairs moved:
multiplications and additions at the speed of a large matrix product, divisions at the speed of dividing arrays in the
cache, both measured here. The bytes that must be read are all learners' directions, at the speed of reading as many
bytes again and again. Not counted, and so in the ratio: sorting, deflation, bookkeeping, weights, calls.
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

ROOT_STEPS = 4  # evaluations of the secular equation per root, about


def per_second(call: Any, amount: float) -> float:
    times = []
    for _ in range(9):
        start = time.process_time()
        for _ in range(20):
            call()
        times.append((time.process_time() - start) / 20)
    return amount / median(times)


def peaks() -> dict[str, float]:
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
    """Bytes per second when as many are read again and again."""
    x = np.ones(max(int(n_bytes // 8), 64))
    repeats = max(1, int(4e6 // len(x)))

    def read() -> None:
        for _ in range(repeats):
            x.dot(x)

    return per_second(read, 8 * len(x) * repeats)


def counted(engine: str, n: int, ranks: Any, moved: float) -> tuple[float, float]:
    """Multiplications with additions, and divisions, that a pair needs."""
    total, squares = float(np.sum(ranks)), float(np.sum(np.square(ranks)))
    r = float(np.mean(ranks))
    m = r + 1
    long, turned = float(n), float(n)
    flops = 2 * total * n + 4 * total
    if engine == "blocked":
        B = BlockedBank.block
        flops += n * B + 2 * n * total + 2 * n * squares / B + 2 * total * (2 * r + B / 2)
        long, turned = 0.0, r + B / 2
    flops += moved * (2 * r * m * turned + long + 2 * r * r + m * m * (8 * ROOT_STEPS + 4 + 3))
    return flops, moved * m * m * (ROOT_STEPS + 2)


def measure(n: int, peak: dict[str, float]) -> dict[str, Any]:
    engine = choose_engine(n, Rice(shrinkage=0.5))
    many = 2000 if n <= 300 else 500
    events = blobs(n, WARM_UP + 6 * many)
    tracker = track_metric(n, engine=engine, n_scales=SCALES, **NUCLEAR)
    tracker.replay(events[:WARM_UP])
    times, ranks, moved = [], [], []
    for round_state in range(5):
        part = events[WARM_UP + round_state * many : WARM_UP + (round_state + 1) * many]
        times.append(microseconds(lambda: tracker.replay(part), many))  # noqa: B023
        ranks.append(tracker.bank.ranks[:SCALES])
    for event in events[WARM_UP + 5 * many : WARM_UP + 5 * many + 300]:
        moved.append(int((tracker.step(event).losses > 0).sum()))
    ranks = np.mean(ranks, axis=0)
    flops, divisions = counted(engine, n, ranks, float(np.mean(moved)))
    fast, divide = peak["multiplications and additions per second"], peak["divisions per second"]
    arithmetic = 1e6 * (flops / fast + divisions / divide)
    n_bytes = 8.0 * n * float(np.sum(ranks))
    reading = 1e6 * n_bytes / read_speed(n_bytes)
    if engine == "blocked":
        reading *= 3 / BlockedBank.block  # read twice and written once per block
    took = median(times)
    return {
        "n": n,
        "engine": engine,
        "us per pair": took,
        "operations": flops + divisions,
        "arithmetic us": arithmetic,
        "over it": took / arithmetic,
        "bytes": n_bytes,
        "reading us": reading,
        "over reading": took / reading,
    }


def main() -> None:
    console = Console(width=120)
    with threadpool_limits(1):
        peak = peaks()
        rows = [measure(n, peak) for n in track((10, 25, 50, 100, 300, 784, 2369), "limits", console=console)]
    show(console, f"{SCALES} scales, nuclear norm; " + ", ".join(f"{v:.2g} {k}" for k, v in peak.items()), rows)
    console.print(f"Written to {save('limits', peak, rows)}")


if __name__ == "__main__":
    main()
