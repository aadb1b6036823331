"""Measure the delay, the misses and the false alarms of the adaptive tracker's change detection.

    python benchmarks/changes.py [--seeds 20]

The streams are the synthetic ones of the adaptivity suite, whose switches are known, with seeds that were never used
for tuning. A switch counts as found if a change is detected within 150 rounds after it; all other detections are false
alarms.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from results import save, show
from rich.console import Console
from rich.progress import track

from ocelad import track_adaptive
from ocelad.lab.compare.suite import BENCHMARKS, FIRST_TEST_SEED
from ocelad.lab.trials import map_trials

NAMES = ("S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8")
MAX_DELAY = 150


def trial(task: tuple[str, int]) -> dict[str, Any]:
    """Return the switches of a stream, the detected changes, and the median drift of the metric."""
    name, seed = task
    stream = BENCHMARKS[name].stream
    tracker = track_adaptive(stream.n_features)
    switches: list[int] = []
    drifts = []
    for block in stream.blocks(seed, 100):
        switches += [block.round + at for at in block.changes]
        tracker.replay(block.events)
        drifts.append(tracker.bank.drift(tracker.round_state))
    found = [(change.round, change.noticed) for change in tracker.bank.changes]
    return {"rounds": tracker.n_rounds, "switches": switches, "found": found, "drift": float(np.median(drifts))}


def summarize(name: str, trials: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of a stream."""
    delays, errors, n_switches, n_false, rounds = [], [], 0, 0, 0
    for each in trials:
        unmatched = list(each["found"])
        for switch in each["switches"]:
            n_switches += 1
            hits = [change for change in unmatched if 0 <= change[1] - switch <= MAX_DELAY]
            if hits:
                delays.append(hits[0][1] - switch)
                errors.append(abs(hits[0][0] - switch))
            unmatched = [change for change in unmatched if change not in hits]
        n_false += len(unmatched)
        rounds += each["rounds"]
    return {
        "stream": name,
        "switches": n_switches,
        "found %": 100 * len(delays) / n_switches if n_switches else float("nan"),
        "delay, median": float(np.median(delays)) if delays else float("nan"),
        "delay, 90 %": float(np.quantile(delays, 0.9)) if delays else float("nan"),
        "told round off by": float(np.median(errors)) if errors else float("nan"),
        "false per 1000 rounds": 1000 * n_false / rounds,
        "drift per 1000 rounds": 1000 * float(np.median([each["drift"] for each in trials])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = range(FIRST_TEST_SEED, FIRST_TEST_SEED + parser.parse_args().seeds)
    console = Console(width=140)
    rows = []
    for name in track(NAMES, "changes", console=console):
        rows.append(summarize(name, map_trials(trial, [(name, seed) for seed in seeds])))
    show(console, f"Change detection within {MAX_DELAY} rounds", rows)
    console.print(f"Written to {save('changes', {'seeds': [seeds[0], seeds[-1]], 'within': MAX_DELAY}, rows)}")


if __name__ == "__main__":
    main()
