"""Measure the time of an exact L1 step of one full-matrix learner, by the size of the blocks of its solution.

    python benchmarks/l1.py

Pairs have 80 nonzero entries (25 with 25 features); the label depends on a fifth of the features. A step takes an
eigendecomposition of the largest block per iteration, and a few passes over the n x n matrix. The sizes of the blocks
depend on the shrinkage; the number of iterations depends on the tolerance and the matrix. "block" and "eigh" (the
number of eigendecompositions) are maxima over the steps. A row ends after 15 seconds, or at a step that is not
certified within 2,000 gradient steps (the package allows 20,000). "whole" is the median time without blocks, for small
n.
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


class CountingEigh:
    """``np.linalg.eigh`` that counts its calls and records the largest matrix."""

    def __init__(self) -> None:
        self.count, self.largest, self.call = 0, 0, np.linalg.eigh

    def __call__(self, A: Floats) -> tuple[Floats, Floats]:
        self.count, self.largest = self.count + 1, max(self.largest, len(A))
        return self.call(A)


def events(n: int) -> list[Event]:
    rng = np.random.default_rng(0)
    informative = rng.random(n) < 0.2
    result = []
    for _ in range(STEPS):
        u = np.zeros(n)
        indices = rng.choice(n, size=min(80, n), replace=False)
        u[indices] = 2.0 * rng.normal(size=len(indices)) / np.sqrt(len(indices))
        result.append(Event(u, 1.0 if (u * informative) @ u < 0.2 * (u @ u) else -1.0))
    return result


def measure(eigh: CountingEigh, n: int, shrinkage: float, tolerance: float) -> dict:
    settings = {"step_size": 0.5, "loss": "logistic", "regularizer": "l1", "shrinkage": shrinkage}
    learner = Comid(Metric.from_trusted_matrix(np.eye(n) / n, 1.0), l1_tolerance=tolerance, **settings)
    times, whole, counts, blocks = [], [], [], []
    outcome = "all"
    for event in events(n):
        eigh.count = eigh.largest = 0
        before, start = learner.play(), time.perf_counter()
        try:
            learner.update(event)
        except ArithmeticError:
            outcome = f"not certified in step {len(times) + 1}"
            break
        times.append(1e3 * (time.perf_counter() - start))
        counts.append(eigh.count)
        blocks.append(eigh.largest)
        if n <= 100:
            whole.append(1e3 * _time_without_blocks(before, event, learner))
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


def _time_without_blocks(before: Metric, event: Event, learner: Comid) -> float:
    """Return the seconds of a step that treats all features as one block."""
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
    cases.append((300, 0.01, 1e-6))  # large blocks
    console = Console()
    l1_prox.MAX_STEPS = MAX_ITERATIONS
    eigh = np.linalg.eigh = CountingEigh()
    with threadpool_limits(1):
        rows = [measure(eigh, *case) for case in track(cases, "l1", console=console)]
    table = Table(title="Exact L1 step of one learner, one thread", box=None, padding=(0, 1, 0, 0))
    for column in rows[0]:
        table.add_column(column, justify="left" if column == "done" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(_format(value) for value in row.values()))
    console.print(table)
    console.print(f"Written to {save('l1', {'seconds': SECONDS, 'iterations': MAX_ITERATIONS}, rows)}")


def _format(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.0e}" if 0 < value < 1e-3 else f"{value:,.2f}"


if __name__ == "__main__":
    main()
