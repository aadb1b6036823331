"""Measure whether rounding errors accumulate over a million rounds.

    python benchmarks/health.py [--rounds N]

All at n = 25. "orthogonality loss": the largest deviation of a learner's directions from orthonormal just before a
check. "mended": how often directions were orthonormalised again. "from dense": the largest relative error against a
dense computation of 50 pairs that starts from the engine's state, at the end of each chunk. "engines apart": without
shrinkage, the relative difference at the end between two independent engines (eigendecompositions by the secular
equation, and full matrices with Cholesky factors).
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from engines import relative_error
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
# The number of pairs at the end of each chunk that are also computed densely.
DENSE_PAIRS = 50


def record_checks() -> tuple[dict[str, float], Any]:
    """Return a record and a replacement of the bank's check, which updates the record and then runs the check."""
    record, check = {"loss": 0.0, "mended": 0}, lowrank_bank.LowRankBank._repair_rounding

    def check_and_record(bank: lowrank_bank.LowRankBank) -> None:
        for slot in range(len(bank._state.slots)):
            V = bank._directions(slot)
            loss = float(np.abs(V @ V.T - np.eye(len(V))).max()) if len(V) else 0.0
            record["loss"] = max(record["loss"], loss)
            record["mended"] += loss > lowrank_bank.MAX_ORTHOGONALITY_LOSS
        check(bank)

    return record, check_and_record


def drifting_blobs(chunk: int) -> Events:
    """Return the pairs of a chunk, with a permutation of the features that depends on the chunk."""
    events = blobs(25, CHUNK)
    order = np.random.default_rng(chunk).permutation(25)
    return Events(events.U[:, order], events.y)


def run(name: str, rounds: int, settings: dict[str, Any], twin: str | None, progress: Progress) -> dict[str, Any]:
    record, check_and_record = record_checks()
    check, lowrank_bank.LowRankBank._repair_rounding = lowrank_bank.LowRankBank._repair_rounding, check_and_record
    task = progress.add_task(name, total=rounds)
    trackers = [track_metric(25, engine=e, n_scales=SCALES, **settings) for e in ("lowrank", twin) if e]
    worst, done = 0.0, 0
    try:
        while done < rounds:
            events = drifting_blobs(done // CHUNK)
            for tracker in trackers:
                tracker.replay(events[: CHUNK - DENSE_PAIRS])
            naive = Naive(trackers[0], SCALES, **{key: settings[key] for key in OBJECTIVE})
            naive.replay(events[CHUNK - DENSE_PAIRS :])
            for tracker in trackers:
                tracker.replay(events[CHUNK - DENSE_PAIRS :])
            worst = max(worst, *(relative_error(trackers[0], j, naive.learner(j)) for j in range(SCALES)))
            done += CHUNK
            progress.update(task, completed=min(done, rounds))
    finally:
        lowrank_bank.LowRankBank._repair_rounding = check
    other = trackers[-1].bank
    differences = [relative_error(trackers[0], j, other.learner(j).matrix) for j in range(SCALES)] if twin else [0.0]
    return {
        "what": name,
        "rounds": trackers[0].n_rounds,
        "orthogonality loss": record["loss"],
        "mended": int(record["mended"]),
        "from dense": worst,
        "engines apart": max(differences),
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
    show(console, "Rounding errors at n = 25, 12 scales", rows)
    console.print(f"Written to {save('health', {'rounds': rounds}, rows)}")


if __name__ == "__main__":
    main()
