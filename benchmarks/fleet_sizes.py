"""Measure how many bytes the tracker of a key takes, by features and answers, in memory and in the file of a fleet.

    python benchmarks/fleet_sizes.py [--features 5 --features 25 --features 64] [--answers 10 --answers 64 ...]

Each key looks at one feature. With ``--changing`` it looks at another one after every 200 answers, so that its tracker
detects changes and has memories of earlier metrics, which are part of its state. The sizes are means over the keys; the
file also has indices and free space.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
from results import save, show
from rich.console import Console
from rich.progress import track

from ocelad.engines.kernel_loading import waiting_for_kernels
from ocelad.fleet import Fleet
from ocelad.fleet.packed_trackers import Form

FORMS: tuple[Form, ...] = ("exact", "compact")
# Answers after which keys with --changing look at another feature.
CHANGE = 200


def measure(n_features: int, n_answers: int, n_keys: int, form: Form, changing: bool) -> tuple[float, float]:
    """Return the bytes per key of states, and of the file that has them."""
    rng = np.random.default_rng(0)
    with TemporaryDirectory() as folder, waiting_for_kernels():
        path = Path(folder, "fleet")
        with Fleet(n_features, form=form, path=path) as fleet:
            for key in range(n_keys):
                pairs, rows = rng.normal(size=(n_answers, 2, n_features)), np.arange(n_answers)
                feature = (key + (rows // CHANGE if changing else 0)) % n_features
                near = abs(pairs[rows, 0, feature] - pairs[rows, 1, feature]) < 1.0
                fleet.learn(key, pairs, near)
            state_bytes = np.mean([size.n_bytes for size in fleet.key_sizes().values()])
        return float(state_bytes), path.stat().st_size / n_keys


@click.command()
@click.option("--features", type=int, multiple=True, default=(5, 25, 64))
@click.option("--answers", type=int, multiple=True, default=(10, 64, 100, 1000))
@click.option("--keys", type=int, default=300, help="Keys over which sizes are averaged.")
@click.option("--changing", is_flag=True, help="Keys whose question changes.")
def main(features: tuple[int, ...], answers: tuple[int, ...], keys: int, changing: bool) -> None:
    jobs = [(n_features, n_answers) for n_features in features for n_answers in answers]
    rows: list[dict[str, Any]] = []
    for n_features, n_answers in track(jobs, "Measuring"):
        row: dict[str, Any] = {"features": n_features, "answers": n_answers}
        for form in FORMS:
            row[f"{form}, bytes"], row[f"{form}, in the file"] = measure(n_features, n_answers, keys, form, changing)
        rows.append(row)
    show(Console(width=140), f"Bytes per key{', changing questions' if changing else ''}", rows)
    save("fleet-sizes-changing" if changing else "fleet-sizes", {"keys": keys, "changing": changing}, rows)


if __name__ == "__main__":
    main()
