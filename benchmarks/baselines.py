"""Measure the time per pair of each online method, and its ratio to RICE-OCELAD's in the same run.

    python benchmarks/baselines.py [--rounds 2000] [--repeats 5]

The pairs are the first of the paper's stream (n = 25), and pairs of three clusters in 100 dimensions, without
shrinkage. Methods run alternately, so that a slow period of the machine affects all of them; times are medians over
the repeats.
"""

from __future__ import annotations

from time import perf_counter

import click
import numpy as np
from results import save, show
from rich.console import Console
from rich.progress import Progress
from streams import blobs, scenario

from ocelad.lab.compare import METHODS, Block, Method, StreamInfo
from ocelad.pairs import Events

ONLINE = [method for method in METHODS.values() if method.group in ("ensembles", "online")]
REFERENCE = "rice"


def make_block(events: Events, rounds: int) -> Block:
    """Return the differences as pairs of points, in which the second point is the origin."""
    U = events.U[:rounds]
    return Block(1, "", "", U, np.zeros_like(U), events.y[:rounds])


def microseconds(method: Method, block: Block) -> float:
    """Return the mean time of learning from a pair, after the first hundred pairs."""
    learner = method.create(StreamInfo(block.X.shape[1], len(block), seed=0, initial_points=None))
    learner.update(block[:100])
    start = perf_counter()
    learner.update(block[100:])
    return 1e6 * (perf_counter() - start) / (len(block) - 100)


@click.command()
@click.option("--rounds", default=2000, show_default=True, type=click.IntRange(200), help="The number of pairs.")
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(1), help="The number of repeats.")
def main(rounds: int, repeats: int) -> None:
    """Measure all online methods and print the table."""
    console = Console()
    blocks = {25: make_block(scenario(), rounds), 100: make_block(blobs(100, rounds), rounds)}
    times: dict[tuple[str, int], list[float]] = {(method.name, n): [] for method in ONLINE for n in blocks}
    with Progress(console=console) as bar:
        for _ in bar.track(range(repeats + 1), description="repeats"):  # the first one compiles
            for method in ONLINE:
                for n, block in blocks.items():
                    times[method.name, n].append(microseconds(method, block))
    medians = {key: float(np.median(values[1:])) for key, values in times.items()}
    rows = []
    for method in ONLINE:
        row: dict[str, float | str] = {"method": method.name}
        for n in blocks:
            row[f"us, n={n}"] = medians[method.name, n]
            row[f"x {REFERENCE}, n={n}"] = medians[method.name, n] / medians[REFERENCE, n]
        rows.append(row)
    show(console, f"Time per pair, median of {repeats} runs over {rounds} pairs", rows)
    console.print(f"Written to {save('baselines', {'rounds': rounds, 'repeats': repeats}, rows)}")


if __name__ == "__main__":
    main()
