"""How soon the adaptive tracker tells of a change, how many it misses, and how often it tells of one that was none.

    python benchmarks/changes.py [--seeds 20]

On the drawn streams of the adaptivity suite, whose switches of the question are known; seeds that nothing was chosen
by. A change is found when it is noticed within 150 rounds of a switch; all others are false alarms.
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
    """The switches of a stream, the changes that were told of, and how fast the metric moved on average."""
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


def row(name: str, trials: list[dict[str, Any]]) -> dict[str, Any]:
    delays, errors, n_switches, false, rounds = [], [], 0, 0, 0
    for one in trials:
        left = list(one["found"])
        for switch in one["switches"]:
            n_switches += 1
            hits = [change for change in left if 0 <= change[1] - switch <= MAX_DELAY]
            if hits:
                delays.append(hits[0][1] - switch)
                errors.append(abs(hits[0][0] - switch))
            left = [change for change in left if change not in hits]
        false += len(left)
        rounds += one["rounds"]
    return {
        "stream": name,
        "switches": n_switches,
        "found %": 100 * len(delays) / n_switches if n_switches else float("nan"),
        "delay, median": float(np.median(delays)) if delays else float("nan"),
        "delay, 90 %": float(np.quantile(delays, 0.9)) if delays else float("nan"),
        "told round off by": float(np.median(errors)) if errors else float("nan"),
        "false per 1000 rounds": 1000 * false / rounds,
        "drift per 1000 rounds": 1000 * float(np.median([one["drift"] for one in trials])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = range(FIRST_TEST_SEED, FIRST_TEST_SEED + parser.parse_args().seeds)
    console = Console(width=140)
    rows = []
    for name in track(NAMES, "changes", console=console):
        rows.append(row(name, map_trials(trial, [(name, seed) for seed in seeds])))
    show(console, f"Changes of the question, noticed within {MAX_DELAY} rounds", rows)
    console.print(f"Written to {save('changes', {'seeds': [seeds[0], seeds[-1]], 'within': MAX_DELAY}, rows)}")


if __name__ == "__main__":
    main()
