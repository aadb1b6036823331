"""Measure the CPU time per relative comparison and per pair, with the same settings.

    python benchmarks/relative.py

Both streams have the same clusters, and run alternately in one process on one thread, after all scales are active.
Times are medians over the turns. A comparison that updates a learner needs two rank-one updates, a pair one. The
number of learners that are updated ("moved") and their ranks depend on the stream, and are printed.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import numpy as np
from results import save, show
from rich.console import Console
from rich.progress import track
from streams import NUCLEAR, blobs, triplets
from threadpoolctl import threadpool_limits

from ocelad import Ocelad, track_metric
from ocelad.pairs import Events, Relatives

SCALES = 12
WARM_UP = 2**SCALES  # rounds after which every scale is active
TURNS = 9
# The number of events per turn that are timed, and that are inspected one by one.
N_TIMED, N_INSPECTED = 2000, 100


class Run:
    """A tracker with its stream, and its measurements."""

    def __init__(self, tracker: Ocelad, events: Events | Relatives) -> None:
        self.tracker, self.events, self.done = tracker, events, 0
        self.times: list[float] = []
        self.moved: list[int] = []
        tracker.replay(self.next(WARM_UP))

    def next(self, count: int) -> Events | Relatives:
        self.done += count
        return self.events[self.done - count : self.done]

    def measure(self) -> None:
        """Run one turn."""
        part = self.next(N_TIMED)
        start = time.process_time()
        self.tracker.replay(part)
        self.times.append(1e6 * (time.process_time() - start) / N_TIMED)
        self.moved += [int((self.tracker.step(event).losses > 0).sum()) for event in self.next(N_INSPECTED)]

    def rank(self) -> float:
        return float(np.mean([self.tracker.bank.learner(j).rank for j in range(SCALES)]))


def measure(n: int, engine: str, settings: dict[str, Any]) -> dict[str, Any]:
    rounds = WARM_UP + TURNS * (N_TIMED + N_INSPECTED)
    pairs = Run(track_metric(n, engine=engine, n_scales=SCALES, **settings), blobs(n, rounds))
    relatives = Run(
        track_metric(n, engine=engine, n_scales=SCALES, events="relatives", **settings), triplets(n, rounds)
    )
    for _ in range(TURNS):
        pairs.measure()
        relatives.measure()
    return {
        "engine": engine,
        "rho": settings["shrinkage"],
        "n": n,
        "us per pair": median(pairs.times),
        "us per comparison": median(relatives.times),
        "ratio": median(r / p for r, p in zip(relatives.times, pairs.times, strict=True)),
        "moved by a pair": float(np.mean(pairs.moved)),
        "by a comparison": float(np.mean(relatives.moved)),
        "rank, pairs": pairs.rank(),
        "rank, comparisons": relatives.rank(),
    }


def main() -> None:
    cases: list[tuple[int, str, dict[str, Any]]] = []
    for n in (10, 25, 100):
        cases.append((n, "lowrank", NUCLEAR))
        cases.append((n, "fullrank", {**NUCLEAR, "shrinkage": 0.0, "initial_scale": 1 / n}))
    console = Console(width=140)
    with threadpool_limits(1):
        rows = [measure(*case) for case in track(cases, "relative comparisons", console=console)]
    show(console, f"{SCALES} scales, CPU time on one thread", rows)
    console.print(f"Written to {save('relative', {'turns': TURNS, 'scales': SCALES, 'warm up': WARM_UP}, rows)}")


if __name__ == "__main__":
    main()
