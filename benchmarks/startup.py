"""Measure the times that a user waits for: imports, --help, the first pair, the demo, and regret on every interval.

    python benchmarks/startup.py

Times are medians of the CPU seconds (user and system). The time per pair is that of the reference implementation,
``Comid``, with an eigendecomposition per active scale and pair. ``engine="auto"`` uses it for the first rounds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from results import save
from rich.console import Console
from rich.table import Table

from ocelad import track_metric
from ocelad.evaluation import regret
from ocelad.pairs import Event

PYTHON = [sys.executable, "-c"]
FIRST_PAIR = "import ocelad; ocelad.MetricTracker(method={!r}).learn_one([1.0, 2.0], [0.0, 0.0], 1).metric_"
FIRST_FAST = (
    "from ocelad import Pair, track_metric; track_metric(2, engine={!r}).step(Pair([1.0, 2.0], [0.0, 0.0], True))"
)

# Fits in a process without compiled kernels; the shape of what is learned from.
FIRST_FIT = (
    "import numpy as np, ocelad; X = np.random.default_rng(0).normal(size={shape}); "
    "y = np.where(X.reshape(len(X), -1)[:, 0] > 0, 1, -1); ocelad.{estimator}"
)
FIRST_FITS = {
    "default": ("MetricTracker().fit(X, y)", "({n}, 2, {n_features})"),
    "curved": ("MetricTracker(curved=True).fit(X, y)", "({n}, 2, {n_features})"),
    "rice": ("MetricTracker(method='rice').fit(X, y)", "({n}, 2, {n_features})"),
    "labels": ("LabelMetricTracker().fit(X, y)", "({n}, {n_features})"),
    "triplets": ("TripletTracker().fit(X)", "({n}, 3, {n_features})"),
}
# Larger ones take minutes: the method "rice" computes many features by an eigendecomposition.
SLOW_FITS = {("rice", 384, 1000), ("rice", 384, 5000)}


def cpu_seconds(command: list[str], repeats: int = 5) -> float:
    """Return the CPU seconds of a process and its children."""
    times = []
    for _ in range(repeats):
        before = os.times()
        subprocess.run(command, check=True, capture_output=True, cwd=tempfile.gettempdir())
        after = os.times()
        times.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return median(times)


def first_use_seconds(engine: str) -> tuple[float, float]:
    """Return the CPU seconds of a use that compiles all kernels, and of one that loads them from the disk."""
    with tempfile.TemporaryDirectory() as folder:
        command = f"import os; os.environ['NUMBA_CACHE_DIR'] = {folder!r}; {FIRST_FAST.format(engine)}"
        return cpu_seconds([*PYTHON, command], repeats=1), cpu_seconds([*PYTHON, command])


def first_fit_rows() -> list[dict[str, Any]]:
    """Return the elapsed seconds of a first ``fit`` with an empty cache, imports included, and whether it compiled."""
    rows = []
    for case, (estimator, shape) in FIRST_FITS.items():
        for n_features in (5, 25, 384):
            for n in (1, 100, 1000, 5000):
                if (case, n_features, n) in SLOW_FITS:
                    continue
                fit = FIRST_FIT.format(estimator=estimator, shape=shape.format(n=n, n_features=n_features))
                with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                    start = time.perf_counter()
                    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
                    done = subprocess.run([*PYTHON, fit], env=environment, capture_output=True, text=True, check=True)
                    seconds = time.perf_counter() - start
                    for lock in Path(folder).rglob("*.compiling"):  # the compiler in the background
                        with suppress(OSError, ValueError):
                            os.kill(int(lock.read_text()), signal.SIGTERM)
                waited = " (waited for the compiler)" if "compiling" in done.stderr else ""
                what = f"first fit, {case}, {n} of {n_features} features{waited}"
                rows.append({"what": what, "value": seconds, "unit": "s"})
    return rows


def milliseconds_per_pair(n_features: int, rounds: int) -> float:
    """Return the time per pair of the reference implementation over the first rounds of a random stream."""
    rng = np.random.default_rng(0)
    times = []
    for _ in range(3):
        tracker = track_metric(n_features, step_size=0.3 / n_features**2, engine="dense")
        events = [Event(rng.normal(size=n_features), float(rng.choice([-1, 1]))) for _ in range(rounds)]
        start = time.process_time()
        for event in events:
            tracker.step(event)
        times.append(1000 * (time.process_time() - start) / rounds)
    return median(times)


def regret_seconds(rounds: int) -> float:
    """Return the time to find the worst interval of every length, for dynamic regret and against 13 candidates."""
    rng = np.random.default_rng(0)
    start = time.process_time()
    regret.Regret(rng.random(rounds), rng.random(rounds)).worst_intervals()
    regret.Regret(rng.random(rounds), rng.random((rounds, 13))).worst_intervals()
    return time.process_time() - start


def main() -> None:
    first = []
    for engine in ("fullrank", "lowrank"):
        for when, seconds in zip(("cold", "from the disk"), first_use_seconds(engine), strict=True):
            first.append({"what": f"the same, engine {engine!r}, {when}", "value": seconds, "unit": "s"})
    rows = [
        {"what": "python -c pass", "value": cpu_seconds([*PYTHON, "pass"]), "unit": "s"},
        {"what": "import ocelad", "value": cpu_seconds([*PYTHON, "import ocelad"]), "unit": "s"},
        {"what": "ocelad --help", "value": cpu_seconds([sys.executable, "-m", "ocelad", "--help"]), "unit": "s"},
        *(
            {
                "what": f"import and first pair, MetricTracker, {method}",
                "value": cpu_seconds([*PYTHON, FIRST_PAIR.format(method)]),
                "unit": "s",
            }
            for method in ("adaptive", "rice")
        ),
        {
            "what": "import and first pair, track_metric",
            "value": cpu_seconds([*PYTHON, FIRST_FAST.format("auto")]),
            "unit": "s",
        },
        *first,
        {
            "what": "ocelad demo (6000 rounds)",
            "value": cpu_seconds([sys.executable, "-m", "ocelad", "demo", "--quiet"], repeats=1),
            "unit": "s",
        },
        {"what": "regret on 18,003,000 intervals, twice", "value": regret_seconds(6000), "unit": "s"},
    ]
    for n_features, rounds in ((10, 1000), (25, 1000), (100, 200), (300, 30)):
        value = milliseconds_per_pair(n_features, rounds)
        rows.append({"what": f"a pair of {n_features} features", "value": value, "unit": "ms"})
    rows += first_fit_rows()
    table = Table(title="CPU time; of first fits, elapsed time", box=None)
    table.add_column("what")
    table.add_column("time", justify="right")
    for row in rows:
        table.add_row(row["what"], f"{row['value']:.2f} {row['unit']}")
    console = Console()
    console.print(table)
    console.print(f"Written to {save('startup', {}, rows)}")


if __name__ == "__main__":
    main()
