"""Measure the CPU time per pair of diagonal metrics with up to 100,000 features and 80 nonzero entries per pair.

    python benchmarks/diagonal.py

Each pair has 80 features, drawn by Zipf's law (as the words of a text) or uniformly. The label depends on a tenth of
all features. "error" is the relative error of the weights against the reference implementation after the number of
pairs in "after"; "left" is the number of nonzero weights at the end; "MB" is the size of the bank's state.
"""

from __future__ import annotations

import time
from statistics import median

import numpy as np
from results import save
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.sparse import csr_array

from ocelad import Metric, Ocelad, track_metric
from ocelad.adaptive.precompile import precompile_engines
from ocelad.engines.diagonal_bank import DiagonalBank
from ocelad.engines.rice_bank import DiagonalRiceBank
from ocelad.pairs import Events

REPEATS = 3
ENTRIES = 80


def stream(n: int, rounds: int, zipf: bool) -> Events:
    rng = np.random.default_rng(0)
    shares = 1.0 / np.arange(1, n + 1) if zipf else np.ones(n)
    drawn = rng.permutation(n)[rng.choice(n, size=(rounds, 4 * ENTRIES), p=shares / shares.sum())]
    columns = np.array([list(dict.fromkeys(row))[:ENTRIES] for row in drawn.tolist()])  # the first distinct ones
    values = rng.normal(size=columns.shape) / np.sqrt(ENTRIES)
    U = csr_array((values.ravel(), columns.ravel(), ENTRIES * np.arange(rounds + 1)), shape=(rounds, n))
    informative = rng.random(n) < 0.1
    size = U.multiply(U) @ informative
    return Events(U, np.where(size < np.median(size), 1.0, -1.0))


def measure(n: int, rounds: int, checked: int, zipf: bool, finest: str, shrinkage: float) -> dict:
    events = stream(n, rounds, zipf)
    first = Events(events.U[:checked], events.y[:checked])
    settings = {"step_size": 1.0, "shrinkage": shrinkage, "loss": "hinge", "finest": finest}

    def make_tracker() -> Ocelad:
        return track_metric(n, diagonal=True, initial_scale=0.5, **settings)

    times = []
    for _ in range(REPEATS):
        fast = make_tracker()
        start = time.process_time()
        fast.replay(events)
        times.append(1e6 * (time.process_time() - start) / rounds)
    checked_tracker, reference = (
        make_tracker(),
        Ocelad(DiagonalRiceBank(Metric.from_diagonal(np.full(n, 0.5)), **settings)),
    )
    checked_tracker.replay(first)
    reference.replay(first)
    w, v = checked_tracker.play().diagonal, reference.play().diagonal
    assert isinstance(fast.bank, DiagonalBank)
    return {
        "n": n,
        "touched": "Zipf" if zipf else "alike",
        "finest": finest,
        "rho": shrinkage,
        "scales": fast.round_state.n_active,
        "left": int(np.count_nonzero(fast.play().diagonal)),
        "us per pair": median(times),
        "error": float(np.linalg.norm(w - v) / np.linalg.norm(v)),
        "after": checked,
        "MB": sum(part.nbytes for part in fast.bank._state) / 1e6,
    }


def main() -> None:
    precompile_engines()
    cases = [
        (n, rounds, checked, zipf, finest, shrinkage)
        for n, checked in ((2369, 2000), (20_000, 500), (100_000, 130))
        for rounds, zipf, finest, shrinkage in (
            (4000, True, "carry", 0.001),
            (100_000, True, "carry", 0.001),
            (100_000, False, "carry", 0.001),
            (100_000, True, "carry", 0.0),
            (100_000, True, "reset", 0.001),
        )
    ]
    cases.append((20_000, 500, 300, True, "ensemble", 0.001))
    console = Console()
    rows = [measure(*case) for case in track(cases, "diagonal", console=console)]
    table = Table(title="Diagonal metrics, 80 entries per pair, CPU time, one thread", box=None, padding=(0, 1, 0, 0))
    for column in rows[0]:
        table.add_column(column, justify="left" if column in ("touched", "finest") else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(_format(value) for value in row.values()))
    console.print(table)
    console.print(f"Written to {save('diagonal', {'repeats': REPEATS, 'entries': ENTRIES}, rows)}")


def _format(value: float | str) -> str:
    if isinstance(value, (str, int)):
        return f"{value:,}" if isinstance(value, int) else value
    return f"{value:.1e}" if 0 < value < 1e-2 else f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


if __name__ == "__main__":
    main()
