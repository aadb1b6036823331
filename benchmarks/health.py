"""A million rounds: do rounding errors add up?

    python benchmarks/health.py [--rounds N]

At n = 25: how far the directions are from orthonormal just before each check-up (worst of all learners and check-ups);
how often they had to be made orthonormal again; how far the learners are, at each stop, from a dense re-computation
that goes on from there for 50 pairs; and, without shrinkage, how far the learners of two engines that have nothing in
common (eigenform with the secular equation; full matrices with Cholesky factors) are from each other at the end.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from engines import distance
from naive import Naive
from results import save, show
from rich.console import Console
from rich.progress import Progress
from streams import NUCLEAR, blobs
from threadpoolctl import threadpool_limits

from ocelad import track_metric
from ocelad.engines import lowrank_bank
from ocelad.pairs import Events

SCALES, CHUNK = 12, 2**15
OBJECTIVE = ("step_size", "shrinkage", "loss")


def watched() -> tuple[dict[str, float], Any]:
    """What the check-ups see: the bank's own, with somebody who writes it down."""
    seen, own = {"oblique": 0.0, "mended": 0}, lowrank_bank.LowRankBank._repair_rounding

    def check_up(bank: lowrank_bank.LowRankBank) -> None:
        for slot in range(len(bank._state.slots)):
            V = bank._directions(slot)
            off = float(np.abs(V @ V.T - np.eye(len(V))).max()) if len(V) else 0.0
            seen["oblique"] = max(seen["oblique"], off)
            seen["mended"] += off > lowrank_bank.MAX_ORTHOGONALITY_LOSS
        own(bank)

    return seen, check_up


def drifting_blobs(chunk: int) -> Events:
    """Other pairs in every chunk, whose features turn around."""
    events = blobs(25, CHUNK)
    order = np.random.default_rng(chunk).permutation(25)
    return Events(events.U[:, order], events.y)


def run(name: str, rounds: int, settings: dict[str, Any], twin: str | None, progress: Progress) -> dict[str, Any]:
    seen, check_up = watched()
    own, lowrank_bank.LowRankBank._repair_rounding = lowrank_bank.LowRankBank._repair_rounding, check_up
    task = progress.add_task(name, total=rounds)
    trackers = [track_metric(25, engine=e, n_scales=SCALES, **settings) for e in ("lowrank", twin) if e]
    worst, done = 0.0, 0
    try:
        while done < rounds:
            events = drifting_blobs(done // CHUNK)
            for tracker in trackers:
                tracker.replay(events[: CHUNK - 50])
            naive = Naive(trackers[0], SCALES, **{key: settings[key] for key in OBJECTIVE})
            naive.replay(events[CHUNK - 50 :])
            for tracker in trackers:
                tracker.replay(events[CHUNK - 50 :])
            worst = max(worst, *(distance(trackers[0], j, naive.learner(j)) for j in range(SCALES)))
            done += CHUNK
            progress.update(task, completed=min(done, rounds))
    finally:
        lowrank_bank.LowRankBank._repair_rounding = own
    last = trackers[-1].bank
    apart = [distance(trackers[0], j, last.learner(j).matrix) for j in range(SCALES)] if twin else [0.0]
    return {
        "what": name,
        "rounds": trackers[0].n_rounds,
        "orthogonality loss": seen["oblique"],
        "mended": int(seen["mended"]),
        "from dense": worst,
        "engines apart": max(apart),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1_000_000)
    rounds = parser.parse_args().rounds
    plain = {**NUCLEAR, "shrinkage": 0.0, "initial_scale": 1 / 25}
    console = Console(width=120)
    with threadpool_limits(1), Progress(console=console) as progress:
        rows = [
            run("nuclear, rho=0.5", rounds, NUCLEAR, None, progress),
            run("rho=0", rounds, plain, "fullrank", progress),
        ]
    show(console, "Health at n = 25, 12 scales", rows)
    console.print(f"Written to {save('health', {'rounds': rounds}, rows)}")


if __name__ == "__main__":
    main()
