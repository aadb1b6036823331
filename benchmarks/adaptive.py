"""Measure the CPU time per pair of the adaptive tracker and of RICE, by the number of features.

    python benchmarks/adaptive.py

Both run alternately in one process on one thread, after all scales of RICE are active. Times are medians over the
turns, and the ratio is the median of the ratios. Above 128 features RICE keeps 30 directions. The last table shows
single pairs (`learn_one`) and the first pair of a new process.
"""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median
from typing import Any

import numpy as np
from results import save, show
from rich.console import Console
from rich.progress import track
from streams import blobs
from threadpoolctl import threadpool_limits

from ocelad import MetricTracker, track_adaptive, track_metric
from ocelad.adaptive.config import AdaptiveConfig
from ocelad.pairs import Events

WARM_UP = 2**12
TURNS, MAX_ROUNDS = 9, 2000
FEATURES = (3, 10, 25, 50, 100, 128, 200, 384, 768, 1536, 3072)
#: CPU time in microseconds that a pair may take, by the number of features.
TARGETS = {25: 20, 100: 60, 384: 150, 768: 250, 1536: 450, 3072: 900}
FIRST_PAIR = """
import time
import numpy as np
from ocelad import MetricTracker
MetricTracker().learn_one(np.ones(25), np.zeros(25), 1)
print(time.process_time())
"""


def measure(n: int) -> dict[str, Any]:
    """Return the row of a number of features."""
    rounds = min(MAX_ROUNDS, 400_000 // n)
    warm_up = WARM_UP if n <= 400 else 512
    many = n > AdaptiveConfig().max_moment_features
    events = blobs(n, warm_up + TURNS * rounds)
    trackers: list[Any] = [track_adaptive(n), track_metric(n, max_rank=30 if many else None)]
    times: list[list[float]] = [[], []]
    for tracker in trackers:
        tracker.replay(events[:warm_up])
    for turn in range(TURNS):
        first = warm_up + turn * rounds
        for tracker, tracker_times in zip(trackers, times, strict=True):
            tracker_times.append(_microseconds(tracker, events[first : first + rounds]))
    return {
        "n": n,
        "experts": len(trackers[0].expert_names),
        "us adaptive": median(times[0]),
        "target": TARGETS.get(n, float("nan")),
        "us rice": median(times[1]),
        "ratio": median(ours / theirs for ours, theirs in zip(*times, strict=True)),
        "MB": sum(array.nbytes for array in trackers[0].state()[0].values()) / 1e6,
    }


def _microseconds(tracker: Any, events: Events) -> float:
    start = time.process_time()
    tracker.replay(events)
    return 1e6 * (time.process_time() - start) / len(events)


def measure_single_pairs(n: int = 25, n_pairs: int = 500) -> dict[str, Any]:
    """Return the time of ``learn_one``, and that of the first pair of a process whose kernels are in the cache."""
    rng = np.random.default_rng(0)
    X, tracker = rng.normal(size=(TURNS * n_pairs, 2, n)), MetricTracker()
    y = np.where(np.abs(X[:, 0, 0] - X[:, 1, 0]) < 0.8, 1, -1)
    tracker.fit(X[:n_pairs], y[:n_pairs])
    times = []
    for turn in range(TURNS):
        start = time.process_time()
        for i in range(turn * n_pairs, (turn + 1) * n_pairs):
            tracker.learn_one(X[i, 0], X[i, 1], int(y[i]))
        times.append(1e6 * (time.process_time() - start) / n_pairs)
    command = [sys.executable, "-c", FIRST_PAIR]
    first = [float(subprocess.run(command, capture_output=True, check=True, text=True).stdout) for _ in range(5)]
    return {"n": n, "us learn_one": median(times), "s import and first pair": median(first)}


def main() -> None:
    console = Console(width=140)
    with threadpool_limits(1):
        rows = [measure(n) for n in track(FEATURES, "adaptive", console=console)]
        single = measure_single_pairs()
    show(console, "CPU time on one thread; MB: size of the state", rows)
    show(console, "Single pairs", [single])
    settings = {"turns": TURNS, "warm up": WARM_UP, "single pairs": single}
    console.print(f"Written to {save('adaptive', settings, rows)}")


if __name__ == "__main__":
    main()
