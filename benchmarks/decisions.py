"""Measure decisions with a promised error through a change of the question.

    python benchmarks/decisions.py [--seeds 20] [--first-seed 3000] [--jobs -1]

In every round the tracker predicts the log odds of a pair, the thresholds decide the pair or leave it to a person, and
then both learn the answer. The question changes after half of the 3000 rounds ("switching": every 300 rounds). A row
averages over seeds; tuning used seeds below 1000 only.

- "realised %": the share of decided pairs that are wrong, and twice its standard error.
- "decided %": the share of pairs that are decided.
- "fixed %": the share that the best fixed threshold decides at the realised error. It is one threshold on the absolute
  log odds for the whole stream and both sides, chosen in hindsight.
- "fixed, promised %": the same at the promised error.
- "verdict": whether the realised error is at most the promise plus two standard errors, and whether the decided share
  is at most 10 percentage points below "fixed %".
"""

from __future__ import annotations

import argparse
from functools import cache
from typing import Any

import numpy as np
from results import save, show
from rich.console import Console
from rich.progress import track

from ocelad import MetricTracker
from ocelad._typing import Floats
from ocelad.adaptive.decisions import DecisionThresholds
from ocelad.evaluation.streams import SCENARIOS, DriftingClusters, Phase
from ocelad.lab.compare.dataset_stream import DatasetStream
from ocelad.lab.compare.datasets import N_COMPONENTS
from ocelad.lab.trials import map_trials
from ocelad.pairs import Events

PROMISES = (0.01, 0.02, 0.05)
HALF = 1500
MAX_SHORTFALL = 0.10


def clusters(seed: int, *, drift: float = 0.0, label_noise: float = 0.0) -> Events:
    """Return pairs of points that are compared by clustering A and then by clustering B."""
    phases = (Phase("A", "A", drift, HALF), Phase("B", "B", drift, HALF))
    return DriftingClusters(phases, random_rotation=True, label_noise=label_noise, seed=seed).events()


@cache
def data_set(name: str) -> DatasetStream:
    """Return a data set of scikit-learn that is compared by one labeling and then by another."""
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name.split(':')[0]}")(return_X_y=True)
    labelings: dict[str, dict[str, Any]] = {
        "digits": {"digit": y, "even": y % 2 == 0},
        "digits:groups": {"even": y % 2 == 0, "below five": y < 5},
        "wine": {"grower": y, "alcohol": X[:, 0] > np.median(X[:, 0])},
        "breast_cancer": {"kind": y, "smoothness": X[:, 4] > np.median(X[:, 4])},
    }
    digits = name.startswith("digits")
    n_components = N_COMPONENTS if digits else None
    return DatasetStream(
        name, name, X, labelings[name], standardize=not digits, n_components=n_components, rounds=2 * HALF
    )


def data_pairs(name: str, seed: int) -> Events:
    """Return the pairs of a data set."""
    blocks = list(data_set(name).blocks(seed, HALF))
    return Events(
        np.concatenate([block.X - block.Z for block in blocks]), np.concatenate([block.y for block in blocks])
    )


STREAMS = {
    "clusters": clusters,
    "clusters, drift": lambda seed: clusters(seed, drift=0.01),
    "clusters, 5 % wrong": lambda seed: clusters(seed, label_noise=0.05),
    "switching": lambda seed: SCENARIOS["switching"].stream(seed).events(),
    "digits": lambda seed: data_pairs("digits", seed),
    "digit groups": lambda seed: data_pairs("digits:groups", seed),
    "wine": lambda seed: data_pairs("wine", seed),
    "breast cancer": lambda seed: data_pairs("breast_cancer", seed),
}


def trial(task: tuple[str, int]) -> dict[str, Floats]:
    """Return the log odds of a stream, the answers, and which pairs are decided at each promise."""
    name, seed = task
    events = STREAMS[name](seed)
    pairs = np.stack([events.U, np.zeros_like(events.U)], axis=1)
    log_odds = MetricTracker().test_then_train(pairs, events.y) * events.y
    decisions, decided = DecisionThresholds(), np.zeros((len(PROMISES), len(log_odds)))
    for t, (prediction, y) in enumerate(zip(log_odds.tolist(), events.y.tolist(), strict=True)):
        decided[:, t] = [abs(prediction) >= decisions.threshold(error) for error in PROMISES]
        decisions.update(prediction, y)
    return {"log odds": log_odds, "y": events.y, "decided": decided}


def fixed_share(log_odds: Floats, y: Floats, error: float) -> float:
    """Return the largest share of pairs above one threshold on the confidence of which at most ``error`` are wrong."""
    order = np.argsort(-np.abs(log_odds), kind="stable")
    wrong = np.cumsum((log_odds[order] >= 0.0) != (y[order] > 0.0))
    possible = np.flatnonzero(wrong <= error * np.arange(1, len(y) + 1))
    return float(possible[-1] + 1) / len(y) if len(possible) else 0.0


def summarize(name: str, trials: list[dict[str, Floats]]) -> list[dict[str, Any]]:
    """Return the rows of a stream."""
    rows = []
    for i, promise in enumerate(PROMISES):
        wrong = [np.sum(each["decided"][i] * ((each["log odds"] >= 0.0) != (each["y"] > 0.0))) for each in trials]
        counts = [each["decided"][i].sum() for each in trials]
        errors = np.array(wrong) / np.maximum(counts, 1.0)
        realised, two_se = float(errors.mean()), 2.0 * float(errors.std(ddof=1) / np.sqrt(len(errors)))
        decided = float(np.mean([each["decided"][i].mean() for each in trials]))
        fixed, promised = (
            float(np.mean([fixed_share(each["log odds"], each["y"], error) for each in trials]))
            for error in (realised, promise)
        )
        kept, useful = realised <= promise + two_se, decided >= fixed - MAX_SHORTFALL
        rows.append(
            {
                "stream": name,
                "promised %": 100 * promise,
                "realised %": 100 * realised,
                "+-": 100 * two_se,
                "decided %": 100 * decided,
                "fixed %": 100 * fixed,
                "fixed, promised %": 100 * promised,
                "verdict": "holds" if kept and useful else "too few" if kept else "broken",
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="number of seeds, at least 2")
    parser.add_argument("--first-seed", type=int, default=3000)
    parser.add_argument("--jobs", type=int, default=-1, help="parallel trials; -1: one per processor")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    console = Console(width=140)
    rows = []
    for name in track(STREAMS, "decisions", console=console):
        rows += summarize(name, map_trials(trial, [(name, seed) for seed in seeds], n_jobs=options.jobs))
    show(console, "Decisions with a promised error", rows)
    console.print(f"Written to {save('decisions', {'seeds': [seeds[0], seeds[-1]], 'rounds': 2 * HALF}, rows)}")


if __name__ == "__main__":
    main()
