"""The paper's synthetic scenario over many seeds: k-NN error per phase, and how often the clusters are found.

    python benchmarks/scenario.py [--seeds 20]

Error is leave-one-out 5-NN error in percent; P(NMI > 0.8) is the share of evaluations at which k-means finds
the clusters. Every method sees the same streams, and is judged by what it played before it saw the pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
import numpy as np
from joblib import Parallel, delayed
from results import save
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ocelad import Comid, Metric, track_metric
from ocelad.evaluate import Alone, Frozen, Row, Tracker, prequential
from ocelad.streams import PAPER_PHASES, DriftingClusters

# Seeds below this were used to choose settings.
FIRST_SEED = 1000
START = Metric(np.eye(25) / 25)


class Truth:
    """The subspace itself, which no learner is told."""

    def __init__(self, stream: DriftingClusters) -> None:
        self._moments = iter(stream)
        self.step(None)

    def play(self) -> Metric:
        return self._metric

    def step(self, event: object) -> None:
        moment = next(self._moments, None)
        if moment is not None:
            self._metric = moment.true_metric()


def rice(loss: str, step_size: float, finest: str = "carry") -> Callable[[DriftingClusters], Tracker]:
    return lambda stream: track_metric(25, loss=loss, step_size=step_size, finest=finest, n_scales=13)


def comid(loss: str, step_size: float) -> Callable[[DriftingClusters], Tracker]:
    return lambda stream: Alone(Comid(START, step_size=step_size, loss=loss))


METHODS: dict[str, Callable[[DriftingClusters], Tracker]] = {
    "RICE-OCELAD hinge 3e-3": rice("hinge", 3e-3),
    "  finest: ensemble": rice("hinge", 3e-3, "ensemble"),
    "  finest: reset": rice("hinge", 3e-3, "reset"),
    "RICE-OCELAD logistic 1e-2": rice("logistic", 1e-2),
    "COMID hinge 2e-3": comid("hinge", 2e-3),
    "COMID hinge 1e-3": comid("hinge", 1e-3),
    "COMID logistic 1e-2": comid("logistic", 1e-2),
    "COMID logistic 3e-3": comid("logistic", 3e-3),
    "COMID logistic 1e-3": comid("logistic", 1e-3),
    "Euclidean": lambda stream: Frozen(START),
    "true subspace": Truth,
}


def trial(seed: int, methods: Iterable[str] = tuple(METHODS)) -> list[Row]:
    """All evaluations of the methods on one stream."""
    stream = DriftingClusters(seed=seed)
    trackers = {method: METHODS[method](stream) for method in methods}
    return [row for _, rows in prequential(stream, trackers) for row in rows]


def trials(seeds: Iterable[int], methods: Iterable[str] = tuple(METHODS)) -> Iterable[list[Row]]:
    """The trials of all seeds, on all cores, in the order of the seeds."""
    return Parallel(n_jobs=-1, return_as="generator")(delayed(trial)(seed, tuple(methods)) for seed in seeds)


def summary(method: str, results: list[list[Row]]) -> dict[str, float | str]:
    """Error per phase and overall in percent with its standard error over seeds, and P(NMI > 0.8)."""
    mine = [[row for row in rows if row.method == method] for rows in results]
    per_seed = np.array([[row.knn_error for row in rows] for rows in mine]) * 100
    phase_of = np.array([row.phase for row in mine[0]])
    line: dict[str, float | str] = {"method": method}
    for number, phase in enumerate(PAPER_PHASES, start=1):
        line[f"P{number}"] = per_seed[:, phase_of == phase.name].mean()
    line["all"] = per_seed.mean()
    line["s.e."] = per_seed.mean(axis=1).std(ddof=1) / np.sqrt(len(per_seed))
    line["P(NMI>.8)"] = float(np.mean([row.nmi > 0.8 for rows in mine for row in rows]))
    return line


@click.command()
@click.option("--seeds", default=20, show_default=True, type=click.IntRange(2), help="How many streams.")
def main(seeds: int) -> None:
    """Run the paper's scenario for every method and print the table."""
    numbers = range(FIRST_SEED, FIRST_SEED + seeds)
    console = Console()
    results = list(track(trials(numbers), total=seeds, description="streams", console=console))
    lines = [summary(method, results) for method in METHODS]
    table = Table(title=f"5-NN error in % by phase, {seeds} streams", box=None, padding=(0, 1, 0, 0))
    for column in lines[0]:
        table.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
    for line in lines:
        table.add_row(*(value if isinstance(value, str) else f"{value:.2f}" for value in line.values()))
    console.print(table)
    console.print(f"Written to {save('scenario', {'seeds': list(numbers)}, lines)}")


if __name__ == "__main__":
    main()
