"""Measure the CPU time of learning in many trials of the paper's scenario.

    python benchmarks/trials.py [--trials N]

There are 3000 trials of 6000 rounds, with 13 scales, n = 25 and the paper's hinge loss. Streams are drawn beforehand,
since drawing takes longer than learning; each is used for several trials, with different orders of the features.
Nothing is evaluated. The trials run one after the other, then a tenth of them on all cores, where each takes longer
because cores share caches. The first trials are compared bit by bit with the same trials run separately.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np
from results import save, show
from rich.console import Console
from rich.progress import Progress
from streams import scenario

from ocelad import Metric, track_metric
from ocelad.lab.trials import Backend, map_trials
from ocelad.pairs import Events

STREAMS = 24
ROUNDS, SCALES = 6000, 13


def trial(work: tuple[int, Events, str]) -> tuple[Metric, float]:
    """Return the last metric and the CPU seconds of this thread."""
    seed, events, loss = work
    order = np.random.default_rng(seed).permutation(events.U.shape[1])
    permuted = Events(events.U[:, order], events.y)
    start = time.thread_time()
    tracker = track_metric(25, n_scales=SCALES, loss=loss, step_size=3e-3 if loss == "hinge" else 1e-2)
    tracker.replay(permuted)
    return tracker.play(), time.thread_time() - start


def run(
    n_trials: int, backend: Backend, n_jobs: int, loss: str, streams: list[Events], progress: Progress
) -> dict[str, Any]:
    work = [(seed, streams[seed % len(streams)], loss) for seed in range(n_trials)]
    task = progress.add_task(f"{loss}, {n_jobs if n_jobs > 0 else 'all'} {backend}", total=n_trials)
    start = time.perf_counter()
    results = map_trials(
        trial, work, n_jobs=n_jobs, backend=backend, progress=lambda done: progress.update(task, completed=done)
    )
    wall = time.perf_counter() - start
    same = all(results[i][0] == trial(work[i])[0] for i in range(3))
    seconds = sum(duration for _, duration in results)
    return {
        "loss": loss,
        "backend": backend,
        "at a time": n_jobs if n_jobs > 0 else os.cpu_count(),
        "trials": n_trials,
        "CPU s": seconds,
        "wall s": wall,
        "us per pair": 1e6 * seconds / (n_trials * ROUNDS),
        "CPU s per 3000": seconds * 3000 / n_trials,
        "same bits": str(same),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=3000)
    trials = parser.parse_args().trials
    console = Console(width=120)
    with Progress(console=console) as progress:
        task = progress.add_task("drawing streams", total=STREAMS)
        streams = []
        for seed in range(STREAMS):
            streams.append(scenario(seed))
            progress.advance(task)
        few = max(trials // 10, 4)
        rows = [
            run(trials, "threads", 1, "hinge", streams, progress),
            run(few, "threads", -1, "hinge", streams, progress),
            run(few, "processes", -1, "hinge", streams, progress),
            run(few, "threads", 1, "logistic", streams, progress),
        ]
    show(console, f"{ROUNDS} rounds, {SCALES} scales, n = 25", rows)
    console.print(f"Written to {save('trials', {'streams': STREAMS}, rows)}")


if __name__ == "__main__":
    main()
