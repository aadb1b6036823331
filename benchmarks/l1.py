"""Milliseconds per exact L1 step of one learner of a full matrix, by the block that its answer falls apart into.

    python benchmarks/l1.py

Pairs have 80 entries that are not zero (25 where there are 25 features); two features in ten tell similar from
dissimilar. A step costs an eigendecomposition of the largest block per iteration, and a few passes over the n x n
matrix. How large the blocks grow depends on the shrinkage, how many iterations it takes on the tolerance and on the
matrix. "block" and "eigh", how many eigendecompositions, are the largest of any step. A row ends after 15 seconds, or
with a step that is not certified within 2,000 gradient steps (the package itself allows 20,000). "whole" is the median
without the blocks, where that is affordable.
"""

from __future__ import annotations

import time
from math import inf
from statistics import median

import numpy as np
from results import save
from rich.console import Console
from rich.progress import track
from rich.table import Table
from threadpoolctl import threadpool_limits

from ocelad import Comid, Metric
from ocelad._typing import Floats
from ocelad.learners import l1_prox
from ocelad.pairs import Event

SECONDS = 15.0
STEPS = 30
MAX_ITERATIONS = 2_000


class Watched:
    """Eigendecompositions, counted."""

    def __init__(self) -> None:
        self.count, self.largest, self.call = 0, 0, np.linalg.eigh

    def __call__(self, A: Floats) -> tuple[Floats, Floats]:
        self.count, self.largest = self.count + 1, max(self.largest, len(A))
        return self.call(A)


def events(n: int) -> list[Event]:
    rng = np.random.default_rng(0)
    telling = rng.random(n) < 0.2
    result = []
    for _ in range(STEPS):
        u = np.zeros(n)
        where = rng.choice(n, size=min(80, n), replace=False)
        u[where] = 2.0 * rng.normal(size=len(where)) / np.sqrt(len(where))
        result.append(Event(u, 1.0 if (u * telling) @ u < 0.2 * (u @ u) else -1.0))
    return result


def measure(watched: Watched, n: int, shrinkage: float, tolerance: float) -> dict:
    settings = {"step_size": 0.5, "loss": "logistic", "regularizer": "l1", "shrinkage": shrinkage}
    learner = Comid(Metric.from_trusted_matrix(np.eye(n) / n, 1.0), l1_tolerance=tolerance, **settings)
    times, whole, counts, blocks = [], [], [], []
    outcome = "all"
    for event in events(n):
        watched.count = watched.largest = 0
        before, start = learner.play(), time.perf_counter()
        try:
            learner.update(event)
        except ArithmeticError:
            outcome = f"not certified in step {len(times) + 1}"
            break
        times.append(1e3 * (time.perf_counter() - start))
        counts.append(watched.count)
        blocks.append(watched.largest)
        if n <= 100:
            whole.append(1e3 * _without_blocks(before, event, learner))
        if sum(times) > 1e3 * SECONDS:
            outcome = f"{len(times)} steps"
            break
    return {
        "n": n,
        "rho": shrinkage,
        "tolerance": tolerance,
        "block": max(blocks, default=None),
        "eigh": max(counts, default=None),
        "ms, median": median(times) if times else None,
        "ms, worst": max(times, default=None),
        "whole": median(whole) if whole else None,
        "done": outcome,
    }


def _without_blocks(before: Metric, event: Event, learner: Comid) -> float:
    """Seconds that the step takes when all features are taken for one block."""
    twin = learner.started(before, learner.step_size)
    blocks = l1_prox._blocks
    l1_prox._blocks = lambda D, tau: (np.empty(0, dtype=int), [np.arange(len(D))])
    start = time.perf_counter()
    try:
        twin.update(event)
    except ArithmeticError:
        return inf
    finally:
        l1_prox._blocks = blocks
    return time.perf_counter() - start


def main() -> None:
    cases = [
        (n, shrinkage, tolerance)
        for n in (25, 100, 300, 1000, 2369)
        for shrinkage in (0.2, 0.1, 0.05)
        for tolerance in (1e-12, 1e-6)
    ]
    cases.append((300, 0.01, 1e-6))  # what large blocks cost
    console = Console()
    l1_prox.MAX_STEPS = MAX_ITERATIONS
    watched = np.linalg.eigh = Watched()
    with threadpool_limits(1):
        rows = [measure(watched, *case) for case in track(cases, "l1", console=console)]
    table = Table(title="The exact L1 step of one learner, one thread", box=None, padding=(0, 1, 0, 0))
    for column in rows[0]:
        table.add_column(column, justify="left" if column == "done" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(_shown(value) for value in row.values()))
    console.print(table)
    console.print(f"Written to {save('l1', {'seconds': SECONDS, 'iterations': MAX_ITERATIONS}, rows)}")


def _shown(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.0e}" if 0 < value < 1e-3 else f"{value:,.2f}"


if __name__ == "__main__":
    main()
