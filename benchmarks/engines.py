"""Measure the CPU time per pair of each engine and of naive NumPy with an eigendecomposition per learner and pair.

    python benchmarks/engines.py

Both learn from the same pairs, alternately in one process on one thread, after all scales are active. Times are medians
over the turns. The time of a pair depends on the ranks of the learners and on how many learners it updates ("moved");
both are printed. The relative error is that of the learners' matrices against those of the naive program, which starts
each turn from the engine's state. At n = 2369 one naive learner is timed, and multiplied by the number of scales.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from naive import Naive, step
from results import save, show
from rich.console import Console
from rich.progress import track
from streams import NUCLEAR, blobs, scenario
from threadpoolctl import threadpool_limits

from ocelad import Ocelad, Rice, track_metric
from ocelad.engines.choose import choose_engine
from ocelad.pairs import Events

SCALES = 12
WARM_UP = 2**SCALES  # rounds after which every scale is active
TURNS = 9
# The number of pairs per turn that the naive program learns from, by the number of features.
NAIVE_PAIRS = {10: 200, 25: 80, 50: 30, 100: 10, 300: 2, 784: 1, 2369: 0}


def measure(name: str, events: Events, engine: str, settings: dict[str, Any]) -> dict[str, Any]:
    n = events.U.shape[1]
    n_naive, n_fast = NAIVE_PAIRS[n], 2000 if n <= 300 else 500
    tracker = track_metric(n, engine=engine, n_scales=SCALES, **settings)
    tracker.replay(events[:WARM_UP])
    fast, slow, errors, moved, ranks, done = [], [], [], [], [], WARM_UP
    naive_settings = {key: settings[key] for key in ("step_size", "shrinkage", "loss")}
    for _ in range(TURNS):
        part = events[done : done + n_fast]
        fast.append(microseconds(lambda: tracker.replay(part), n_fast))  # noqa: B023
        done += n_fast
        part = events[done : done + max(n_naive, 1)]
        if n_naive:
            naive = Naive(tracker, SCALES, **naive_settings)
            slow.append(microseconds(lambda: naive.replay(part), n_naive))  # noqa: B023
            moved += [int((tracker.step(event).losses > 0).sum()) for event in part]
            errors += [relative_error(tracker, j, naive.learner(j)) for j in range(SCALES)]
        else:
            slow.append(SCALES * time_one_learner(tracker, part, naive_settings, errors, moved))
        done += max(n_naive, 1)
        ranks += [tracker.bank.learner(j).rank for j in range(SCALES)] if n <= 300 else list(tracker.bank.ranks)
    return {
        "stream": name,
        "n": n,
        "engine": engine,
        "rank": float(np.mean(ranks)),
        "moved": float(np.mean(moved)),
        "us per pair": median(fast),
        "naive us": median(slow),
        "ratio": median(s / f for s, f in zip(slow, fast, strict=True)),
        "relative error": max(errors),
    }


def time_one_learner(tracker: Ocelad, part: Events, settings: dict[str, Any], errors: list, moved: list) -> float:
    """Return the microseconds of a naive step of the coarsest learner on one pair."""
    metric, (u, y) = tracker.bank.learner(SCALES - 1), part[0]
    M, eta = metric.matrix.copy(), settings["step_size"] / 2 ** ((SCALES - 1) / 2)
    start = time.process_time()
    g = float(y * (metric.threshold - u @ M @ u) < 1)
    M, _ = step(M, metric.threshold, u, y, g, eta, settings["shrinkage"])
    duration = 1e6 * (time.process_time() - start)
    moved.append(int((tracker.step(part[0]).losses > 0).sum()))
    errors.append(relative_error(tracker, SCALES - 1, M))
    return duration


def relative_error(tracker: Ocelad, j: int, M: Any) -> float:
    """Return the relative error of the matrix of scale j against M."""
    size = np.linalg.norm(M)
    return float(np.linalg.norm(tracker.bank.learner(j).matrix - M) / size) if size else 0.0


def microseconds(call: Callable[[], object], pairs: int) -> float:
    """Return the CPU time of a call per pair."""
    start = time.process_time()
    call()
    return 1e6 * (time.process_time() - start) / pairs


def main() -> None:
    plain = {"shrinkage": 0.0}
    drifting = scenario()
    cases: list[tuple[str, Events, str, dict[str, Any]]] = []
    for n in NAIVE_PAIRS:
        events = blobs(n, WARM_UP + TURNS * (2200 if n <= 300 else 510))
        engines = ["lowrank"] if n <= 100 else ["lowrank", "blocked"]
        cases += [("nuclear, rho=0.5", events, engine, NUCLEAR) for engine in engines]
    for n in (10, 25, 50, 100):
        events = blobs(n, WARM_UP + TURNS * 2200)
        cases.append(("rho=0", events, "fullrank", {**NUCLEAR, **plain, "initial_scale": 1 / n}))
    long = Events(np.concatenate([drifting.U] * 4), np.concatenate([drifting.y] * 4))
    for loss, step_size in (("hinge", 3e-3), ("logistic", 1e-2)):
        settings = {**plain, "loss": loss, "step_size": step_size, "initial_scale": 1 / 25}
        cases += [(f"drifting, rho=0, {loss}", long, engine, settings) for engine in ("fullrank", "lowrank")]
    console = Console(width=130)
    with threadpool_limits(1):
        rows = [measure(*case) for case in track(cases, "engines", console=console)]
    for row in rows:
        rho = 0.5 if row["stream"].startswith("nuclear") else 0.0
        row["auto"] = "*" if choose_engine(row["n"], Rice(shrinkage=rho)) == row["engine"] else ""
    show(console, f"{SCALES} scales, CPU time on one thread; *: the choice of engine='auto'", rows)
    console.print(f"Written to {save('engines', {'turns': TURNS, 'scales': SCALES, 'warm up': WARM_UP}, rows)}")


if __name__ == "__main__":
    main()
