"""Measure what the shared prior of a fleet is worth to new keys, and whether it harms them.

    python benchmarks/fleet_prior.py [--seeds 20] [--first-seed 7000]

Some keys ("old") have given 30 answers each, in random order. Then new keys answer, and after 5, 10 and 30 answers each
of them ranks and decides 200 pairs of its own that it has not answered. The table has the errors of a fleet with
``shared=False`` and those of a fleet with ``shared=True`` minus these, in points, with standard errors over seeds: of
ranking (a "different" pair is nearer than a "same" one) and of deciding (probability above or below one half).

The keys of a row are
alike: all look at the same 3 of 25 features;
groups: three groups look at 3 features each;
differ: each looks at 3 random features of its own;
contradict: half look at 5 features, and the other half at 5 others;
newcomers: all new keys look at other features than all old ones;
digits: all mean the digit (scikit-learn's digits, 25 principal axes);
parity: half mean the digit, and for the other half all even digits are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import click
import numpy as np
from results import save, show
from rich.console import Console
from rich.progress import track
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from ocelad.engines.kernel_loading import waiting_for_kernels
from ocelad.evaluation.scores import pair_auc
from ocelad.fleet import Fleet

N_FEATURES, N_NEW, N_ASKED = 25, 40, 200
CHECKPOINTS, OLD_ANSWERS = (0, 5, 10, 30), 30
# Half of the pairs are the same, so that deciding by chance is wrong for half of them.
_NEAREST = 0.5

Pairs: TypeAlias = tuple[np.ndarray, np.ndarray]
#: Draws this many pairs of a key with their answers; the key is a position, and whether it is new.
Draw: TypeAlias = Callable[[int, int, bool], Pairs]


def features_of(row: str, key: int, is_new: bool, rng: np.random.Generator) -> np.ndarray:
    """Return the features that a key looks at."""
    if row == "alike":
        return np.arange(3)
    if row == "groups":
        return np.arange(3) + 3 * (key % 3)
    if row == "differ":
        return rng.choice(N_FEATURES, 3, replace=False)
    if row == "contradict":
        return np.arange(5) + 5 * (key % 2)
    return np.arange(3) + (3 if is_new else 0)


def draw_features(row: str, rng: np.random.Generator) -> Draw:
    """Return what draws pairs of keys that look at some features each; a tenth of the answers are wrong."""
    known: dict[tuple[int, bool], np.ndarray] = {}

    def draw(count: int, key: int, is_new: bool) -> Pairs:
        features = known.setdefault((key, is_new), features_of(row, key, is_new, rng))
        pairs = rng.normal(size=(count, 2, N_FEATURES))
        squares = ((pairs[:, 0] - pairs[:, 1])[:, features] ** 2).sum(axis=1)
        limit = np.quantile(2.0 * rng.chisquare(len(features), 1000), _NEAREST)
        return pairs, (squares < limit) ^ (rng.random(count) < 0.1)

    return draw


def draw_digits(row: str, rng: np.random.Generator) -> Draw:
    """Return what draws pairs of handwritten digits, half of which are the same to their key."""
    X, digit = load_digits(return_X_y=True)
    X = PCA(N_FEATURES, random_state=0).fit_transform(X)

    def draw(count: int, key: int, is_new: bool) -> Pairs:
        classes = digit % 2 if row == "parity" and key % 2 else digit
        rows = rng.integers(len(X), size=(20 * count, 2))
        same = classes[rows[:, 0]] == classes[rows[:, 1]]
        chosen = np.concatenate([np.flatnonzero(same)[: count // 2], np.flatnonzero(~same)[: count - count // 2]])
        chosen = rng.permutation(chosen)
        return X[rows[chosen]], same[chosen]

    return draw


ROWS = ("alike", "groups", "differ", "contradict", "newcomers", "digits", "parity")


def errors(fleet: Fleet, asked: list[Pairs]) -> tuple[float, float]:
    """Return the mean errors of ranking and of deciding over the new keys, in points."""
    ranking, deciding = [], []
    for key, (pairs, same) in enumerate(asked):
        name = f"new {key}"
        ranking.append(1.0 - pair_auc(fleet.distance(name, pairs), same))
        deciding.append(np.mean((fleet.probability(name, pairs) > 0.5) != same))
    return 100.0 * float(np.mean(ranking)), 100.0 * float(np.mean(deciding))


def measure(row: str, n_old: int, seed: int) -> dict[int, dict[bool, tuple[float, float]]]:
    """Return the errors with and without a shared prior after each number of answers."""
    rng = np.random.default_rng(seed)
    draw = (draw_digits if row in ("digits", "parity") else draw_features)(row, rng)
    old = [draw(OLD_ANSWERS, key, False) for key in range(n_old)]
    order = rng.permutation(n_old * OLD_ANSWERS)
    names = np.repeat([f"old {key}" for key in range(n_old)], OLD_ANSWERS)[order]
    pairs, same = (np.concatenate(parts)[order] for parts in zip(*old, strict=True))
    new = [draw(CHECKPOINTS[-1], key, True) for key in range(N_NEW)]
    asked = [draw(N_ASKED, key, True) for key in range(N_NEW)]
    found: dict[int, dict[bool, tuple[float, float]]] = {count: {} for count in CHECKPOINTS}
    for shared in (False, True):
        with Fleet(N_FEATURES, shared=shared) as fleet:
            fleet.learn(names, pairs, same)
            before = 0
            for count in CHECKPOINTS:
                for at in range(before, count):  # the new keys take turns
                    fleet.learn(
                        [f"new {key}" for key in range(N_NEW)],
                        np.array([new[key][0][at] for key in range(N_NEW)]),
                        np.array([new[key][1][at] for key in range(N_NEW)]),
                    )
                found[count][shared] = errors(fleet, asked)
                before = count
    return found


@click.command()
@click.option("--seeds", type=int, default=20)
@click.option("--first-seed", type=int, default=7000, help="Settings were chosen on seeds below 1000.")
@click.option("--old", "old_keys", type=int, multiple=True, default=(10, 200), help="Numbers of old keys.")
@click.option("--rows", "names", multiple=True, default=ROWS, type=click.Choice(ROWS))
@click.option("--name", default="fleet_prior", help="The name of the results.")
def main(seeds: int, first_seed: int, old_keys: tuple[int, ...], names: tuple[str, ...], name: str) -> None:
    results: dict[tuple[str, int], list[Any]] = {(row, n_old): [] for row in names for n_old in old_keys}
    jobs = [(row, n_old, seed) for row, n_old in results for seed in range(first_seed, first_seed + seeds)]
    with waiting_for_kernels():
        for row, n_old, seed in track(jobs, description="Fleets"):
            results[row, n_old].append(measure(row, n_old, seed))
    rows = []
    for (row, n_old), found in results.items():
        for count in CHECKPOINTS:
            line: dict[str, Any] = {"keys": row, "old keys": n_old, "answers": count}
            for at, score in enumerate(("ranking", "deciding")):
                without = np.array([one[count][False][at] for one in found])
                change = np.array([one[count][True][at] for one in found]) - without
                line |= {score: float(without.mean()), f"{score} change": float(change.mean())}
                line[f"{score} +-"] = float(change.std(ddof=1) / np.sqrt(len(change))) if len(change) > 1 else 0.0
            rows.append(line)
    show(Console(width=140), f"Shared prior against none, {seeds} seeds from {first_seed}", rows)
    save(name, {"seeds": seeds, "first seed": first_seed, "new keys": N_NEW, "features": N_FEATURES}, rows)


if __name__ == "__main__":
    main()
