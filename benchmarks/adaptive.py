"""Measure the CPU time per pair of the adaptive tracker and of RICE, by the number of features and of windows.

    python benchmarks/adaptive.py

Both run alternately in one process on one thread, after all scales of RICE are active. Times are medians over the
turns, and the ratio is the median of the ratios. Above 128 features the adaptive tracker uses RICE; both then keep 30
directions.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from results import save, show
from rich.console import Console
from rich.progress import track
from streams import blobs
from threadpoolctl import threadpool_limits

from ocelad import Ocelad, track_adaptive, track_metric
from ocelad.adaptive.adaptive_bank import WINDOWS, AdaptiveBank
from ocelad.ensemble.schedule import FixedExperts
from ocelad.ensemble.weighting import DiscountedHedge
from ocelad.pairs import Events

WARM_UP = 2**12
TURNS, MAX_ROUNDS = 9, 2000
# Above this number of features the adaptive tracker has no windows.
MAX_FEATURES_WITH_WINDOWS = 128


def make_adaptive(n: int, n_windows: int | None) -> Ocelad:
    if n_windows is None:
        return track_adaptive(n)
    bank = AdaptiveBank(n, WINDOWS[:n_windows])
    return Ocelad(bank, schedule=FixedExperts([1.0] * len(bank.expert_names)), weighting=DiscountedHedge())


def measure(n: int, n_windows: int | None) -> dict[str, Any]:
    rounds = min(MAX_ROUNDS, 400_000 // n)
    wide = n > MAX_FEATURES_WITH_WINDOWS
    events = blobs(n, WARM_UP + TURNS * rounds)
    trackers = [make_adaptive(n, n_windows), track_metric(n, max_rank=30 if wide else None)]
    times: list[list[float]] = [[], []]
    for tracker in trackers:
        tracker.replay(events[:WARM_UP])
    for turn in range(TURNS):
        first = WARM_UP + turn * rounds
        for tracker, tracker_times in zip(trackers, times, strict=True):
            tracker_times.append(_microseconds(tracker, events[first : first + rounds]))
    return {
        "n": n,
        "engine": str(trackers[0].bank.engine),
        "windows": len(WINDOWS) if n_windows is None and not wide else n_windows or 0,
        "us adaptive": median(times[0]),
        "us rice": median(times[1]),
        "ratio": median(ours / theirs for ours, theirs in zip(*times, strict=True)),
        "MB": sum(array.nbytes for array in trackers[0].state()[0].values()) / 1e6,
    }


def _microseconds(tracker: Ocelad, events: Events) -> float:
    start = time.process_time()
    tracker.replay(events)
    return 1e6 * (time.process_time() - start) / len(events)


def main() -> None:
    cases = [(n, None) for n in (3, 10, 25, 50, 100, 128, 200, 400, 1000)] + [(25, k) for k in (1, 3, 5)]
    console = Console(width=140)
    with threadpool_limits(1):
        rows = [measure(*case) for case in track(cases, "adaptive", console=console)]
    show(console, "CPU time on one thread; MB: size of the state", rows)
    console.print(f"Written to {save('adaptive', {'turns': TURNS, 'warm up': WARM_UP}, rows)}")


if __name__ == "__main__":
    main()
