"""Measure the CPU time per pair and the memory of the engines for sparse pairs.

    python benchmarks/sparse_pairs.py

The relative error is that of 50 squared distances against the reference implementation at n = 2369 (after 12 pairs),
and against the engine 'lowrank' above (after 300 pairs).
"""

from __future__ import annotations

import tracemalloc
from statistics import median
from typing import Any

import numpy as np
from engines import microseconds
from results import save, show
from rich.console import Console
from rich.progress import track
from streams import NUCLEAR, words
from threadpoolctl import threadpool_limits

from ocelad import track_metric
from ocelad.pairs import Events

SCALES = 12
WARM_UP = 4096
TURNS, PAIRS = 5, 1024


def measure(n: int, engine: str) -> dict[str, Any]:
    events = words(n, WARM_UP + TURNS * PAIRS)
    tracker = track_metric(n, engine=engine, n_scales=SCALES, **NUCLEAR)
    tracker.replay(events[:WARM_UP])
    times = []
    for turn in range(TURNS):
        part = events[WARM_UP + turn * PAIRS : WARM_UP + (turn + 1) * PAIRS]
        times.append(microseconds(lambda: tracker.replay(part), PAIRS))  # noqa: B023
    tracemalloc.start()
    traced = track_metric(n, engine=engine, n_scales=SCALES, **NUCLEAR)
    traced.replay(events[:2048])
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "n": n,
        "engine": engine,
        "entries": events.U.nnz / len(events),
        "rank": float(np.mean(tracker.bank.ranks[:SCALES])),
        "us per pair": median(times),
        "peak MB": memory / 1e6,
        "of an n x n array": memory / (8.0 * n * n),
        "relative error": relative_error(n, engine, events),
    }


def relative_error(n: int, engine: str, events: Events) -> float:
    """Return the relative error of squared distances against the reference implementation or another engine."""
    pairs = 12 if n < 3000 else 300
    reference = track_metric(n, engine="dense" if n < 3000 else "lowrank", n_scales=SCALES, **NUCLEAR)
    tracker = track_metric(n, engine=engine, n_scales=SCALES, **NUCLEAR)
    tracker.replay(events[:pairs])
    reference.replay(events[:pairs])
    u = np.random.default_rng(1).normal(size=(50, n)) / np.sqrt(n)
    distances, expected = tracker.play().squared_length(u), reference.play().squared_length(u)
    return float(np.abs(distances - expected).max() / np.abs(expected).max())


def main() -> None:
    console = Console(width=120)
    cases = [(2369, "sparse"), (2369, "blocked"), (20_000, "sparse"), (100_000, "sparse")]
    with threadpool_limits(1):
        rows = [measure(*case) for case in track(cases, "sparse", console=console)]
    show(console, f"Sparse pairs, {SCALES} scales, nuclear norm, CPU time on one thread", rows)
    console.print(
        "The error is that of 50 squared distances: against the reference implementation at n = 2369 (12 pairs), "
        "against the engine 'lowrank' above (300 pairs)."
    )
    console.print(f"Written to {save('sparse', {'turns': TURNS, 'pairs': PAIRS, 'scales': SCALES}, rows)}")


if __name__ == "__main__":
    main()
