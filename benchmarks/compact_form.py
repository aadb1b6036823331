"""Measure how far the compact form of a fleet's states leads away from the exact form, and what that costs.

    python benchmarks/compact_form.py [--keys 20] [--answers 10000]

Each key looks at one feature; 5 % of the answers are wrong. Both forms predict every answer before they learn it, ten
answers at a time, so that a compact state is rounded after every ten answers. The table has, over all answers, the mean
difference of the two probabilities; the largest difference of a key (median and maximum over the keys) and the share of
keys in which it exceeds 0.01; the log loss of the exact form and the change of it by the compact form; and the size of
the largest compact state after 1000 answers.

The points of a row are
normal: independent features;
units: the same in units from 0.001 to 1000;
changing: each key looks at another feature after every 2500 answers;
constant: the last feature is always 1;
duplicate: the last feature is a copy of the first one;
categories: one of the features is 1, the others are 0; same means equal.
"""

from __future__ import annotations

from typing import Any

import click
import numpy as np
from results import save, show
from rich.console import Console
from rich.progress import Progress
from scipy.special import expit

from ocelad.engines.kernel_loading import waiting_for_kernels
from ocelad.fleet.packed_trackers import PackedTrackers

ROWS = ("normal", "units", "changing", "constant", "duplicate", "categories")
FIRST_SEED, PER_CALL, CHANGE = 8000, 10, 2500
LARGE, N_SIZED = 0.01, 1000


def draw(row: str, n_features: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the differences and the answers of a key."""
    rng = np.random.default_rng(seed)
    if row == "categories":
        category = rng.integers(n_features, size=(count, 2))
        category[:, 1] = np.where(rng.random(count) < 0.5, category[:, 0], category[:, 1])
        U, same = np.subtract(*np.eye(n_features)[category.T]), category[:, 0] == category[:, 1]
    else:
        U = rng.normal(size=(count, n_features)) - rng.normal(size=(count, n_features))
        if row == "constant":
            U[:, -1] = 0.0
        if row == "duplicate":
            U[:, -1] = U[:, 0]
        feature = np.arange(count) // CHANGE % n_features if row == "changing" else 0
        same = abs(U[np.arange(count), feature]) < 1.0
        if row == "units":
            U *= 10.0 ** rng.uniform(-3.0, 3.0, n_features)
    return U, np.where(same ^ (rng.random(count) < 0.05), 1.0, -1.0)


def measure(row: str, n_features: int, n_keys: int, n_answers: int, progress: Any) -> dict[str, Any]:
    """Return how the two forms differ over the answers of some keys."""
    drawn = [draw(row, n_features, n_answers, FIRST_SEED + key) for key in range(n_keys)]
    forms = PackedTrackers(n_features), PackedTrackers(n_features, form="compact")
    states: list[list[Any]] = [[None] * n_keys for _ in forms]
    largest, means, losses, size = np.zeros(n_keys), [], [], 0
    ends = PER_CALL * np.arange(1, n_keys + 1)
    for first in range(0, n_answers, PER_CALL):
        U, y = (
            np.concatenate([part[first : first + PER_CALL] for part in parts]) for parts in zip(*drawn, strict=True)
        )
        z = [form.predictions(of_form, U, y, ends) for form, of_form in zip(forms, states, strict=True)]
        difference = abs(expit(z[0]) - expit(z[1])).reshape(n_keys, -1)
        largest = np.maximum(largest, difference.max(axis=1))
        means.append(difference.mean())
        losses.append([np.logaddexp(0.0, -y * of_form).mean() for of_form in z])
        states = [list(form.learn(of_form, U, y, ends)) for form, of_form in zip(forms, states, strict=True)]
        if first + PER_CALL == N_SIZED:
            size = max(map(len, states[1]))
        progress()
    exact, compact = np.mean(losses, axis=0)
    return {
        "points": row,
        "features": n_features,
        "mean": float(np.mean(means)),
        "median of largest": float(np.median(largest)),
        "largest": float(largest.max()),
        "% of keys over 0.01": 100.0 * float(np.mean(largest > LARGE)),
        "log loss": float(exact),
        "change": float(compact - exact),
        "bytes": size,
    }


@click.command()
@click.option("--keys", type=int, default=20)
@click.option("--answers", type=int, default=10_000)
@click.option("--features", type=int, multiple=True, default=(8, 25))
def main(keys: int, answers: int, features: tuple[int, ...]) -> None:
    rows = []
    with Progress(console=Console(stderr=True)) as bar, waiting_for_kernels():
        task = bar.add_task("Calls", total=len(ROWS) * len(features) * (answers // PER_CALL))
        for n_features in features:
            for row in ROWS:
                rows.append(measure(row, n_features, keys, answers, lambda: bar.advance(task)))
    show(Console(width=140), f"Compact against exact form, {keys} keys, {answers} answers each", rows)
    save("compact-form", {"keys": keys, "answers": answers, "first seed": FIRST_SEED}, rows)


if __name__ == "__main__":
    main()
