"""Measure how fast a fleet learns and answers, and the memory that it takes, beside one tracker object for each key.

    python benchmarks/fleet.py [--keys 1000 --keys 10000 --keys 100000] [--answers 10] [--durable]

Each key looks at one feature. Its answers are spread over the whole stream, which comes in ten calls of ``learn``. Then
the probability of one pair of each key is asked for, twice: the first time, the metrics are computed. Each number of
keys runs in a process of its own, whose peak of memory is reported with everything that it has loaded, the stream
included. "trackers" are an ``AdaptiveTracker`` for each key, which learn one pair per call, for a sample
of the keys.
"""

from __future__ import annotations

import resource
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import click
import numpy as np
from results import save, show
from rich.console import Console

from ocelad.adaptive.adaptive_tracker import AdaptiveTracker
from ocelad.engines.kernel_loading import waiting_for_kernels
from ocelad.fleet import Fleet
from ocelad.pairs import Events

N_CALLS = 10
# Keys of the loop over tracker objects: enough for its time per pair.
N_TRACKERS = 100


class Job(NamedTuple):
    """What one process measures."""

    n_keys: int
    n_answers: int
    n_features: int
    form: str
    shared: bool
    durable: bool
    memory: str


def answers(keys: np.ndarray, n_features: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return a pair and an answer for each key."""
    pairs = rng.normal(size=(len(keys), 2, n_features))
    rows, feature = np.arange(len(keys)), keys % n_features
    return pairs, abs(pairs[rows, 0, feature] - pairs[rows, 1, feature]) < 1.0


def measure_fleet(job: Job) -> dict[str, Any]:
    """Let a fleet learn a stream, and measure it."""
    rng = np.random.default_rng(0)
    stream = rng.permutation(np.repeat(np.arange(job.n_keys), job.n_answers))
    parts = [(keys, *answers(keys, job.n_features, rng)) for keys in np.array_split(stream, N_CALLS)]
    with waiting_for_kernels(), Fleet(job.n_features) as warm:  # loads the kernels
        keys = np.repeat(np.arange(3), 100)
        warm.learn(keys, *answers(keys, job.n_features, rng)).probability(0, parts[0][1][:1])
    with TemporaryDirectory() as folder:
        path = Path(folder, "fleet") if job.durable else None
        fleet = Fleet(
            job.n_features, form=job.form, shared=job.shared, memory=job.memory, path=path, durable=job.durable
        )
        begin = perf_counter()
        for part in parts:
            fleet.learn(*part)
        seconds = perf_counter() - begin
        asked = np.arange(job.n_keys)
        pairs, _ = answers(asked, job.n_features, rng)
        times = []
        for _ in range(2):
            begin = perf_counter()
            fleet.probability(asked, pairs)
            times.append(perf_counter() - begin)
        some = fleet.keys()[: min(job.n_keys, 1000)]
        state_bytes = float(np.mean([len(fleet.state(key)) for key in some]))
        fleet.close()
    return {
        "learned pairs/s": len(stream) / seconds,
        "asked keys/s": job.n_keys / times[0],
        "again keys/s": job.n_keys / times[1],
        "bytes/key": state_bytes,
        "peak GB": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e9,
    }


def measure_trackers(job: Job) -> dict[str, Any]:
    """Let a tracker for each key learn, one pair per call."""
    rng, n_keys = np.random.default_rng(0), min(job.n_keys, N_TRACKERS)
    stream = rng.permutation(np.repeat(np.arange(n_keys), job.n_answers))
    pairs, same = answers(stream, job.n_features, rng)
    U, y = pairs[:, 0] - pairs[:, 1], np.where(same, 1.0, -1.0)
    with waiting_for_kernels():
        trackers = [AdaptiveTracker(job.n_features) for _ in range(n_keys)]
        begin = perf_counter()
        for row, key in enumerate(stream.tolist()):
            trackers[key].replay(Events(U[row : row + 1], y[row : row + 1]))
        seconds = perf_counter() - begin
    return {"learned pairs/s": len(stream) / seconds}


def in_own_process(measure: Any, job: Job) -> dict[str, Any]:
    """Return what a function measures in a new process."""
    with get_context("spawn").Pool(1) as pool:
        result: dict[str, Any] = pool.apply(measure, (job,))
    return result


@click.command()
@click.option("--keys", type=int, multiple=True, default=(1_000, 10_000, 100_000), help="Numbers of keys.")
@click.option("--answers", "n_answers", type=int, default=10, help="Answers per key.")
@click.option("--features", type=int, default=25)
@click.option("--form", type=click.Choice(["exact", "compact"]), default="exact")
@click.option("--no-shared", is_flag=True, help="Without a shared prior.")
@click.option("--durable", is_flag=True, help="In a file, durable after each call.")
@click.option("--memory", default="1 GB", help="The memory for states.")
@click.option("--name", default="fleet", help="The name of the results.")
def main(
    keys: tuple[int, ...],
    n_answers: int,
    features: int,
    form: str,
    no_shared: bool,
    durable: bool,
    memory: str,
    name: str,
) -> None:
    rows: list[dict[str, Any]] = []
    for n_keys in keys:
        job = Job(n_keys, n_answers, features, form, not no_shared, durable, memory)
        measured = in_own_process(measure_fleet, job)
        alone = in_own_process(measure_trackers, job)
        rows.append({"keys": n_keys, **measured, "trackers pairs/s": alone["learned pairs/s"]})
        Console().print(rows[-1])
    settings = {"answers": n_answers, "features": features, "form": form, "shared": not no_shared}
    settings |= {"durable": durable, "memory": memory}
    show(Console(width=140), f"{n_answers} answers of each key, {features} features, {form} form", rows)
    save(name, settings, rows)


if __name__ == "__main__":
    main()
