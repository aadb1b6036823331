"""Measure how the CPU time per pair grows with the number of pairs, the number of features and the rank.

python benchmarks/growth.py
"""

from __future__ import annotations

from copy import deepcopy
from math import log2
from statistics import median
from typing import Any

import numpy as np
from engines import microseconds
from results import save, show
from rich.console import Console
from rich.progress import Progress
from streams import NUCLEAR, blobs
from threadpoolctl import threadpool_limits

from ocelad import track_metric
from ocelad.pairs import Events

PLAIN = {**NUCLEAR, "shrinkage": 0.0, "initial_scale": 1 / 25}


def over_time(engine: str, settings: dict[str, Any], last: int) -> list[dict[str, Any]]:
    """Measure rounds 2^k to 2^(k+1), with as many scales as the length of the stream allows."""
    events = blobs(25, 2**14)
    tracker, rows = track_metric(25, engine=engine, **settings), []
    tracker.replay(events[:256])
    for k in range(8, last):
        indices = np.arange(2**k) % len(events)
        part = Events(events.U[indices], events.y[indices])
        duration = microseconds(lambda: tracker.replay(part), len(part))  # noqa: B023
        moved = [int((step.losses > 0).sum()) for step in map(deepcopy(tracker).step, events[:300])]
        rows.append(
            {
                "against": f"t, {engine}, {np.mean(moved):.1f} moved",
                "at": 2 ** (k + 1),
                "us per pair": duration,
                "over": duration / log2(2 ** (k + 1)),
            }
        )
    return rows


def measure(n: int, pairs: int, **settings: Any) -> tuple[float, float]:
    """Return the microseconds per pair and the mean rank, with 8 active scales."""
    events = blobs(n, 512 + 5 * pairs)
    tracker, times = track_metric(n, n_scales=8, **settings), []
    tracker.replay(events[:512])
    for turn in range(5):
        part = events[512 + turn * pairs : 512 + (turn + 1) * pairs]
        times.append(microseconds(lambda: tracker.replay(part), pairs))  # noqa: B023
    return median(times), float(np.mean(tracker.bank.ranks[:8]))


def over_features(engine: str) -> list[dict[str, Any]]:
    rows = []
    for n in (100, 200, 400, 800, 1600, 3200):
        duration, rank = measure(n, 600 if n < 1000 else 200, engine=engine, **NUCLEAR)
        rows.append(
            {
                "against": f"n, {engine}, rank {rank:.0f}",
                "at": n,
                "us per pair": duration,
                "over": 1000 * duration / n,
            }
        )
    return rows


def over_rank() -> list[dict[str, Any]]:
    rows = []
    for rank in (4, 8, 16, 32, 64):
        settings = {**NUCLEAR, "shrinkage": 1e-4, "max_rank": rank}
        duration, reached = measure(200, 300, engine="lowrank", **settings)
        rows.append(
            {"against": "rank, n=200", "at": round(reached), "us per pair": duration, "over": duration / reached}
        )
    return rows


def main() -> None:
    console = Console(width=120)
    with threadpool_limits(1), Progress(console=console) as progress:
        task, rows = progress.add_task("growth", total=5), []
        for part in (
            lambda: over_time("lowrank", NUCLEAR, 18),
            lambda: over_time("fullrank", PLAIN, 18),
            lambda: over_features("lowrank"),
            lambda: over_features("blocked"),
            over_rank,
        ):
            rows += part()
            progress.advance(task)
    show(console, "Growth; 'over' is the time divided by log2(t), by n / 1000, or by the rank", rows)
    console.print(f"Written to {save('growth', {}, rows)}")


if __name__ == "__main__":
    main()
